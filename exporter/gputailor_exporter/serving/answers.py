"""What a request is answered with: who may ask, for which page, in which format, by when."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import h11

from gputailor_exporter import __version__
from gputailor_exporter.serving.exposition import encodable
from gputailor_exporter.serving.negotiation import accepts_gzip, choose_format, wait_seconds
from gputailor_exporter.serving.page import Site, SnapshotSource
from gputailor_exporter.serving.webaccess import Rules

PLAIN: Final = "text/plain; charset=utf-8"
_SERVER: Final = ("Server", f"gputailor-exporter/{__version__}")
_METHODS: Final = frozenset({b"GET", b"HEAD"})
_PROBES: Final = frozenset({"/healthz", "/readyz"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response without its framing."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


def _answer(status: int, content_type: str, body: bytes, **headers: str) -> Answer:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Answer(status, [_SERVER, ("Content-Type", content_type), *named], body)


def refusal(status: int, text: str, **headers: str) -> Answer:
    """Return an answer of one line: the status in words and why."""
    line = f"{status} {HTTPStatus(status).phrase}: {text}\n"
    return _answer(status, PLAIN, encodable(line).encode(), **headers)


def answer(site: Site, request: h11.Request, now: float) -> Answer:
    """Return what ``request``, which came at monotonic time ``now``, is answered with."""
    asked = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    deadline = now + wait_seconds(asked.get("x-prometheus-scrape-timeout-seconds"))
    path = request.target.decode("latin-1").partition("?")[0]
    try:
        found = _page(site, request.method, path, asked, deadline)
    except TimeoutError as error:
        found = refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error), Retry_After="5")
    extra = site.access.rules().config.headers
    given = {name.lower() for name in extra}
    kept = [pair for pair in found.headers if pair[0].lower() not in given]
    return replace(found, headers=[*kept, *extra.items()])


def _page(site: Site, method: bytes, path: str, asked: dict[str, str], deadline: float) -> Answer:
    if method not in _METHODS:
        text = f"{path} is read by GET or HEAD"
        return refusal(HTTPStatus.METHOD_NOT_ALLOWED, text, Allow="GET, HEAD")
    if path in _PROBES:  # a kubelet carries no password
        return site.calls.ask(lambda: _probe(path, site.source), _left(deadline))
    refused = _refused(site.access.rules(), asked, deadline)
    if refused is not None:
        return refused
    if path == "/metrics":
        return _metrics(site, asked, deadline)
    if path == "/":
        return site.calls.ask(lambda: _landing(site.source), _left(deadline))
    return refusal(HTTPStatus.NOT_FOUND, "the metrics are at /metrics")


def _refused(rules: Rules, asked: dict[str, str], deadline: float) -> Answer | None:
    """What one is told who may not read; None: come in."""
    if not rules.bucket.take(time.monotonic()):
        return refusal(HTTPStatus.TOO_MANY_REQUESTS, "rate_limit of the web-config file")
    if rules.auth.allows(asked.get("authorization"), _left(deadline)):
        return None
    return refusal(
        HTTPStatus.UNAUTHORIZED,
        "a user of the web-config file is expected",
        WWW_Authenticate='Basic realm="gputailor-exporter", charset="UTF-8"',
    )


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _metrics(site: Site, asked: dict[str, str], deadline: float) -> Answer:
    form = choose_format(asked.get("accept"))
    compressed = accepts_gzip(asked.get("accept-encoding"))
    body = site.calls.ask(
        lambda: site.page.body(openmetrics=form.openmetrics, compressed=compressed),
        _left(deadline),
    )
    headers = {"Vary": "Accept, Accept-Encoding"}
    if compressed:
        headers["Content_Encoding"] = "gzip"
    return _answer(HTTPStatus.OK, form.content_type, body, **headers)


def _landing(source: SnapshotSource) -> Answer:
    from gputailor_exporter.serving import landing  # noqa: PLC0415 - for people, who seldom come by

    text = landing.page(
        source.snapshot(), ready=source.ready, healthy=source.healthy, trouble=source.trouble
    )
    policy = {"Content_Security_Policy": landing.POLICY}
    body = encodable(text).encode()
    return _answer(HTTPStatus.OK, "text/html; charset=utf-8", body, **policy)


def _probe(path: str, source: SnapshotSource) -> Answer:
    fine = source.healthy if path == "/healthz" else source.ready
    lines = ["ok" if fine else f"not ready: {source.trouble or 'waiting for the first full cycle'}"]
    if path == "/healthz" and not fine:
        lines = ["unhealthy: the watchdog stands still, or a new process was needed in vain"]
    lines += [f"device {uuid} does not answer" for uuid in source.down()]
    status = HTTPStatus.OK if fine else HTTPStatus.SERVICE_UNAVAILABLE
    return _answer(status, PLAIN, (encodable("\n".join(lines)) + "\n").encode())
