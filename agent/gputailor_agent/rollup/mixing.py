"""One row out of what several exporters say of the same container and device in the same hour.

The better source wins per device and signal. Sources come in order of trust (our own exporter, then
dialects by rank). The first that names holders of a device says who held it; what it cannot read,
or read for less than half as long as another did, is filled from the next that can, and the row
says so (``filled``). So an A100 whose SM and tensor activity only dcgm-exporter's profiling fields
have keeps all that our exporter counts, and gets those.

A value of the whole device is filled in only where one container had it for itself: alone on it in
that hour, or holding all of it. Values of two sources are never added or averaged.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from gputailor_agent.dialects.conditions import OF_HEALTH, tells_of_health
from gputailor_agent.model.usage import Device, SignalUse, UsageRow, quantise

#: A source that observed less than this share of what another did gives way for that signal.
_ENOUGH: Final = 0.5
#: A container that held a device for so much of an hour is the one whose all its values were.
_WHOLE: Final = 0.95
#: What a row's device was told to suffer, under ``filled``; it is one source's or another's.
_HEALTH: Final = "health"
#: Figures of a row beside its signals that can be filled.
_FIGURES: Final = ("memory_peak_bytes", "memory_total_bytes", "energy_joules", "last_active")

_Place = tuple[str, str, str, str]  # namespace, pod, container, device


class Told(NamedTuple):
    """What one source says of an hour: rows and devices. ``names``: devices it knows holders of."""

    rows: Sequence[UsageRow]
    devices: Mapping[str, Device]
    names: Collection[str] = ()


def mix(sources: Sequence[Told], span_seconds: float) -> list[UsageRow]:
    """Return one row per container and device; ``sources`` of one hour, the most trusted first.

    ``span_seconds``: how much of the hour there was. Rows of no pod stay only for devices of which
    no source names a holder, and not where the same source names holders on the same node: there
    a device without one is idle.
    """
    mixed = _Mixed(span_seconds)
    for source in sources:
        mixed.take(source)
    return mixed.rows()


def filled_by(row: UsageRow) -> set[str]:
    """Every dialect that a row has values of."""
    return {name for told in (row.dialect, *row.filled.values()) for name in told.split("+")}


class _Mixed:
    def __init__(self, span_seconds: float) -> None:
        self._span = span_seconds
        self._devices: dict[str, Device] = {}
        self._named: set[str] = set()  # devices, and cards of instances, whose holders are known
        self._rows: dict[str, list[UsageRow]] = defaultdict(list)  # of containers, by device
        self._nobody: dict[str, UsageRow] = {}  # by device

    def take(self, source: Told) -> None:
        known = set(self._named)
        knowing = {_node(source, row) for row in source.rows if row.key.pod} - {""}
        for row in source.rows:
            uuid = row.key.gpu_uuid
            if not row.key.pod:
                if _node(source, row) not in knowing:
                    self._take_nobody(row, source.devices.get(uuid))
            elif uuid in known or self._card(source.devices.get(uuid)) in known:
                self._fill(row, source.devices.get(uuid))
            else:
                self._rows[uuid].append(self._of_device(row))
                self._name(source.devices.get(uuid), uuid)
        for uuid in source.names:
            self._name(source.devices.get(uuid), uuid)
        self._devices = {**source.devices, **self._devices}

    def rows(self) -> list[UsageRow]:
        held = [row for rows in self._rows.values() for row in rows]
        return held + [row for uuid, row in self._nobody.items() if uuid not in self._named]

    def _name(self, device: Device | None, uuid: str) -> None:
        self._named |= {uuid, self._card(device)} - {""}
        self._nobody.pop(uuid, None)

    @staticmethod
    def _card(device: Device | None) -> str:
        return "" if device is None else device.parent_uuid

    def _of_device(self, row: UsageRow) -> UsageRow:
        """The row with what a better source said of its device without naming a holder."""
        nobody = self._nobody.get(row.key.gpu_uuid)
        if nobody is None or not self._held_all(row):
            return row
        better = msgspec.structs.replace(nobody, key=row.key)
        return _filled(better, row)

    def _take_nobody(self, row: UsageRow, device: Device | None) -> None:
        uuid = row.key.gpu_uuid
        if uuid in self._named or self._card(device) in self._named:
            rows = self._rows.get(uuid, [])
            if len(rows) == 1 and self._held_all(rows[0]):
                self._rows[uuid] = [_filled(rows[0], row)]
            return
        known = self._nobody.get(uuid)
        self._nobody[uuid] = row if known is None else _filled(known, row)

    def _held_all(self, row: UsageRow) -> bool:
        return row.allocated_seconds >= _WHOLE * self._span

    def _fill(self, row: UsageRow, device: Device | None) -> None:
        """Fill the row of the same container on the same device, if there is just one."""
        for uuid, at in self._same(row, device):
            rows = self._rows[uuid]
            alone = len(rows) == 1 or all(one.share >= 1.0 for one in rows)
            if alone:
                rows[at] = _filled(rows[at], row)

    def _same(self, row: UsageRow, device: Device | None) -> list[tuple[str, int]]:
        places = [
            (uuid, at)
            for uuid in (row.key.gpu_uuid, *self._instances(device))
            for at, one in enumerate(self._rows.get(uuid, ()))
            if _same_container(one, row)
        ]
        exact = [(u, at) for u, at in places if self._rows[u][at].key.pod_uid == row.key.pod_uid]
        found = exact or places
        return found if len(found) == 1 else []

    def _instances(self, device: Device | None) -> Iterable[str]:
        """MIG instances that may be the one ``device`` is, under another source's name."""
        if device is None or not device.parent_uuid:
            return ()
        return [
            uuid
            for uuid, known in self._devices.items()
            if known.parent_uuid == device.parent_uuid
            and known.mig_profile == device.mig_profile
            and uuid != device.gpu_uuid
        ]


def _node(source: Told, row: UsageRow) -> str:
    device = source.devices.get(row.key.gpu_uuid)
    return "" if device is None else device.node


def _same_container(one: UsageRow, other: UsageRow) -> bool:
    """Whether both are of one container; a pod's uid may be unknown to one of them."""
    a, b = one.key, other.key
    return (a.namespace, a.pod, a.container) == (b.namespace, b.pod, b.container) and (
        not a.pod_uid or not b.pod_uid or a.pod_uid == b.pod_uid
    )


def _filled(row: UsageRow, other: UsageRow) -> UsageRow:
    """The row with what ``other``, less trusted, knows better or alone."""
    signals, warmup, filled = dict(row.signals), dict(row.warmup), dict(row.filled)
    allocated = row.allocated_seconds
    for name, use in other.signals.items():
        if not _better(use, signals.get(name)):
            continue
        signals[name] = use
        warmup.pop(name, None)
        if name in other.warmup:
            warmup[name] = other.warmup[name]
        filled[name] = other.filled.get(name, other.dialect)
        allocated = max(allocated, min(use.observed_seconds, other.allocated_seconds))
    figures: dict[str, object] = {}
    for name in _FIGURES:
        value = getattr(other, name)
        if getattr(row, name) is None and value is not None:
            figures[name] = value
            filled[name] = other.filled.get(name, other.dialect)
    if "memory_peak_bytes" in figures:
        figures["memory_peak_kind"] = other.memory_peak_kind
    conditions = row.conditions
    if tells_of_health(other.conditions) and not tells_of_health(conditions):
        told = {k: v for k, v in other.conditions.items() if k.startswith(OF_HEALTH)}
        conditions = conditions | told
        filled[_HEALTH] = other.filled.get(_HEALTH, other.dialect)
    return msgspec.structs.replace(
        row,
        signals=signals,
        warmup=warmup,
        conditions=conditions,
        filled=filled,
        allocated_seconds=quantise(allocated),
        **figures,
    )


def _better(use: SignalUse, known: SignalUse | None) -> bool:
    if use.observed_seconds <= 0:
        return False
    return known is None or known.observed_seconds < _ENOUGH * use.observed_seconds
