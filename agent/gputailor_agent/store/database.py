"""Where a store is, how transactions are begun, and in words why one cannot be used."""

import sqlite3
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from sqlalchemy import Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from gputailor_agent.model.addresses import public
from gputailor_agent.store.presence import MovedError

#: "GPUt", in the header of our SQLite files.
APPLICATION_ID: Final = 0x47505574
BUSY_SECONDS: Final = 30.0
MEMORY: Final = "sqlite://"

_HINTS: Final = {
    "file is not a database": "it is no SQLite file, or it is damaged: move it away or restore "
    "a copy",
    "malformed": "it is damaged: move it away or restore a copy",
    "unable to open": "check that the folder exists and that this user may write to it",
    "read-only transaction": "this command only reads; another one is needed to write",
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
    "permission denied": "grant this user the right to read the tables (commands that read need "
    "no more), an agent the right to create and write them in its schema",
    "does not exist": "create the database and the user, then try again",
    "QueuePool": "all connections are in use, or none can be had; it is tried again later",
    "terminat": "the database went away; the agent connects again by itself",
    "closed": "the database went away; the agent connects again by itself",
}

_LOCKED: Final = ("database is locked", "lock timeout")


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
    except (ArgumentError, ValueError) as error:  # the second: a port that is no number
        raise StoreError(
            f"the store's address {public(text_form)!r} is no database URL; write a file path, "
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


def named(where: str | Path) -> str:
    """A store as messages name it: its file, or its address without passwords."""
    url = store_url(where)
    file = sqlite_file(url)
    return shown(url) if file is None else str(file)


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
