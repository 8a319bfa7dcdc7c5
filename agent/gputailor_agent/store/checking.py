"""Whether a store is sound: the database's own check, then what only this program can tell."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

import msgspec
from sqlalchemy import Connection, Table, and_, exists, func, select

from gputailor_agent.model.sums import sum_of_hours
from gputailor_agent.store import reading, tables
from gputailor_agent.store.stored import EDGES_VERSION, day_part, stored_hour, stored_hours, time_of
from gputailor_agent.store.usage import usage_columns_of

#: Damage that is told one by one.
_MOST_TOLD: Final = 20
_BATCH: Final = 1000


class ClusterContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds of one cluster; the span in Unix seconds."""

    cluster: str
    hours: int
    days: int
    first: int | None
    last: int | None


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found; ``problems`` are sentences, none where the store is sound."""

    database: str  # "sqlite" or "postgresql"
    schema: str
    size_bytes: int
    clusters: tuple[ClusterContents, ...]
    problems: tuple[str, ...]


def damage(connection: Connection, *, quick: bool = False) -> list[str]:
    """Return what SQLite's own check finds; PostgreSQL checks its pages when it reads them.

    ``quick`` leaves out whether indexes agree with their tables.
    """
    if connection.dialect.name != "sqlite":
        return []
    pragma = "quick_check" if quick else "integrity_check"
    found = connection.exec_driver_sql(f"PRAGMA {pragma}({_MOST_TOLD})").scalars()
    return [str(line) for line in found if line != "ok"]


def check(connection: Connection) -> Checkup:
    """Read every row of usage once and tell what is there and what is wrong with it."""
    problems = damage(connection)
    if not problems:
        told = chain(
            _rows(connection, tables.usage_hourly),
            _rows(connection, tables.usage_daily),
            _strays(connection),
        )
        problems = list(islice(told, _MOST_TOLD))
    return Checkup(
        database=connection.dialect.name,
        schema=tables.SCHEMA,
        size_bytes=_size(connection),
        clusters=tuple(_contents(connection, name) for name in reading.clusters(connection)),
        problems=tuple(problems),
    )


def _size(connection: Connection) -> int:
    if connection.dialect.name == "sqlite":
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one())
    return int(connection.scalar(select(func.pg_database_size(func.current_database()))) or 0)


def _contents(connection: Connection, cluster: str) -> ClusterContents:
    def count(table: Table) -> int:
        query = select(func.count()).select_from(table).where(table.c.cluster == cluster)
        return int(connection.scalar(query) or 0)

    span = reading.usage_span(connection, cluster)
    return ClusterContents(
        cluster=cluster,
        hours=count(tables.usage_hourly),
        days=count(tables.usage_daily),
        first=None if span is None else span[0],
        last=None if span is None else span[1],
    )


def _rows(connection: Connection, table: Table) -> Iterator[str]:
    """Yield rows that cannot be read, or whose sums are not those of their hours."""
    daily, folded = table is tables.usage_daily, tables.usage_day_hours
    query = select(table.c.cluster, *usage_columns_of(table), table.c.histogram_edges)
    if daily:
        same = and_(*(key == table.c[key.name] for key in folded.primary_key.columns))
        query = query.add_columns(folded.c.hours).outerjoin(folded, same)
    for record in connection.execution_options(yield_per=_BATCH).execute(query):
        cluster, place, body = record[0], record[1:6], record[6:16]
        where = f"{table.name}: {cluster}/{'/'.join(place)} at {time_of(body[0])}"
        if record[16] != EDGES_VERSION:
            yield f"{where}: its histogram has edges of version {record[16]}, not {EDGES_VERSION}"
            continue
        try:
            wrong = _differs(body, record[17]) if daily else not stored_hour(body)
        except (msgspec.MsgspecError, ValueError, IndexError) as error:
            yield f"{where}: it cannot be read: {error}"
            continue
        if wrong:
            yield f"{where}: its sums are not those of its hours"


def _differs(record: tuple[object, ...], blob: bytes | None) -> bool:
    return blob is None or day_part(record) != sum_of_hours(stored_hours(blob))


def _strays(connection: Connection) -> Iterator[str]:
    """Yield days that nobody would read as days."""
    daily, days = tables.usage_daily, tables.usage_days
    known = exists().where(days.c.cluster == daily.c.cluster, days.c.day == daily.c.day)
    query = select(daily.c.cluster, daily.c.day).where(~known).distinct()
    for cluster, day in connection.execute(query):
        yield f"usage_daily: {cluster} has rows of {time_of(day)}, which is not noted as a day"
