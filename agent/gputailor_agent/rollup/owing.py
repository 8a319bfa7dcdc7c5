"""Histograms that are read less often than the counters beside them.

A histogram is forty of a container's eighty series, and quantiles are asked of a day or more. A
source may therefore tell histograms every few hours only (``Page.histograms_later``). Until then an
hour's row says for how much of its observed time the histogram is awaited; when it comes, the rise
since it was last told is shared out over those hours, and their rows are completed.

How it is shared out: time above zero goes to hours in proportion of their active seconds, to none
more than it observed; the rest of what an hour observed was at zero. So an hour in which the
counter of active seconds stood still is at zero, and a load that is on or off is exact. Above zero
each hour has the shape of all of them, not its own. The parts add up to the rise, bucket by bucket.

Where the histogram before an exporter's restart was never told, or none comes for a day, those
hours stay without: unknown, never zero.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    quantise,
)
from gputailor_agent.rollup.layout import BucketSpan, Layout, Vector
from gputailor_agent.rollup.plausible import slack_seconds
from gputailor_exporter.metrics import HISTOGRAM_SIGNALS, WIDTH

#: Hours that wait for a histogram at once; with more it is taken for lost.
MOST_HOURS: Final = 24

_KERNEL: Final = "kernel"
_NOISE: Final = 1e-9


class LateHistograms(msgspec.Struct, frozen=True, kw_only=True):
    """Histograms of an hour whose row was given out before; None: this one will not come."""

    key: UsageKey
    histograms: dict[str, Histogram | None]


class OwedHour(msgspec.Struct, array_like=True):
    """One hour that waits. ``seconds``: by signal, observed and active."""

    seconds: dict[str, tuple[float, float]]
    given: dict[str, tuple[float, ...]]  # histograms that its row has already


class Owing(msgspec.Struct, array_like=True):
    """What waits for one container's histograms, which were last told at ``since`` (Unix seconds).

    ``blind``: what they were then is not known, so the next ones are only where to go on from.
    """

    since: float
    hours: dict[int, OwedHour] = {}
    blind: bool = False

    def note(self, layout: Layout, hour: int, rise: Vector) -> None:
        """Let a part of a rise that falls on ``hour`` wait."""
        owed = self.hours.get(hour)
        if owed is None:
            owed = self.hours[hour] = OwedHour({}, {})
        for signal, active, observed in layout.signals:
            seconds = float(rise[observed])
            if signal in HISTOGRAM_SIGNALS and seconds > 0:
                known = owed.seconds.get(signal, (0.0, 0.0))
                owed.seconds[signal] = (known[0] + seconds, known[1] + float(rise[active]))

    def awaited(self, hour: int, signal: str) -> float:
        """Observed seconds of the hour whose histogram is awaited."""
        owed = self.hours.get(hour)
        return 0.0 if owed is None or self.blind else owed.seconds.get(signal, (0.0, 0.0))[0]

    def copy(self) -> "Owing":
        """Return an equal value that shares nothing that changes."""
        hours = {hour: OwedHour(dict(o.seconds), dict(o.given)) for hour, o in self.hours.items()}
        return Owing(self.since, hours, self.blind)

    def lose(self, at: float) -> dict[int, dict[str, Histogram | None]]:
        """Wait no longer for what was until ``at``; returns what the hours' rows lose."""
        lost = self.none_but(-1)
        self.since, self.hours, self.blind = at, {}, True
        return lost

    def leave(self, hour: int, layout: Layout, given: Vector) -> None:
        """Keep what the row of an hour that is left behind tells of its histograms."""
        owed = self.hours.get(hour)
        if owed is not None:
            told = {span.signal: histogram_of(span, given) for span in layout.spans}
            owed.given = {name: h.seconds for name, h in told.items() if h.total_seconds > 0}

    def none_but(self, hour: int) -> dict[int, dict[str, Histogram | None]]:
        """Return no histogram for any signal of the other hours: they wait no longer."""
        return {at: dict.fromkeys(owed.seconds) for at, owed in self.hours.items() if at != hour}

    def whole(self, hour: int, span: BucketSpan, more: Vector) -> Histogram | None:
        """Return an hour's histogram: what its row has of it and ``more`` (by bucket)."""
        late = histogram_of(span, np.concatenate([np.zeros(span.start), more]))
        known = self.hours[hour].given.get(span.signal, (0.0,) * len(HISTOGRAM_EDGES))
        seconds = tuple(a + b for a, b in zip(known, late.seconds, strict=True))
        return Histogram(seconds=seconds, resolution=span.resolution) if any(seconds) else None

    def shares(self, layout: Layout, rise: Vector, now: int) -> dict[str, dict[int, Vector]]:
        """Return each hour's part of each histogram's rise (seconds by bucket), by signal.

        All parts of a histogram are its rise. ``now``: the hour that gets what no hour waits for.
        """
        hours = sorted(self.hours)
        found: dict[str, dict[int, Vector]] = {}
        for span in sorted(layout.spans, key=_width_last):
            risen = rise[span.start : span.stop]
            if not hours:
                found[span.signal] = {now: risen}
                continue
            if span.signal == WIDTH:
                ran = [_ran(found, self.hours[hour], hour) for hour in hours]
                parts = in_proportion(risen, np.array(ran))
            else:
                told = [self.hours[hour].seconds.get(span.signal, (0.0, 0.0)) for hour in hours]
                parts = shared_out(risen, np.array(told), zeros=span.buckets[0] == 0)
            found[span.signal] = dict(zip(hours, parts, strict=True))
        return found


def _width_last(span: BucketSpan) -> bool:
    return span.signal == WIDTH


def _ran(found: Mapping[str, Mapping[int, Vector]], owed: OwedHour, hour: int) -> float:
    """Seconds of an hour in which kernels ran: width has values in these alone."""
    if _KERNEL in found:
        return float(found[_KERNEL][hour][1:].sum())
    return max((active for _, active in owed.seconds.values()), default=0.0)


def shared_out(rise: Vector, seconds: Vector, *, zeros: bool) -> list[Vector]:
    """Return a part of ``rise`` for each row of ``seconds`` (observed, active).

    ``zeros``: the first bucket is that of zero. Without any observed second the last gets all.
    """
    observed, active = seconds[:, 0], seconds[:, 1]
    whole, above = float(rise.sum()), float(rise[1:].sum())
    if not zeros or observed.sum() <= _NOISE or above <= _NOISE:
        return in_proportion(rise, observed)
    held = observed * (whole / observed.sum())
    busy = _filled(held, active, above)
    parts = np.outer(busy / above, rise)
    parts[:, 0] = np.maximum(held - busy, 0.0)
    return list(parts)


def in_proportion(rise: Vector, weights: Vector) -> list[Vector]:
    """Return a part of ``rise`` for each weight; the last gets all where there is no weight."""
    if weights.sum() <= _NOISE:
        weights = np.zeros(len(weights))
        weights[-1:] = 1.0
    return list(np.outer(weights / weights.sum(), rise))


def _filled(most: Vector, weights: Vector, amount: float) -> Vector:
    """Return ``amount`` in proportion of ``weights``, but none above its ``most``.

    What does not fit goes to the others in the same way, at last to those without a weight.
    """
    given = np.zeros(len(most))
    for share in (np.where(weights > _NOISE, weights, 0.0), most):
        free = given < most
        while (left := amount - given.sum()) > _NOISE and share[free].sum() > 0:
            given[free] += left * share[free] / share[free].sum()
            over = given >= most
            given[over] = most[over]
            if not (free & over).any():
                break
            free &= ~over
    return given


def settle_base(layout: Layout, last: Vector, new: Vector, elapsed: float) -> None:
    """Say in ``last`` from where histograms rise that are told for the first time.

    From zero, if all that they hold fits into ``elapsed`` seconds; else from what they are now.
    """
    for span in layout.spans:
        columns = slice(span.start, span.stop)
        if np.isfinite(last[columns]).all() or not np.isfinite(new[columns]).all():
            continue
        young = new[span.stop - 1] <= elapsed + slack_seconds(elapsed)
        last[columns] = 0.0 if young else new[columns]


def awaits(row: UsageRow) -> bool:
    """Whether histograms of the row are still to come."""
    return any(use.awaited_seconds for use in row.signals.values())


def completed(
    rows: Mapping[UsageKey, UsageRow], late: Iterable[LateHistograms], dialect: str
) -> list[UsageRow]:
    """Return those of ``rows`` that ``late`` completes; what others measured stays as it is."""
    return [
        with_histograms(rows[one.key], one.histograms, dialect) for one in late if one.key in rows
    ]


def with_histograms(
    row: UsageRow, histograms: Mapping[str, Histogram | None], dialect: str
) -> UsageRow:
    """Return the row with these histograms of its signals in place of what it has of them."""
    signals = dict(row.signals)
    for name, histogram in histograms.items():
        use = signals.get(name)
        if row.filled.get(name, row.dialect) != dialect:
            continue
        if use is None and histogram is not None and name == WIDTH:
            signals[name] = use_of_histogram(histogram)
        elif use is not None and histogram is None:
            signals[name] = msgspec.structs.replace(use, awaited_seconds=0.0)
        elif use is not None and histogram is not None:
            signals[name] = (
                use_of_histogram(histogram)
                if name == WIDTH
                else msgspec.structs.replace(
                    use, maximum=highest(histogram), histogram=histogram, awaited_seconds=0.0
                )
            )
    return msgspec.structs.replace(row, signals=signals)


def histogram_of(span: BucketSpan, given: Vector) -> Histogram:
    """Return the histogram in a container's vector of seconds."""
    seconds = [0.0] * len(HISTOGRAM_EDGES)
    for bucket, risen in zip(span.buckets, given[span.start : span.stop].tolist(), strict=True):
        seconds[bucket] += risen
    return Histogram(seconds=tuple(seconds), resolution=span.resolution)


def use_of_histogram(histogram: Histogram) -> SignalUse:
    """Use of a signal with no counters of its own (width): from the buckets' upper edges."""
    weighted = sum(e * s for e, s in zip(HISTOGRAM_EDGES, histogram.seconds, strict=True))
    return SignalUse(
        observed_seconds=histogram.total_seconds,
        active_seconds=quantise(weighted),
        maximum=highest(histogram),
        histogram=histogram,
    )


def highest(histogram: Histogram) -> float | None:
    """Upper edge of the highest bucket that holds any time; None for an empty histogram."""
    held = [
        edge for edge, spent in zip(HISTOGRAM_EDGES, histogram.seconds, strict=True) if spent > 0
    ]
    return max(held, default=None)
