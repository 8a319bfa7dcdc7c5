"""Reading usage: whole days as sums, everything else hour by hour.

A UTC day that is over is kept as one row per container and device (``usage_daily``), its hours
folded away beside it (``usage_day_hours``). Hourly rows of such a day came later: each counts in
place of the same hour of the day, until compaction folds it in. What is read is therefore the same
before, during and after compaction.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, and_, not_, select

from gputailor_agent.model.packed import DAY_SECONDS, PackedHour, Place, PlacedPart, part_of, row_of
from gputailor_agent.model.usage import HOUR_SECONDS, UsageRow
from gputailor_agent.store import tables
from gputailor_agent.store.stored import (
    FIGURES,
    PLACE,
    as_place,
    day_part,
    hour_part,
    stored_hour,
    stored_hours,
)

#: Use of one container and device, an hour's or a day's; without a pod: as the row itself.
StoredUse = PlacedPart | UsageRow
#: Hours of one place that came after its day was summed up.
Later = dict[Place, dict[int, PackedHour]]

_BATCH: Final = 2000


class _Span(NamedTuple):
    """Hours of [start, end) of one kind."""

    start: int
    end: int
    day: int | None = None  # its day is summed up
    pending: bool = False  # ... and hours came later

    @property
    def whole(self) -> bool:
        """Whether it is a whole day that is summed up."""
        return self.day is not None and self.end - self.start == DAY_SECONDS


def usage_rows(
    connection: Connection, cluster: str, start: float, end: float
) -> Iterator[UsageRow]:
    """Yield rows of every hour that touches [start, end), in no stated order."""
    for span in _spans(connection, cluster, start, end):
        if span.day is None:
            for record in _hours(connection, cluster, span):
                yield row_of(cluster, as_place(record), stored_hour(record[5:]))
            continue
        for place, hours in _of_day(connection, cluster, span, with_all=True):
            for hour in hours:
                yield row_of(cluster, place, hour)


def usage_parts(
    connection: Connection, cluster: str, start: float, end: float
) -> Iterator[StoredUse]:
    """Yield the same use as ``usage_rows``, whole days summed up wherever they are kept so."""
    for span in _spans(connection, cluster, start, end):
        if span.day is None:
            yield from _hour_parts(connection, cluster, span)
            continue
        later: Later = {}
        if span.whole:
            later = _later(connection, cluster, span) if span.pending else {}
            yield from _whole_day(connection, cluster, span, later)
        for place, hours in _of_day(connection, cluster, span, with_all=not span.whole):
            for hour in hours:
                yield (
                    row_of(cluster, place, hour)
                    if _held_by_nobody(place)
                    else (place, part_of(hour))
                )


def _hour_parts(connection: Connection, cluster: str, span: _Span) -> Iterator[StoredUse]:
    for record in _hours(connection, cluster, span):
        place = as_place(record)
        if _held_by_nobody(place):
            yield row_of(cluster, place, stored_hour(record[5:]))
        else:
            yield place, hour_part(record[5:])


def _whole_day(
    connection: Connection, cluster: str, span: _Span, later: Later
) -> Iterator[StoredUse]:
    """Yield the sums of a day, without those that later hours change and those without a pod."""
    table = tables.usage_daily
    query = select(*usage_columns_of(table)).where(
        table.c.cluster == cluster, table.c.day == span.day, not_(_nobody(table))
    )
    for record in _stream(connection, query):
        place = as_place(record)
        if place not in later:
            yield place, day_part(record[5:])


def _of_day(
    connection: Connection, cluster: str, span: _Span, *, with_all: bool
) -> Iterator[tuple[Place, list[PackedHour]]]:
    """Yield hours inside the span of a day that is summed up, later ones in place of its own.

    Without ``with_all`` only what ``_whole_day`` leaves out.
    """
    later = _later(connection, cluster, span) if span.pending else {}
    table = tables.usage_day_hours
    query = select(*(table.c[name] for name in (*PLACE, "hours"))).where(
        table.c.cluster == cluster, table.c.day == span.day
    )
    if not with_all and not later:
        query = query.where(_nobody(table))
    for record in _stream(connection, query):
        place = as_place(record)
        fresh = later.pop(place, {})
        if not (with_all or fresh or _held_by_nobody(place)):
            continue
        known = {hour.hour: hour for hour in stored_hours(record[5])} | fresh
        yield place, [hour for at, hour in known.items() if span.start <= at < span.end]
    for place, fresh in later.items():
        yield place, list(fresh.values())


def usage_columns_of(table: Table) -> list[Column[Any]]:
    """Columns of a usage table in the order that ``store.stored`` reads them: whose, when, what."""
    time = "day" if table is tables.usage_daily else "hour"
    return [table.c[name] for name in (*PLACE, time, *FIGURES, "detail")]


def _held_by_nobody(place: Place) -> bool:
    """Whether the source named no pod: whose use it was is found hour by hour."""
    return not place[0] and not place[1]


def _nobody(table: Table) -> ColumnElement[bool]:
    return and_(table.c.namespace == "", table.c.pod == "")


def _later(connection: Connection, cluster: str, span: _Span) -> Later:
    found: Later = defaultdict(dict)
    for record in _hours(connection, cluster, span):
        hour = stored_hour(record[5:])
        found[as_place(record)][hour.hour] = hour
    return dict(found)


def _hours(connection: Connection, cluster: str, span: _Span) -> Iterator[Any]:
    table = tables.usage_hourly
    return _stream(
        connection,
        select(*usage_columns_of(table)).where(
            table.c.cluster == cluster, table.c.hour >= span.start, table.c.hour < span.end
        ),
    )


def _stream(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    return iter(connection.execution_options(yield_per=_BATCH).execute(query))


def _spans(connection: Connection, cluster: str, start: float, end: float) -> list[_Span]:
    """Return the hours that touch [start, end), cut into days that are summed up and the rest."""
    first = int(start // HOUR_SECONDS) * HOUR_SECONDS
    last = -int(-end // HOUR_SECONDS) * HOUR_SECONDS
    table = tables.usage_days
    query = (
        select(table.c.day, table.c.pending)
        .where(table.c.cluster == cluster, table.c.day > first - DAY_SECONDS, table.c.day < last)
        .order_by(table.c.day)
    )
    return list(_cut(first, last, [(day, pending) for day, pending in connection.execute(query)]))


def _cut(first: int, last: int, days: Sequence[tuple[int, bool]]) -> Iterator[_Span]:
    at = first
    for day, pending in days:
        if at < day:
            yield _Span(at, day)
        stop = min(last, day + DAY_SECONDS)
        yield _Span(max(at, day), stop, day, pending)
        at = stop
    if at < last:
        yield _Span(at, last)
