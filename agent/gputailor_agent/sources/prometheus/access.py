"""How a server is reached, what asking it may cost, and what it did cost."""

import re
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Final

import httpx
import msgspec

from gputailor_agent.model.trust import trusting

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token of RFC 9110


class PrometheusError(Exception):
    """The server cannot be asked; the text says what, where and what to do."""


class TooMuchError(PrometheusError):
    """The server, or we, will not load as many samples as one query needs: ask for less of it."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What reading may cost the server.

    ``concurrency``: requests at once. ``samples``: touched in one go; what lies beyond is left for
    the next, but the hour that is being read is finished. ``samples_per_second``: on average, by
    pausing after large queries; None: as fast as it answers. ``answer_bytes``: the most that one
    answer may have, of which all are held in memory; larger ones are asked for in parts.
    """

    concurrency: int = 2
    samples: int = 500_000_000
    samples_per_second: float | None = 500_000.0
    answer_bytes: int = 128 * 2**20


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached. A token file is read again at each request: tokens are rotated.

    ``credentials``: gives headers anew at each request, where somebody else keeps the token fresh.
    ``parameters`` go with each request's URL. ``certificate_file`` and ``key_file``: of a client,
    where the server asks for one.
    """

    bearer_token: str = ""
    bearer_token_file: Path | None = None
    username: str = ""
    password: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    credentials: Callable[[], Mapping[str, str]] | None = None
    verify: bool = True
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    timeout_seconds: float = 60.0
    attempts: int = 5

    def __repr__(self) -> str:
        """Without anything secret, for logs and traces."""
        return f"Access(timeout_seconds={self.timeout_seconds:g}, attempts={self.attempts})"

    def plain_headers(self) -> dict[str, str]:
        """Headers of every request; raises ``PrometheusError`` for those that cannot be sent."""
        if not all(_HEADER_NAME.fullmatch(name) for name in self.headers):
            raise PrometheusError(
                "a header's name has a sign that none may have; expected letters, digits and '-', "
                "as in X-Scope-OrgID"
            )
        return {name: sendable(value, f"header {name}") for name, value in self.headers.items()}

    def auth(self) -> httpx.Auth | None:
        """What adds credentials to a request; None: those of the URL, if any."""
        if self.credentials is not None:
            return _Given(self.credentials)
        if self.bearer_token or self.bearer_token_file is not None:
            return _Given(self._bearer)
        if self.username:
            return httpx.BasicAuth(self.username, self.password)
        return None

    def tls(self) -> bool | ssl.SSLContext:
        """How certificates are looked at; raises ``PrometheusError`` for files of no use."""
        if self.ca_file is None and self.certificate_file is None:
            return self.verify
        context = self._context()
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_file is not None:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file)
            except (OSError, ssl.SSLError) as error:
                raise PrometheusError(
                    f"the client certificate {self.certificate_file} cannot be used: {error}; "
                    "expected PEM files of the certificate and of its key"
                ) from error
        return context

    def _context(self) -> ssl.SSLContext:
        try:
            return trusting(self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise PrometheusError(f"the CA file {self.ca_file} cannot be used: {error}") from error

    def _bearer(self) -> Mapping[str, str]:
        token, file = self.bearer_token, self.bearer_token_file
        if file is not None:
            try:
                token = file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise PrometheusError(
                    f"the bearer token file {file} cannot be read: "
                    f"{getattr(error, 'strerror', None) or error}"
                ) from error
        what = "bearer token" if file is None else f"bearer token file {file}"
        if not token:
            raise PrometheusError(f"the {what} is empty; expected a token")
        return {"Authorization": f"Bearer {sendable(token, what)}"}


def sendable(value: str, what: str) -> str:
    """The value of a header, if it can be one; raises ``PrometheusError``.

    It may be a secret, so the text says where it is wrong and never what it is.
    """
    for place, sign in enumerate(value, 1):
        if not (sign == "\t" or " " <= sign <= "~"):
            named = {"\n": "a line break", "\r": "a line break"}.get(sign, f"U+{ord(sign):04X}")
            raise PrometheusError(
                f"the {what} cannot be sent: its character {place} is {named}; expected one line "
                "of printable ASCII"
            )
    return value


class _Given(httpx.Auth):
    """Adds headers that are made anew for each request."""

    def __init__(self, make: Callable[[], Mapping[str, str]]) -> None:
        self._make = make

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add them."""
        request.headers.update(self._make())
        yield request


class Cost:
    """What was asked so far, and when more may be. Safe to use from several threads.

    ``per_second``: samples that may be touched on average; what a query took is paid for by a pause
    before the next one.
    """

    def __init__(
        self,
        per_second: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.requests = 0
        self.samples = 0
        self._per_second = per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = 0.0
        self._lock = threading.Lock()

    def add(self, samples: int) -> None:
        """Count one request."""
        with self._lock:
            self.requests += 1
            self.samples += samples
            if self._per_second:
                self._free_at = max(self._free_at, self._clock()) + samples / self._per_second

    def wait(self) -> None:
        """Pause until what was touched so far is paid for."""
        if not self._per_second:
            return
        with self._lock:
            pause = self._free_at - self._clock()
        if pause > _SHORTEST_PAUSE_SECONDS:
            self._sleep(pause)


_SHORTEST_PAUSE_SECONDS: Final = 0.005


def base_url(text: str) -> httpx.URL:
    """Address of a server without a trailing slash; raises ``PrometheusError`` for anything else.

    A path is kept: servers live behind prefixes, also of an API server's proxy. ``/api/v1`` at its
    end is left out, and so is a page of the API behind it.
    """
    text = text.strip()
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL as error:
        raise PrometheusError(  # not in its own words: they may hold a part of the password
            f"what was given is no address; {_EXPECTED}; in a password / : @ are %2F %3A %40"
        ) from error
    shown = str(url.copy_with(username=None, password=None, query=None, fragment=None))
    if url.scheme not in {"http", "https"} or not url.host or not 0 <= (url.port or 0) <= _PORTS:
        raise PrometheusError(f"{shown!r} is no address; {_EXPECTED}")
    if url.query or url.fragment:
        raise PrometheusError(
            f"{shown} was given with more behind a '?' or '#'; {_EXPECTED}, and query parameters "
            "by --prometheus-parameter"
        )
    path = _PAGE.sub("", url.path.rstrip("/")).rstrip("/")
    return url.copy_with(path=path or "/")


_EXPECTED: Final = "expected http://host:9090 or https://…"
_PORTS: Final = 65_535
_PAGE: Final = re.compile(r"/api/v1(/(query|query_range|series|labels|targets|status/\w+))?$")
