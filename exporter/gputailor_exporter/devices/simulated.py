"""A back end, a kubelet and a process table out of a scenario: the product without a GPU.

The back end keeps what a driver keeps (energy and byte counters, the time of the last read);
every other value is the scenario's pure function of the time since the previous read.
"""

import threading
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gputailor_exporter.attribution.allocations import Allocation, ContainerRef
from gputailor_exporter.collectors import DEFAULT
from gputailor_exporter.devices.base import (
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    Reason,
    XidEvent,
)
from gputailor_exporter.scenarios.scenario import Scenario
from gputailor_exporter.scenarios.timeline import DeviceTimeline, to_reading
from gputailor_exporter.vocabulary import PROFILED

#: Span of a device's first read, and the shortest later one, in seconds.
FIRST_SPAN: Final = 1.0
SHORTEST_SPAN: Final = 1e-3


@dataclass(slots=True)
class _Counters:
    """What the driver of one device would count since it was loaded."""

    last: float | None = None
    joules: float = 0.0
    pcie: tuple[float, float] = (0.0, 0.0)
    nvlink: tuple[float, float] = (0.0, 0.0)


def _directions(pair: tuple[float, float]) -> dict[str, int]:
    return {"rx": int(pair[0]), "tx": int(pair[1])}


def _sum(pair: tuple[float, float], more: tuple[float, float]) -> tuple[float, float]:
    return pair[0] + more[0], pair[1] + more[1]


class SimulatedBackend:
    """Reads the devices of one simulated node; ``wall_clock`` gives Unix time."""

    name = "simulated"

    def __init__(
        self,
        scenario: Scenario,
        node: str,
        wall_clock: Callable[[], float],
        collectors: Container[str] = DEFAULT,
    ) -> None:
        """Start with counters at 0; raises ``DeviceError`` when the scenario lacks the node.

        ``collectors``: what is on; without ``gpm`` there are the signals of every card alone.
        """
        if node not in scenario.nodes:
            known = ", ".join(sorted(scenario.nodes))
            raise DeviceError(Reason.DRIVER_ERROR, f"the scenario has no node {node!r}: {known}")
        self._scenario = scenario
        self._node = node
        self._clock = wall_clock
        self._gpm = "gpm" in collectors
        self._identities = scenario.devices(node)
        self._counters = {identity.uuid: _Counters() for identity in self._identities}
        self._closed = threading.Event()

    def open(self) -> None:
        """Nothing to load."""
        self._closed.clear()

    def expected(self) -> int | None:
        """GPUs of the node, MIG instances not counted."""
        return self._scenario.gpu_count(self._node)

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """Devices of the node, those that are lost included, as a driver lists them."""
        return self._identities

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """Means since the previous read; raises ``DeviceError`` while the device is lost."""
        timeline = self._scenario.timeline(self._node, device.uuid)
        counters, wall = self._counters[device.uuid], self._clock()
        start = wall - FIRST_SPAN if counters.last is None else counters.last
        if wall - start < SHORTEST_SPAN:  # the wall clock stood still or was set back
            start = wall - SHORTEST_SPAN
        counters.last = wall
        reading = self._reading(timeline, counters, (start, wall), at)
        return reading if self._gpm else _without_gpm(reading)

    @staticmethod
    def _reading(
        timeline: DeviceTimeline, counters: _Counters, interval: tuple[float, float], at: float
    ) -> DeviceReading:
        start, wall = interval
        sample = timeline.sample(start, wall)
        if sample.power_watts is not None:
            counters.joules += sample.power_watts * (wall - start)
        pcie = nvlink = None
        if sample.pcie_bytes is not None:
            counters.pcie = _sum(counters.pcie, sample.pcie_bytes)
            pcie = _directions(counters.pcie)
        if sample.nvlink_bytes is not None:
            counters.nvlink = _sum(counters.nvlink, sample.nvlink_bytes)
            nvlink = _directions(counters.nvlink)
        return to_reading(
            timeline.device,
            sample,
            at,
            energy_joules=counters.joules,
            pcie_bytes=pcie,
            nvlink_bytes=nvlink,
        )

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """No Xid events are simulated; waits as a driver would."""
        self._closed.wait(timeout_seconds)
        return ()

    def close(self) -> None:
        """Let a waiting caller go."""
        self._closed.set()


def _without_gpm(reading: DeviceReading) -> DeviceReading:
    return replace(
        reading,
        signals={name: value for name, value in reading.signals.items() if name not in PROFILED},
        unavailable={n: reason for n, reason in reading.unavailable.items() if n not in PROFILED},
    )


class ScenarioAllocations:
    """The kubelet of one simulated node."""

    name = "scenario"

    def __init__(
        self, scenario: Scenario, node: str, wall_clock: Callable[[], float] = time.time
    ) -> None:
        """``wall_clock`` gives the Unix time at which the scenario is asked."""
        self.unmatched: dict[str, int] = {}
        self.problems: dict[str, int] = {}
        self._scenario = scenario
        self._node = node
        self._clock = wall_clock

    def allocations(self, devices: Sequence[DeviceIdentity], at: float) -> tuple[Allocation, ...]:  # noqa: ARG002 the scenario runs on the wall clock
        """Allocations of ``devices`` now."""
        present = {device.uuid for device in devices}
        return tuple(
            one
            for one in self._scenario.allocations(self._node, self._clock())
            if one.gpu_uuid in present
        )

    def close(self) -> None:
        """Nothing is held."""


class ScenarioAttribution:
    """Leads from a simulated process to its container."""

    def __init__(self, scenario: Scenario, node: str) -> None:
        """Attribution of one node."""
        self._scenario = scenario
        self._node = node

    def owner(self, pid: int) -> ContainerRef | None:
        """Container of the process; None for a process of the host."""
        return self._scenario.owners.get((self._node, pid))
