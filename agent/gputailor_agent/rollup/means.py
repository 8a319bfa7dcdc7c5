"""Hourly rows from gauges of which only means of five minutes are known.

What such a row can say and what not: means and energy are right to the samples there were, and time
without samples is not observed. Its histograms hold means of five minutes: zero means that every
sample was zero, but a burst inside five minutes is flattened, zeros inside active minutes are lost,
and a high quantile is one of means, below that of seconds. So no maximum is given, no joint
condition of activities and no width. Memory is the highest sample (``sampled``), which is no true
peak. What a row says of its device's health is ``rollup.health``'s.

A device that several containers hold at the same time has one value for all of them: it belongs to
none, so their rows carry the time they held it and no use (``not attributable``), but for what the
exporter measures inside each container.

A device of which nobody is named as holder has a row without a pod: who held it may be known from
elsewhere (``rollup.mixing``, ``profiles.attributing``).
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
from gputailor_agent.rollup.health import Health
from gputailor_agent.rollup.layout import canonical_bucket
from gputailor_agent.rollup.steps import (
    Held,
    began_at,
    by_device,
    count_sharers,
    last_seen,
    warm_part,
)
from gputailor_agent.sources.prometheus.readings import STEP_SECONDS, GaugeHour

_BUSY: Final = ("kernel", "encoder", "decoder", "sm", "graphics")
#: Profiling signals that cannot all be zero while a kernel runs; all at zero, they have stuck.
_WITNESSES: Final = ("graphics", "sm", "dram")
_RUNNING: Final = 0.05  # kernel activity of five minutes that is no rounding
_PROFILING: Final = "profiling"
_SHARED: Final = "its use is one value for several containers at once, so not attributable"


@dataclass(slots=True)
class _Last:
    """How things stood at the end of an exporter kind's last hour."""

    end: int = -1
    began: dict[Holder | None, float | None] = field(default_factory=dict)  # of containers there
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
        devices, described = by_device(hour)
        last = self._last.get(hour.dialect)
        if last is None or last.end != hour.begin:
            last = _Last()
        now = self._last[hour.dialect] = _Last(end=hour.end)
        rows: list[UsageRow] = []
        health = Health(hour)
        for uuid, holders in devices.items():
            of_health = health.of_device(uuid, holders, hour.steps)
            for holder, row in self._rows(hour, uuid, holders, (last, now)):
                felt = of_health.get(holder, {})
                rows.append(msgspec.structs.replace(row, conditions=felt) if felt else row)
            if any(held.held_seconds(hour.steps - 1) > 0 for held in holders.values()):
                now.there.add(uuid)
        told = [
            msgspec.structs.replace(
                device,
                memory_total_bytes=hour.memory_totals.get(uuid),
                last_seen=last_seen(hour, devices.get(uuid, {}).values()),
                up=None,
            )
            for uuid, device in described.items()
        ]
        return rows, told

    def _rows(
        self,
        hour: GaugeHour,
        uuid: str,
        holders: dict[Holder | None, Held],
        ends: tuple[_Last, _Last],
    ) -> Iterable[tuple[Holder | None, UsageRow]]:
        last, now = ends
        sharers = count_sharers(holders, hour.steps)
        if max(sharers, default=1) > 1 and not _own_values(holders.values()):
            self.problems[f"{uuid} was shared: {_SHARED}"] += 1
        nobody = set(holders) == {None}
        whole = None if nobody else holders.get(None)
        for holder, held in holders.items():
            if holder is None and not nobody:
                continue
            start = began_at(hour, holders, held, known=uuid in last.there)
            if holder in last.began and held.held_seconds(0) > 0:
                start = last.began[holder]
            if held.held_seconds(hour.steps - 1) > 0:
                now.began[holder] = start
            sums = self._sum(hour, (held, whole), sharers, start)
            if sums.allocated > 0:
                who = holder or Holder("", "", "", "", uuid)
                key = UsageKey(
                    cluster=self.cluster,
                    namespace=who.namespace,
                    pod=who.pod,
                    pod_uid=who.pod_uid,
                    container=who.container,
                    gpu_uuid=uuid,
                    hour=hour.begin // HOUR_SECONDS * HOUR_SECONDS,
                )
                yield holder, _row(key, hour, sums, hour.memory_limits.get(who))

    def _sum(
        self,
        hour: GaugeHour,
        told: tuple[Held, Held | None],
        sharers: Sequence[int],
        start: float | None,
    ) -> _Sums:
        held, whole = told
        sums = _Sums()
        for step in range(hour.steps):
            seconds = quantise(held.held_seconds(step))
            if seconds <= 0:
                continue
            sums.allocated += seconds
            sums.share_seconds += seconds / sharers[step]
            sums.samples += max(counts[step] for counts in held.counts.values())
            begin = hour.begin + step * STEP_SECONDS
            levels = self._levels(held, step)
            if sharers[step] > 1:
                levels = {gauge: value for gauge, value in levels.items() if gauge.of_holder}
            elif whole is not None:
                levels = _completed(levels, self._levels(whole, step))
            self._add_step(sums, levels, (held, step), (begin, warm_part(start, begin)))
        return sums

    def _add_step(
        self,
        sums: _Sums,
        levels: dict[Gauge, float],
        where: tuple[Held, int],
        when: tuple[int, float],
    ) -> None:
        begin, warm = when
        for gauge, value in levels.items():
            seconds = quantise(where[0].seconds(gauge.group, where[1]))
            if gauge.measure is Measure.MEMORY_USED:
                sums.memory = value if sums.memory is None else max(sums.memory, value)
            elif gauge.measure is Measure.IDLE:
                sums.last_active = max(begin + STEP_SECONDS - value, sums.last_active or 0.0)
            elif gauge.measure is Measure.POWER:
                sums.energy = (sums.energy or 0.0) + value * seconds
            elif gauge.measure is Measure.ACTIVITY and seconds > 0:
                _add_activity(sums, gauge.signal, value, seconds, warm)
                if value > 0 and gauge.signal in _BUSY:
                    sums.last_active = max(float(begin + STEP_SECONDS), sums.last_active or 0.0)

    def _levels(self, held: Held, step: int) -> dict[Gauge, float]:
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
        denied = _denied(levels)
        if denied:
            self.problems["a container's activity at zero although it ran a kernel"] += 1
            levels = {gauge: v for gauge, v in levels.items() if gauge not in denied}
        return levels


def _own_values(holders: Iterable[Held]) -> bool:
    """Whether the exporter measures inside containers."""
    return any(gauge.of_holder for held in holders for gauge in held.values)


def _completed(own: dict[Gauge, float], device: dict[Gauge, float]) -> dict[Gauge, float]:
    """What a lone holder's series say, and beside it what only those of its device do."""
    known = {(gauge.measure, gauge.signal) for gauge in own}
    rest = {g: v for g, v in device.items() if (g.measure, g.signal) not in known}
    return {**own, **rest}


def _denied(levels: dict[Gauge, float]) -> set[Gauge]:
    """Activities at zero that the age of the container's last kernel contradicts.

    Samples per process are missing on some cards and are then told as zero (HAMi issue 2015).
    """
    idle = next((v for gauge, v in levels.items() if gauge.measure is Measure.IDLE), None)
    if idle is None or idle >= STEP_SECONDS:
        return set()
    return {gauge for gauge, value in levels.items() if gauge.signal and value == 0}


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


def _row(key: UsageKey, hour: GaugeHour, sums: _Sums, limit_bytes: int | None) -> UsageRow:
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
        memory_total_bytes=limit_bytes or hour.memory_totals.get(key.gpu_uuid),
        energy_joules=None if sums.energy is None else quantise(sums.energy),
        last_active=sums.last_active,
        samples=sums.samples,
    )
