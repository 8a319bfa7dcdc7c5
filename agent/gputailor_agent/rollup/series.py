"""One container and device: how a rise falls on hours, and the row an hour gives out.

Sums are kept in plain floats. A row gives out figures rounded to the grid of ``model.usage``; what
rounding took or added is carried into the container's next hour, so that the rows of any number of
hours add up to the counters' whole rise, to within half a grid step.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    HOUR_SECONDS,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    Warmup,
    quantise,
)
from gputailor_agent.rollup.beside import FORGET_SECONDS, Sample
from gputailor_agent.rollup.layout import (
    ALLOCATED,
    ENERGY,
    BucketSpan,
    Layout,
    LayoutTable,
    Places,
    Vector,
)
from gputailor_agent.rollup.owing import Owing, histogram_of, use_of_histogram

SeriesKey = tuple[str, str, str, str, str]  # namespace, pod, pod_uid, container, gpu_uuid

#: Means skip the first 10 minutes of an allocation; rules take min(this, 10 % of the run).
WARMUP_SECONDS: Final = 600.0

_ROSE: Final = 1e-6  # a bucket that rose by less was moved by float noise only


def hour_holding(at: float) -> int:
    """Start of the hour in which an interval ending at ``at`` ends: hours are (start, end]."""
    return (math.ceil(at / HOUR_SECONDS) - 1) * HOUR_SECONDS


@dataclass(frozen=True, slots=True)
class Reading:
    """What one page says beside the counters."""

    allocated: bool
    share: float
    memory_peak_bytes: int | None
    memory_peak_kind: str
    memory_total_bytes: int | None
    last_active: float | None
    spread: bool


@dataclass(slots=True)
class Series:
    """Last counters of a container and device, and its open hour.

    ``at``: what happened until then is accounted for; ``seen``: when ``last`` was read. The two
    differ while a second exporter process counts the same container: ``beside`` has its sample.
    """

    key: SeriesKey
    exporter: str
    at: float
    seen: float
    process_started: float | None
    began: float | None  # start of the allocation; never later than the truth's first sight
    layout: Layout
    last: Vector
    hour: int
    total: Vector  # of the open hour
    carry: Vector  # rounding left over from the hours given out
    warm: Vector | None = None
    share_seconds: float = 0.0
    share: float = 1.0
    memory_peak_bytes: int | None = None
    memory_peak_kind: str = "peak"
    memory_total_bytes: int | None = None
    last_active: float | None = None
    spread_seconds: float = 0.0
    samples: int = 0
    changed: bool = False
    beside: dict[str, Sample] = field(default_factory=dict)  # by exporter
    owing: Owing | None = None  # histograms that were not told since

    def adopt(self, layout: Layout, table: LayoutTable) -> None:
        """Make room for the columns of ``layout``; values of new columns are NaN (never seen)."""
        union = table.union(self.layout, layout)
        if union is self.layout:
            return
        places = table.positions(self.layout, union)
        self.last = _widen(self.last, places, union.width, np.nan)
        self.total = _widen(self.total, places, union.width, 0.0)
        self.carry = _widen(self.carry, places, union.width, 0.0)
        for sample in self.beside.values():
            sample.values = _widen(sample.values, places, union.width, np.nan)
        if self.warm is not None:
            self.warm = _widen(self.warm, places, union.width, 0.0)
        self.layout = union

    def at_zero(self) -> Vector:
        """Counters as a new process of the exporter begins them; those of the device go on."""
        values = np.zeros(self.layout.width)
        values[self.layout.lifelong] = self.last[self.layout.lifelong]
        return values

    def set_aside(self, exporter: str, sample: Sample) -> None:
        """Keep another process's sample; those not heard of for long are dropped."""
        self.beside[exporter] = sample
        oldest = sample.at - FORGET_SECONDS
        for name in [name for name, one in self.beside.items() if one.at < oldest]:
            del self.beside[name]

    def turn_to(self, exporter: str, sample: Sample) -> None:
        """Let ``sample`` be what rises next; the present process's sample is set aside."""
        self.set_aside(self.exporter, Sample(self.seen, self.process_started, self.last))
        self.beside.pop(exporter, None)
        self._lose_histograms()
        self.exporter, self.process_started = exporter, sample.process_started
        self.seen, self.last = sample.at, sample.values

    def _lose_histograms(self) -> None:
        if self.owing is not None:
            self.owing.blind = True

    def place(self, rise: Vector, start: float, end: float, reading: Reading) -> list[UsageRow]:
        """Put ``rise`` of (start, end] on its hours; returns rows of the hours left behind."""
        closed: list[UsageRow] = []
        for hour, begin, stop in _hours(start, end):
            if hour > self.hour:
                closed.extend(self._turn(hour))
            fraction = 1.0 if stop - begin >= end - start else (stop - begin) / (end - start)
            self._put(rise, fraction, (begin, stop), reading)
        if rise.any() or reading.allocated:
            self.samples += 1
            self.changed = True
        return closed

    def take_buckets(self, rise: Vector) -> Vector:
        """Return the rise as it is; what of it is late is taken out of it."""
        if self.owing is None:
            return rise
        whole = rise.copy()
        for span in self.layout.spans:
            rise[span.start : span.stop] = 0.0
        return whole

    def late_histograms(self, rise: Vector) -> dict[int, dict[str, Histogram | None]]:
        """Share the rise of histograms out over the hours that waited; returns those left behind.

        ``rise``: since they were last told; only its buckets are looked at.
        """
        owing, self.owing = self.owing, None
        if owing is None:
            return {}
        late = owing.none_but(self.hour)
        if owing.blind:
            return late
        shares = owing.shares(self.layout, rise, self.hour)
        for span in self.layout.spans:
            columns = slice(span.start, span.stop)
            for hour, part in shares[span.signal].items():
                if hour == self.hour:
                    self.total[columns] += part
                    continue
                carried, grid = self.carry[columns] + part, self.layout.grid[columns]
                given = np.maximum(np.round(carried * grid) / grid, 0.0)
                self.carry[columns] = carried - given
                late[hour][span.signal] = owing.whole(hour, span, given)
        self.changed = True
        return late

    def go_back(self, at: float) -> list[UsageRow]:
        """Go on from the earlier time ``at``; returns the row of the hour left behind.

        Within one hour what came before ``at``, by proportion of time, stays in the open hour: by
        the clock it is lived through once. What came after it is lived through again.
        """
        kept = self._until(at) if self.owing is None else None
        closed = list(self._turn(hour_holding(at)))
        if kept is not None:
            self.total, self.warm, self.carry, self.share_seconds, self.samples = kept
        self.at = self.seen = at
        self.beside.clear()
        self._lose_histograms()
        if self.began is not None:
            self.began = min(self.began, at)
        return closed

    def _until(self, at: float) -> tuple[Vector, Vector | None, Vector, float, int] | None:
        """What of the open hour came before ``at``; None where that is in another hour."""
        if hour_holding(at) != self.hour:
            return None
        begin = self.hour if self.began is None else max(self.hour, self.began)
        part = min(1.0, max(0.0, at - begin) / (self.at - begin)) if self.at > begin else 0.0
        total = self.total * part
        warm = None if self.warm is None else np.minimum(self.warm, total)
        samples = int(self.samples * part)
        return total, warm, self.carry, self.share_seconds * part, samples

    def note(self, reading: Reading) -> None:
        """Keep what the page says beside the counters for the open hour."""
        peak = reading.memory_peak_bytes
        if peak is not None:
            if self.memory_peak_bytes is None or peak > self.memory_peak_bytes:
                self.memory_peak_bytes = peak
            self.memory_peak_kind = reading.memory_peak_kind
        self.memory_total_bytes = reading.memory_total_bytes or self.memory_total_bytes
        active = reading.last_active
        if active is not None and active <= self.hour + HOUR_SECONDS:
            self.last_active = max(active, self.last_active or active)
        self.share = reading.share

    def row(self, cluster: str) -> UsageRow | None:
        """Return the open hour as an absolute row; None when the container held nothing in it."""
        given = self._given()
        if not (given[self.layout.timed] > 0).any():
            return None
        allocated = float(given[self.layout.index[ALLOCATED]])
        return UsageRow(
            key=usage_key(cluster, self.key, self.hour),
            dialect="gputailor",
            allocated_seconds=allocated,
            share=self._mean_share(),
            signals=self._signals(given),
            warmup=self._warmup(given),
            conditions=self._named(given, "condition") | self._named(given, "device"),
            link_bytes=self._named(given, "link"),
            memory_peak_bytes=self.memory_peak_bytes,
            memory_peak_kind=self.memory_peak_kind,
            memory_total_bytes=self.memory_total_bytes,
            energy_joules=self._energy(given),
            last_active=self.last_active,
            spread_seconds=quantise(self.spread_seconds),
            samples=self.samples,
        )

    def _turn(self, hour: int) -> Iterator[UsageRow]:
        """Leave the open hour for ``hour``; the row lacks its cluster, see ``CounterRollup``."""
        row = self.row("") if self.changed else None
        if row is not None:
            yield row
        given = self._given()
        if self.owing is not None:
            self.owing.leave(self.hour, self.layout, given)
        self.carry = self.carry + self.total - given
        self.total = np.zeros(self.layout.width)
        self.warm = None
        self.hour = hour
        self.share_seconds = self.spread_seconds = 0.0
        self.samples = 0
        self.memory_peak_bytes = self.last_active = None
        self.memory_peak_kind = "peak"
        self.changed = False

    def _put(
        self, rise: Vector, fraction: float, span: tuple[float, float], reading: Reading
    ) -> None:
        part = rise if fraction == 1.0 else rise * fraction
        self.total += part
        if self.owing is not None:
            self.owing.note(self.layout, self.hour, part)
        self.share_seconds += reading.share * float(part[self.layout.index[ALLOCATED]])
        if reading.spread and self.layout.observed.size:
            self.spread_seconds += float(part[self.layout.observed].max())
        warm = self._warm_fraction(*span)
        if warm > 0:
            self.warm = part * warm if self.warm is None else self.warm + part * warm
        self.changed = self.changed or bool(part.any())
        self.note(reading)

    def _warm_fraction(self, begin: float, stop: float) -> float:
        if self.began is None:
            return 0.0
        warm_until = self.began + WARMUP_SECONDS
        if stop <= warm_until or stop <= begin:
            return 1.0 if stop <= warm_until else 0.0
        return max(0.0, warm_until - begin) / (stop - begin)

    def _given(self) -> Vector:
        grid = self.layout.grid
        given = np.round((self.carry + self.total) * grid) / grid + 0.0
        np.maximum(given, 0.0, out=given)
        active, measured = self.layout.active, self.layout.measured
        if active.size:
            given[active] = np.minimum(given[active], given[measured])
        return given

    def _mean_share(self) -> float:
        allocated = float(self.total[self.layout.index[ALLOCATED]])
        return round(self.share_seconds / allocated, 9) if allocated > 0 else self.share

    def _signals(self, given: Vector) -> dict[str, SignalUse]:
        spans = {span.signal: span for span in self.layout.spans}
        uses: dict[str, SignalUse] = {}
        for signal, active, observed in self.layout.signals:
            span = spans.pop(signal, None)
            if given[observed] <= 0:
                continue
            seconds = float(given[observed])
            uses[signal] = SignalUse(
                observed_seconds=seconds,
                active_seconds=float(given[active]),
                maximum=None if span is None else self._maximum(span),
                histogram=None if span is None else self._told(span, given),
                awaited_seconds=min(seconds, self._awaited(signal)),
            )
        for signal, span in spans.items():
            use = self._histogram_only(span, given)
            if use is not None:
                uses[signal] = use
        return uses

    def _histogram_only(self, span: BucketSpan, given: Vector) -> SignalUse | None:
        histogram = histogram_of(span, given)
        return use_of_histogram(histogram) if histogram.total_seconds > 0 else None

    @staticmethod
    def _told(span: BucketSpan, given: Vector) -> Histogram | None:
        """What is known of a histogram; one that holds nothing tells nothing, and no zero."""
        histogram = histogram_of(span, given)
        return histogram if histogram.total_seconds > 0 else None

    def _awaited(self, signal: str) -> float:
        return 0.0 if self.owing is None else quantise(self.owing.awaited(self.hour, signal))

    def _maximum(self, span: BucketSpan) -> float | None:
        rose = np.flatnonzero(self.total[span.start : span.stop] > _ROSE)
        return HISTOGRAM_EDGES[span.buckets[int(rose[-1])]] if rose.size else None

    def _warmup(self, given: Vector) -> dict[str, Warmup]:
        if self.warm is None:
            return {}
        return {
            signal: Warmup(
                observed_seconds=min(quantise(float(self.warm[observed])), float(given[observed])),
                active_seconds=min(quantise(float(self.warm[active])), float(given[active])),
            )
            for signal, active, observed in self.layout.signals
            if self.warm[observed] > 0
        }

    def _named(self, given: Vector, family: str) -> dict[str, float]:
        columns = enumerate(self.layout.columns)
        return {column[1]: float(given[at]) for at, column in columns if column[0] == family}

    def _energy(self, given: Vector) -> float | None:
        at = self.layout.index.get(ENERGY)
        return None if at is None else float(given[at])


def usage_key(cluster: str, key: SeriesKey, hour: int) -> UsageKey:
    """Return the key of a row of the hour."""
    namespace, pod, pod_uid, container, gpu_uuid = key
    return UsageKey(
        cluster=cluster,
        namespace=namespace,
        pod=pod,
        pod_uid=pod_uid,
        container=container,
        gpu_uuid=gpu_uuid,
        hour=hour,
    )


def _widen(old: Vector, places: Places, width: int, fill: float) -> Vector:
    wide = np.full(width, fill)
    wide[places] = old
    return wide


def _hours(start: float, end: float) -> Iterator[tuple[int, float, float]]:
    """Hours that (start, end] touches: (hour, begin, stop); an empty interval touches its end's."""
    hour = hour_holding(end) if start >= end else math.floor(start / HOUR_SECONDS) * HOUR_SECONDS
    last = hour_holding(end)
    while hour <= last:
        yield hour, max(start, hour), min(end, hour + HOUR_SECONDS)
        hour += HOUR_SECONDS
