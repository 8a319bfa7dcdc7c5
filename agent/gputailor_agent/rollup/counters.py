"""Folds exposition pages of counters into absolute hourly rows.

The law is ``rise``: the difference of two samples with resets handled, never extrapolated. A series
seen for the first time counts from zero only when its allocation or the exporter's process began
while somebody watched; else from its first sample on, so that a long-running exporter is not
credited its whole history. A rise across an hour's end is split in proportion of time, and where
the gap is larger than ``spread_after_seconds`` it is marked as spread. Pages of one exporter must
come in order of time; others are ignored and counted in ``problems``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from gputailor_agent.model.usage import (
    HOUR_SECONDS,
    ContainerCounters,
    Device,
    Histogram,
    Page,
    UsageRow,
)
from gputailor_agent.rollup import restoring
from gputailor_agent.rollup.beginning import (
    anew_since,
    begin_series,
    counts_from,
    own_clock,
    start_of_rise,
    tells_later,
    younger_than,
)
from gputailor_agent.rollup.beside import (
    SILENT_SECONDS,
    Sample,
    fraction_after,
    same_process,
    same_start,
)
from gputailor_agent.rollup.devices import merge_device
from gputailor_agent.rollup.layout import Layout, LayoutTable, Vector, container_values
from gputailor_agent.rollup.owing import (
    MOST_HOURS,
    LateHistograms,
    Owing,
    settle_base,
    with_histograms,
)
from gputailor_agent.rollup.plausible import bounded_rise
from gputailor_agent.rollup.series import Reading, Series, SeriesKey, hour_holding, usage_key
from gputailor_agent.rollup.state import ExporterState, RollupState

#: Scrapes are seconds apart; a longer hole means that nobody looked. Twice the usual 150 s
#: staleness of a Prometheus-like reader.
SPREAD_AFTER_SECONDS: Final = 300.0

#: A rise over more than this is not spread: what is older is left out and counted.
LONGEST_SPREAD_SECONDS: Final = 31 * 86400.0

#: A series is forgotten this long after its exporter stopped publishing it ...
_FORGET_ENDED_SECONDS: Final = 3600.0
#: ... or after its exporter fell silent; then it may be the agent's fault, so much longer.
_FORGET_SILENT_SECONDS: Final = 7 * 86400.0
_FORGET_DEVICE_SECONDS: Final = 30 * 86400.0


class CounterRollup:
    """Hourly rows of one cluster from pages of any number of exporters."""

    def __init__(
        self,
        cluster: str,
        *,
        state: RollupState | None = None,
        spread_after_seconds: float = SPREAD_AFTER_SECONDS,
    ) -> None:
        self.cluster = cluster
        self.problems: Counter[str] = Counter()
        self._spread_after = spread_after_seconds
        self._layouts = LayoutTable()
        self._watch_started: float | None = None
        self._newest = self._looked = 0.0
        self._pace = spread_after_seconds  # seconds between two rounds
        self._exporters: dict[str, ExporterState] = {}
        self._series: dict[SeriesKey, Series] = {}
        self._devices: dict[str, Device] = {}
        self._closed: dict[tuple[SeriesKey, int], UsageRow] = {}
        self._late: dict[tuple[SeriesKey, int], dict[str, Histogram | None]] = {}
        if state is not None:
            self._restore(state)

    def add(self, page: Page) -> None:
        """Fold one page in. A page not newer than its exporter's last one changes nothing."""
        previous = self._exporters.get(page.exporter)
        if previous is not None and page.at <= previous.at:
            self.problems["page_out_of_order"] += 1
            return
        if self._watch_started is None:
            self._watch_started = page.at
        for device in page.devices:
            self._see(device, page.at)
        totals = {device.gpu_uuid: device.memory_total_bytes for device in page.devices}
        for counters in page.containers:
            self._fold(page, previous, counters, totals.get(counters.gpu_uuid))
        self._exporters[page.exporter] = ExporterState(page.at, page.process_started)
        self._newest = max(self._newest, page.at)

    def mind_clock(self, now: float) -> None:
        """Go on from ``now`` where our clock was set back by more than what is spread.

        To be called before each round of pages. A smaller step is waited out: until the clock has
        passed it again pages count as out of order. After a larger one what was counted since the
        round before is placed on as much time as there usually is between two, and hours that are
        lived through twice give rows of both lives.
        """
        pace, self._looked = now - self._looked, now
        if self._newest - now <= self._spread_after:
            self._pace = pace if 0 < pace < self._spread_after else self._spread_after
            return
        self.problems["clock_set_back"] += 1
        back = now - self._pace
        self._watch_started = min(back, self._watch_started or back)
        for name, seen in self._exporters.items():
            self._exporters[name] = ExporterState(min(seen.at, back), seen.process_started)
        for series in self._series.values():
            if series.at > back:
                self._close(series, series.go_back(back))
        self._newest = back

    def take_rows(self, before: float | None = None) -> list[UsageRow]:
        """Return rows that changed since they were last taken, as absolute figures.

        ``before`` (Unix seconds): only hours that ended by then. Rows that could not be written
        go back by ``give_back``.
        """
        limit = float("inf") if before is None else before
        taken = [row for row in self._closed.values() if row.key.hour + HOUR_SECONDS <= limit]
        for row in taken:
            del self._closed[_closed_key(row)]
        for series in self._series.values():
            if series.changed and series.hour + HOUR_SECONDS <= limit:
                series.changed = False
                open_row = series.row(self.cluster)
                if open_row is not None:
                    taken.append(open_row)
        self._forget()
        return taken

    def take_histograms(self) -> list[LateHistograms]:
        """Return histograms of rows that were taken before they could be told."""
        taken, self._late = self._late, {}
        return [
            LateHistograms(key=usage_key(self.cluster, key, hour), histograms=told)
            for (key, hour), told in taken.items()
        ]

    def give_back(self, rows: Iterable[UsageRow]) -> None:
        """Take rows back that were not stored; ``take_rows`` gives them, or newer ones, again."""
        for row in rows:
            key, hour = _closed_key(row)
            series = self._series.get(key)
            if series is not None and series.hour == hour:
                series.changed = True
            else:
                self._closed.setdefault((key, hour), row)

    def devices(self) -> list[Device]:
        """Return every device seen, by UUID, with what its exporters last said of it."""
        return [self._devices[uuid] for uuid in sorted(self._devices)]

    def state(self) -> RollupState:
        """Return everything needed to go on after a restart."""
        self._forget()
        return restoring.dump(
            self.cluster,
            self._watch_started,
            self._exporters,
            self._series.values(),
            devices=self.devices(),
            closed=self._closed.values(),
            problems=self.problems,
        )

    def _restore(self, state: RollupState) -> None:
        self._watch_started = state.watch_started
        self._exporters = dict(state.exporters)
        self._series = restoring.load_series(state, self._layouts)
        self._devices = {device.gpu_uuid: device for device in state.devices}
        self._closed = {_closed_key(row): row for row in state.closed}
        self.problems.update(state.problems)
        self._newest = max((seen.at for seen in self._exporters.values()), default=0.0)

    def _fold(
        self,
        page: Page,
        previous: ExporterState | None,
        counters: ContainerCounters,
        memory_total_bytes: int | None,
    ) -> None:
        layout, values = self._values(page, counters)
        key = (
            counters.namespace,
            counters.pod,
            counters.pod_uid,
            counters.container,
            counters.gpu_uuid,
        )
        series = self._series.get(key)
        anew = False
        if series is None:
            start = counts_from(page, previous, counters, self._watch_started)
            series = self._series[key] = begin_series(key, page, counters, (layout, values), start)
            if start is None:
                series.note(_reading(counters, memory_total_bytes, counters.share, spread=False))
                return
        else:
            rising = self._rising(page, series, counters, (layout, values))
            if rising is None:
                return
            start, anew = rising
            self._owe(series, page, counters, start, anew=anew)
        if counters.allocated_seconds is None:
            values[0] = own_clock(series, page, counters, start, anew=anew)
        rise = self._rise(series, layout, values, (start, page.at), anew=anew)
        rise = rise * fraction_after(series.at, start, page.at)
        start = max(start, series.at)
        across = start < hour_holding(page.at)  # within one hour its place is exact
        spread = across and page.at - start > self._spread_after
        share = counters.share if counters.allocated else series.share  # gone once the pod ended
        reading = _reading(counters, memory_total_bytes, share, spread=spread)
        buckets = series.take_buckets(rise)
        self._place(series, rise, (start, page.at), reading)
        if layout.spans:
            self._amend(series, series.late_histograms(buckets))
        series.at = series.seen = page.at
        series.exporter, series.process_started = page.exporter, page.process_started

    def _values(self, page: Page, counters: ContainerCounters) -> tuple[Layout, list[float]]:
        layout = self._layouts.of_container(counters, page.histogram_bounds)
        values = container_values(counters, counters.allocated_seconds or 0.0)
        if len(values) == layout.width:
            return layout, values
        self.problems["malformed_histogram"] += 1
        bare = msgspec.structs.replace(counters, histogram={})
        return self._layouts.of_container(bare, ()), container_values(
            bare, counters.allocated_seconds or 0.0
        )

    def _rising(
        self,
        page: Page,
        series: Series,
        counters: ContainerCounters,
        sample: tuple[Layout, list[float]],
    ) -> tuple[float, bool] | None:
        """When the rise to this page began and whether at zero; None where it adds nothing.

        A page of another process than the series' own lets that one speak from its own sample.
        """
        late = page.at <= series.at
        if same_process(page, series.exporter, series.process_started):
            return None if late else start_of_rise(page, series, counters)
        known = series.beside.get(page.exporter)
        if known is not None and same_start(known.process_started, page.process_started):
            silent = page.at - series.seen > SILENT_SECONDS
            if not late and (known.at <= series.at or silent):
                series.turn_to(page.exporter, known)
                return known.at, False
            if not late:  # it would leave a hole, which the series' own process may fill yet
                return None
        elif not late and younger_than(page, series.at, counters):
            began = anew_since(page, counters.allocated_seconds)
            zeros = series.at_zero()
            series.turn_to(page.exporter, Sample(began, page.process_started, zeros))
            return began, True
        self.problems["second_exporter"] += 1
        values = self._laid_out(series, *sample)
        series.set_aside(page.exporter, Sample(page.at, page.process_started, values))
        return None

    def _owe(
        self, series: Series, page: Page, counters: ContainerCounters, start: float, *, anew: bool
    ) -> None:
        """Wait for histograms, or no longer, before a rise from ``start`` is put in its place."""
        owing, later = series.owing, tells_later(page, counters)
        if owing is not None:
            told = later or counters.histogram or series.layout.spans
            if anew or not told:
                self._amend(series, owing.lose(start))
                series.owing = owing = None
            elif len(owing.hours) > MOST_HOURS:
                self._amend(series, owing.lose(page.at))
        if owing is None and later:
            series.owing = Owing(start)

    def _amend(self, series: Series, late: Mapping[int, dict[str, Histogram | None]]) -> None:
        """Complete rows of hours left behind; those that were taken are told apart."""
        for hour, histograms in late.items():
            place = (series.key, hour)
            row = self._closed.get(place)
            if row is not None:
                self._closed[place] = with_histograms(row, histograms, row.dialect)
            else:
                self._late[place] = {**self._late.get(place, {}), **histograms}

    def _rise(
        self,
        series: Series,
        layout: Layout,
        values: list[float],
        span: tuple[float, float],
        *,
        anew: bool,
    ) -> Vector:
        """Rise in the series' own layout; the series then holds the new counters."""
        new = self._laid_out(series, layout, values)
        if series.owing is not None:
            settle_base(series.layout, series.last, new, span[1] - series.owing.since)
        elapsed = span[1] - span[0]
        rise = bounded_rise(
            series.layout, series.last, new, elapsed, anew=anew, problems=self.problems
        )
        kept = series.at_zero() if anew else series.last
        series.last = np.where(np.isfinite(new), new, kept)
        return rise

    def _laid_out(self, series: Series, layout: Layout, values: list[float]) -> Vector:
        """Return ``values`` in the series' layout, which grows by the columns it lacks."""
        new = np.array(values)
        if layout is series.layout:
            return new
        series.adopt(layout, self._layouts)
        sparse = np.full(series.layout.width, np.nan)
        sparse[self._layouts.positions(layout, series.layout)] = new
        return sparse

    def _place(
        self, series: Series, rise: Vector, span: tuple[float, float], reading: Reading
    ) -> None:
        start, end = span
        if end - start > LONGEST_SPREAD_SECONDS:
            rise = rise * (LONGEST_SPREAD_SECONDS / (end - start))
            start = end - LONGEST_SPREAD_SECONDS
            self.problems["gap_too_long"] += 1
        self._close(series, series.place(rise, start, end, reading))

    def _close(self, series: Series, rows: Iterable[UsageRow]) -> None:
        """Keep rows of hours left behind until they are taken."""
        for row in rows:
            key = msgspec.structs.replace(row.key, cluster=self.cluster)
            self._closed[series.key, key.hour] = msgspec.structs.replace(row, key=key)

    def _see(self, device: Device, at: float) -> None:
        known = self._devices.get(device.gpu_uuid)
        self._devices[device.gpu_uuid] = merge_device(known, device, self.cluster, at)

    def _forget(self) -> None:
        """Drop what ended long ago, so that the state does not grow with every pod there was."""
        for key in [key for key, one in self._series.items() if self._forgettable(one)]:
            series = self._series.pop(key)
            row = series.row(self.cluster) if series.changed else None
            if row is not None:
                self._closed[key, row.key.hour] = row
        silent = self._newest - _FORGET_SILENT_SECONDS
        for name in [name for name, seen in self._exporters.items() if seen.at < silent]:
            del self._exporters[name]
        gone = self._newest - _FORGET_DEVICE_SECONDS
        for uuid in [uuid for uuid, one in self._devices.items() if one.last_seen < gone]:
            del self._devices[uuid]

    def _forgettable(self, series: Series) -> bool:
        seen = self._exporters.get(series.exporter)
        ended = seen is not None and seen.at - series.at > _FORGET_ENDED_SECONDS
        return ended or self._newest - series.at > _FORGET_SILENT_SECONDS


def _reading(
    counters: ContainerCounters, memory: int | None, share: float, *, spread: bool
) -> Reading:
    peak, kind = counters.memory_peak_bytes, "peak"
    if peak is None:
        peak, kind = counters.memory_used_bytes, "sampled"
    return Reading(
        allocated=counters.allocated,
        share=share,
        memory_peak_bytes=peak,
        memory_peak_kind=kind,
        memory_total_bytes=memory,
        last_active=counters.last_active,
        spread=spread,
    )


def _closed_key(row: UsageRow) -> tuple[SeriesKey, int]:
    key = row.key
    return (key.namespace, key.pod, key.pod_uid, key.container, key.gpu_uuid), key.hour
