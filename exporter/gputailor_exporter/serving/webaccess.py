"""Who may read the pages, by the web-config file as it stands now.

The file and what it names are looked at with each connection and request (a ``stat`` each), so that
a new certificate or password counts at once. A file that is broken leaves in force what was there
before: it is counted, said once, and tried again.
"""

import ipaddress
import logging
import os
import threading
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gputailor_exporter.serving.webconfig import WebConfig, WebConfigError, load_web_config

log = logging.getLogger(__name__)

#: Label values of ``exporter_errors_total``.
SOURCE: Final = "web_config"
UNUSABLE: Final = "unusable"

#: How soon a broken file is read again although it did not change.
RETRY_SECONDS: Final = 10.0

#: Answers of bcrypt that are kept, right ones and wrong ones each.
MOST_REMEMBERED: Final = 256

#: bcrypt reads no more of a password.
_BCRYPT_BYTES: Final = 72

_Signature = tuple[tuple[int, ...] | None, ...]


class BasicAuth:
    """Checks Authorization headers; remembers its answers, for bcrypt is slow on purpose."""

    def __init__(self, users: Mapping[str, bytes]) -> None:
        """``users`` maps names to bcrypt hashes; empty: everyone may come in."""
        self._users = users
        self._salt = os.urandom(16)
        self._right: dict[bytes, None] = {}  # keyed digests of name and password
        self._wrong: dict[bytes, None] = {}
        self._turn = threading.Lock()  # one bcrypt at a time: a flood must not eat the node's CPU

    def allows(self, header: str | None, seconds: float = 60.0) -> bool:
        """Return whether the header names a known user with the right password.

        Raises ``TimeoutError`` when too many others are asking to know within ``seconds``.
        """
        if not self._users:
            return True
        given = _credentials(header)
        if given is None:
            return False
        import hashlib  # noqa: PLC0415 - it loads OpenSSL, 3 MB that a node without passwords saves

        # A keyed digest tells nothing by the time that its comparison takes.
        digest = hashlib.blake2b(b":".join(given), key=self._salt).digest()
        if digest in self._right or digest in self._wrong:
            return digest in self._right
        if not self._turn.acquire(timeout=seconds):
            raise TimeoutError("passwords are being checked")
        try:
            right = self._matches(*given)
            known = self._right if right else self._wrong
            if len(known) >= MOST_REMEMBERED:
                known.pop(next(iter(known)))
            known[digest] = None
        finally:
            self._turn.release()
        return right

    def _matches(self, name: bytes, password: bytes) -> bool:
        import bcrypt  # noqa: PLC0415 - only who asks for passwords needs the library

        # An unknown user costs the same time as a known one.
        user = name.decode("utf-8", "replace")
        hashed = self._users.get(user) or next(iter(self._users.values()))
        try:
            right = bcrypt.checkpw(password[:_BCRYPT_BYTES], hashed)
        except ValueError:  # a password with a zero byte
            return False
        return right and user in self._users


def _credentials(header: str | None) -> tuple[bytes, bytes] | None:
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
    except (Base64Error, ValueError):
        return None
    return (name, password) if colon else None


class TokenBucket:
    """Lets ``burst`` requests through at once and then one each ``interval`` seconds."""

    def __init__(self, interval: float, burst: int) -> None:
        """``interval`` 0: no limit."""
        self._interval = interval
        self._burst = float(burst)
        self._tokens = self._burst
        self._at: float | None = None
        self._turn = threading.Lock()

    def take(self, now: float) -> bool:
        """Return whether a request at monotonic time ``now`` may pass."""
        if not self._interval:
            return True
        with self._turn:
            spent = 0.0 if self._at is None else max(0.0, now - self._at)
            self._tokens = min(self._burst, self._tokens + spent / self._interval)
            self._at = now
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True


class Rules:
    """One reading of the file with what is remembered about it."""

    def __init__(self, config: WebConfig) -> None:
        """Start without remembered passwords and with a full bucket."""
        self.config = config
        self.auth = BasicAuth(config.users)
        self.bucket = TokenBucket(config.rate_interval_seconds, config.rate_burst)


class WebAccess:
    """The rules in force; read again when one of their files changed."""

    def __init__(
        self,
        config: WebConfig,
        on_error: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``on_error`` is told source and reason when a changed file cannot be used."""
        self._rules = Rules(config)
        self._on_error = on_error
        self._clock = clock
        self._turn = threading.Lock()
        self._seen: _Signature = ()  # the first request reads it once more: it may be old by then
        self._said: tuple[_Signature, str] | None = None  # the failure that was counted
        self._retry_at: float | None = None  # the file is broken

    def rules(self) -> Rules:
        """Return the rules now; never waits for another thread that is reading the file."""
        if self._rules.config.files and self._turn.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._turn.release()
        return self._rules

    def _refresh(self) -> None:
        config = self._rules.config
        seen = _signature(config.files)
        due = self._retry_at is not None and self._clock() >= self._retry_at
        if seen == self._seen and not due:
            return
        self._seen = seen  # taken before the reading: what changes meanwhile is seen next time
        try:
            found = load_web_config(config.files[0], may_be_empty=False)
        except WebConfigError as error:
            self._retry_at = self._clock() + RETRY_SECONDS
            if self._said != (seen, str(error)):
                self._said = (seen, str(error))
                log.error("%s; what was in force before stays", error)  # noqa: TRY400 - in words
                self._on_error(SOURCE, UNUSABLE)
            return
        self._rules = Rules(found)
        if found.files != config.files:
            self._seen = ()  # once more, for files that were not looked at before they were read
        self._said = self._retry_at = None
        log.info("%s was read again", config.files[0])


def _signature(files: tuple[Path, ...]) -> _Signature:
    """What changes when a file is written, replaced, or led elsewhere by a link."""
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def may_enter(certificate: Mapping[str, Any] | None, allowed: tuple[str, ...]) -> bool:
    """Return whether a verified client certificate (``getpeercert()``) carries an allowed name."""
    if not allowed:
        return True
    names = (certificate or {}).get("subjectAltName", ())
    return any(_plain(kind, name) in allowed for kind, name in names)


def _plain(kind: str, name: str) -> str:
    """An IP address as people write it: OpenSSL writes those of IPv6 out in full."""
    try:
        return str(ipaddress.ip_address(name.strip())) if kind == "IP Address" else name
    except ValueError:
        return name
