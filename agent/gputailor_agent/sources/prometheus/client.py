"""The HTTP API of Prometheus and of what speaks like it, with care for the server.

Queries go as POST forms (long selectors do not fit a URL). Busy servers (429, 502, 503, 504), lost
connections and answers that break off are tried again with growing, uneven pauses; everything else
is told with what to do. A query too large for the server is asked for in halves of its time.
``Cost`` counts requests and, where the server says so (``stats=all``), the samples its engine
touched. ``take_partial`` tells which answers the server itself called incomplete.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self, TypeVar

import httpx
import msgspec

from gputailor_agent.sources.prometheus import answers
from gputailor_agent.sources.prometheus.access import (
    Access,
    Budget,
    Cost,
    PrometheusError,
    TooMuchError,
    base_url,
)
from gputailor_agent.sources.prometheus.answers import Matrix, Vector
from gputailor_agent.sources.prometheus.failing import (
    BUSY,
    TOO_LARGE,
    advice,
    broken_off,
    overloaded,
    shortened,
    stranger,
    told_pause,
    too_much,
    unreachable,
)

__all__ = ["Access", "Budget", "Cost", "PrometheusClient", "PrometheusError", "base_url"]

T = TypeVar("T")
U = TypeVar("U")

#: How often each question is asked where servers behind one address tell different things.
LOOKS: Final = 4

_LONGEST_PAUSE_SECONDS: Final = 30.0
_SHORTEST_SPAN_SECONDS: Final = 60.0
_PASSING: Final = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.DecodingError)
_ONLY_READING: Final = frozenset({httpx.codes.METHOD_NOT_ALLOWED, httpx.codes.FORBIDDEN})


class PrometheusClient:
    """One server. Close it, or use it as a context manager; safe for several threads.

    ``clock`` (Unix seconds) is held against the server's; ``jitter`` gives numbers in 0..1.
    """

    def __init__(
        self,
        url: str,
        access: Access,
        *,
        budget: Budget | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._budget = budget or Budget()
        self._base = base_url(url)
        self.shown = str(self._base.copy_with(username=None, password=None)).rstrip("/")
        self.cost = Cost(self._budget.samples_per_second, sleep=sleep)
        #: Our clock less the server's, as of the last answer that told the time (to a second).
        self.skew_seconds: float | None = None
        #: How often each question is asked: more than once where servers behind one address differ.
        self.looks = 1
        self._partial: dict[str, None] = {}
        self._noting = threading.Lock()
        self._access = access
        self._sleep, self._jitter, self._clock = sleep, jitter, clock
        self._method = "POST"
        self._client = httpx.Client(
            auth=access.auth(),
            headers={"User-Agent": "gputailor-agent", **access.plain_headers()},
            params=access.parameters,
            timeout=httpx.Timeout(access.timeout_seconds, connect=10.0),
            verify=access.tls() if transport is None else True,
            transport=transport,
            limits=httpx.Limits(max_connections=self._budget.concurrency),
        )
        self._pool = ThreadPoolExecutor(self._budget.concurrency, thread_name_prefix="prometheus")

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
        if self.looks > 1:  # one after another, so that questions come to each server in turn
            return [work(item) for item in items]
        return list(self._pool.map(work, items))

    def take_partial(self) -> tuple[str, ...]:
        """Return why answers were incomplete since it was last asked, in the server's words."""
        with self._noting:
            told, self._partial = tuple(self._partial), {}
        return told

    def query(self, expression: str, at: float) -> Vector:
        """Evaluate at one time (Unix seconds)."""
        form = {"query": expression, "time": f"{at:.3f}"}
        return self._looking(
            lambda: self._ask("query", form, answers.VECTOR, expression), answers.newest
        )

    def query_raw(self, expression: str, at: float) -> Matrix:
        """Evaluate a range selector at one time: raw samples."""
        form = {"query": expression, "time": f"{at:.3f}"}
        return self._looking(
            lambda: self._ask("query", form, answers.MATRIX, expression), answers.joined
        )

    def samples(self, selector: str, seconds: float, at: float) -> Matrix:
        """Raw samples of a selector in so many seconds up to ``at``, in parts where need be.

        Some servers count the sample at the very begin of the span, some do not.
        """
        try:
            return self.query_raw(f"{selector}[{seconds:.0f}s]", at)
        except TooMuchError:
            if seconds <= _SHORTEST_SPAN_SECONDS:
                raise
        half = seconds // 2
        before = self.samples(selector, seconds - half, at - half)
        return answers.joined(before, self.samples(selector, half, at))

    def query_range(self, expression: str, start: float, end: float, step: float) -> Matrix:
        """Evaluate at each step from ``start`` to ``end``, both included."""
        form = {
            "query": expression,
            "start": f"{start:.3f}",
            "end": f"{end:.3f}",
            "step": f"{step:g}",
        }
        try:
            return self._looking(
                lambda: self._ask("query_range", form, answers.MATRIX, expression), answers.joined
            )
        except TooMuchError:
            steps = int((end - start) // step)
            if steps < 1:
                raise
        middle = start + steps // 2 * step
        before = self.query_range(expression, start, middle, step)
        return answers.joined(before, self.query_range(expression, middle + step, end, step))

    def series(self, selector: str, start: float, end: float) -> list[dict[str, str]]:
        """Label sets that may have samples in the time; touches none."""
        form = {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        return self._looking(
            lambda: self._ask("series", form, answers.LABEL_SETS, selector), answers.either
        )

    def agrees(self, selector: str, start: float, end: float) -> bool:
        """Whether two connections are told of the same series in the time, and at its end.

        Where not, several servers that know different things answer at one address.
        """
        form = {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        now = {"query": f"count({selector})", "time": f"{end:.3f}"}
        sets = [
            answers.sorted_sets(self._ask("series", form, answers.LABEL_SETS, selector, apart=True))
            for _ in range(2)
        ]
        counts = [
            [told.value[1] for told in vector.result]
            for vector in (
                self._ask("query", now, answers.VECTOR, selector, apart=True) for _ in range(2)
            )
        ]
        return sets[0] == sets[1] and counts[0] == counts[1]

    def _looking(self, ask: Callable[[], T], join: Callable[[T, T], T]) -> T:
        found = ask()
        for _ in range(self.looks - 1):
            found = join(found, ask())
        return found

    def metric_names(self, selector: str, start: float, end: float) -> list[str]:
        """Names of the metrics that a selector finds in the time."""
        form = {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        return self._ask("label/__name__/values", form, answers.NAMES, selector, method="GET")

    def status(self, page: str, kind: type[T]) -> T | None:
        """A page under ``status/``; None where the server has none such, or none like it."""
        try:
            return self._ask(f"status/{page}", {}, msgspec.json.Decoder(kind), page, method="GET")
        except PrometheusError:
            return None

    def _ask(
        self,
        path: str,
        form: dict[str, str],
        decoder: msgspec.json.Decoder[T],
        what: str,
        *,
        method: str | None = None,
        apart: bool = False,
    ) -> T:
        self.cost.wait()
        if path.startswith("query"):
            form |= {"stats": "all", "timeout": f"{self._access.timeout_seconds:g}s"}
        for attempt in range(1, self._access.attempts + 1):
            response, body = self._send(path, form, method, apart=apart or self.looks > 1)
            try:
                return self._read_any(response.status_code, body, decoder, what)
            except msgspec.MsgspecError as error:
                if not broken_off(body) or attempt == self._access.attempts:
                    raise PrometheusError(stranger(self.shown, response, body, error)) from error
            self._sleep(self._pause(attempt))
        raise PrometheusError(f"{self.shown}: no attempt was allowed")

    def _read_any(self, status: int, body: bytes, decoder: msgspec.json.Decoder[T], what: str) -> T:
        body = answers.readable(body)
        try:
            return self._read(status, body, decoder, what)
        except msgspec.MsgspecError:
            mended = answers.without_nulls(body)
            if mended == body:
                raise
        return self._read(status, mended, decoder, what)

    def _read(self, status: int, body: bytes, decoder: msgspec.json.Decoder[T], what: str) -> T:
        envelope = answers.ENVELOPE.decode(body)
        if envelope.status != "success":
            said = (
                f"{self.shown} refused {shortened(what)}: {envelope.error or envelope.error_type}"
            )
            if too_much(status, envelope.error):
                raise TooMuchError(said + advice(TOO_LARGE))
            raise PrometheusError(said + ("" if status == TOO_LARGE else advice(status)))
        data = decoder.decode(envelope.data)
        samples = answers.touched(data)
        self.cost.add(answers.returned(data) if samples is None else samples)
        with self._noting:
            self._partial |= dict.fromkeys(envelope.incomplete)
        return data

    def _send(
        self, path: str, form: Mapping[str, str], method: str | None, *, apart: bool
    ) -> tuple[httpx.Response, bytes]:
        # a connection that is kept stays with one server
        headers = {"Connection": "close"} if apart else {}
        url = f"{str(self._base).rstrip('/')}/api/v1/{path}"
        for attempt in range(1, self._access.attempts + 1):
            last = attempt == self._access.attempts
            pause = self._pause(attempt)
            try:
                response, body = self._once(url, form, method or self._method, headers)
            except httpx.RequestError as error:
                if last or not isinstance(error, _PASSING):
                    raise PrometheusError(
                        unreachable(self.shown, self._access.timeout_seconds, error)
                    ) from error
            else:
                if response.status_code not in BUSY or answers.is_refusal(body):
                    return response, body
                if last:
                    raise PrometheusError(overloaded(self.shown, response.status_code, attempt))
                pause = min(_LONGEST_PAUSE_SECONDS, max(pause, told_pause(response)))
            self._sleep(pause)
        raise PrometheusError(f"{self.shown}: no attempt was allowed")

    def _pause(self, attempt: int) -> float:
        """Grows with each attempt; half of it is left to chance, so that few come back at once."""
        grown = min(_LONGEST_PAUSE_SECONDS, 0.5 * 2.0**attempt)
        return grown * (0.5 + 0.5 * self._jitter())

    def _once(
        self, url: str, form: Mapping[str, str], method: str, headers: Mapping[str, str]
    ) -> tuple[httpx.Response, bytes]:
        if method == "POST":
            response, body = self._whole("POST", url, data=form, headers=headers)
            if response.status_code not in _ONLY_READING:
                return response, body
            self._method = "GET"  # a proxy that lets only reading through
        return self._whole("GET", url, params=form, headers=headers)

    def _whole(self, method: str, url: str, **more: Any) -> tuple[httpx.Response, bytes]:
        body = bytearray()
        with self._client.stream(method, url, **more) as response:
            self._look_at_clock(response)
            for part in response.iter_bytes():
                body += part
                if len(body) > self._budget.answer_bytes:
                    raise TooMuchError(
                        f"{self.shown} answered more than {self._budget.answer_bytes >> 20} MiB"
                        "; look at fewer series (--prometheus-label) or a shorter window"
                    )
        return response, bytes(body)

    def _look_at_clock(self, response: httpx.Response) -> None:
        try:
            server = parsedate_to_datetime(response.headers["Date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            return
        self.skew_seconds = self._clock() - server
