"""What series say of a device, step by step: who held it for how long, and what was measured.

A step is five minutes. Time is known by samples: so many, so far apart.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import Gauge, Measure
from gputailor_agent.model.usage import Device
from gputailor_agent.rollup.devices import merge_device
from gputailor_agent.rollup.series import WARMUP_SECONDS
from gputailor_agent.sources.prometheus.readings import (
    STEP_SECONDS,
    GaugeCount,
    GaugeHour,
    GaugeSeries,
)

#: A gauge's value in each step; None where there is none.
_Values = list[float | None]

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
        """Count samples; the same counted twice (two scrapers, replicas, two names) is one.

        Scrapers of different intervals are counted as if all scraped as often as the fastest.
        """
        own = count.interval_seconds
        finest = min(own, self.intervals.get(count.group, own))
        ranks = self._ranked.setdefault(count.group, {})
        for rank, samples in ranks.items():
            ranks[rank] = _scaled(samples, self.intervals[count.group] / finest)
        counted = _scaled(count.samples, own / finest)
        known = ranks.get(count.rank)
        room = STEP_SECONDS / finest + 1
        ranks[count.rank] = counted if known is None else _of_both(known, counted, room)
        names = [ranks[rank] for rank in sorted(ranks)]
        self.counts[count.group] = reduce(_after_one_another, names)
        self.intervals[count.group] = finest
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
    told: dict[tuple[str, Holder | None, Gauge, int], dict[str, list[_Values]]] = {}
    for series in sorted(hour.series, key=_order):
        uuid = series.device.gpu_uuid
        devices.setdefault(uuid, {}).setdefault(series.holder, Held())
        described.setdefault(uuid, series.device)
        parts = told.setdefault((uuid, series.holder, series.gauge, series.rank), {})
        parts.setdefault(series.part, []).append(list(series.values))
    for (uuid, holder, gauge, _), parts in told.items():
        held = devices[uuid][holder]
        of_parts = [_of_copies(gauge, copies) for copies in parts.values()]
        values = _each(max, of_parts) if len(of_parts) > 1 else of_parts[0]
        known = held.values.get(gauge)
        held.values[gauge] = values if known is None else _filled_up(known, values)
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


def _of_copies(gauge: Gauge, copies: list[_Values]) -> _Values:
    """What several scrapers say of one gauge. Each sampled at times of its own.

    Of means the fullest copy's counts, the others fill it up: the greater one of each step would be
    too high in the long run. Of memory and of the latest kernel each may have seen more.
    """
    if len(copies) == 1:
        return copies[0]
    if gauge.measure is Measure.MEMORY_USED:
        return _each(max, copies)
    if gauge.measure is Measure.IDLE:
        return _each(min, copies)
    fullest = sorted(copies, key=lambda values: -sum(map(_is_number, values)))
    return reduce(_filled_up, fullest)


def _each(choose: Callable[[list[float]], float], copies: list[_Values]) -> _Values:
    steps = [[one for one in told if one is not None] for told in zip(*copies, strict=True)]
    numbers = [[one for one in told if math.isfinite(one)] or told for told in steps]
    return [choose(told) if told else None for told in numbers]


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _order(series: GaugeSeries) -> tuple[int, bytes]:
    """By rank; copies always in the same order, whichever the server tells first."""
    return series.rank, series.labels


def _filled_up(known: _Values, more: _Values) -> _Values:
    """Values that are believed, and where there are none those that are believed less."""
    return [a if _is_number(a) or b is None else b for a, b in zip(known, more, strict=True)]


def _scaled(samples: Iterable[int], times: float) -> list[int]:
    """Samples of a scraper as so many of one that scrapes ``times`` as often."""
    return [round(count * times) for count in samples]


def _of_both(one: list[int], other: list[int], room: float) -> list[int]:
    """Samples of two series of the same thing: the same ones, or one went on for the other.

    An exporter that came back under another address did so where one series went on to a step that
    the other came from. At an hour's edge one of the two is not seen; there both have to fit the
    ``room`` that a step has.
    """
    joined = list(map(max, one, other))
    last = len(joined) - 1
    for step in range(len(joined) if last else 0):
        edge = step in {0, last}
        for ended, began in ((one, other), (other, one)):
            goes_on = (step == 0 or ended[step - 1]) and (step == last or began[step + 1])
            apart = (step == last or not ended[step + 1]) and (step == 0 or not began[step - 1])
            both = ended[step] + began[step]
            if goes_on and apart and (not edge or both <= room):
                joined[step] = both
    return joined


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
