"""What a scraper gets over real HTTP."""

import base64
import gzip
import http.client
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import bcrypt
import pytest

from gputailor_exporter.accounting import Snapshot
from gputailor_exporter.exposition import render
from gputailor_exporter.sampler import Sampler
from gputailor_exporter.server import MetricsServer, Page, accepts_gzip, wants_openmetrics
from gputailor_exporter.webconfig import BasicAuth, WebConfig, load_web_config
from tests.exporter.fleets import exclusive_node, shared_node
from tests.exporter.machines import OTHER
from tests.exporter.running_sampler import settings
from tests.exporter.stubs import Gate, StubBackend, eventually, half_busy

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

#: What the servers send of their own accord.
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
    "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3_TEXT_ONLY = (
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
VICTORIA = "text/plain;version=0.0.4;q=1,*/*;q=0.1"


@dataclass
class FixedSource:
    """A source that stands still and counts how often it was asked."""

    current: Snapshot = field(default_factory=exclusive_node)
    ready: bool = True
    healthy: bool = True
    lost: tuple[str, ...] = ()

    def down(self):
        return self.lost

    def snapshot(self):
        return self.current


@contextmanager
def serving(source, web=None):
    server = MetricsServer(("127.0.0.1", 0), source, web or WebConfig())
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@pytest.fixture
def source():
    return FixedSource()


@pytest.fixture
def server(source):
    with serving(source) as running:
        yield running


def get(server, path="/metrics", method="GET", context=None, **headers):
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    asked = urllib.request.Request(server.url + path, method=method, headers=names)
    try:
        with urllib.request.urlopen(asked, timeout=5, context=context) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.status, answer.headers, answer.read()


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, TEXT),
        ("*/*", TEXT),
        ("text/html", TEXT),
        (VICTORIA, TEXT),
        (PROMETHEUS_3_TEXT_ONLY, TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
    ],
)
def test_the_content_type_is_exact_and_the_body_is_of_that_format(
    server, source, accept, content_type
):
    headers = {} if accept is None else {"Accept": accept}
    status, answered, body = get(server, **headers)
    assert status == 200
    assert answered["Content-Type"] == content_type
    assert body == render(source.current, openmetrics=content_type == OPENMETRICS)
    assert int(answered["Content-Length"]) == len(body)


def test_gzip_is_used_when_it_is_accepted(server, source):
    _, headers, body = get(server, Accept_Encoding="deflate, gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == render(source.current)
    _, headers, body = get(server, Accept_Encoding="gzip;q=0")
    assert headers["Content-Encoding"] is None
    assert body == render(source.current)


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        ("", False),
        ("identity", False),
        ("gzip", True),
        ("br, GZIP ; q=0.5", True),
        ("gzip; q=0.0", False),
        ("gzip;q=x", False),
        ("*", True),
    ],
)
def test_accept_encoding_is_read_with_its_quality(header, accepted):
    assert accepts_gzip(header) is accepted


def test_an_old_openmetrics_only_client_gets_text():
    assert not wants_openmetrics("application/openmetrics-text;version=0.0.1")


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
    connection = http.client.HTTPConnection(*server.server_address, timeout=5)
    for _ in range(3):
        connection.request("GET", "/metrics")
        assert connection.getresponse().read() == render(source.current)
    connection.close()


def test_the_landing_page_leads_to_the_metrics(server, source):
    source.lost = ("GPU-<a>",)
    status, headers, body = get(server, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"href=/metrics" in body
    assert b"GPU-&lt;a&gt; does not answer" in body


def test_an_unknown_page_is_404_and_a_query_is_ignored(server):
    assert get(server, "/other")[0] == 404
    assert get(server, "/metrics?x=1")[0] == 200


def test_posting_is_refused(server):
    assert get(server, method="POST")[0] == 501


def test_readiness_is_503_until_the_first_full_cycle(server, source):
    source.ready = False
    assert get(server, "/readyz")[0] == 503
    source.ready = True
    assert get(server, "/readyz")[0] == 200


def test_health_stays_200_with_a_hung_device_and_names_it(server, source):
    source.lost = ("GPU-a",)
    status, _, body = get(server, "/healthz")
    assert status == 200
    assert b"GPU-a does not answer" in body
    source.healthy = False
    assert get(server, "/healthz")[0] == 503


def test_a_scrape_answers_in_time_while_a_device_hangs():
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


def test_a_silent_client_does_not_hold_up_the_others(server):
    with socket.create_connection(server.server_address):
        assert get(server)[0] == 200


def test_an_own_fault_is_logged_and_the_server_goes_on(server, source, caplog):
    good, source.current = source.current, None
    with pytest.raises((http.client.HTTPException, OSError)):
        get(server)
    source.current = good
    assert get(server)[0] == 200
    eventually(lambda: "connection ended" in caplog.text)


# -- web-config file ---------------------------------------------------------------------------


HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users:\n  prometheus: {HASH}\n", encoding="utf-8")
    return load_web_config(file)


def test_with_users_only_the_right_password_gets_in(source, users):
    with serving(source, users) as server:
        status, headers, _ = get(server)
        assert status == 401
        assert headers["WWW-Authenticate"].startswith("Basic ")
        assert get(server, Authorization=basic("prometheus", "wrong"))[0] == 401
        assert get(server, Authorization=basic("other", "secret"))[0] == 401
        assert get(server, Authorization="Basic ???")[0] == 401
        assert get(server, Authorization="Bearer secret")[0] == 401
        assert get(server, Authorization=basic("prometheus", "secret"))[0] == 200
        assert get(server, "/")[0] == 401


def test_probes_need_no_password(source, users):
    with serving(source, users) as server:
        assert get(server, "/healthz")[0] == 200
        assert get(server, "/readyz")[0] == 200


def test_a_good_password_is_hashed_once(users, monkeypatch):
    auth, calls = BasicAuth(users.users), []
    check = bcrypt.checkpw
    monkeypatch.setattr(bcrypt, "checkpw", lambda *given: calls.append(1) or check(*given))
    for _ in range(3):
        assert auth.allows(basic("prometheus", "secret"))
    assert len(calls) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    command = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", "tls.key", "-out", "tls.crt"]
    subprocess.run([*command, *names, *files], cwd=folder, check=True, capture_output=True)
    return folder


def test_tls_serves_https_and_a_plain_client_hurts_nobody(source, certificate):
    file = certificate / "web.yml"
    file.write_text(
        "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n", encoding="utf-8"
    )
    context = ssl.create_default_context(cafile=certificate / "tls.crt")
    with serving(source, load_web_config(file)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        with socket.create_connection(server.server_address):  # never begins its handshake
            assert get(server, context=context)[2] == render(source.current)
        with socket.create_connection(server.server_address) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            with suppress(ConnectionResetError):
                assert b"200 OK" not in plain.recv(4096)
        assert get(server, context=context)[0] == 200


def test_clients_need_a_certificate_where_the_file_says_so(source, certificate):
    file = certificate / "mutual.yml"
    file.write_text(
        "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n"
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: tls.crt\n  min_version: TLS13\n",
        encoding="utf-8",
    )
    without = ssl.create_default_context(cafile=certificate / "tls.crt")
    own = ssl.create_default_context(cafile=certificate / "tls.crt")
    own.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
    with serving(source, load_web_config(file)) as server:
        with pytest.raises(OSError):  # noqa: PT011 - an SSL error, a reset or a URL error around one
            get(server, context=without)
        assert get(server, context=own)[0] == 200


@contextmanager
def slow_clients(server, count):
    """Connections whose requests never end."""
    host, port = server.server_address[:2]
    clients = [socket.create_connection((host, port), timeout=5) for _ in range(count)]
    try:
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
        yield clients
    finally:
        for client in clients:
            client.close()


def hung_up(client):
    client.settimeout(5)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_clients_that_never_end_cannot_keep_a_scrape_out(server, monkeypatch):
    monkeypatch.setattr("gputailor_exporter.server.MOST_CONNECTIONS", 4)
    with slow_clients(server, 6) as clients:
        eventually(lambda: len(server._connections) <= 4)
        assert get(server)[0] == 200
        assert [hung_up(client) for client in clients[:2]] == [True, True]
        clients[5].sendall(b"\r\n")  # a young one is still served
        assert clients[5].recv(12) == b"HTTP/1.1 200"


def test_a_connection_that_ended_is_forgotten(server):
    assert get(server)[0] == 200
    eventually(lambda: not server._connections)
