"""What series say of a device, step by step: who held it for how long, and what was measured.

A step is five minutes. Time is known by samples: so many, so far apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import Gauge
from gputailor_agent.model.usage import Device
from gputailor_agent.rollup.devices import merge_device
from gputailor_agent.rollup.series import WARMUP_SECONDS
from gputailor_agent.sources.prometheus.readings import (
    STEP_SECONDS,
    GaugeCount,
    GaugeHour,
    GaugeSeries,
)

#: So many samples more than a step has room for: held side by side (one may be too many by jitter).
_TOO_MANY: Final = 1.5


@dataclass(slots=True)
class Held:
    """What one container (or nobody) did with one device, by step."""

    counts: dict[str, list[int]] = field(default_factory=dict)
    intervals: dict[str, float] = field(default_factory=dict)
    values: dict[Gauge, list[float | None]] = field(default_factory=dict)
    _seconds: dict[str, list[float]] = field(default_factory=dict)
    _ranked: dict[str, dict[int, list[int]]] = field(default_factory=dict)

    def take(self, count: GaugeCount) -> None:
        """Count samples; the same counted twice (two scrapers, replicas, two names) is one."""
        ranks = self._ranked.setdefault(count.group, {})
        known = ranks.get(count.rank, count.samples)
        ranks[count.rank] = [max(a, b) for a, b in zip(known, count.samples, strict=True)]
        names = [ranks[rank] for rank in sorted(ranks)]
        self.counts[count.group] = reduce(_after_one_another, names)
        self.intervals[count.group] = count.interval_seconds
        self._seconds.clear()

    def count(self, group: str, step: int) -> int:
        """Samples in the step; of any group where this one was not counted there."""
        own = self.counts.get(group)
        if own is not None and own[step] > 0:
            return own[step]
        return max((other[step] for other in self.counts.values()), default=0)

    def seconds(self, group: str, step: int) -> float:
        """Time in the step that the samples stand for."""
        if group not in self._seconds:
            steps = range(max(map(len, self.counts.values()), default=step + 1))
            interval = self.intervals.get(group) or max(self.intervals.values(), default=0.0)
            counted = [self.count(group, one) for one in steps]
            self._seconds[group] = placed_seconds(counted, interval)
        return self._seconds[group][step]

    def held_seconds(self, step: int) -> float:
        """Time in the step in which the container held the device, by its samples."""
        return max((self.seconds(group, step) for group in self.counts), default=0.0)

    def value(self, gauge: Gauge, step: int) -> float | None:
        """Canonical value of the step; None where unknown."""
        raw = self.values[gauge][step]
        return None if raw is None else gauge.canonical(raw)


def by_device(
    hour: GaugeHour,
) -> tuple[dict[str, dict[Holder | None, Held]], dict[str, Device]]:
    """Everything by device and holder. The same said twice (two scrapers, replicas) is one."""
    devices: dict[str, dict[Holder | None, Held]] = {}
    described: dict[str, Device] = {}
    ranks: dict[tuple[str, Holder | None, Gauge], int] = {}
    for series in sorted(hour.series, key=_rank):
        uuid = series.device.gpu_uuid
        held = devices.setdefault(uuid, {}).setdefault(series.holder, Held())
        described.setdefault(uuid, series.device)
        known = held.values.get(series.gauge)
        rank = ranks.setdefault((uuid, series.holder, series.gauge), series.rank)
        if known is None:
            held.values[series.gauge] = list(series.values)
        elif rank == series.rank:
            held.values[series.gauge] = _greater(known, series.values)
        else:
            held.values[series.gauge] = _filled_up(known, series.values)
    for count in hour.counts:
        held = devices.setdefault(count.device.gpu_uuid, {}).setdefault(count.holder, Held())
        described.setdefault(count.device.gpu_uuid, count.device)
        held.take(count)
    for device in hour.described:
        seen = described.get(device.gpu_uuid)
        if seen is not None:
            described[device.gpu_uuid] = merge_device(seen, device, device.cluster, 0.0)
    return devices, described


def placed_seconds(samples: list[int], interval: float) -> list[float]:
    """Seconds of each step that its samples, ``interval`` seconds apart, stand for.

    Where the interval does not divide a step, one has a sample more than it has room for and its
    neighbour one less: a sample stands for the time before it, so what is too much goes to the step
    before, else to the next with room. No step gets more than it has time, none without a sample
    gets any, and no more than one sample's time moves.
    """
    full = float(STEP_SECONDS)
    seconds = [min(full, count * interval) for count in samples]
    for step, count in enumerate(samples):
        spare = min(interval, count * interval - seconds[step])
        for beside in (step - 1, step + 1):
            if spare > 0 and 0 <= beside < len(samples) and samples[beside] > 0:
                moved = min(spare, full - seconds[beside])
                seconds[beside] += moved
                spare -= moved
    return seconds


def _greater(known: list[float | None], new: Iterable[float | None]) -> list[float | None]:
    return [
        b if a is None else a if b is None else max(a, b) for a, b in zip(known, new, strict=True)
    ]


def _rank(series: GaugeSeries) -> int:
    return series.rank


def _filled_up(known: list[float | None], former: Iterable[float | None]) -> list[float | None]:
    """Values under a metric's present name, and where there are none those under a former one."""
    return [b if a is None else a for a, b in zip(known, former, strict=True)]


def _after_one_another(now: list[int], former: list[int]) -> list[int]:
    """Samples under two names; in the step in which one took the other's place, both count."""
    before, after = [0, *now[:-1]], [*former[1:], 0]
    return [
        a + b if a and b and not was and not will else max(a, b)
        for a, b, was, will in zip(now, former, before, after, strict=True)
    ]


def count_sharers(holders: dict[Holder | None, Held], steps: int) -> list[int]:
    """How many containers held the device side by side in each step; 1 where one after another.

    One after another they share a step's samples; side by side each has as many as there can be.
    """
    named = [held for holder, held in holders.items() if holder is not None]
    present = [sum(held.held_seconds(step) > 0 for held in named) for step in range(steps)]
    apart = max((max(held.intervals.values(), default=0.0) for held in named), default=0.0)
    room = STEP_SECONDS + _TOO_MANY * apart
    beside = any(
        present[step] > 1 and sum(held.held_seconds(step) for held in named) > room
        for step in range(steps)
    )
    return [max(1, count) if beside else 1 for count in present]


def began_at(
    hour: GaugeHour, holders: dict[Holder | None, Held], held: Held, *, known: bool
) -> float | None:
    """When the container began, if the device was seen without it just before; else None."""
    first = next((step for step in range(hour.steps) if held.held_seconds(step) > 0), None)
    if first is None:
        return None
    before = known if first == 0 else any(h.held_seconds(first - 1) > 0 for h in holders.values())
    if not before:
        return None
    return hour.begin + (first + 1) * STEP_SECONDS - held.held_seconds(first)


def warm_part(start: float | None, begin: int) -> float:
    """Share of the step that lies in the container's warm-up."""
    if start is None:
        return 0.0
    return min(1.0, max(0.0, (start + WARMUP_SECONDS - begin) / STEP_SECONDS))


def last_seen(hour: GaugeHour, holders: Iterable[Held]) -> float:
    """Return the end (Unix seconds) of the last step with a sample; of the first without any."""
    steps = [step for held in holders for step in range(hour.steps) if held.held_seconds(step) > 0]
    return float(hour.begin + (max(steps, default=0) + 1) * STEP_SECONDS)
