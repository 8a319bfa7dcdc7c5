"""Rows of containers themselves, for those that held devices in the hour, or asked for them.

A row of its own per container and hour, with ``CONTAINER_ITSELF`` in place of a device: whatever
number of devices the container holds, its CPU and its requests stand once. An engine that is
scraped under another container's name of the pod (a proxy) is the pod's only holder's, if there is
just one; network, which is the pod's, goes to the first of the pod's holders, so that it is counted
once. A node's pressure goes to each container that held devices there for the whole hour.

A container that asked for devices, of which no exporter names it as a holder, has such a row and no
other: what it did beside its devices is known, its use of them is not. It has one only where
cAdvisor or an engine saw it run.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from gputailor_agent.model.containers import CONTAINER_ITSELF, Amount, pressure
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageKey, UsageRow, quantise
from gputailor_agent.sources.prometheus.container_readings import (
    AskedContainer,
    ContainerHour,
    ContainerReading,
    NodeReading,
)

#: A container that held a device for so much of the hour was on its node all the time.
_WHOLE: Final = 0.95
_WAITED_FOR_IO: Final = pressure("host", "io", "some")

_Pod = tuple[str, str]
_Keys = dict[_Pod, dict[str, UsageKey]]


class _Sums:
    """Figures of one container, of all sources."""

    def __init__(self) -> None:
        self.ran = False  # an engine answered, or the kernel counted
        self.sources: set[str] = set()
        self.amounts: dict[str, float] = defaultdict(float)
        self.peaks: dict[str, float] = {}
        self.counted: dict[str, float] = {}

    def add(self, reading: ContainerReading) -> None:
        """Add amounts; two sources of one counted figure (kills) saw the same, so the most."""
        self.sources.add(reading.source)
        self.ran |= reading.of_engine or Amount.HOST_OBSERVED in reading.amounts
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


class Span(NamedTuple):
    """The part of an hour that was read, in a cluster; Unix seconds."""

    cluster: str
    begin: int
    end: int

    @property
    def seconds(self) -> float:
        """How much of the hour there was."""
        return float(self.end - self.begin)


def container_rows(
    hour: ContainerHour, rows: Iterable[UsageRow], devices: Mapping[str, Device], span: Span
) -> list[UsageRow]:
    """Return a row for each container that ``hour`` tells of and that holds devices or asked.

    ``rows``: of devices, of the same ``span``; they say who holds some.
    """
    held = [row for row in rows if row.key.pod and row.key.gpu_uuid != CONTAINER_ITSELF]
    keys: _Keys = defaultdict(dict)
    for row in sorted(held, key=lambda row: row.key):  # a known uid comes after an unknown one
        key = msgspec.structs.replace(row.key, gpu_uuid=CONTAINER_ITSELF)
        keys[key.namespace, key.pod][key.container] = key
    nodes = _asking(hour.asked, keys, span)
    for key in nodes:
        keys[key.namespace, key.pod][key.container] = key
    sums: dict[UsageKey, _Sums] = defaultdict(_Sums)
    for reading in hour.containers:
        found = _holder(reading, keys.get((reading.namespace, reading.pod), {}))
        if found is not None:
            sums[found].add(reading)
    sums = {key: one for key, one in sums.items() if key not in nodes or one.ran}
    for node in hour.nodes:
        on = _on(node, held, devices, keys, span.seconds)
        on |= _asking_on(node, nodes, sums, span.seconds)
        for found in on:
            sums.setdefault(found, _Sums()).add(_beside(node, found))
    return [one.row(key) for key, one in sorted(sums.items())]


def _asking(asked: Iterable[AskedContainer], held: _Keys, span: Span) -> dict[UsageKey, str]:
    """Nodes ('' where unknown) of the containers whose pods no exporter names as holders."""
    found: dict[tuple[str, str, str], tuple[str, str]] = {}
    for one in asked:
        if (one.namespace, one.pod) not in held:
            place = (one.namespace, one.pod, one.container)
            found[place] = max(found.get(place, ("", "")), (one.pod_uid, one.node))
    return {
        UsageKey(
            cluster=span.cluster,
            namespace=namespace,
            pod=pod,
            pod_uid=uid,
            container=container,
            gpu_uuid=CONTAINER_ITSELF,
            hour=span.begin // HOUR_SECONDS * HOUR_SECONDS,
        ): node
        for (namespace, pod, container), (uid, node) in found.items()
    }


def _asking_on(
    node: NodeReading, nodes: Mapping[UsageKey, str], sums: Mapping[UsageKey, _Sums], seconds: float
) -> set[UsageKey]:
    """Those of the asking containers that were on the node for the whole hour."""
    return {
        key
        for key, name in nodes.items()
        if _same_node(name, node.node)
        and key in sums
        and sums[key].amounts.get(Amount.HOST_OBSERVED, 0.0) >= _WHOLE * seconds
    }


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
