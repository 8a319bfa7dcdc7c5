"""Scraping over real HTTP: pages from those that answer well, a reason from the others."""

import gzip
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from gputailor_agent.sources.scrape import (
    FailureReason,
    ScrapeFailure,
    ScrapeResult,
    ScrapeSource,
    target_url,
)
from gputailor_exporter import metrics

AT = 1770113720.0
LABELS = 'node="n",namespace="ns",pod="p",pod_uid="u",container="c",gpu_uuid="GPU-1"'
PAGE = f'{metrics.CONTAINER_ALLOCATED.name}{{{LABELS},sharing="exclusive"}} 1\n'.encode()
PLAIN = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
OPENMETRICS = {"Content-Type": "application/openmetrics-text; version=1.0.0; charset=utf-8"}

Answer = tuple[int, dict[str, str], bytes]


class Exporter:
    """An HTTP server whose answer a test sets."""

    def __init__(self) -> None:
        self.answer: Answer = (200, PLAIN, PAGE)
        self.delay = 0.0
        self.drip = 0.0
        self.connections: set[tuple[str, int]] = set()
        self.asked: list[tuple[str, dict[str, str]]] = []
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                exporter.connections.add(self.client_address)
                exporter.asked.append((self.path, dict(self.headers)))
                time.sleep(exporter.delay)
                status, headers, body = exporter.answer
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                step = 1 if exporter.drip else len(body) or 1
                for start in range(0, len(body), step):
                    self.wfile.write(body[start : start + step])
                    self.wfile.flush()
                    time.sleep(exporter.drip)

            def log_message(self, *_arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_arguments: object) -> None:
                pass  # clients that hang up are part of these tests

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def new_exporter() -> Iterator[Callable[[], Exporter]]:
    started: list[Exporter] = []

    def start() -> Exporter:
        started.append(Exporter())
        return started[-1]

    yield start
    for exporter in started:
        exporter.close()


@pytest.fixture
def exporter(new_exporter: Callable[[], Exporter]) -> Exporter:
    return new_exporter()


def scrape(*targets: str, timeout_seconds: float = 5.0, largest_bytes: int = 10**6) -> ScrapeResult:
    with ScrapeSource(targets, "lab", timeout_seconds, largest_bytes=largest_bytes) as source:
        return source.scrape(AT)


def failure(exporter: Exporter, **options: float) -> ScrapeFailure:
    result = scrape(exporter.address, **options)  # type: ignore[arg-type]
    assert result.pages == ()
    (found,) = result.failures
    assert exporter.address in found.target
    return found


def test_a_page_is_dated_by_our_clock_and_not_by_its_stamps(exporter: Exporter) -> None:
    exporter.answer = (200, PLAIN, PAGE.rstrip() + b" 1600000000000\n")
    result = scrape(exporter.address)
    assert result.failures == ()
    (page,) = result.pages
    assert page.exporter == f"http://{exporter.address}/metrics"
    assert AT <= page.at < AT + 60
    assert result.pages[0].containers[0].pod == "p"


def test_gzip_and_openmetrics_are_understood(exporter: Exporter) -> None:
    headers = {**OPENMETRICS, "Content-Encoding": "gzip"}
    exporter.answer = (200, headers, gzip.compress(PAGE + b"# EOF\n"))
    assert len(scrape(exporter.address).pages) == 1
    assert "gzip" in exporter.asked[0][1]["Accept-Encoding"]


def test_connections_are_used_again(exporter: Exporter) -> None:
    with ScrapeSource([exporter.address], "lab") as source:
        for round_ in range(5):
            assert len(source.scrape(AT + round_).pages) == 1
    assert len(exporter.connections) == 1


def test_slow_targets_are_asked_side_by_side(new_exporter: Callable[[], Exporter]) -> None:
    exporters = [new_exporter() for _ in range(6)]
    for exporter in exporters:
        exporter.delay = 0.3
    began = time.monotonic()
    assert len(scrape(*(exporter.address for exporter in exporters)).pages) == 6
    assert time.monotonic() - began < 1.5


def test_a_page_is_dated_when_its_answer_began_and_not_when_the_round_did(
    new_exporter: Callable[[], Exporter],
) -> None:
    quick, slow = new_exporter(), new_exporter()
    slow.delay = 0.5
    pages = {page.exporter: page for page in scrape(quick.address, slow.address).pages}
    assert len(pages) == 2
    early, late = sorted(page.at for page in pages.values())
    assert AT <= early < AT + 0.4
    assert AT + 0.5 <= late < AT + 2


def test_one_bad_target_does_not_hide_the_others(new_exporter: Callable[[], Exporter]) -> None:
    good, bad = new_exporter(), new_exporter()
    bad.answer = (500, PLAIN, b"")
    result = scrape(bad.address, good.address)
    assert len(result.pages) == 1
    assert [found.reason for found in result.failures] == [FailureReason.STATUS]


def test_nobody_listening_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        result = scrape(f"127.0.0.1:{taken.getsockname()[1]}")
    assert [found.reason for found in result.failures] == [FailureReason.REFUSED]


def test_an_answer_that_does_not_come_is_a_timeout(exporter: Exporter) -> None:
    exporter.delay = 1.0
    assert failure(exporter, timeout_seconds=0.2).reason is FailureReason.TIMEOUT


def test_an_answer_that_drips_is_a_timeout_too(exporter: Exporter) -> None:
    exporter.drip = 0.02
    began = time.monotonic()
    assert failure(exporter, timeout_seconds=0.3).reason is FailureReason.TIMEOUT
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((503, PLAIN, b"not ready"), FailureReason.STATUS),
        ((404, PLAIN, b""), FailureReason.STATUS),
        ((302, {**PLAIN, "Location": "/login"}, b""), FailureReason.STATUS),
        ((200, {"Content-Type": "text/html"}, b"<html>"), FailureReason.CONTENT_TYPE),
        ((200, {}, PAGE), FailureReason.CONTENT_TYPE),
        ((200, PLAIN, PAGE + b"broken line\n"), FailureReason.PARSE),
        ((200, PLAIN, PAGE[:-1]), FailureReason.PARSE),
        ((200, OPENMETRICS, PAGE), FailureReason.PARSE),
        ((200, PLAIN, b"\x89PNG\xff\xfe\n"), FailureReason.PARSE),
        ((200, PLAIN, b"DCGM_FI_DEV_GPU_UTIL 5\n"), FailureReason.NOT_OURS),
        ((200, PLAIN, b""), FailureReason.NOT_OURS),
        ((200, PLAIN, PAGE * 10_000), FailureReason.TOO_LARGE),
        ((200, {**PLAIN, "Content-Encoding": "gzip"}, b"no gzip"), FailureReason.BROKEN),
        ((200, {**PLAIN, "Content-Length": "999999"}, PAGE), FailureReason.TIMEOUT),
    ],
)
def test_a_bad_answer_is_a_reason_never_a_page(
    exporter: Exporter, answer: Answer, reason: FailureReason
) -> None:
    exporter.answer = answer
    found = failure(exporter, timeout_seconds=0.5)
    assert found.reason is reason
    assert found.text


def test_a_small_gzip_cannot_become_a_large_page(exporter: Exporter) -> None:
    bomb = gzip.compress(b"x 1\n" * 1_000_000)
    exporter.answer = (200, {**PLAIN, "Content-Encoding": "gzip"}, bomb)
    assert failure(exporter).reason is FailureReason.TOO_LARGE


def test_a_password_is_sent_and_never_shown(exporter: Exporter) -> None:
    result = scrape(f"http://me:secret@{exporter.address}/metrics")
    assert exporter.asked[0][1]["Authorization"].startswith("Basic ")
    assert "secret" not in repr(result)
    exporter.answer = (401, PLAIN, b"")
    assert "secret" not in repr(scrape(f"http://me:secret@{exporter.address}/metrics"))


@pytest.mark.parametrize("target", ["ftp://x/metrics", "http://", "http://[::1", "::::"])
def test_what_is_no_address_is_told(target: str) -> None:
    (found,) = scrape(target).failures
    assert found.reason in {FailureReason.ADDRESS, FailureReason.REFUSED}


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("node-a:9400", "http://node-a:9400/metrics"),
        ("https://node-a/other", "https://node-a/other"),
        ("http://node-a:9400/", "http://node-a:9400/metrics"),
    ],
)
def test_targets_are_completed(target: str, url: str) -> None:
    assert str(target_url(target)) == url


def test_no_target_is_no_page_and_no_failure() -> None:
    assert scrape() == ScrapeResult()
