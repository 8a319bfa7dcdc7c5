"""Hourly rows from gauges of which only means of five minutes are known.

What such a row can say and what not: means and energy are right to the samples there were, and time
without samples is not observed. Its histograms hold means of five minutes: zero means that every
sample was zero, but a burst inside five minutes is flattened, zeros inside active minutes are lost,
and a high quantile is one of means, below that of seconds. So no maximum is given, no joint
condition and no width. Memory is the highest sample (``sampled``), which is no true peak.

A device that several containers hold at the same time has one value for all of them: it belongs to
none, so their rows carry the time they held it and no use (``not attributable``).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import Gauge, Measure
from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    HOUR_SECONDS,
    Device,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    Warmup,
    quantise,
)
from gputailor_agent.rollup.layout import canonical_bucket
from gputailor_agent.rollup.series import WARMUP_SECONDS
from gputailor_agent.sources.prometheus.readings import STEP_SECONDS, GaugeCount, GaugeHour

_BUSY: Final = ("kernel", "encoder", "decoder", "sm", "graphics")
#: Profiling signals that cannot all be zero while a kernel runs; all at zero, they have stuck.
_WITNESSES: Final = ("graphics", "sm", "dram")
_RUNNING: Final = 0.05  # kernel activity of five minutes that is no rounding
#: So many samples more than a step has room for: held side by side (one may be too many by jitter).
_TOO_MANY: Final = 1.5
_PROFILING: Final = "profiling"
_SHARED: Final = "its use is one value for several containers at once, so not attributable"


@dataclass(slots=True)
class _Held:
    """What one container (or nobody) did with one device, by step."""

    counts: dict[str, list[int]] = field(default_factory=dict)
    intervals: dict[str, float] = field(default_factory=dict)
    values: dict[Gauge, list[float | None]] = field(default_factory=dict)

    def count(self, group: str, step: int) -> int:
        """Samples in the step; of any group where this one was not counted there."""
        own = self.counts.get(group)
        if own is not None and own[step] > 0:
            return own[step]
        return max((other[step] for other in self.counts.values()), default=0)

    def seconds(self, group: str, step: int) -> float:
        """Time in the step that the samples stand for."""
        interval = self.intervals.get(group) or max(self.intervals.values(), default=0.0)
        return min(float(STEP_SECONDS), self.count(group, step) * interval)

    def held_seconds(self, step: int) -> float:
        """Time in the step in which the container held the device, by its samples."""
        return max((self.seconds(group, step) for group in self.counts), default=0.0)

    def value(self, gauge: Gauge, step: int) -> float | None:
        """Canonical value of the step; None where unknown."""
        raw = self.values[gauge][step]
        return None if raw is None else gauge.canonical(raw)


@dataclass(slots=True)
class _Last:
    """How things stood at the end of an exporter kind's last hour."""

    end: int = -1
    began: dict[Holder, float | None] = field(default_factory=dict)  # of containers there
    there: set[str] = field(default_factory=set)  # devices that were there


@dataclass(slots=True)
class _Sums:
    """What a row adds up, already on the grid of exact sums."""

    allocated: float = 0.0
    share_seconds: float = 0.0
    observed: dict[str, float] = field(default_factory=dict)
    active: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, list[float]] = field(default_factory=dict)
    warm: dict[str, list[float]] = field(default_factory=dict)
    energy: float | None = None
    memory: float | None = None
    last_active: float | None = None
    samples: int = 0


class MeansRollup:
    """Rows of one cluster from hours of gauges, which should come in order of time.

    Between hours it remembers when containers began, for their warm-up, and nothing else.
    ``problems`` counts what was dropped, by reason.
    """

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.problems: Counter[str] = Counter()
        self._last: dict[str, _Last] = {}  # by dialect

    def add(self, hour: GaugeHour) -> tuple[list[UsageRow], list[Device]]:
        """Return the hour's rows and the devices it tells of."""
        devices, described = _by_device(hour)
        last = self._last.get(hour.dialect)
        if last is None or last.end != hour.begin:
            last = _Last()
        now = self._last[hour.dialect] = _Last(end=hour.end)
        rows: list[UsageRow] = []
        for uuid, holders in devices.items():
            rows.extend(self._rows(hour, uuid, holders, (last, now)))
            if any(held.held_seconds(hour.steps - 1) > 0 for held in holders.values()):
                now.there.add(uuid)
        told = [
            msgspec.structs.replace(
                device,
                memory_total_bytes=hour.memory_totals.get(uuid),
                last_seen=_last_seen(hour, devices.get(uuid, {}).values()),
                up=None,
            )
            for uuid, device in described.items()
        ]
        return rows, told

    def _rows(
        self,
        hour: GaugeHour,
        uuid: str,
        holders: dict[Holder | None, _Held],
        ends: tuple[_Last, _Last],
    ) -> Iterable[UsageRow]:
        last, now = ends
        sharers = _sharers(holders, hour.steps)
        if max(sharers, default=1) > 1:
            self.problems[f"{uuid} was shared: {_SHARED}"] += 1
        for holder, held in holders.items():
            if holder is None:
                continue
            start = _start(hour, holders, held, known=uuid in last.there)
            if holder in last.began and held.held_seconds(0) > 0:
                start = last.began[holder]
            if held.held_seconds(hour.steps - 1) > 0:
                now.began[holder] = start
            sums = self._sum(hour, held, sharers, start)
            if sums.allocated > 0:
                key = UsageKey(
                    cluster=self.cluster,
                    namespace=holder.namespace,
                    pod=holder.pod,
                    pod_uid=holder.pod_uid,
                    container=holder.container,
                    gpu_uuid=uuid,
                    hour=hour.begin // HOUR_SECONDS * HOUR_SECONDS,
                )
                yield _row(key, hour, sums)

    def _sum(
        self, hour: GaugeHour, held: _Held, sharers: Sequence[int], start: float | None
    ) -> _Sums:
        sums = _Sums()
        for step in range(hour.steps):
            seconds = quantise(held.held_seconds(step))
            if seconds <= 0:
                continue
            sums.allocated += seconds
            sums.share_seconds += seconds / sharers[step]
            sums.samples += max(counts[step] for counts in held.counts.values())
            if sharers[step] == 1:
                begin = hour.begin + step * STEP_SECONDS
                self._add_step(sums, held, step, (begin, _warm_part(start, begin)))
        return sums

    def _add_step(self, sums: _Sums, held: _Held, step: int, when: tuple[int, float]) -> None:
        levels = self._levels(held, step)
        begin, warm = when
        for gauge, value in levels.items():
            seconds = quantise(held.seconds(gauge.group, step))
            if gauge.measure is Measure.MEMORY_USED:
                sums.memory = value if sums.memory is None else max(sums.memory, value)
            elif gauge.measure is Measure.POWER:
                sums.energy = (sums.energy or 0.0) + value * seconds
            elif gauge.measure is Measure.ACTIVITY and seconds > 0:
                _add_activity(sums, gauge.signal, value, seconds, warm)
                if value > 0 and gauge.signal in _BUSY:
                    sums.last_active = float(begin + STEP_SECONDS)

    def _levels(self, held: _Held, step: int) -> dict[Gauge, float]:
        """What is known of the step. Garbage and counters that have stuck at zero are not."""
        levels: dict[Gauge, float] = {}
        for gauge, values in held.values.items():
            if values[step] is None:
                continue
            value = held.value(gauge, step)
            if value is None:
                self.problems[f"{gauge.names[0]}: value that cannot be true"] += 1
            else:
                levels[gauge] = value
        if _stuck(levels):
            self.problems["profiling counters at zero while kernels ran"] += 1
            levels = {gauge: v for gauge, v in levels.items() if gauge.group != _PROFILING}
        return levels


def _by_device(
    hour: GaugeHour,
) -> tuple[dict[str, dict[Holder | None, _Held]], dict[str, Device]]:
    """Everything by device and holder. The same said twice (two scrapers, replicas) is one."""
    devices: dict[str, dict[Holder | None, _Held]] = {}
    described: dict[str, Device] = {}
    for series in hour.series:
        held = devices.setdefault(series.device.gpu_uuid, {}).setdefault(series.holder, _Held())
        described.setdefault(series.device.gpu_uuid, series.device)
        known = held.values.get(series.gauge)
        held.values[series.gauge] = (
            list(series.values) if known is None else _greater(known, series.values)
        )
    for count in hour.counts:
        held = devices.setdefault(count.device.gpu_uuid, {}).setdefault(count.holder, _Held())
        described.setdefault(count.device.gpu_uuid, count.device)
        _count(held, count)
    return devices, described


def _count(held: _Held, count: GaugeCount) -> None:
    known = held.counts.get(count.group)
    held.intervals[count.group] = count.interval_seconds
    held.counts[count.group] = (
        list(count.samples)
        if known is None
        else [max(a, b) for a, b in zip(known, count.samples, strict=True)]
    )


def _greater(known: list[float | None], new: Iterable[float | None]) -> list[float | None]:
    return [
        b if a is None else a if b is None else max(a, b) for a, b in zip(known, new, strict=True)
    ]


def _sharers(holders: dict[Holder | None, _Held], steps: int) -> list[int]:
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


def _start(
    hour: GaugeHour, holders: dict[Holder | None, _Held], held: _Held, *, known: bool
) -> float | None:
    """When the container began, if the device was seen without it just before; else None."""
    first = next((step for step in range(hour.steps) if held.held_seconds(step) > 0), None)
    if first is None:
        return None
    before = known if first == 0 else any(h.held_seconds(first - 1) > 0 for h in holders.values())
    if not before:
        return None
    return hour.begin + (first + 1) * STEP_SECONDS - held.held_seconds(first)


def _warm_part(start: float | None, begin: int) -> float:
    """Share of the step that lies in the container's warm-up."""
    if start is None:
        return 0.0
    return min(1.0, max(0.0, (start + WARMUP_SECONDS - begin) / STEP_SECONDS))


def _stuck(levels: dict[Gauge, float]) -> bool:
    by_signal = {gauge.signal: value for gauge, value in levels.items() if gauge.signal}
    told = [by_signal[name] for name in _WITNESSES if name in by_signal]
    return by_signal.get("kernel", 0.0) >= _RUNNING and bool(told) and not any(told)


def _add_activity(sums: _Sums, signal: str, value: float, seconds: float, warm: float) -> None:
    active = min(seconds, quantise(value * seconds))
    sums.observed[signal] = sums.observed.get(signal, 0.0) + seconds
    sums.active[signal] = sums.active.get(signal, 0.0) + active
    buckets = sums.buckets.setdefault(signal, [0.0] * len(HISTOGRAM_EDGES))
    buckets[canonical_bucket(value)] += seconds
    if warm > 0:
        part = sums.warm.setdefault(signal, [0.0, 0.0])
        part[0] += quantise(seconds * warm)
        part[1] += quantise(active * warm)


def _row(key: UsageKey, hour: GaugeHour, sums: _Sums) -> UsageRow:
    return UsageRow(
        key=key,
        dialect=hour.dialect,
        allocated_seconds=sums.allocated,
        share=round(sums.share_seconds / sums.allocated, 9),
        signals={
            signal: SignalUse(
                observed_seconds=observed,
                active_seconds=sums.active[signal],
                histogram=Histogram(seconds=tuple(sums.buckets[signal])),
            )
            for signal, observed in sums.observed.items()
        },
        warmup={
            signal: Warmup(observed_seconds=observed, active_seconds=min(observed, active))
            for signal, (observed, active) in sums.warm.items()
        },
        memory_peak_bytes=None if sums.memory is None else round(sums.memory),
        memory_peak_kind="sampled",
        memory_total_bytes=hour.memory_totals.get(key.gpu_uuid),
        energy_joules=None if sums.energy is None else quantise(sums.energy),
        last_active=sums.last_active,
        samples=sums.samples,
    )


def _last_seen(hour: GaugeHour, holders: Iterable[_Held]) -> float:
    steps = [step for held in holders for step in range(hour.steps) if held.held_seconds(step) > 0]
    return float(hour.begin + (max(steps, default=0) + 1) * STEP_SECONDS)
