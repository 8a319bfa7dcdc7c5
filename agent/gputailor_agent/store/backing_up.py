"""A copy of an SQLite store that is consistent, made while it is in use."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine

from gputailor_agent.store.database import StoreError, explained, explained_on, shown
from gputailor_agent.store.presence import MovedError


def backup(engine: Engine, target: Path) -> None:
    """Copy the store to ``target``, which must not exist; it appears whole or not at all.

    Raises ``StoreError``.
    """
    if engine.dialect.name != "sqlite":
        raise StoreError(
            "a PostgreSQL store is backed up with PostgreSQL's own tools: "
            f"pg_dump --format=custom --file={target} "
            f"'{shown(engine.url.set(drivername='postgresql'))}'"
        )
    if target.exists():
        raise StoreError(f"{target} is there already; name a new file, nothing was overwritten")
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        with engine.begin() as connection, closing(sqlite3.connect(part)) as copy:
            source = connection.connection.driver_connection
            assert isinstance(source, sqlite3.Connection)
            source.backup(copy)  # in one step: a reader, whom a writer does not wait for
        _sync(part)
        part.replace(target)
    except sqlite3.Error as error:
        part.unlink(missing_ok=True)
        raise explained_on(error, str(target)) from error
    except MovedError as error:
        part.unlink(missing_ok=True)
        raise explained(error, engine) from error
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"the copy {target} cannot be made: {error.strerror}") from error


def _sync(path: Path) -> None:
    """Wait until the file is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
