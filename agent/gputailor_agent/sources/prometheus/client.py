"""The HTTP API of Prometheus and of what speaks like it, with care for the server.

Queries go as POST forms (long selectors do not fit a URL). 429 and 503 are waited out with growing
pauses, as is a lost connection; everything else is told with what to do. ``Cost`` counts requests
and, where the server says so (``stats=all``), the samples its engine touched.
"""

import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import httpx
import msgspec

from gputailor_agent.sources.prometheus import answers
from gputailor_agent.sources.prometheus.answers import Matrix, Vector

T = TypeVar("T")
U = TypeVar("U")

_RETRIED: Final = frozenset({429, 503})
_LONGEST_PAUSE_SECONDS: Final = 30.0
_EXCERPT: Final = 200
_ADVICE: Final = {
    401: "the credentials are missing or wrong: give a bearer token or user and password",
    403: "these credentials may not query: ask for read access to the API",
    404: "is this the base address of a Prometheus (without /api/v1)?",
    413: "the proxy in front refuses long queries",
    422: "the server refuses the size of the query (--query.max-samples)",
}


class PrometheusError(Exception):
    """The server cannot be asked; the text says what, where and what to do."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What reading may cost the server: requests at once, and samples touched in one go.

    What lies beyond ``samples`` is left for the next go; the hour that is being read is finished.
    """

    concurrency: int = 2
    samples: int = 500_000_000


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached. A token file is read again at each request: tokens are rotated."""

    bearer_token: str = ""
    bearer_token_file: Path | None = None
    username: str = ""
    password: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    verify: bool = True
    ca_file: Path | None = None
    timeout_seconds: float = 60.0
    attempts: int = 5

    def __repr__(self) -> str:
        """Without anything secret, for logs and traces."""
        return f"Access(timeout_seconds={self.timeout_seconds:g}, attempts={self.attempts})"


class Cost:
    """What was asked so far. Safe to add to from several threads."""

    def __init__(self) -> None:
        self.requests = 0
        self.samples = 0
        self._lock = threading.Lock()

    def add(self, samples: int) -> None:
        """Count one request."""
        with self._lock:
            self.requests += 1
            self.samples += samples


class _Bearer(httpx.Auth):
    """Sends a token, from a file anew at each request."""

    def __init__(self, token: str, file: Path | None) -> None:
        self._token = token
        self._file = file

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        token = self._token if self._file is None else self._read(self._file)
        request.headers["Authorization"] = f"Bearer {token}"
        yield request

    @staticmethod
    def _read(file: Path) -> str:
        try:
            return file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise PrometheusError(
                f"the bearer token file {file} cannot be read: {error.strerror or error}"
            ) from error


def _auth(access: Access) -> httpx.Auth | None:
    if access.bearer_token or access.bearer_token_file is not None:
        return _Bearer(access.bearer_token, access.bearer_token_file)
    if access.username:
        return httpx.BasicAuth(access.username, access.password)
    return None


def _verify(access: Access) -> bool | ssl.SSLContext:
    if access.ca_file is None or not access.verify:
        return access.verify
    try:
        return ssl.create_default_context(cafile=access.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise PrometheusError(f"the CA file {access.ca_file} cannot be used: {error}") from error


def base_url(text: str) -> httpx.URL:
    """Address of a server without a trailing slash; raises ``PrometheusError`` for anything else.

    A path is kept: servers live behind prefixes.
    """
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL as error:
        raise PrometheusError(f"{text!r} is no address: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise PrometheusError(f"{text!r} is no address; expected http://host:9090 or https://…")
    return url.copy_with(path=url.path.rstrip("/").removesuffix("/api/v1") or "/")


class PrometheusClient:
    """One server. Close it, or use it as a context manager; safe for several threads."""

    def __init__(
        self,
        url: str,
        access: Access,
        *,
        concurrency: int = 2,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._base = base_url(url)
        self.shown = str(self._base.copy_with(username=None, password=None)).rstrip("/")
        self.cost = Cost()
        self._access = access
        self._sleep = sleep
        self._method = "POST"
        self._client = httpx.Client(
            auth=_auth(access),
            headers={"User-Agent": "gputailor-agent", **access.headers},
            timeout=httpx.Timeout(access.timeout_seconds, connect=10.0),
            verify=_verify(access) if transport is None else True,
            transport=transport,
            limits=httpx.Limits(max_connections=concurrency),
        )
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="prometheus")

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of connections and threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def each(self, work: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """Do the work for each item, as many at once as allowed; the order is kept."""
        return list(self._pool.map(work, items))

    def query(self, expression: str, at: float) -> Vector:
        """Evaluate at one time (Unix seconds)."""
        return self._ask(
            "query", {"query": expression, "time": f"{at:.3f}"}, answers.VECTOR, expression
        )

    def query_raw(self, expression: str, at: float) -> Matrix:
        """Evaluate a range selector at one time: raw samples."""
        return self._ask(
            "query", {"query": expression, "time": f"{at:.3f}"}, answers.MATRIX, expression
        )

    def query_range(self, expression: str, start: float, end: float, step: float) -> Matrix:
        """Evaluate at each step from ``start`` to ``end``, both included."""
        form = {
            "query": expression,
            "start": f"{start:.3f}",
            "end": f"{end:.3f}",
            "step": f"{step:g}",
        }
        return self._ask("query_range", form, answers.MATRIX, expression)

    def series(self, selector: str, start: float, end: float) -> list[dict[str, str]]:
        """Label sets that may have samples in the time; touches none."""
        form = {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        return self._ask("series", form, answers.LABEL_SETS, selector)

    def metric_names(self, selector: str, start: float, end: float) -> list[str]:
        """Names of the metrics that a selector finds in the time."""
        form = {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        return self._ask("label/__name__/values", form, answers.NAMES, selector, method="GET")

    def _ask(
        self,
        path: str,
        form: dict[str, str],
        decoder: msgspec.json.Decoder[T],
        what: str,
        method: str | None = None,
    ) -> T:
        if path.startswith("query"):
            form |= {"stats": "all", "timeout": f"{self._access.timeout_seconds:g}s"}
        response = self._send(path, form, method)
        try:
            envelope = answers.ENVELOPE.decode(response.content)
            if envelope.status != "success":
                raise PrometheusError(
                    f"{self.shown} refused {_short(what)}: {envelope.error or envelope.error_type}"
                    f"{_advice(response.status_code)}"
                )
            data = decoder.decode(envelope.data)
        except msgspec.MsgspecError as error:
            raise PrometheusError(self._stranger(response, error)) from error
        samples = answers.touched(data)
        self.cost.add(_returned(data) if samples is None else samples)
        return data

    def _send(self, path: str, form: Mapping[str, str], method: str | None) -> httpx.Response:
        url = f"{str(self._base).rstrip('/')}/api/v1/{path}"
        for attempt in range(1, self._access.attempts + 1):
            last = attempt == self._access.attempts
            pause = min(_LONGEST_PAUSE_SECONDS, 0.5 * 2.0**attempt)
            try:
                response = self._once(url, form, method or self._method)
            except httpx.TransportError as error:
                if last or not isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
                    raise PrometheusError(self._unreachable(error)) from error
            else:
                if response.status_code not in _RETRIED:
                    return response
                if last:
                    raise PrometheusError(
                        f"{self.shown} answered {response.status_code} {attempt} times: it is "
                        "overloaded; try later, or lower the concurrency"
                    )
                pause = min(_LONGEST_PAUSE_SECONDS, max(pause, _told_pause(response)))
            self._sleep(pause)
        raise PrometheusError(f"{self.shown}: no attempt was allowed")

    def _once(self, url: str, form: Mapping[str, str], method: str) -> httpx.Response:
        if method == "POST":
            response = self._client.post(url, data=form)
            if response.status_code != httpx.codes.METHOD_NOT_ALLOWED:
                return response
            self._method = "GET"  # a proxy that lets only reading through
        return self._client.get(url, params=form)

    def _unreachable(self, error: httpx.TransportError) -> str:
        if isinstance(error, httpx.TimeoutException):
            return (
                f"{self.shown} did not answer within {self._access.timeout_seconds:g} s; "
                "try later, or raise the timeout"
            )
        text = str(error) or type(error).__name__
        tls = "certificate" in text.lower() or "ssl" in text.lower()
        advice = "give the CA that signed it" if tls else "is the address right and reachable?"
        return f"{self.shown} cannot be reached: {text}; {advice}"

    def _stranger(self, response: httpx.Response, error: msgspec.MsgspecError) -> str:
        said = " ".join(response.text.split())[:_EXCERPT]
        if response.is_success:
            return (
                f"{self.shown} is no Prometheus API ({error}); it began: {said!r}"
                " - perhaps a login page stands in front"
            )
        reason = f"{response.status_code} {response.reason_phrase}"
        return f"{self.shown} answered {reason}{_advice(response.status_code)} ({said!r})"


def _advice(status: int) -> str:
    return f"; {_ADVICE[status]}" if status in _ADVICE else ""


def _short(text: str) -> str:
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"


def _told_pause(response: httpx.Response) -> float:
    try:
        return max(0.0, float(response.headers.get("Retry-After", "0")))
    except ValueError:
        return 0.0


def _returned(data: Any) -> int:
    """Values in an answer: the least its query can have touched."""
    result = getattr(data, "result", None)
    if not result:
        return 0
    return sum(len(one.values) for one in result) if isinstance(data, Matrix) else len(result)
