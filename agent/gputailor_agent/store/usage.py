"""Reading usage: whole days as sums, everything else hour by hour.

A UTC day that is over is kept as one row per container and device (``usage_daily``), its hours
folded away beside it (``usage_day_hours``). Hourly rows of such a day came later: each counts in
place of the same hour of the day, until compaction folds it in. What is read is therefore the same
before, during and after compaction.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    and_,
    cast,
    func,
    literal,
    not_,
    or_,
    select,
    tuple_,
)

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


class _Sought(NamedTuple):
    """Whose use is read: of these pods (namespace, name), and of these devices without a pod."""

    pods: Sequence[tuple[str, str]]
    devices: Sequence[str]


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


class UsageReading:
    """One cluster's use inside a reading transaction: it stays as it was at its beginning."""

    def __init__(self, connection: Connection, cluster: str) -> None:
        self._connection = connection
        self._cluster = cluster

    def rows(self, start: float, end: float) -> Iterator[UsageRow]:
        """Yield rows of every hour that touches [start, end), in no stated order."""
        cluster = self._cluster
        for span in self._spans(start, end):
            if span.day is None:
                for record in self._hours(span):
                    yield row_of(cluster, as_place(record), stored_hour(record[5:]))
                continue
            for place, hours in self._of_day(span, with_all=True):
                for hour in hours:
                    yield row_of(cluster, place, hour)

    def parts(
        self,
        start: float,
        end: float,
        pods: Sequence[tuple[str, str]] | None = None,
        devices: Sequence[str] = (),
    ) -> Iterator[StoredUse]:
        """Yield the same use as ``rows``, whole days summed up wherever they are kept so.

        ``pods``: only theirs (namespace, name), and that of ``devices`` (UUIDs) which the source
        gave to no pod.
        """
        sought = None if pods is None else _Sought(pods, devices)
        for span in self._spans(start, end):
            if span.day is None:
                yield from self._hour_parts(span, sought)
                continue
            later: Later = {}
            if span.whole:
                later = self._later(span, sought) if span.pending else {}
                yield from self._whole_day(span, later, sought)
            for place, hours in self._of_day(span, with_all=not span.whole, sought=sought):
                for hour in hours:
                    yield (
                        row_of(self._cluster, place, hour)
                        if _held_by_nobody(place)
                        else (place, part_of(hour))
                    )

    def pods(self, start: float, end: float) -> set[tuple[str, str]]:
        """Return namespace and name of each pod with use; two empty ones for use without a pod."""
        found: set[tuple[str, str]] = set()
        for span in self._spans(start, end):
            tables_of_it = [tables.usage_hourly]
            if span.day is not None:
                tables_of_it = [tables.usage_day_hours, *tables_of_it[: int(span.pending)]]
            for table in tables_of_it:
                query = select(table.c.namespace, table.c.pod).where(self._inside(table, span))
                found.update(
                    (one[0], one[1]) for one in _stream(self._connection, query.distinct())
                )
        return found

    def _hour_parts(self, span: _Span, sought: _Sought | None) -> Iterator[StoredUse]:
        for record in self._hours(span, sought):
            place = as_place(record)
            if _held_by_nobody(place):
                yield row_of(self._cluster, place, stored_hour(record[5:]))
            else:
                yield place, hour_part(record[5:])

    def _whole_day(self, span: _Span, later: Later, sought: _Sought | None) -> Iterator[StoredUse]:
        """Yield a day's sums, without those that later hours change and those without a pod."""
        table = tables.usage_daily
        query = select(*usage_columns_of(table)).where(
            self._inside(table, span, sought), not_(_nobody(table))
        )
        for record in _stream(self._connection, query):
            place = as_place(record)
            if place not in later:
                yield place, day_part(record[5:])

    def _of_day(
        self, span: _Span, *, with_all: bool, sought: _Sought | None = None
    ) -> Iterator[tuple[Place, list[PackedHour]]]:
        """Yield hours inside the span of a day that is summed up, later ones in place of its own.

        Without ``with_all`` only what ``_whole_day`` leaves out.
        """
        later = self._later(span, sought) if span.pending else {}
        table = tables.usage_day_hours
        query = select(*(table.c[name] for name in (*PLACE, "hours"))).where(
            self._inside(table, span, sought)
        )
        if not with_all and not later:
            query = query.where(_nobody(table))
        for record in _stream(self._connection, query):
            place = as_place(record)
            fresh = later.pop(place, {})
            if not (with_all or fresh or _held_by_nobody(place)):
                continue
            known = {hour.hour: hour for hour in stored_hours(record[5])} | fresh
            yield place, [hour for at, hour in known.items() if span.start <= at < span.end]
        for place, fresh in later.items():
            yield place, list(fresh.values())

    def _later(self, span: _Span, sought: _Sought | None) -> Later:
        found: Later = defaultdict(dict)
        for record in self._hours(span, sought):
            hour = stored_hour(record[5:])
            found[as_place(record)][hour.hour] = hour
        return dict(found)

    def _hours(self, span: _Span, sought: _Sought | None = None) -> Iterator[Any]:
        table = tables.usage_hourly
        query = select(*usage_columns_of(table)).where(self._inside(table, span, sought))
        return _stream(self._connection, query)

    def _inside(
        self, table: Table, span: _Span, sought: _Sought | None = None
    ) -> ColumnElement[bool]:
        """Whether a record is of the cluster, of the span, and of whom is sought."""
        sqlite = self._connection.dialect.name == "sqlite"
        when: ColumnElement[int] = table.c["hour" if table is tables.usage_hourly else "day"]
        if sqlite and sought is not None:
            when = when + literal(0)  # keeps SQLite from reading the whole span by its index
        here = table.c.cluster == self._cluster
        if table is tables.usage_hourly:
            here = and_(here, when >= span.start, when < span.end)
        else:
            here = and_(here, when == span.day)
        if sought is None:
            return here
        whose = _pods_among(table, sought.pods, sqlite=sqlite)
        if sought.devices:
            nobody = and_(_nobody(table), _devices_among(table, sought.devices, sqlite=sqlite))
            whose = or_(whose, nobody)
        return and_(here, whose)

    def _spans(self, start: float, end: float) -> list[_Span]:
        """Return the hours that touch [start, end), cut into summed-up days and the rest."""
        first = int(start // HOUR_SECONDS) * HOUR_SECONDS
        last = -int(-end // HOUR_SECONDS) * HOUR_SECONDS
        table = tables.usage_days
        query = (
            select(table.c.day, table.c.pending)
            .where(
                table.c.cluster == self._cluster,
                table.c.day > first - DAY_SECONDS,
                table.c.day < last,
            )
            .order_by(table.c.day)
        )
        days = [(day, pending) for day, pending in self._connection.execute(query)]
        return list(_cut(first, last, days))


def _pods_among(
    table: Table, pods: Sequence[tuple[str, str]], *, sqlite: bool
) -> ColumnElement[bool]:
    """Whether a record's pod is among these; thousands of them travel as one value."""
    if sqlite:
        each = func.json_each(json.dumps(pods)).table_valued("value")
        names = (func.json_extract(each.c.value, "$[0]"), func.json_extract(each.c.value, "$[1]"))
        listed = select(*names)
    else:
        columns = (cast([pod[place] for pod in pods], ARRAY(Text)) for place in (0, 1))
        both = func.unnest(*columns).table_valued("namespace", "pod").render_derived()
        listed = select(both.c.namespace, both.c.pod)
    return tuple_(table.c.namespace, table.c.pod).in_(listed)


def _devices_among(table: Table, devices: Sequence[str], *, sqlite: bool) -> ColumnElement[bool]:
    if sqlite:
        each = func.json_each(json.dumps(devices)).table_valued("value")
        return table.c.gpu_uuid.in_(select(each.c.value))
    each = func.unnest(cast(list(devices), ARRAY(Text))).table_valued("value").render_derived()
    return table.c.gpu_uuid.in_(select(each.c.value))


def usage_columns_of(table: Table) -> list[Column[Any]]:
    """Columns of a usage table in the order that ``store.stored`` reads them: whose, when, what."""
    time = "day" if table is tables.usage_daily else "hour"
    return [table.c[name] for name in (*PLACE, time, *FIGURES, "detail")]


def _held_by_nobody(place: Place) -> bool:
    """Whether the source named no pod: whose use it was is found hour by hour."""
    return not place[0] and not place[1]


def _nobody(table: Table) -> ColumnElement[bool]:
    return and_(table.c.namespace == "", table.c.pod == "")


def _stream(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    with connection.execution_options(yield_per=_BATCH).execute(query) as result:
        yield from result


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
