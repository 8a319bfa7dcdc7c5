"""Opens a database, makes or migrates its tables, and says clearly why it cannot.

SQLite: write-ahead log (readers never wait for the writer), full sync (what was committed survives
a power cut), a busy timeout, and ``BEGIN IMMEDIATE`` for writers, so that two of them queue instead
of failing half-way. A file of another program is never touched: ours carries an application id.
"""

import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from gputailor_agent.store.tables import SCHEMA

#: "GPUt", in the header of our SQLite files.
APPLICATION_ID: Final = 0x47505574
BUSY_SECONDS: Final = 30.0
MEMORY: Final = "sqlite://"

_VERSION_TABLE: Final = "alembic_version"


class StoreError(Exception):
    """The store cannot be used; the text says where, why and what to do."""


def store_url(where: str | Path) -> URL:
    """Return the URL of a file path or of a database URL; raises ``StoreError``."""
    text_form = str(where)
    if "://" not in text_form:
        return URL.create("sqlite", database=str(Path(text_form).expanduser()))
    try:
        url = make_url(text_form)
    except ArgumentError as error:
        raise StoreError(
            f"the store's address {text_form!r} is no database URL; write a file path, "
            "sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
        ) from error
    if url.get_backend_name() not in {"sqlite", "postgresql"}:
        raise StoreError(
            f"the store cannot be a {url.get_backend_name()} database; use SQLite or PostgreSQL"
        )
    return url


def open_engine(where: str | Path) -> Engine:
    """Open the store at a path or URL, with its tables at the newest schema."""
    url = store_url(where)
    name = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite" and url.database not in {None, "", ":memory:"}:
        name = str(url.database)
        _prepare_folder(Path(name))
    try:
        engine = _engine(url)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise StoreError(f"no driver for {name} is installed: {error}") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    try:
        _bring_up(engine, name)
    except (DBAPIError, sqlite3.Error) as error:
        engine.dispose()
        raise _explained(error, name) from error
    except StoreError:
        engine.dispose()
        raise
    return engine


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}:
        shared = {"check_same_thread": False}
        return create_engine(url, poolclass=StaticPool, connect_args=shared)
    return create_engine(url, pool_pre_ping=url.get_backend_name() != "sqlite")


def _prepare_folder(path: Path) -> None:
    if path.is_dir():
        raise StoreError(f"{path} is a folder; name a file in it, e.g. {path / 'gputailor.db'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {path.parent} for the store cannot be made: {error.strerror}; "
            "name another file"
        ) from error


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # SQLAlchemy begins and ends transactions, not the driver
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("gputailor_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def writer(engine: Engine) -> Engine:
    """Return the engine for transactions that write: on SQLite they queue at their start."""
    return engine.execution_options(gputailor_writes=True)


def _bring_up(engine: Engine, name: str) -> None:
    with engine.begin() as connection:
        if _schema(connection, name) == SCHEMA:
            return
    with writer(engine).begin() as connection:  # another process may have migrated meanwhile
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


def _explained(error: Exception, name: str) -> StoreError:
    cause = str(getattr(error, "orig", error))
    hints = {
        "file is not a database": "it is no SQLite file, or it is damaged: move it away or restore "
        "a copy",
        "malformed": "it is damaged: move it away or restore a copy",
        "unable to open": "check that the folder exists and that this user may write to it",
        "readonly": "this user may not write to the file or its folder",
        "read-only": "this user may not write to the file or its folder",
        "locked": "another process holds it; stop that one or name another file",
        "disk is full": "make room on the disk",
        "disk I/O error": "is the disk full, a quota reached, or the file on a network share?",
    }
    hint = next((hint for part, hint in hints.items() if part in cause), "check the address")
    return StoreError(f"the store {name} cannot be used: {cause.strip()}; {hint}")


def explained(error: DBAPIError, engine: Engine) -> StoreError:
    """Return a clear error for a failure of an open store."""
    url = engine.url
    return _explained(error, str(url.database or url.render_as_string(hide_password=True)))
