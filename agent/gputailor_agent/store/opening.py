"""Opens a database, makes or migrates its tables, and says clearly why it cannot.

Opened for reading it is left as it is, to the byte, and a role that may only read is enough.

SQLite: write-ahead log (readers never wait for the writer), full sync (what was committed survives
a power cut), a busy timeout, and ``BEGIN IMMEDIATE`` for writers, so that two of them queue instead
of failing half-way. A file of another program is never touched: ours carries an application id, and
is read before anything is set in it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from gputailor_agent.store.database import (
    APPLICATION_ID,
    BUSY_SECONDS,
    StoreError,
    explained_on,
    named,
    sqlite_file,
    store_url,
    writer,
)
from gputailor_agent.store.looking import reading_engine
from gputailor_agent.store.presence import MovedError, Presence
from gputailor_agent.store.tables import SCHEMA

_RECYCLE_SECONDS: Final = 1800
#: Set for each connection unless the URL has ``options`` of its own: nothing hangs for good.
_POSTGRESQL: Final[dict[str, Any]] = {
    "application_name": "gputailor",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "options": f"-c statement_timeout=600s -c lock_timeout={BUSY_SECONDS:.0f}s "
    "-c idle_in_transaction_session_timeout=600s",
}


_VERSION_TABLE: Final = "alembic_version"
#: A file that a writer begins with while it is looked at is looked at again.
_LOOKS: Final = 3


def check_place(where: str | Path) -> None:
    """Raise ``StoreError`` for an address at which there can be no store; touches nothing."""
    url = store_url(where)
    file = sqlite_file(url)
    if file is not None:
        _check_folder(file)
    with _telling(named(where)):
        url.get_dialect().import_dbapi()


def schema_of(where: str | Path) -> str | None:
    """The schema of a store that is there, which is left as it is; None for an empty database.

    Raises ``StoreError`` for a damaged, foreign or newer one.
    """
    url = store_url(where)
    return _schema_at(url, sqlite_file(url), named(where))


def _schema_at(url: URL, file: Path | None, name: str) -> str | None:
    if file is not None:
        _check_folder(file)
        if not file.exists():
            raise StoreError(f"{name} does not exist; gputailor serve --store … makes it")
    with _telling(name):
        engine = _reader(url, file)
        try:
            return _seen(engine, name)
        finally:
            engine.dispose()


def open_engine(where: str | Path, *, reading: bool = False) -> Engine:
    """Open the store at a path or URL, with its tables at the newest schema.

    ``reading``: nothing is made, migrated or written, not even beside it. Either way a database
    that is not ours is refused as it is.
    """
    url, name = store_url(where), named(where)
    file = sqlite_file(url)
    engine = _to_read(url, file, name) if reading else _to_write(url, file, name)
    if file is not None:
        presence = Presence(file)
        event.listen(engine, "do_connect", presence.connecting)
        event.listen(engine, "begin", presence.beginning, insert=True)
    return engine


def _to_read(url: URL, file: Path | None, name: str) -> Engine:
    found = _schema_at(url, file, name)
    if found is None:
        raise StoreError(
            f"{name} is empty, no agent has written to it yet; it was left as it is. gputailor "
            "serve --store … makes a store of it"
        )
    if found != SCHEMA:
        raise StoreError(
            f"{name} was written by an older GPU Tailor (schema {found}, this one reads {SCHEMA}) "
            "and is left as it is: the agent brings it up to date when it starts, without one "
            "gputailor store upgrade does"
        )
    with _telling(name):
        return _reader(url, file)


def _to_write(url: URL, file: Path | None, name: str) -> Engine:
    if file is not None:
        _make_folder(file)
        if file.exists() and file.stat().st_size:
            _schema_at(url, file, name)
    with _telling(name):
        engine = _writer(url)
        try:
            _bring_up(engine, name)
        except BaseException:
            engine.dispose()
            raise
    return engine


@contextmanager
def _telling(name: str) -> Iterator[None]:
    """Within: what a driver says against the store called ``name`` becomes a ``StoreError``."""
    try:
        yield
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise StoreError(f"no driver for {name} is installed: {error}") from error
    except (DBAPIError, sqlite3.Error, MovedError) as error:
        raise explained_on(error, name) from error


def _reader(url: URL, file: Path | None) -> Engine:
    """An engine that writes nothing. Who gives a ``file:`` URI has chosen its options."""
    if file is not None and not url.query.get("uri"):
        engine = reading_engine(url, file)
    else:
        engine = _engine(url, f"{_POSTGRESQL['options']} -c default_transaction_read_only=on")
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_reader)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _writer(url: URL) -> Engine:
    engine = _engine(url, _POSTGRESQL["options"])
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_writer)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _engine(url: URL, options: str) -> Engine:
    if url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}:
        shared = {"check_same_thread": False}
        return create_engine(url, poolclass=StaticPool, connect_args=shared)
    if url.get_backend_name() == "sqlite":
        return create_engine(url)
    # A connection that went (a restart, a fail-over, a firewall) is found out and made anew.
    return create_engine(
        url,
        pool_pre_ping=True,
        pool_recycle=_RECYCLE_SECONDS,
        pool_size=4,
        max_overflow=4,
        pool_timeout=BUSY_SECONDS,
        connect_args={} if "options" in url.query else {**_POSTGRESQL, "options": options},
    )


def _check_folder(path: Path) -> None:
    if path.is_dir():
        raise StoreError(f"{path} is a folder; name a file in it, e.g. {path / 'gputailor.db'}")


def _make_folder(path: Path) -> None:
    _check_folder(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {path.parent} for the store cannot be made: {error.strerror}; "
            "name another file"
        ) from error


def _configure_reader(connection: Any, _record: object) -> None:
    _set(connection, f"busy_timeout = {int(BUSY_SECONDS * 1000)}", "query_only = ON")


def _configure_writer(connection: Any, _record: object) -> None:
    _set(
        connection,
        f"busy_timeout = {int(BUSY_SECONDS * 1000)}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    )


def _set(connection: Any, *pragmas: str) -> None:
    connection.isolation_level = None  # SQLAlchemy begins and ends transactions, not the driver
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("gputailor_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _seen(engine: Engine, name: str) -> str | None:
    for look in range(1, _LOOKS + 1):
        try:
            with engine.begin() as connection:
                return _schema(connection, name)
        except MovedError:
            if look == _LOOKS:
                raise
    return None


def _bring_up(engine: Engine, name: str) -> None:
    with engine.begin() as connection:
        if _schema(connection, name) == SCHEMA:
            return
    with writer(engine).begin() as connection:  # another process may have migrated meanwhile
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(APPLICATION_ID)))
        if _schema(connection, name) != SCHEMA:
            _migrate(connection)


def _schema(connection: Connection, name: str) -> str | None:
    """Return the schema's version, None for an empty database; raises for a foreign one."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    own = "usage_hourly" in tables and _VERSION_TABLE in tables
    if connection.dialect.name == "sqlite":
        marked = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        own = own and marked == APPLICATION_ID
    if not own:
        raise StoreError(
            f"{name} is a database of another program (tables: {', '.join(sorted(tables)[:5])}); "
            "name another file, it was left as it is"
        )
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if version is not None and str(version) > SCHEMA:
        raise StoreError(
            f"{name} was written by a newer GPU Tailor (schema {version}, this one knows "
            f"{SCHEMA}); upgrade gputailor or name another file"
        )
    return None if version is None else str(version)


def _migrate(connection: Connection) -> None:
    from gputailor_agent.store.migrating import upgrade  # noqa: PLC0415 - Alembic takes 0.2 s to load

    upgrade(connection)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
