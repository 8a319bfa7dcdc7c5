"""Who is let in: passwords, client certificates, a rate, and files that change while it runs."""

import base64
import logging
import socket
import ssl
import threading
import time
from contextlib import suppress

import bcrypt
import pytest

from gputailor_exporter.serving import webaccess
from gputailor_exporter.serving.exposition import render
from gputailor_exporter.serving.webaccess import BasicAuth, TokenBucket, WebAccess, may_enter
from gputailor_exporter.serving.webconfig import load_web_config
from tests.exporter.certificates import Authority
from tests.exporter.serving import FixedSource, get, serving
from tests.exporter.stubs import eventually

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
NEW_HASH = bcrypt.hashpw(b"new", bcrypt.gensalt(4)).decode()


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def users_file(folder, hashed=HASH, more=""):
    file = folder / "web.yml"
    file.write_text(f"basic_auth_users:\n  prometheus: {hashed}\n{more}", encoding="utf-8")
    return file


@pytest.fixture
def source():
    return FixedSource()


@pytest.fixture
def users(tmp_path):
    return load_web_config(users_file(tmp_path))


# -- passwords ---------------------------------------------------------------------------------


def test_with_users_only_the_right_password_gets_in(source, users):
    with serving(source, users) as server:
        status, headers, _ = get(server)
        assert status == 401
        assert headers["WWW-Authenticate"].startswith("Basic ")
        for wrong in (
            basic("prometheus", "wrong"),
            basic("other", "secret"),
            basic("prometheus", "sec\0ret"),
            "Basic ???",
            "Basic " + base64.b64encode(b"prometheus").decode(),
            "Bearer secret",
        ):
            assert get(server, Authorization=wrong)[0] == 401
        assert get(server, Authorization=basic("prometheus", "secret"))[0] == 200
        assert get(server, "/")[0] == 401


def test_probes_need_no_password(source, users):
    with serving(source, users) as server:
        assert get(server, "/healthz")[0] == 200
        assert get(server, "/readyz")[0] == 200


@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_a_password_is_hashed_once_whether_right_or_wrong(users, monkeypatch, password):
    auth, calls = BasicAuth(users.users), []
    check = bcrypt.checkpw
    monkeypatch.setattr(bcrypt, "checkpw", lambda *given: calls.append(1) or check(*given))
    for _ in range(3):
        assert auth.allows(basic("prometheus", password)) is (password == "secret")
    assert len(calls) == 1


def test_an_unknown_user_costs_a_hash_as_well(users, monkeypatch):
    auth, calls = BasicAuth(users.users), []
    monkeypatch.setattr(bcrypt, "checkpw", lambda *given: calls.append(given) or True)
    assert not auth.allows(basic("nobody", "secret"))
    assert len(calls) == 1


def test_answers_are_remembered_in_a_bounded_number(users, monkeypatch):
    auth = BasicAuth(users.users)
    monkeypatch.setattr(bcrypt, "checkpw", lambda *_: False)
    for number in range(webaccess.MOST_REMEMBERED + 10):
        auth.allows(basic("prometheus", str(number)))
    assert len(auth._wrong) == webaccess.MOST_REMEMBERED


def test_a_flood_of_wrong_passwords_does_not_keep_a_known_client_out(source, users, monkeypatch):
    slow = threading.Event()
    with serving(source, users) as server:
        good = basic("prometheus", "secret")
        assert get(server, Authorization=good)[0] == 200
        monkeypatch.setattr(bcrypt, "checkpw", lambda *_: slow.wait(5) and False)
        flood = [
            threading.Thread(
                target=get, args=(server,), kwargs={"Authorization": basic("prometheus", str(n))}
            )
            for n in range(5)
        ]
        for one in flood:
            one.start()
        assert get(server, Authorization=good)[0] == 200
        status = get(
            server,
            Authorization=basic("prometheus", "late"),
            X_Prometheus_Scrape_Timeout_Seconds="0.2",
        )[0]
        assert status == 503
        slow.set()
        for one in flood:
            one.join(5)


def test_a_rate_limit_lets_a_burst_through_and_probes_always(source, tmp_path):
    file = users_file(tmp_path, more="rate_limit: {interval: 1h, burst: 2}\n")
    good = basic("prometheus", "secret")
    with serving(source, load_web_config(file)) as server:
        assert [get(server, Authorization=good)[0] for _ in range(3)] == [200, 200, 429]
        assert get(server, "/healthz")[0] == 200


def test_a_bucket_fills_again_with_time():
    bucket = TokenBucket(2.0, 1)
    assert [bucket.take(at) for at in (0.0, 1.0, 3.9, 4.0)] == [True, False, True, False]


def test_headers_of_the_file_are_sent_and_win_over_our_own(source, tmp_path):
    file = tmp_path / "web.yml"
    file.write_text(
        "http_server_config:\n  http2: true\n  headers:\n    X-Frame-Options: deny\n"
        "    Content-Security-Policy: default-src 'self'\n",
        encoding="utf-8",
    )
    with serving(source, load_web_config(file)) as server:
        headers = get(server, "/")[1]
        assert headers["X-Frame-Options"] == "deny"
        assert headers.get_all("Content-Security-Policy") == ["default-src 'self'"]


# -- files that change -------------------------------------------------------------------------


def test_a_new_password_counts_at_once(source, tmp_path, users):
    with serving(source, users) as server:
        assert get(server, Authorization=basic("prometheus", "secret"))[0] == 200
        users_file(tmp_path, NEW_HASH)
        assert get(server, Authorization=basic("prometheus", "secret"))[0] == 401
        assert get(server, Authorization=basic("prometheus", "new"))[0] == 200


def test_a_broken_file_leaves_the_old_rules_is_counted_once_and_mended(
    source, tmp_path, users, caplog
):
    counted = []
    good = basic("prometheus", "secret")
    with serving(source, users, counted=counted) as server:
        assert get(server, Authorization=good)[0] == 200
        (tmp_path / "web.yml").write_text("basic_auth_users: [", encoding="utf-8")
        for _ in range(3):
            assert get(server, Authorization=good)[0] == 200
            assert get(server)[0] == 401
        assert counted == [("web_config", "unusable")]
        assert sum("what was in force before stays" in line for line in caplog.messages) == 1
        users_file(tmp_path, NEW_HASH)
        assert get(server, Authorization=basic("prometheus", "new"))[0] == 200
        (tmp_path / "web.yml").unlink()
        assert get(server, Authorization=basic("prometheus", "new"))[0] == 200
        assert counted == [("web_config", "unusable")] * 2


@pytest.mark.parametrize("empty", ["", "# nothing yet\n"])
def test_a_file_that_is_being_written_anew_does_not_open_the_door(source, tmp_path, users, empty):
    counted = []
    file = tmp_path / "web.yml"
    with serving(source, users, counted=counted) as server:
        assert get(server)[0] == 401
        file.write_text(empty, encoding="utf-8")
        assert get(server)[0] == 401
        assert counted == [("web_config", "unusable")]
        file.write_text("{}", encoding="utf-8")  # no rules, and on purpose
        assert get(server)[0] == 200


def test_a_file_that_is_broken_by_something_else_is_tried_again(tmp_path):
    now, counted = [0.0], []
    authority = Authority(tmp_path)
    authority.issue("old", "127.0.0.1")
    file = tls_file(tmp_path, "old")
    access = WebAccess(load_web_config(file), lambda *given: counted.append(given), lambda: now[0])
    tls_file(tmp_path, "new")  # names files that are not here yet
    before = access.rules()
    assert counted == [("web_config", "unusable")]
    authority.issue("new", "127.0.0.1")
    assert access.rules() is before
    now[0] = webaccess.RETRY_SECONDS
    assert access.rules() is not before
    assert access.rules().config.files[1].name == "new.crt"
    assert len(counted) == 1


# -- TLS ---------------------------------------------------------------------------------------


def tls_file(folder, name, more=""):
    file = folder / "web.yml"
    file.write_text(
        f"tls_server_config:\n  cert_file: {name}.crt\n  key_file: {name}.key\n{more}",
        encoding="utf-8",
    )
    return file


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("tls"))
    made.issue("server", "127.0.0.1", "localhost")
    made.issue("client", "prometheus.monitoring.svc", "spiffe://cluster/prometheus", "::1")
    made.issue("stranger", "somebody@example.com")
    return made


def trusting(authority, client=None):
    context = ssl.create_default_context(cafile=authority.ca)
    if client:
        context.load_cert_chain(
            authority.folder / f"{client}.crt", authority.folder / f"{client}.key"
        )
    return context


def test_tls_serves_https_and_a_plain_client_hurts_nobody(source, authority):
    context = trusting(authority)
    with serving(source, load_web_config(tls_file(authority.folder, "server"))) as server:
        assert server.url.startswith("https://127.0.0.1:")
        port = int(server.url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)):  # never begins its handshake
            assert get(server, context=context)[2] == render(source.current)
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            with suppress(ConnectionResetError):
                assert b"200 OK" not in plain.recv(4096)
        assert get(server, context=context)[0] == 200


def test_certificate_and_key_may_stand_in_the_file_itself(source, authority):
    def quoted(name):
        lines = (authority.folder / name).read_text("utf-8").splitlines()
        return "|\n" + "".join(f"    {line}\n" for line in lines)

    file = authority.folder / "inline.yml"
    file.write_text(
        f"tls_server_config:\n  cert: {quoted('server.crt')}  key: {quoted('server.key')}"
        f"  client_ca: {quoted('ca.crt')}  client_auth_type: VerifyClientCertIfGiven\n",
        encoding="utf-8",
    )
    with serving(source, load_web_config(file)) as server:
        assert get(server, context=trusting(authority))[0] == 200
        assert get(server, context=trusting(authority, "client"))[0] == 200


MUTUAL = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"


def test_clients_need_a_certificate_where_the_file_says_so(source, authority):
    file = tls_file(authority.folder, "server", MUTUAL + "  min_version: TLS13\n")
    with serving(source, load_web_config(file)) as server:
        with pytest.raises(OSError):  # noqa: PT011 - an SSL error, a reset or a URL error around one
            get(server, context=trusting(authority))
        assert get(server, context=trusting(authority, "client"))[0] == 200


def test_only_the_allowed_names_of_client_certificates_get_in(source, authority, caplog):
    allowed = "  client_allowed_sans: [prometheus.monitoring.svc]\n"
    file = tls_file(authority.folder, "server", MUTUAL + allowed)
    with serving(source, load_web_config(file)) as server:
        assert get(server, context=trusting(authority, "client"))[0] == 200
        with pytest.raises(OSError):  # noqa: PT011 - see above
            get(server, context=trusting(authority, "stranger"))
    assert "client_allowed_sans" in caplog.text


@pytest.mark.parametrize(
    ("allowed", "enters"),
    [
        ((), True),
        (("a.example",), True),
        (("*.example",), False),
        (("::1",), True),
        (("x@y.example",), True),
        (("spiffe://c/p",), True),
        (("other",), False),
    ],
)
def test_a_name_must_be_equal_of_whatever_kind_it_is(allowed, enters):
    certificate = {
        "subjectAltName": (
            ("DNS", "a.example"),
            ("IP Address", "0:0:0:0:0:0:0:1\n"),
            ("email", "x@y.example"),
            ("URI", "spiffe://c/p"),
            ("Registered ID", "1.2"),
        )
    }
    assert may_enter(certificate, allowed) is enters
    assert may_enter(None, allowed) is (not allowed)


def test_a_renewed_certificate_is_served_without_a_restart(source, tmp_path, caplog):
    authority = Authority(tmp_path)
    authority.issue("server", "127.0.0.1")
    counted = []
    with serving(source, load_web_config(tls_file(tmp_path, "server")), counted=counted) as server:
        address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        first = ssl.get_server_certificate(address)
        (tmp_path / "server.crt").write_text("half a certifi", encoding="utf-8")
        assert ssl.get_server_certificate(address) == first
        assert counted == [("web_config", "unusable")]
        authority.issue("server", "127.0.0.1")
        eventually(lambda: ssl.get_server_certificate(address) != first)
        assert get(server, context=trusting(authority))[0] == 200


def test_a_secret_that_kubernetes_swaps_by_a_link_is_seen(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for name, hashed in (("..1", HASH), ("..2", NEW_HASH)):
        (tmp_path / name).mkdir()
        users_file(tmp_path / name, hashed)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "web.yml").symlink_to("..data/web.yml")
    access = WebAccess(load_web_config(tmp_path / "web.yml"), lambda *_: None)
    assert access.rules().auth.allows(basic("prometheus", "secret"))
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").replace(tmp_path / "..data")
    assert access.rules().auth.allows(basic("prometheus", "new"))


def test_looking_at_the_files_costs_a_request_little(tmp_path):
    access = WebAccess(load_web_config(users_file(tmp_path)), lambda *_: None)
    access.rules()
    before = time.perf_counter()
    for _ in range(1000):
        access.rules()
    assert time.perf_counter() - before < 0.5  # measured 5 to 10 µs each
