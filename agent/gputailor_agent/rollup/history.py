"""History out of a Prometheus into rows: hour by hour, once, and kept in a store.

A store remembers which hours it has of which server; only the others are asked for. Each hour is
written in one transaction with that memory, so a run that is stopped goes on where it was. An hour
that still runs is given out, never kept.
"""

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from gputailor_agent.dialects import gputailor
from gputailor_agent.dialects.gauges import gauge_dialects
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageKey, UsageRow
from gputailor_agent.rollup import sentences
from gputailor_agent.rollup.counters import CounterRollup
from gputailor_agent.rollup.hours import PARTIAL_PATIENCE_SECONDS, HourRollup, RolledHour
from gputailor_agent.rollup.owing import awaits, completed
from gputailor_agent.rollup.spans import (
    block_of,
    count_hours,
    covers,
    gaps_of,
    in_blocks,
    joined,
    without,
)
from gputailor_agent.rollup.state import StateError, decode_state, encode_state
from gputailor_agent.sources.prometheus import (
    BLOCK_SECONDS,
    PrometheusError,
    PrometheusSource,
)
from gputailor_agent.store import Store

#: Called with hours done and hours there are to do.
Progress = Callable[[int, int], None]

#: An hour is kept when so much time has passed since: scrapes and remote writes may be late.
SETTLE_SECONDS: Final = 120.0


class History(NamedTuple):
    """What a window's hours came to; ``problems`` are sentences."""

    rows: list[UsageRow]
    devices: list[Device]
    problems: list[str]


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a store has of a server: spans of whole hours, and the counters at ``at``."""

    spans: tuple[tuple[int, int], ...] = ()
    at: int | None = None
    counters: bytes = b""


def read_window(
    source: PrometheusSource,
    start: float,
    end: float,
    store: Store | None = None,
    progress: Progress | None = None,
) -> History:
    """Return what a server says of [start, end), asking only for hours that the store lacks.

    ``start`` is taken down to a whole hour; with our exporter some hours before it are read, too,
    back to where a block of histograms begins. ``end``: now, or earlier. Where the server fails
    after some hours, or the budget is used up, ``problems`` say how far it came; call again to go
    on.
    Raises ``PrometheusError`` where the server cannot be asked at all or has no metrics of GPUs.
    """
    first = int(start // HOUR_SECONDS) * HOUR_SECONDS
    end -= source.ahead_seconds()
    present = source.dialects(first, end)
    if not present:
        raise PrometheusError(
            f"{source.address} has no GPU metrics of this time: neither the GPU Tailor exporter's "
            f"(gputailor_…) nor those of {', '.join(one.exporter for one in gauge_dialects())}; "
            "is it the right server, are the exporters scraped, do extra labels leave them out?"
        )
    if store is None:
        begin = block_of(first) if gputailor.NAME in present else first
        found = _Filling(source, None, end, progress).without_store(begin, end)
        return found._replace(rows=[row for row in found.rows if row.key.hour >= first])
    return _Filling(source, store, end, progress).with_store(first, end)


def fill_store(
    source: PrometheusSource,
    start: float,
    end: float,
    store: Store,
    progress: Progress | None = None,
) -> list[str]:
    """Put every whole hour of [start, end) that the store lacks into it; returns what went wrong.

    Costs nothing for hours that are there: to be called hourly. Raises ``PrometheusError`` where
    not one hour could be read.
    """
    first = int(start // HOUR_SECONDS) * HOUR_SECONDS
    ahead = source.ahead_seconds()
    filling = _Filling(source, store, end - ahead, progress)
    problems = filling.fill(first, _settled(end - ahead))
    return [*([sentences.ahead(ahead)] if ahead > SETTLE_SECONDS else []), *problems]


def _settled(end: float) -> int:
    return int((end - SETTLE_SECONDS) // HOUR_SECONDS) * HOUR_SECONDS


class _Filling:
    """One go over a window."""

    def __init__(
        self,
        source: PrometheusSource,
        store: Store | None,
        now: float,
        progress: Progress | None,
    ) -> None:
        self._source = source
        self._store = store
        self._now = now
        self._progress = progress
        self._hours = 0
        self._total = 0
        self._problems: list[str] = []
        self._unowed: list[tuple[int, int]] = []  # read; done once nothing is owed to them
        self._better: set[int] = set()  # hours of which the store has what a former go was told

    def without_store(self, first: int, end: float) -> History:
        """Read every hour and keep all in memory."""
        self._total = count_hours(first, end)
        rows: dict[UsageKey, UsageRow] = {}
        rollup = HourRollup(self._source.cluster)
        devices = self._read(rollup, first, end, None, rows)
        return History(list(rows.values()), devices, [*self._problems, *rollup.told()])

    def with_store(self, first: int, end: float) -> History:
        """Fill the store; read what is not settled beside it."""
        store = self._need_store()
        settled = max(first, _settled(end))
        self._total = count_hours(settled, end)
        self.fill(first, settled)
        cluster = self._source.cluster
        rows = {row.key: row for row in store.usage(cluster, first, settled)}
        done = self._done(store)
        counters, known = self._restored(done, settled)
        rollup = HourRollup(cluster, counters)
        devices = {device.gpu_uuid: device for device in store.devices(cluster)}
        for device in self._read(rollup, settled, end, known, rows):
            devices[device.gpu_uuid] = device
        return History(list(rows.values()), list(devices.values()), self._problems)

    def fill(self, first: int, last: int) -> list[str]:
        """Read and keep the hours that the store lacks."""
        store = self._need_store()
        done = self._done(store)
        gaps = in_blocks(gaps_of(done.spans, first, last), last, done.at)
        self._total += sum(count_hours(*gap) for gap in gaps)
        for begin, end in gaps:
            if not self._fill_gap(store, begin, end):
                break
        return self._problems

    def _fill_gap(self, store: Store, begin: int, end: int) -> bool:
        kept = self._done(store)
        counters, known = self._restored(kept, begin)
        # counters of an hour that was told in part are those of its begin
        doubtful = counters is not None and not covers(kept.spans, begin - HOUR_SECONDS)
        if counters is None:
            begin = block_of(begin)
        rollup = HourRollup(self._source.cluster, counters)
        at = begin
        self._unowed.clear()
        self._better.clear()
        try:
            for reading in self._source.hours(begin, end, known=known, complete=False):
                rolled = rollup.add(reading)
                # what an hour's end did not tell is in the next hour's difference, too
                doubtful, unsure = rolled.partial, doubtful or rolled.partial
                self._keep(store, rolled, rollup, done=not (unsure and self._patient(rolled)))
                at = rolled.end
                self._tick()
        except PrometheusError as error:
            if not self._hours:
                raise
            self._problems.append(sentences.stopped(at, str(error)))
            return False
        finally:
            self._problems += rollup.told()
        if at < end:
            self._problems.append(sentences.stopped(at, "the budget of samples is used up"))
        return at >= end

    def _patient(self, rolled: RolledHour) -> bool:
        return self._now - rolled.end < PARTIAL_PATIENCE_SECONDS

    def _keep(self, store: Store, rolled: RolledHour, rollup: HourRollup, *, done: bool) -> None:
        """Write an hour; one that is not ``done`` is asked for again the next time.

        One that was told in full before and now in part stays as it is.
        """
        kept = self._done(store)
        rows: list[UsageRow] = []
        written = done or not covers(kept.spans, rolled.hour)
        if written:
            rows = [*rolled.rows, *self._completed(store, rolled)]
        else:
            self._better.add(rolled.hour)
        newest = written and (kept.at is None or rolled.end >= kept.at)
        if newest:
            kept = msgspec.structs.replace(
                kept, at=rolled.end, counters=encode_state(rollup.counters.state())
            )
        if done:
            self._unowed.append((rolled.hour, rolled.end))
        owed = any(map(awaits, rows)) if done else self._owed(store, rolled.hour, kept.at)
        spans = without(kept.spans, rolled.hour, rolled.end) if owed else kept.spans
        # what an hour still waits for is in the counters of the newest, or came as its block ended
        last = not rolled.end % BLOCK_SECONDS
        came = written if last and not rolled.partial else newest
        if came or (done and last):
            spans = joined((*spans, *self._unowed))
            self._unowed.clear()
        kept = msgspec.structs.replace(kept, spans=spans)
        with store.transaction() as tx:
            tx.put_usage(rows)
            tx.put_devices(rolled.devices)
            tx.put_checkpoint(self._name(), msgspec.msgpack.encode(kept))

    def _owed(self, store: Store, hour: int, at: int | None) -> bool:
        """Whether the histogram of an hour that was read before is not told yet."""
        if block_of(hour) + BLOCK_SECONDS > (at or 0):
            return True
        return any(map(awaits, store.usage(self._source.cluster, hour, hour + HOUR_SECONDS)))

    def _completed(self, store: Store, rolled: RolledHour) -> list[UsageRow]:
        """Rows of earlier hours with the histograms that are told only now, and that they await.

        None of rows that a former go wrote and this one knows less well: it would share out the
        histogram by seconds that are not those of the row.
        """
        late = [one for one in rolled.late if one.key.hour not in self._better]
        hours = sorted({one.key.hour for one in late})
        if not hours:
            return []
        fresh = {row.key for row in rolled.rows}
        wanted = {one.key for one in late} - fresh
        stored = store.usage(self._source.cluster, hours[0], hours[-1] + HOUR_SECONDS)
        rows = {row.key: row for row in stored if row.key in wanted and awaits(row)}
        return completed(rows, late, gputailor.NAME)

    def _read(
        self,
        rollup: HourRollup,
        begin: int,
        end: float,
        known: set[str] | None,
        rows: dict[UsageKey, UsageRow],
    ) -> list[Device]:
        """Read hours into ``rows`` without keeping them; returns the devices."""
        devices: tuple[Device, ...] = ()
        at = float(begin)
        try:
            for reading in self._source.hours(begin, end, known=known):
                rolled = rollup.add(reading)
                rows.update((row.key, row) for row in rolled.rows)
                whole = completed(rows, rolled.late, gputailor.NAME)
                rows.update((row.key, row) for row in whole)
                devices, at = rolled.devices, float(rolled.end)
                self._tick()
        except PrometheusError as error:
            if not self._hours:
                raise
            self._problems.append(sentences.stopped(at, str(error)))
        else:
            if at < int(end):
                self._problems.append(sentences.stopped(at, "the budget of samples is used up"))
        return list(devices)

    def _need_store(self) -> Store:
        if self._store is None:
            raise ValueError("a store is needed")
        return self._store

    def _tick(self) -> None:
        self._hours += 1
        if self._progress is not None:
            self._progress(self._hours, max(self._hours, self._total))

    def _name(self) -> str:
        told = "\n".join(
            [self._source.address, *(f"{k}={v}" for k, v in sorted(self._source.labels.items()))]
        )
        digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        return f"{self._source.cluster}/prometheus/{digest}"

    def _done(self, store: Store) -> _Done:
        body = store.checkpoint(self._name())
        if body is None:
            return _Done()
        try:
            return msgspec.msgpack.decode(body, type=_Done)
        except msgspec.MsgspecError:
            return _Done()  # of another version: everything is read again, which changes nothing

    def _restored(self, done: _Done, at: int) -> tuple[CounterRollup | None, set[str] | None]:
        """Counters as of ``at`` and the nodes they know; None: to be read from the server."""
        if done.at != at or not done.counters:
            return None, None
        try:
            state = decode_state(done.counters)
            return CounterRollup(self._source.cluster, state=state), set(state.exporters)
        except StateError:
            return None, None
