"""What a scraper gets over real HTTP."""

import gzip
import http.client
import re
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress

import pytest

from gputailor_exporter import server as servers
from gputailor_exporter.accounting import Snapshot
from gputailor_exporter.sampler import Sampler
from gputailor_exporter.server import MetricsServer
from gputailor_exporter.serving import connection as connections
from gputailor_exporter.serving.exposition import render
from gputailor_exporter.serving.listening import ListenError
from gputailor_exporter.serving.page import Page
from gputailor_exporter.serving.webconfig import WebConfig
from tests.exporter.fleets import empty_node, shared_node
from tests.exporter.machines import OTHER
from tests.exporter.running_sampler import settings
from tests.exporter.serving import LOOPBACK, FixedSource, get, serving
from tests.exporter.stubs import Gate, StubBackend, eventually, half_busy

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.fixture
def source():
    return FixedSource()


@pytest.fixture
def server(source):
    with serving(source) as running:
        yield running


@pytest.mark.parametrize("accept", ["*/*", "text/plain;version=1.0.0", OPENMETRICS])
def test_the_body_is_of_the_format_that_its_header_names(server, source, accept):
    status, headers, body = get(server, Accept=accept)
    assert status == 200
    openmetrics = headers["Content-Type"].startswith("application/openmetrics-text")
    assert openmetrics is (accept == OPENMETRICS)
    assert body == render(source.current, openmetrics=openmetrics)
    assert int(headers["Content-Length"]) == len(body)
    assert headers["Vary"] == "Accept, Accept-Encoding"
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", headers["Date"])


def test_gzip_is_used_when_it_is_accepted(server, source):
    _, headers, body = get(server, Accept_Encoding="deflate, gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == render(source.current)
    _, headers, body = get(server, Accept_Encoding="gzip;q=0")
    assert headers["Content-Encoding"] is None
    assert body == render(source.current)


def test_a_page_is_rendered_and_zipped_once_per_snapshot_and_format(source):
    page = Page(source)
    first = [page.body(openmetrics=o, compressed=c) for o in (False, True) for c in (False, True)]
    again = [page.body(openmetrics=o, compressed=c) for o in (False, True) for c in (False, True)]
    assert all(one is other for one, other in zip(first, again, strict=True))
    source.current = shared_node()
    assert page.body(openmetrics=False, compressed=False) == render(source.current)


@pytest.mark.parametrize("path", ["/metrics", "/", "/healthz", "/missing"])
def test_head_answers_as_get_without_the_body(server, path):
    status, headers, _ = get(server, path)
    head_status, head_headers, body = get(server, path, method="HEAD")
    assert (head_status, body) == (status, b"")
    assert head_headers["Content-Length"] == headers["Content-Length"]


def test_one_connection_serves_many_scrapes(server, source):
    client = http.client.HTTPConnection(*server.url.removeprefix("http://").split(":"), timeout=5)
    for method in ("GET", "HEAD", "GET"):
        client.request(method, "/metrics")
        answer = client.getresponse()
        assert answer.read() == (b"" if method == "HEAD" else render(source.current))
        assert not answer.will_close
    client.close()


def test_the_landing_page_shows_the_devices_and_leads_to_the_metrics(server, source):
    status, headers, body = get(server, "/")
    text = body.decode()
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "href=/metrics" in text
    assert text.count("<td>up</td>") == 2
    assert "team/train-0" in text
    assert not re.search(r"(src|href)=['\"]?(https?:|//)", text)
    source.current, source.ready, source.trouble = empty_node(), False, "no <driver>"
    text = get(server, "/")[2].decode()
    assert "No device on this node" in text
    assert "no &lt;driver&gt;" in text
    assert "waiting for the first full cycle" in text


def test_an_unknown_page_is_404_and_a_query_is_ignored(server):
    assert get(server, "/other")[0] == 404
    assert get(server, "/metrics?x=1")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused_with_those_that_are_allowed(server, method):
    status, headers, body = get(server, method=method, data=b"x" * 100_000)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"
    assert b"Method Not Allowed" in body


def test_readiness_is_503_until_the_first_full_cycle(server, source):
    source.ready = False
    source.trouble = "the driver is not loaded"
    status, _, body = get(server, "/readyz")
    assert status == 503
    assert b"the driver is not loaded" in body
    source.ready = True
    assert get(server, "/readyz")[0] == 200


def test_health_stays_200_with_a_hung_device_and_names_it(server, source):
    source.lost = ("GPU-a",)
    status, _, body = get(server, "/healthz")
    assert status == 200
    assert b"GPU-a does not answer" in body
    source.healthy = False
    assert get(server, "/healthz")[0] == 503


def test_008_a_scrape_answers_in_time_while_a_device_hangs():
    gate = Gate()

    def hang(device, at):
        if device is not OTHER:
            gate.wait()
        return half_busy(device, at)

    backend = StubBackend(answer=hang)
    backend.identities = (*backend.identities, OTHER)
    sampler = Sampler(backend, None, None, settings())
    sampler.start()
    with serving(sampler) as server:
        gate.entered.wait(5)
        eventually(lambda: get(server, "/readyz")[0] == 200)
        slowest = 0.0
        for _ in range(10):
            before = time.monotonic()
            status, _, body = get(server)
            slowest = max(slowest, time.monotonic() - before)
            assert status == 200
        assert slowest < 0.5
        assert b'gputailor_device_up{gpu="0",gpu_uuid="GPU-a",node="node-1"} 0.0' in body
        assert b'gputailor_device_up{gpu="1",gpu_uuid="GPU-b",node="node-1"} 1.0' in body
        gate.open()
    sampler.close(timeout=1.0)


class StuckSource(FixedSource):
    """A source whose lock nobody gives back."""

    gate = None

    def snapshot(self) -> Snapshot | None:
        self.gate.wait()
        return self.current


def test_a_scrape_is_answered_within_its_timeout_whatever_is_stuck():
    source = StuckSource()
    source.gate = Gate()
    with serving(source) as server:
        for path in ("/metrics", "/healthz", "/"):
            before = time.monotonic()
            status, headers, body = get(server, path, X_Prometheus_Scrape_Timeout_Seconds="0.4")
            assert time.monotonic() - before < 0.4
            assert status == 503
            assert headers["Retry-After"] == "5"
            assert b"no answer within 0.3" in body or b"no answer within 0.29" in body
        source.gate.open()
        eventually(lambda: get(server)[0] == 200)


def test_a_silent_client_does_not_hold_up_the_others(server):
    with connected(server):
        assert get(server)[0] == 200


def test_an_own_fault_is_logged_and_answered_with_500(server, source, caplog):
    good, source.current = source.current, None
    status, _, body = get(server)
    assert status == 500
    assert b"its log says more" in body
    assert "answering failed" in caplog.text
    source.current = good
    assert get(server)[0] == 200


# -- the wire ----------------------------------------------------------------------------------


@contextmanager
def connected(server):
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as client:
        yield client


def everything(client):
    parts = []
    with suppress(ConnectionError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"x" * 21_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 4_000 + b"\r\n", b"431"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", b"400"),
    ],
)
def test_a_request_out_of_bounds_is_refused_and_the_connection_closed(
    server, request_bytes, status
):
    with connected(server) as client:
        client.sendall(request_bytes)
        answer = everything(client)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"Connection: close" in answer
    assert get(server)[0] == 200


def test_an_old_client_gets_its_answer_and_the_end(server):
    with connected(server) as client:
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        answer = everything(client)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"ok\n")


def test_a_request_with_a_body_that_never_comes_is_answered(server):
    with connected(server) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        assert everything(client).endswith(b"ok\n")


def test_a_request_in_pieces_is_put_together(server):
    with connected(server) as client:
        for piece in (b"GET /heal", b"thz HTTP/1.1\r\nHo", b"st: x\r\nConnection: close\r\n\r\n"):
            client.sendall(piece)
            time.sleep(0.02)
        assert everything(client).endswith(b"ok\n")


def test_two_requests_at_once_are_answered_in_turn(server):
    with connected(server) as client:
        client.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
            b"GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        answer = everything(client)
    assert answer.index(b" 200 OK") < answer.index(b" 404 Not Found")


def test_a_slow_request_is_let_go(server, monkeypatch):
    monkeypatch.setattr(connections, "CLIENT_TIMEOUT_SECONDS", 0.1)
    with connected(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert everything(client) == b""


def test_clients_that_never_end_cannot_keep_a_scrape_out(server, monkeypatch):
    monkeypatch.setattr(servers, "MOST_CONNECTIONS", 4)
    host, port = server.url.removeprefix("http://").split(":")
    clients = [socket.create_connection((host, int(port)), timeout=5) for _ in range(6)]
    for client in clients:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
    eventually(lambda: len(server._connections) <= 4)
    assert get(server)[0] == 200
    assert [everything(client) for client in clients[:2]] == [b"", b""]
    clients[5].sendall(b"\r\n")  # a young one is still served
    assert clients[5].recv(12) == b"HTTP/1.1 200"
    for client in clients:
        client.close()


def test_clients_that_take_no_answer_cannot_keep_a_scrape_out(server, monkeypatch):
    monkeypatch.setattr(servers, "MOST_CONNECTIONS", 4)
    with ExitStack() as clients:
        for _ in range(4):
            client = clients.enter_context(connected(server))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 400)
        eventually(lambda: sum(one.busy for one in server._connections) == 4)
        assert get(server)[0] == 200


def test_a_connection_that_ended_is_forgotten(server):
    assert get(server)[0] == 200
    eventually(lambda: not server._connections)


def test_where_no_thread_can_be_had_the_server_goes_on(source, monkeypatch):
    counted = []
    with serving(source, counted=counted) as server:
        with monkeypatch.context() as patched:
            patched.setattr(connections.Connection, "start", no_thread)
            with pytest.raises(OSError):  # noqa: PT011 - a reset or an end, as the kernel likes
                get(server)
        eventually(lambda: counted == [("server", "no_resources")])
        assert get(server)[0] == 200


def no_thread(_):
    raise RuntimeError("can't start new thread")


# -- addresses ---------------------------------------------------------------------------------


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as made:
            made.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_it_listens_on_several_addresses_of_both_families(source):
    addresses = [LOOPBACK, ("localhost", 0)] + ([("::1", 0)] if has_ipv6() else [])
    with serving(source, addresses=addresses) as server:
        assert len(set(server.urls)) == len(addresses)
        for url in server.urls:
            host = "[::1]" if url == server.urls[-1] and has_ipv6() else "127.0.0.1"
            assert url.startswith((f"http://{host}:", "http://[::1]:"))
            with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
                assert answer.status == 200


def test_an_address_that_is_taken_is_named_and_no_other_is_kept(source):
    with socket.create_server(LOOPBACK) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port}: Address already in use"):
            MetricsServer([LOOPBACK, ("127.0.0.1", port)], source, WebConfig())


# -- the end -----------------------------------------------------------------------------------


def test_a_stopping_server_ends_the_scrape_under_way_and_takes_no_other():
    source = StuckSource()
    source.gate = Gate()
    with serving(source) as server, connected(server) as client, connected(server) as idle:
        idle.sendall(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(100).startswith(b"HTTP/1.1 404")
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert source.gate.entered.wait(5)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        eventually(lambda: all(listener.fileno() == -1 for listener in server._listeners))
        with pytest.raises(OSError):  # noqa: PT011 - refused or reset
            get(server)
        assert everything(idle).startswith((b"", b"\r\n"))
        source.gate.open()
        answer = everything(client)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(render(source.current))
        stopper.join(5)
        assert not stopper.is_alive()


def test_a_stop_does_not_wait_for_clients_that_never_end(source):
    with serving(source) as server, connected(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n")
        eventually(lambda: any(one._began for one in server._connections))
        before = time.monotonic()
        server.stop(timeout=0.2)
        assert time.monotonic() - before < 1.0
