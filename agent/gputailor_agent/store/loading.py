"""Upserts of many rows: COPY into a scratch table on PostgreSQL, one prepared statement on SQLite.

Rows of the same key in one call count as written one after another: the last one stays.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Insert, Select, Table, column, select, text
from sqlalchemy import table as scratch_table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

#: From so many rows on what is made for many (COPY's three statements) is worth its beginning.
_MANY_ROWS: Final = 200


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[dict[str, Any]],
    newest: str = "",
    more: dict[str, Any] | None = None,
) -> None:
    """Insert or replace by key; with ``newest``, never by a row older in that column.

    ``more``: columns to set from what is there when a row is replaced. All rows have the same
    columns.
    """
    if not rows:
        return
    keys = [column.name for column in table.primary_key.columns]
    ordered = _last_of_each(rows, keys, newest)
    given = list(ordered[0])

    def resolved(insert: Any) -> Insert:
        fresh = insert.excluded
        changed: Insert = insert.on_conflict_do_update(
            index_elements=keys,
            set_={name: fresh[name] for name in given if name not in keys} | (more or {}),
            where=(fresh[newest] >= table.c[newest]) if newest else None,
        )
        return changed

    if connection.dialect.name != "postgresql":
        insert = resolved(sqlite.insert(table))
        if more or len(ordered) < _MANY_ROWS:
            connection.execute(insert, ordered)
        else:
            _prepared(connection, insert, given, ordered)
    elif len(ordered) < _MANY_ROWS:
        connection.execute(resolved(postgresql.insert(table)), ordered)
    else:
        copied = _copied(connection, table, given, ordered)
        connection.execute(resolved(postgresql.insert(table).from_select(given, copied)))


def _last_of_each(
    rows: Sequence[dict[str, Any]], keys: list[str], newest: str
) -> list[dict[str, Any]]:
    """Rows by key, so that two writers never wait for each other crosswise."""
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        if not newest or key not in last or row[newest] >= last[key][newest]:
            last[key] = row
    return [last[key] for key in sorted(last)]


def _prepared(
    connection: Connection, insert: Insert, names: list[str], rows: Sequence[dict[str, Any]]
) -> None:
    """Hand rows to the driver as they are: their types are SQLite's own."""
    compiled: Any = insert.compile(dialect=connection.dialect, column_keys=names)
    order = itemgetter(*compiled.positiontup)
    connection.exec_driver_sql(str(compiled), [order(row) for row in rows])


def _copied(
    connection: Connection, table: Table, names: list[str], rows: Sequence[dict[str, Any]]
) -> Select[Any]:
    """Return a query of the rows, which lie in a table of this connection until its commit."""
    scratch = scratch_table(f"scratch_{table.name}", *(column(name) for name in names))
    connection.execute(
        text(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {scratch.name} (LIKE {table.name}) "
            "ON COMMIT DELETE ROWS"
        )
    )
    connection.execute(text(f"TRUNCATE {scratch.name}"))
    statement = f"COPY {scratch.name} ({', '.join(names)}) FROM STDIN"
    driver: Any = connection.connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row([row[name] for name in names])
    except connection.dialect.loaded_dbapi.Error as error:  # past SQLAlchemy, which would wrap it
        raise DBAPIError(statement, None, error) from error
    return select(scratch)
