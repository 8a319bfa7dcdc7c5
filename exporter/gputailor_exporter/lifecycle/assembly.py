"""Chooses the parts the options ask for: back end, allocations, attribution.

Each part is imported only when it is asked for: a simulated node needs no driver library, a
machine without Kubernetes no kubelet client.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from gputailor_exporter.attribution.allocations import (
    AllocationSource,
    ContainerRef,
    ProcessAttribution,
)
from gputailor_exporter.devices.base import Backend
from gputailor_exporter.devices.registry import BackendSettings, create
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
        """Return the container of ``pid``; None when it is in none, ``UNTOLD`` if unknown."""
        return self._owner(pid)


def assemble(options: Options) -> Parts:
    """Return the parts; raises ``DeviceError`` or ``StartError`` for what cannot be had."""
    attributed = options.attribution != "none"
    if options.backend == "simulated":
        return _simulated(options, attributed=attributed)
    backend = _backend(options)
    if not attributed:
        return Parts(backend, None, None)
    if options.attribution == "process":
        return _by_process(options, backend)
    return _by_kubelet(options, backend)


def _simulated(options: Options, *, attributed: bool) -> Parts:
    from gputailor_exporter.devices.collecting import Collected  # noqa: PLC0415 - only where asked for
    from gputailor_exporter.devices.simulated import (  # noqa: PLC0415 - only where asked for
        ScenarioAllocations,
        ScenarioAttribution,
        SimulatedBackend,
    )
    from gputailor_exporter.scenarios.document import ScenarioError  # noqa: PLC0415 - likewise
    from gputailor_exporter.scenarios.scenario import load  # noqa: PLC0415 - likewise

    assert options.scenario is not None
    try:
        scenario = load(options.scenario, time.time())
    except ScenarioError as error:
        raise StartError(str(error)) from error
    simulated = SimulatedBackend(scenario, options.node, time.time, options.collectors)
    backend = Collected(simulated, options.collectors)
    if not attributed:
        return Parts(backend, None, None)
    allocations = ScenarioAllocations(scenario, options.node)
    return Parts(backend, allocations, ScenarioAttribution(scenario, options.node))


def _backend(options: Options) -> Backend:
    settings = BackendSettings(
        proc_root=options.proc_root,
        sys_root=options.sys_root,
        patience_seconds=options.hang_after,
        collectors=options.collectors,
    )
    backend = create(options.backend, settings)
    if options.backend == "nvml":  # which leaves out all that is off by itself
        return backend
    from gputailor_exporter.devices.collecting import Collected  # noqa: PLC0415 - likewise

    return Collected(backend, options.collectors)


def _by_kubelet(options: Options, backend: Backend) -> Parts:
    """Kubelet says who holds what, cgroups whose process is whose."""
    from gputailor_exporter.kubelet.driver_files import DriverFiles  # noqa: PLC0415 - only where asked for
    from gputailor_exporter.pods import PodResources  # noqa: PLC0415 - likewise
    from gputailor_exporter.processes import CgroupAttribution  # noqa: PLC0415 - likewise

    cgroups = CgroupAttribution(options.proc_root, options.pod_logs_root)
    turn = threading.Lock()
    allocations = PodResources(
        options.pod_resources_socket,
        pod_uid=InTurn(turn, cgroups.folders.pod_uid),
        sharing=None if options.sharing is None else Sharing(options.sharing),
        files=DriverFiles(options.proc_root),
        keep_seconds=options.keep_allocations,
    )
    return Parts(backend, allocations, SerialAttribution(turn, cgroups))


def _by_process(options: Options, backend: Backend) -> Parts:
    """The processes on each device say who holds it."""
    from gputailor_exporter.attribution import hosts  # noqa: PLC0415 - only where asked for

    watched = hosts.WatchedBackend(backend)
    attribution = SerialAttribution(threading.Lock(), hosts.HostAttribution(options.proc_root))
    allocations = hosts.ProcessAllocations(watched.processes, attribution)
    return Parts(watched, allocations, attribution)
