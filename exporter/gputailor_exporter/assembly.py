"""Chooses the parts the options ask for: back end, allocations, attribution.

Each part is imported only when it is asked for: a simulated node needs no driver library, a
machine without Kubernetes no kubelet client.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from gputailor_exporter.allocations import AllocationSource, ContainerRef, ProcessAttribution
from gputailor_exporter.devices.base import Backend
from gputailor_exporter.metrics import Sharing
from gputailor_exporter.options import Options

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


class StartError(Exception):
    """The exporter cannot start; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the sampler is made of; the back end is not open yet."""

    backend: Backend
    allocations: AllocationSource | None
    attribution: ProcessAttribution | None


class InTurn(Generic[Asked, Answer]):
    """A function that one thread at a time may call."""

    def __init__(self, turn: threading.Lock, function: Callable[Asked, Answer]) -> None:
        """``turn`` is shared by all functions over the same state."""
        self._turn = turn
        self._function = function

    def __call__(self, *args: Asked.args, **kwargs: Asked.kwargs) -> Answer:
        """Call the function when it is this thread's turn."""
        with self._turn:
            return self._function(*args, **kwargs)


class SerialAttribution:
    """Lets the device threads share an attribution that is made for one thread."""

    def __init__(self, turn: threading.Lock, attribution: ProcessAttribution) -> None:
        """See ``InTurn``."""
        self._owner = InTurn(turn, attribution.owner)

    def owner(self, pid: int) -> ContainerRef | None:
        """Return the container of ``pid``; None when it belongs to no pod or cannot be known."""
        return self._owner(pid)


def assemble(options: Options) -> Parts:
    """Return the parts; raises ``DeviceError`` or ``StartError`` for what cannot be had."""
    attributed = options.attribution != "none"
    if options.backend == "simulated":
        return _simulated(options, attributed=attributed)
    return _nvml(options, attributed=attributed)


def _simulated(options: Options, *, attributed: bool) -> Parts:
    from gputailor_exporter.devices.simulated import (  # noqa: PLC0415 - only where asked for
        ScenarioAllocations,
        ScenarioAttribution,
        SimulatedBackend,
    )
    from gputailor_exporter.scenario import load  # noqa: PLC0415 - likewise
    from gputailor_exporter.scenarios.document import ScenarioError  # noqa: PLC0415 - likewise

    assert options.scenario is not None
    try:
        scenario = load(options.scenario, time.time())
    except ScenarioError as error:
        raise StartError(str(error)) from error
    backend = SimulatedBackend(scenario, options.node, time.time)
    if not attributed:
        return Parts(backend, None, None)
    allocations = ScenarioAllocations(scenario, options.node)
    return Parts(backend, allocations, ScenarioAttribution(scenario, options.node))


def _nvml(options: Options, *, attributed: bool) -> Parts:
    from gputailor_exporter.devices.nvml import NvmlBackend  # noqa: PLC0415 - only where asked for

    if not attributed:
        return Parts(NvmlBackend(), None, None)
    from gputailor_exporter.pods import PodResources  # noqa: PLC0415 - likewise
    from gputailor_exporter.processes import CgroupAttribution  # noqa: PLC0415 - likewise

    sharing = None if options.sharing is None else Sharing(options.sharing)
    cgroups = CgroupAttribution(options.proc_root, options.pod_logs_root)
    turn = threading.Lock()
    pod_uid = InTurn(turn, cgroups.folders.pod_uid)
    allocations = PodResources(options.pod_resources_socket, pod_uid=pod_uid, sharing=sharing)
    return Parts(NvmlBackend(), allocations, SerialAttribution(turn, cgroups))
