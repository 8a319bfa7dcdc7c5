"""Gauges of exporters that count nothing: means of five minutes, made by the server.

Each raw sample is touched once per metric (once more in the one metric per group that is counted,
for coverage), and none comes over the wire. Steps are half-open, so that none is counted twice.
"""

import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypedDict

import msgspec

from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import (
    AT_THE_END,
    HEALTH,
    Gauge,
    GaugeDialect,
    Measure,
    Subject,
)
from gputailor_agent.model.usage import Device
from gputailor_agent.sources.prometheus.answers import Matrix, Series, labels_of
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.sources.prometheus.placing import Target, target_of
from gputailor_agent.sources.prometheus.promql import equal, one_of, selector
from gputailor_agent.sources.prometheus.readings import (
    STEP_SECONDS,
    GaugeCount,
    GaugeHour,
    GaugeSeries,
    HealthSeries,
)

_SPAN: Final = f"[{STEP_SECONDS - 1}s999ms]"  # (t - 300 s, t] on servers of either reading
_LEARN_SECONDS: Final = 900  # of one series, raw, to see how far apart its samples are
_PARTS: Final = (Measure.MEMORY_USED, Measure.MEMORY_FREE, Measure.MEMORY_RESERVED)
#: How five minutes are made one value; a mean where nothing is said.
_WAYS: Final = {Measure.MEMORY_USED: "max", Measure.IDLE: "min"}
#: Likewise of health: of codes and masks both ends, between which nobody can tell.
_WAYS_OF_HEALTH: Final = {
    Measure.THROTTLED: ("avg",),
    Measure.FAULT: ("avg",),
    Measure.THROTTLED_SECONDS: ("max",),
    Measure.ERRORS: ("max",),
    Measure.REASONS: ("min", "max"),
    Measure.LAST_ERROR: ("min", "max"),
}
_NOT_OF_USE: Final = AT_THE_END | HEALTH
_REMEMBERED: Final = 100_000


class _AtTheEnd(TypedDict):
    memory_totals: dict[str, int]
    memory_limits: dict[Holder, int]
    described: tuple[Device, ...]


class Present(NamedTuple):
    """A gauge under a name that this server has it by."""

    name: str
    gauge: Gauge

    @property
    def rank(self) -> int:
        """Place of the name among the gauge's names: the present one is 0, former ones follow."""
        return self.gauge.names.index(self.name)


class _Known(NamedTuple):
    subject: Subject | None
    target: Target
    labels: dict[str, str]
    told: bytes  # the label set as the server wrote it; one object, however many metrics have it


def present_gauges(dialect: GaugeDialect, names: Iterable[str]) -> tuple[Present, ...]:
    """Return the dialect's gauges that are on the server, by every name that they have there.

    A metric that an update of the exporter renamed has two: both are read, and one with no sample
    in an hour costs nothing.
    """
    there = set(names)
    return tuple(
        Present(name, gauge) for gauge in dialect.gauges for name in gauge.names if name in there
    )


class GaugeReader:
    """Reads one dialect of gauges, hour by hour."""

    def __init__(
        self,
        client: PrometheusClient,
        dialect: GaugeDialect,
        cluster: str,
        matchers: tuple[str, ...] = (),
    ) -> None:
        self.dialect = dialect
        self._client = client
        self._cluster = cluster
        self._matchers = matchers
        self._known: dict[bytes, _Known] = {}
        self._intervals: dict[str, float] = {}  # by job, as last learned

    def hour(self, begin: int, end: int, gauges: Sequence[Present]) -> GaugeHour | None:
        """What there is of (begin, end], in whole steps; None where there is nothing."""
        end = begin + (end - begin) // STEP_SECONDS * STEP_SECONDS
        read = [one for one in gauges if one.gauge.measure not in _NOT_OF_USE]
        counted = _references(gauges)
        if not read or not counted or end <= begin:
            return None
        times = (begin + STEP_SECONDS, end)
        matrices = self._client.each(
            lambda ask: self._client.query_range(ask, *times, STEP_SECONDS),
            [self._over_time(one) for one in read]
            + [f"count_over_time({self._select(one)}{_SPAN})" for one in counted],
        )
        own = self._own_pods(matrices, begin, end)
        series = [
            one
            for present, matrix in zip(read, matrices, strict=False)
            for one in self._series(present, matrix, (begin, end), own)
        ]
        counts = [
            one
            for present, matrix in zip(counted, matrices[len(read) :], strict=True)
            for one in self._counts(present, matrix, (begin, end), own)
        ]
        return GaugeHour(
            dialect=self.dialect.name,
            begin=begin,
            end=end,
            series=tuple(series),
            counts=tuple(counts),
            health=tuple(self._health(gauges, (begin, end), own)),
            **self._at_the_end(gauges, end),
        )

    def _select(self, present: Present, *matchers: str) -> str:
        own = equal(dict(present.gauge.labels))
        return selector((present.name,), *self._matchers, *own, *matchers)

    def _health(
        self, gauges: Sequence[Present], span: tuple[int, int], own: set[tuple[str, str]]
    ) -> Iterable[HealthSeries]:
        """What tells of devices' health, from the step before the hour on."""
        asked = [(one, way) for one in gauges for way in _WAYS_OF_HEALTH.get(one.gauge.measure, ())]
        before, end = span[0] - STEP_SECONDS, span[1]
        matrices = self._client.each(
            lambda ask: self._client.query_range(ask, span[0], end, STEP_SECONDS),
            [self._over_time(one, way) for one, way in asked],
        )
        for (present, way), matrix in zip(asked, matrices, strict=True):
            for series in matrix.result:
                subject = self._subject(series.metric, own)
                if subject is not None:
                    labels = self._look(series.metric).labels
                    yield HealthSeries(
                        holder=subject.holder,
                        device=subject.device,
                        gauge=present.gauge,
                        way=way,
                        values=tuple(_by_step(series, (before, end))),
                        part=labels.get(present.gauge.part, ""),
                    )

    def _over_time(self, present: Present, way: str = "") -> str:
        way = way or _WAYS.get(present.gauge.measure, "avg")
        return f"{way}_over_time({self._select(present)}{_SPAN})"

    def _look(self, metric: msgspec.Raw) -> _Known:
        key = bytes(metric)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            labels = labels_of(metric)
            subject = self.dialect.identify(labels, self._cluster)
            known = self._known[key] = _Known(subject, target_of(labels), labels, key)
        return known

    def _own_pods(self, matrices: Iterable[Matrix], begin: int, end: int) -> set[tuple[str, str]]:
        """Namespace and pod of the exporters themselves.

        Prometheus puts them onto the series of a device that nobody holds.
        """
        jobs = {
            self._look(series.metric).target.job for matrix in matrices for series in matrix.result
        }
        if not jobs:
            return set()
        found = self._client.series(
            selector(("up",), *self._matchers, one_of("job", jobs)), begin, end
        )
        return {(one.get("namespace", ""), one["pod"]) for one in found if one.get("pod")}

    def _subject(self, metric: msgspec.Raw, own: set[tuple[str, str]]) -> Subject | None:
        subject = self._look(metric).subject
        if subject is None or subject.holder is None:
            return subject
        holder = subject.holder
        return subject._replace(holder=None) if (holder.namespace, holder.pod) in own else subject

    def _series(
        self, present: Present, matrix: Matrix, span: tuple[int, int], own: set[tuple[str, str]]
    ) -> Iterable[GaugeSeries]:
        gauge = present.gauge
        for series in matrix.result:
            subject = self._subject(series.metric, own)
            if subject is None or (subject.device.parent_uuid and not gauge.of_instance):
                continue
            yield GaugeSeries(
                holder=subject.holder,
                device=subject.device,
                gauge=gauge,
                values=tuple(_by_step(series, span)),
                rank=present.rank,
                part=self._look(series.metric).labels.get(gauge.part, "") if gauge.part else "",
                labels=self._look(series.metric).told,
            )

    def _counts(
        self, present: Present, matrix: Matrix, span: tuple[int, int], own: set[tuple[str, str]]
    ) -> Iterable[GaugeCount]:
        intervals = self._learn(present, matrix)
        for series in matrix.result:
            subject = self._subject(series.metric, own)
            interval = intervals.get(self._look(series.metric).target.job)
            if subject is None or interval is None:
                continue
            yield GaugeCount(
                holder=subject.holder,
                device=subject.device,
                group=present.gauge.group,
                samples=tuple(int(value or 0) for value in _by_step(series, span)),
                interval_seconds=interval,
                rank=present.rank,
            )

    def _learn(self, present: Present, matrix: Matrix) -> dict[str, float]:
        """How far apart each job's samples are: the median distance in its fullest series.

        Looked at again only where its steps have not as many samples as that makes.
        """
        fullest: dict[str, tuple[float, Series]] = {}
        for series in matrix.result:
            job = self._look(series.metric).target.job
            count = sum(float(value) for _, value in series.values)
            if job not in fullest or count > fullest[job][0]:
                fullest[job] = (count, series)
        for job, (count, series) in fullest.items():
            if self._still(job, count, len(series.values)):
                continue
            labels = self._look(series.metric).labels
            taken = {"__name__", *dict(present.gauge.labels)}
            plain = {name: value for name, value in labels.items() if name not in taken}
            at = max(series.values, key=lambda one: (float(one[1]), one[0]))[0]
            raw = self._client.query_raw(
                f"{self._select(present, *equal(plain))}[{_LEARN_SECONDS}s]", at
            )
            times = [when for one in raw.result for when, _ in one.values]
            steps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
            if steps:
                self._intervals[job] = statistics.median(steps)
        return dict(self._intervals)

    def _still(self, job: str, count: float, steps: int) -> bool:
        """Whether the steps have just as many samples as the job's known interval makes."""
        known = self._intervals.get(job)
        return known is not None and abs(count * known - steps * STEP_SECONDS) <= known

    def _at_the_end(self, gauges: Sequence[Present], end: int) -> _AtTheEnd:
        """What is read once, as of the end: memory in all, and what describes devices."""
        parts = _memory_parts(gauges)
        asked = [*parts, *(one for one in gauges if one.gauge.measure is Measure.INFO)]
        vectors = self._client.each(lambda one: self._client.query(self._select(one), end), asked)
        found: dict[Holder | str, dict[Measure, float]] = {}
        described: list[Device] = []
        for present, vector in zip(asked, vectors, strict=True):
            gauge = present.gauge
            for sample in vector.result:
                subject = self._look(sample.metric).subject
                value = gauge.canonical(float(sample.value[1]))
                if subject is None or value is None:
                    continue
                if gauge.measure is Measure.INFO:
                    described.append(subject.device)
                    continue
                owner = subject.holder if gauge.of_holder else None
                place = found.setdefault(owner or subject.device.gpu_uuid, {})
                place[gauge.measure] = max(value, place.get(gauge.measure, 0.0))
        needed = {part.gauge.measure for part in parts} - {Measure.MEMORY_TOTAL}
        sums = {owner: _total(values, needed) for owner, values in found.items()}
        return {
            "memory_totals": {k: v for k, v in sums.items() if v and isinstance(k, str)},
            "memory_limits": {k: v for k, v in sums.items() if v and isinstance(k, Holder)},
            "described": tuple(described),
        }


def _memory_parts(gauges: Sequence[Present]) -> list[Present]:
    """Gauges that tell a device's memory: its total, else its parts if both of them are there."""
    totals = [one for one in gauges if one.gauge.measure is Measure.MEMORY_TOTAL]
    parts = [one for one in gauges if one.gauge.measure in _PARTS]
    measured = {one.gauge.measure for one in parts}
    if totals or not {Measure.MEMORY_USED, Measure.MEMORY_FREE} <= measured:
        return totals
    return parts


def _total(values: dict[Measure, float], needed: set[Measure]) -> int | None:
    """Memory in all; a part that is missing is not zero."""
    if Measure.MEMORY_TOTAL in values:
        return round(values[Measure.MEMORY_TOTAL])
    return round(sum(values.values())) if needed and needed <= set(values) else None


def _by_step(series: Series, span: tuple[int, int]) -> list[float | None]:
    begin, end = span
    values: list[float | None] = [None] * ((end - begin) // STEP_SECONDS)
    for at, value in series.values:
        place = round((at - begin) / STEP_SECONDS) - 1
        if 0 <= place < len(values):  # some servers begin a range at a time of their own
            values[place] = float(value)
    return values


def _references(gauges: Sequence[Present]) -> list[Present]:
    """The first gauge of each group, by every name: its samples count for all of the group."""
    first: dict[str, Gauge] = {}
    for one in gauges:
        if one.gauge.measure not in HEALTH | {Measure.MEMORY_TOTAL, Measure.INFO}:
            first.setdefault(one.gauge.group, one.gauge)
    return [one for one in gauges if one.gauge in first.values()]
