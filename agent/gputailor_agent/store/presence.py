"""An SQLite store's file stays the one that was opened.

A file that is deleted or moved while it is open goes on to exist for whoever has it open, and for
nobody else: all that is written to it from then on would be lost without a word, and a connection
opened later would begin an empty one in its place. So each transaction and each new connection look
whether the name still leads to the same file. Where it does not, nothing is read or written until
the file is back.
"""

import os
from pathlib import Path
from typing import Any

from sqlalchemy import Connection


class MovedError(OSError):
    """The file is not there any more, or another one is; the text says what to do."""


class Presence:
    """Minds one file that exists now."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = self._found()

    def check(self) -> None:
        """Raise ``MovedError`` unless the name leads to the file it led to at first."""
        found = self._found()
        if found == self._known:
            return
        if found is None:
            raise MovedError(
                "its file was deleted or moved while it was open; put it back, or restart to "
                "begin a new one. Until then nothing is written"
            )
        raise MovedError(
            "another file was put in its place while it was open; restart to go on with that one. "
            "Until then nothing is written (a copy is best put there while nobody has it open)"
        )

    def connecting(self, *_: Any) -> None:
        """Check before a connection is opened; it would make an empty file."""
        self.check()

    def beginning(self, _: Connection) -> None:
        """Check before a transaction."""
        self.check()

    def _found(self) -> tuple[int, int] | None:
        try:
            seen = os.stat(self._file)  # noqa: PTH116 - it is asked for each transaction
        except OSError:
            return None
        return seen.st_dev, seen.st_ino
