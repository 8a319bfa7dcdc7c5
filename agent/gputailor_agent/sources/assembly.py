"""From placed values of one exposition page to a ``Page``.

Unknown stays unknown: NaN, infinities and negative numbers never get here as values; a signal with
only one half of its pair of counters, and a histogram that lacks a bucket, are left out, because
half a pair would read as a wrong mean.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gputailor_agent.dialects import Field, Holder, Place
from gputailor_agent.model.usage import ContainerCounters, Device, Page

_BYTES: Final = frozenset({Field.MEMORY_USED, Field.MEMORY_PEAK})
_KEYED: Final = frozenset({Field.ACTIVE, Field.OBSERVED, Field.CONDITIONS, Field.LINK_BYTES})

Placed = Iterable[tuple[Place, float]]


class _HolderValues:
    """What one page says about one container and device, while it is being read."""

    __slots__ = ("buckets", "keyed", "plain")

    def __init__(self) -> None:
        self.plain: dict[str, Any] = {}
        self.keyed: dict[str, dict[str, float]] = {}
        self.buckets: dict[str, dict[float, float]] = {}

    def put(self, place: Place, value: float) -> None:
        """Keep one value."""
        if place.bound is not None:
            self.buckets.setdefault(place.key, {})[place.bound] = value
        elif place.field in _KEYED:
            self.keyed.setdefault(place.field, {})[place.key] = value
        elif place.field is Field.ALLOCATED:
            self.plain[place.field] = value > 0
        elif place.field in _BYTES:
            self.plain[place.field] = round(value)
        elif place.field is not Field.LAST_ACTIVE or value > 0:  # 0: never, which is None here
            self.plain[place.field] = value

    def counters(
        self, holder: Holder, bounds: tuple[float, ...], device: dict[str, float]
    ) -> ContainerCounters:
        """The finished value; pairs and histograms that are not whole are left out."""
        active = self.keyed.get(Field.ACTIVE, {})
        observed = self.keyed.get(Field.OBSERVED, {})
        return ContainerCounters(
            **holder._asdict(),
            allocated=self.plain.pop(Field.ALLOCATED, False),
            active={key: value for key, value in active.items() if key in observed},
            observed={key: value for key, value in observed.items() if key in active},
            histogram=_whole_histograms(self.buckets, bounds),
            conditions=self.keyed.get(Field.CONDITIONS, {}),
            link_bytes=self.keyed.get(Field.LINK_BYTES, {}),
            device=device,
            **self.plain,
        )


def _bounds(held: Iterable[_HolderValues]) -> tuple[float, ...]:
    """Every finite bucket edge of the page, rising."""
    edges: set[float] = set()
    for values in held:
        for buckets in values.buckets.values():
            edges.update(buckets)
    return tuple(sorted(edge for edge in edges if math.isfinite(edge)))


def _whole_histograms(
    buckets: Mapping[str, Mapping[float, float]], bounds: tuple[float, ...]
) -> dict[str, tuple[float, ...]]:
    edges = (*bounds, math.inf)
    return {
        signal: tuple(found[edge] for edge in edges)
        for signal, found in buckets.items()
        if len(found) == len(edges)
    }


class _DeviceValues:
    """What one page says about one device."""

    __slots__ = ("base", "counters", "plain")

    def __init__(self, base: Device) -> None:
        self.base = base
        self.counters: dict[str, float] = {}
        self.plain: dict[str, Any] = {}

    def put(self, place: Place, value: float) -> None:
        """Keep one value; the info series tells most about the device."""
        if place.field is Field.INFO and place.device is not None:
            self.base = place.device
        elif place.field is Field.DEVICE:
            self.counters[place.key] = value
        elif place.field is Field.UP:
            self.plain["up"] = value > 0
        elif place.field is Field.MEMORY_TOTAL:
            self.plain["memory_total_bytes"] = round(value)
        else:
            self.plain[place.field] = value

    def device(self, at: float) -> Device:
        """The finished value, last seen at ``at``."""
        return msgspec.structs.replace(self.base, last_seen=at, **self.plain)


def _counters_of(uuid: str, devices: Mapping[str, _DeviceValues]) -> dict[str, float]:
    """Counters of a device; a MIG instance's clocks are those of its parent."""
    own = devices.get(uuid)
    if own is None:
        return {}
    parent = devices.get(own.base.parent_uuid)
    return own.counters if parent is None else {**parent.counters, **own.counters}


def assemble(placed: Placed, *, at: float, exporter: str) -> Page:
    """Build a page from its values; those that are not finite and at least 0 are unknown."""
    devices: dict[str, _DeviceValues] = {}
    holders: dict[Holder, _HolderValues] = {}
    started: float | None = None
    for place, raw in placed:
        value = raw * place.scale
        if not 0.0 <= value < math.inf:
            continue
        if (holder := place.holder) is not None:
            if (held := holders.get(holder)) is None:
                held = holders[holder] = _HolderValues()
            held.put(place, value)
        elif (device := place.device) is not None:
            if (seen := devices.get(device.gpu_uuid)) is None:
                seen = devices[device.gpu_uuid] = _DeviceValues(device)
            seen.put(place, value)
        elif place.field is Field.PROCESS_STARTED:
            started = value
    bounds = _bounds(holders.values())
    return Page(
        at=at,
        exporter=exporter,
        process_started=started,
        devices=tuple(values.device(at) for values in devices.values()),
        containers=tuple(
            values.counters(holder, bounds, _counters_of(holder.gpu_uuid, devices))
            for holder, values in holders.items()
        ),
        histogram_bounds=bounds,
    )
