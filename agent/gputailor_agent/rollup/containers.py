"""Rows of containers themselves, for those that held devices in the hour.

A row of its own per container and hour, with ``CONTAINER_ITSELF`` in place of a device: whatever
number of devices the container holds, its CPU and its requests stand once. An engine that is
scraped under another container's name of the pod (a proxy) is the pod's only holder's, if there is
just one; network, which is the pod's, goes to the first of the pod's holders, so that it is counted
once. A node's pressure goes to each container that held devices there for the whole hour.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from gputailor_agent.model.containers import CONTAINER_ITSELF, pressure
from gputailor_agent.model.usage import Device, UsageKey, UsageRow, quantise
from gputailor_agent.sources.prometheus.container_readings import (
    ContainerHour,
    ContainerReading,
    NodeReading,
)

#: A container that held a device for so much of the hour was on its node all the time.
_WHOLE: Final = 0.95
_WAITED_FOR_IO: Final = pressure("host", "io", "some")

_Pod = tuple[str, str]


class _Sums:
    """Figures of one container, of all sources."""

    def __init__(self) -> None:
        self.sources: set[str] = set()
        self.amounts: dict[str, float] = defaultdict(float)
        self.peaks: dict[str, float] = {}
        self.counted: dict[str, float] = {}

    def add(self, reading: ContainerReading) -> None:
        """Add amounts; two sources of one counted figure (kills) saw the same, so the most."""
        self.sources.add(reading.source)
        for name, amount in reading.amounts.items():
            self.amounts[name] += amount
        for name, peak in reading.peaks.items():
            self.peaks[name] = max(peak, self.peaks.get(name, peak))
        for name, count in reading.counted.items():
            self.counted[name] = max(count, self.counted.get(name, 0.0))

    def row(self, key: UsageKey) -> UsageRow:
        """Return the figures as a row, additive ones on the grid of sums."""
        counted: dict[str, float | int] = {
            name: round(value) if name in {"restarts", "oom_kills"} else quantise(value)
            for name, value in self.counted.items()
        }
        if _WAITED_FOR_IO in self.amounts:
            counted["io_pressure_seconds"] = quantise(self.amounts[_WAITED_FOR_IO])
        return msgspec.structs.replace(
            UsageRow(
                key=key,
                dialect="+".join(sorted(self.sources)),
                allocated_seconds=0.0,
                amounts={name: quantise(self.amounts[name]) for name in sorted(self.amounts)},
                peaks=dict(sorted(self.peaks.items())),
            ),
            **counted,
        )


def container_rows(
    hour: ContainerHour, rows: Iterable[UsageRow], devices: Mapping[str, Device], seconds: float
) -> list[UsageRow]:
    """Return a row for each container that ``hour`` tells of and that ``rows`` of devices name.

    ``rows``: of the same hour; ``seconds``: how much of it there was.
    """
    held = [row for row in rows if row.key.pod and row.key.gpu_uuid != CONTAINER_ITSELF]
    keys: dict[_Pod, dict[str, UsageKey]] = defaultdict(dict)
    for row in sorted(held, key=lambda row: row.key):  # a known uid comes after an unknown one
        key = msgspec.structs.replace(row.key, gpu_uuid=CONTAINER_ITSELF)
        keys[key.namespace, key.pod][key.container] = key
    sums: dict[UsageKey, _Sums] = defaultdict(_Sums)
    for reading in hour.containers:
        found = _holder(reading, keys.get((reading.namespace, reading.pod), {}))
        if found is not None:
            sums[found].add(reading)
    for node in hour.nodes:
        for found in _on(node, held, devices, keys, seconds):
            sums[found].add(_beside(node, found))
    return [one.row(key) for key, one in sorted(sums.items())]


def _holder(reading: ContainerReading, keys: Mapping[str, UsageKey]) -> UsageKey | None:
    exact = keys.get(reading.container)
    if exact is not None or not keys:
        return exact
    if not reading.container and not reading.of_engine:
        return keys[min(keys)]
    return next(iter(keys.values())) if reading.of_engine and len(keys) == 1 else None


def _on(
    node: NodeReading,
    rows: Iterable[UsageRow],
    devices: Mapping[str, Device],
    keys: Mapping[_Pod, Mapping[str, UsageKey]],
    seconds: float,
) -> set[UsageKey]:
    """Containers that held devices on the node for the whole hour."""
    return {
        keys[row.key.namespace, row.key.pod][row.key.container]
        for row in rows
        if row.allocated_seconds >= _WHOLE * seconds
        and (device := devices.get(row.key.gpu_uuid)) is not None
        and _same_node(device.node, node.node)
    }


def _same_node(one: str, other: str) -> bool:
    """Whether both name one node; the kernel's host name may lack the domain, or have it."""
    if not one or not other:
        return False
    return one == other or one.partition(".")[0] == other or other.partition(".")[0] == one


def _beside(node: NodeReading, key: UsageKey) -> ContainerReading:
    return ContainerReading(
        source=node.source,
        namespace=key.namespace,
        pod=key.pod,
        container=key.container,
        amounts=node.amounts,
    )
