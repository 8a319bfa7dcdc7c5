"""A file that is read again when it has changed, as mounted Secrets do without a word.

What cannot be read any more lets nobody in: the former content may be what was to be taken back.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from gputailor_agent.api.doors.scopes import AccessError

Content = TypeVar("Content")

log = logging.getLogger(__name__)

#: Larger than any such file is.
_LARGEST_BYTES = 1_048_576


class Followed(Generic[Content]):
    """The content of a file as it is now; ``parse`` may raise ``AccessError``."""

    def __init__(
        self, path: Path, parse: Callable[[str, str], Content], nothing: Content, setting: str
    ) -> None:
        """``setting`` names the file to people; ``nothing``: what an unreadable file stands for."""
        self.path = path
        self._parse = parse
        self._nothing = nothing
        self._setting = setting
        self._seen: tuple[int, ...] | None = None
        self._content = nothing
        self._lock = threading.Lock()

    def read(self) -> Content:
        """Read it now; raises ``AccessError`` for what cannot be used."""
        try:
            text = self.path.read_bytes()[: _LARGEST_BYTES + 1].decode()
        except (OSError, UnicodeDecodeError) as error:
            raise AccessError(f"{self._setting}: cannot read {self.path}: {error}") from error
        return self._parse(text, f"{self._setting}: {self.path}")

    def now(self) -> Content:
        """Its content as it is now; nothing, and a line in the log, where that cannot be used."""
        with self._lock:
            stamp = self._stamp()
            if stamp is None or stamp != self._seen:
                self._seen = stamp
                try:
                    self._content = self.read()
                except AccessError as error:
                    log.error("%s; nobody is let in by it", error)  # noqa: TRY400 - no fault of ours
                    self._content = self._nothing
            return self._content

    def _stamp(self) -> tuple[int, ...] | None:
        """What changes with the file, whether it is written anew or another takes its place."""
        try:
            state = self.path.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_size
