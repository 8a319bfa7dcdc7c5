"""Sums up days that are over, and drops what is older than it is kept.

A day is summed up some hours after its end. That is done in transactions of a few thousand rows, so
that nobody waits for the whole of it and a crash in the middle leaves a state that reads the same:
each takes hourly rows out and puts the day's row of the same container and device in. Hours that
arrive later are folded in by the next pass, in place of those that the day had.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    exists,
    func,
    select,
    tuple_,
    update,
)

from gputailor_agent.model.packed import DAY_SECONDS, PackedHour, Place
from gputailor_agent.store import tables
from gputailor_agent.store.periods import day_of
from gputailor_agent.store.store import Store
from gputailor_agent.store.stored import (
    PLACE,
    as_place,
    day_columns,
    hours_columns,
    stored_hour,
    stored_hours,
)
from gputailor_agent.store.tasks import drop_old_periods
from gputailor_agent.store.usage import usage_columns_of
from gputailor_agent.store.writing import Transaction

#: Rows may come late by so much without being late: counters of the day's end are read after it.
SETTLE_SECONDS: Final = 2 * 3600.0
KEEP_DAYS: Final = 400.0

#: Containers and devices summed up in one transaction.
_BATCH: Final = 500

#: What is dropped when it was not seen for as long as usage is kept.
_SEEN: Final = (
    (tables.pods, "seen_at"),
    (tables.nodes, "seen_at"),
    (tables.owners, "seen_at"),
    (tables.workloads, "seen_at"),
    (tables.runs, "seen_at"),
    (tables.assignments, "seen_at"),
    (tables.devices, "last_seen"),
    (tables.findings, "made_at"),
)


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass did."""

    days: int = 0  # days that were summed up or got later hours
    hours: int = 0  # hourly rows that went into days
    dropped: int = 0  # rows of all kinds that were older than they are kept


def compact(store: Store, cluster: str, now: float, *, keep_days: float = KEEP_DAYS) -> Compacted:
    """Sum up the days of ``cluster`` that are over at ``now`` (Unix seconds), drop what is old.

    Costs next to nothing where there is nothing to do: to be called hourly. Raises ``StoreError``.
    """
    oldest = day_of(now - keep_days * DAY_SECONDS)
    with store.transaction() as tx:
        dropped = _drop(tx.connection, cluster, oldest)
        drop_old_periods(tx, cluster, oldest)
        days = list(_due(tx.connection, cluster, day_of(now - SETTLE_SECONDS)))
    hours = sum(_sum_up(store, cluster, day) for day in days)
    return Compacted(days=len(days), hours=hours, dropped=dropped)


def _due(connection: Connection, cluster: str, end: int) -> Iterator[int]:
    """Yield days before ``end`` that have hourly rows."""
    table = tables.usage_hourly
    at = -(2**62)
    while True:  # from day to day by the index: hours are many, days are few
        query = select(func.min(table.c.hour)).where(
            table.c.cluster == cluster, table.c.hour >= at, table.c.hour < end
        )
        hour = connection.scalar(query)
        if hour is None:
            return
        yield day_of(hour)
        at = day_of(hour) + DAY_SECONDS


def _sum_up(store: Store, cluster: str, day: int) -> int:
    """Sum up one day; returns how many hourly rows went into it."""
    with store.transaction() as tx:
        tx.upsert(tables.usage_days, [{"cluster": cluster, "day": day, "pending": True}])
    moved, last = 0, None
    while True:
        with store.transaction(snapshot=True) as tx:
            places = _places(tx.connection, cluster, day, last)
            if places:
                moved += _sum_up_places(tx, cluster, day, places[0], places[-1])
        if not places:
            break
        last = places[-1]
    with store.transaction() as tx:
        _close(tx.connection, cluster, day)
    return moved


def _places(connection: Connection, cluster: str, day: int, after: Place | None) -> list[Place]:
    """Return the next containers and devices with hourly rows of a day, by key."""
    table = tables.usage_hourly
    key = [table.c[name] for name in PLACE]
    query = select(*key).where(_hours_of(cluster, day)).distinct().order_by(*key).limit(_BATCH)
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*after))
    return [as_place(record) for record in connection.execute(query)]


def _sum_up_places(tx: Transaction, cluster: str, day: int, first: Place, last: Place) -> int:
    """Sum up the containers and devices from ``first`` to ``last``; returns how many rows went."""
    hourly, folded = tables.usage_hourly, tables.usage_day_hours
    inside = and_(_hours_of(cluster, day), _between(hourly, first, last))
    fresh: dict[Place, dict[int, PackedHour]] = defaultdict(dict)
    moved = 0
    for record in tx.connection.execute(select(*usage_columns_of(hourly)).where(inside)):
        hour = stored_hour(record[5:])
        fresh[as_place(record)][hour.hour] = hour
        moved += 1
    known = select(*(folded.c[name] for name in (*PLACE, "hours"))).where(
        folded.c.cluster == cluster, folded.c.day == day, _between(folded, first, last)
    )
    for record in tx.connection.execute(known):
        place = as_place(record)
        if place in fresh:
            own = {hour.hour: hour for hour in stored_hours(record[5])}
            fresh[place] = own | fresh[place]
    whole = [(cluster, day, place, list(hours.values())) for place, hours in fresh.items()]
    tx.upsert(tables.usage_daily, [day_columns(*one) for one in whole])
    tx.upsert(folded, [hours_columns(*one) for one in whole])
    tx.connection.execute(delete(hourly).where(inside))
    return moved


def _hours_of(cluster: str, day: int) -> ColumnElement[bool]:
    hour = tables.usage_hourly.c.hour
    return and_(tables.usage_hourly.c.cluster == cluster, hour >= day, hour < day + DAY_SECONDS)


def _between(table: Table, first: Place, last: Place) -> ColumnElement[bool]:
    key = tuple_(*(table.c[name] for name in PLACE))
    return and_(key >= tuple_(*first), key <= tuple_(*last))


def _close(connection: Connection, cluster: str, day: int) -> None:
    """Note whether hours of the day came meanwhile; who writes one waits, or is seen."""
    days = tables.usage_days
    this = and_(days.c.cluster == cluster, days.c.day == day)
    connection.execute(select(days.c.day).where(this).with_for_update())
    later = connection.scalar(select(exists().where(_hours_of(cluster, day))))
    connection.execute(update(days).where(this).values(pending=bool(later)))


def _drop(connection: Connection, cluster: str, oldest: int) -> int:
    """Drop what is older than ``oldest`` (Unix seconds, the start of a day)."""
    olds = [
        (tables.usage_daily, tables.usage_daily.c.day),
        (tables.usage_day_hours, tables.usage_day_hours.c.day),
        (tables.usage_days, tables.usage_days.c.day),
        (tables.usage_hourly, tables.usage_hourly.c.hour),
        *((table, table.c[column]) for table, column in _SEEN),
    ]
    dropped = 0
    for table, at in olds:
        found = connection.execute(delete(table).where(table.c.cluster == cluster, at < oldest))
        dropped += found.rowcount
    return dropped
