"""Opens a database, makes or migrates its tables, and says clearly why it cannot.

SQLite: write-ahead log (readers never wait for the writer), full sync (what was committed survives
a power cut), a busy timeout, and ``BEGIN IMMEDIATE`` for writers, so that two of them queue instead
of failing half-way. A file of another program is never touched: ours carries an application id.
"""

import sqlite3
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from gputailor_agent.store.presence import MovedError, Presence
from gputailor_agent.store.tables import SCHEMA

#: "GPUt", in the header of our SQLite files.
APPLICATION_ID: Final = 0x47505574
BUSY_SECONDS: Final = 30.0
MEMORY: Final = "sqlite://"

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

_HINTS: Final = {
    "file is not a database": "it is no SQLite file, or it is damaged: move it away or restore "
    "a copy",
    "malformed": "it is damaged: move it away or restore a copy",
    "unable to open": "check that the folder exists and that this user may write to it",
    "readonly": "this user may not write to the file or its folder",
    "read-only": "this user may not write to it",
    "locked": "another process holds it in the middle of writing; stop that one or try again",
    "disk is full": "make room on the disk",
    "No space left": "make room on the database's disk",
    "disk I/O error": "is the disk full, a quota reached, or the file on a network share?",
    "statement timeout": "the database is too slow or overloaded; it is tried again later",
    "lock timeout": "another session holds what is to be written; it is tried again later",
    "could not serialize": "another session wrote the same; it is tried again later",
    "refused": "is the database running, and are host and port right?",
    "resolve host": "is the host's name right?",
    "authentication": "give the password by a file (PGPASSFILE or passfile= in the URL)",
    "password": "give the password by a file (PGPASSFILE or passfile= in the URL)",
    "permission denied": "grant this user the right to create and write tables in its schema",
    "does not exist": "create the database and the user, then try again",
    "terminat": "the database went away; the agent connects again by itself",
    "closed": "the database went away; the agent connects again by itself",
}

_LOCKED: Final = ("database is locked", "lock timeout")

_VERSION_TABLE: Final = "alembic_version"


class StoreError(Exception):
    """The store cannot be used; the text says where, why and what to do."""


class StoreLockedError(StoreError):
    """Another process is writing and does not end: the same may work later."""


def store_url(where: str | Path) -> URL:
    """Return the URL of a file path or of a database URL; raises ``StoreError``."""
    text_form = str(where)
    if "://" not in text_form:
        return URL.create("sqlite", database=str(Path(text_form).expanduser()))
    scheme, _, rest = text_form.partition("://")
    if scheme in {"postgres", "postgresql"}:  # as other programs write it
        text_form = f"postgresql+psycopg://{rest}"
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


def sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite store; None for one in memory, or of another kind.

    ``sqlite:///file:NAME?…&uri=true`` is SQLite's own way to name a file with options
    (https://www.sqlite.org/uri.html): the scheme is no folder.
    """
    name = url.database or ""
    if url.get_backend_name() != "sqlite" or name in {"", ":memory:"}:
        return None
    if name.startswith("file:") and url.query.get("uri"):
        if url.query.get("mode") == "memory":
            return None
        name = unquote(urlsplit(name).path)
    return Path(name) if name and name != ":memory:" else None


def shown(url: URL) -> str:
    """The URL without passwords, wherever in it they stand."""
    query = {name: "***" if "password" in name else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def open_engine(where: str | Path) -> Engine:
    """Open the store at a path or URL, with its tables at the newest schema."""
    url = store_url(where)
    name = shown(url)
    file = sqlite_file(url)
    if file is not None:
        name = str(file)
        _prepare_folder(file)
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
        raise explained_on(error, name) from error
    except StoreError:
        engine.dispose()
        raise
    if file is not None:
        presence = Presence(file)
        event.listen(engine, "do_connect", presence.connecting)
        event.listen(engine, "begin", presence.beginning, insert=True)
    return engine


def _engine(url: URL) -> Engine:
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
        connect_args={} if "options" in url.query else _POSTGRESQL,
    )


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


def snapshots(engine: Engine) -> Engine:
    """Return the engine for transactions that see one state from their start to their end."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ")


def vacuum(engine: Engine) -> None:
    """Give free space back to the disk; raises ``StoreError``."""
    try:
        if engine.dialect.name == "sqlite":  # past SQLAlchemy, which would begin a transaction
            raw: Any = engine.raw_connection()
            try:
                raw.driver_connection.execute("VACUUM")
            finally:
                raw.close()
            return
        own = engine.execution_options(isolation_level="AUTOCOMMIT")
        with own.connect() as connection:
            connection.exec_driver_sql("VACUUM (ANALYZE)")
    except (DBAPIError, sqlite3.Error) as error:
        raise explained(error, engine) from error


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


def explained_on(error: Exception, name: str) -> StoreError:
    """Return a clear error for a failure of the store that is called ``name``."""
    cause = " ".join(str(getattr(error, "orig", error)).split())
    if isinstance(error, MovedError):
        return StoreError(f"the store {name} cannot be used: {cause}")
    hint = next((hint for part, hint in _HINTS.items() if part in cause), "check the address")
    kind = StoreLockedError if any(word in cause for word in _LOCKED) else StoreError
    return kind(f"the store {name} cannot be used: {cause}; {hint}")


def explained(error: Exception, engine: Engine) -> StoreError:
    """Return a clear error for a failure of an open store."""
    url = engine.url
    sqlite = url.get_backend_name() == "sqlite"
    return explained_on(error, str(url.database) if sqlite else shown(url))
