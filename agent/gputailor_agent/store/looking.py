"""An SQLite file read without a byte being written, beside it or in it.

SQLite reads a file with a write-ahead log by a small file of locks beside it, and folds the log in
when the last reader goes: looking changes what is looked at, and cannot be done at all on a medium
that takes no writes. Where no log lies beside the file it is therefore read as one that never
changes (``immutable``, https://www.sqlite.org/uri.html), and whether it did change is looked at
afterwards; where one lies, a writer is at work or was killed, and the file is opened read-only
together with its log.
"""

import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from gputailor_agent.store.presence import MovedError

_OVERTAKEN: Final = "an agent began to write to it while it was read; try again"


class Look(sqlite3.Connection):
    """A connection; ``seen``: what the file was like when it was taken for unchanging."""

    seen: tuple[int, ...] | None = None
    file: Path


def reading_engine(url: URL, file: Path) -> Engine:
    """An engine over a file that is there, which it leaves as it is.

    Each transaction decides anew how the file can be read, since a writer may come and go.
    """
    engine = create_engine(url, creator=partial(_look_at, file), poolclass=NullPool)
    event.listen(engine, "commit", _unchanged)
    return engine


def _look_at(file: Path) -> Look:
    log = file.with_name(f"{file.name}-wal")
    try:
        logged = log.stat().st_size
    except OSError:
        return _opened(file, immutable=True)
    found = _opened(file, immutable=False)
    try:
        found.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        found.close()
        if not logged:
            return _opened(file, immutable=True)
        if "unable to open" in str(error):
            raise sqlite3.OperationalError(
                f"unable to open the write-ahead log beside it ({log.name}), which holds what was "
                f"written last: it needs {file.name}-shm, which cannot be made here. Copy both "
                "files to a folder that this user may write to, and name that one"
            ) from error
        raise
    return found


def _opened(file: Path, *, immutable: bool) -> Look:
    how = "mode=ro&immutable=1" if immutable else "mode=ro"
    seen = _signs(file) if immutable else None
    found = sqlite3.connect(
        f"file:{quote(str(file.absolute()))}?{how}",
        uri=True,
        factory=Look,
        check_same_thread=False,
    )
    found.file, found.seen = file, seen
    return found


def _signs(file: Path) -> tuple[int, ...]:
    """What changes when the file does."""
    there = os.stat(file)  # noqa: PTH116 - beside presence.py, which asks the same way
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns


def _unchanged(connection: Connection) -> None:
    """Raise ``MovedError`` where an unchanging file has changed: what was read may not fit."""
    look: Any = connection.connection.driver_connection
    if isinstance(look, Look) and look.seen is not None and _signs(look.file) != look.seen:
        raise MovedError(_OVERTAKEN)
