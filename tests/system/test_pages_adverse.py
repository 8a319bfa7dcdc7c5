"""Requests that were made to harm, byte by byte, to an agent that wants to know who comes."""

import socket
import statistics
import time
from urllib.parse import urlsplit

import httpx
import pytest

from gputailor_agent.cli.hosting import serving
from tests.agent.api.standing import TOKEN, Book, State, guarded
from tests.agent.reports.plans import sample_plan

pytestmark = pytest.mark.system

SECRET = b"USD 2,500"


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def url(tmp_path, book):
    with serving(State(sample_plan()), "127.0.0.1:0", guarded(tmp_path), book) as served:
        yield served


def sent(url: str, content: bytes) -> bytes:
    """Everything that comes back until the server has no more to say."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=5) as connection:
        connection.sendall(content)
        connection.settimeout(1.0)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except TimeoutError:
            pass
        return answer


RAW = {
    "a second request inside the body": b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 40\r\n"
    b"\r\nabcdGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header folded over lines": b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n x\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: x\r\n\r\n",
    "a bare line feed": b"GET / HTTP/1.1\nHost: x\nX-Forwarded-User: ops\n\n",
    "a null in the path": b"GET /workloads/%00..%2f HTTP/1.1\r\nHost: x\r\n\r\n",
    "dots in the path": b"GET /static/../../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    "dots before a secret page": b"GET /static/../ HTTP/1.1\r\nHost: x\r\n\r\n",
    "an encoded way out of an open folder": b"GET /static/%2e%2e/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a whole address": b"GET http://localhost/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path with two slashes": b"GET //healthz/../ HTTP/1.1\r\nHost: x\r\n\r\n",
    "another method": b"TRACE / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer y\r\n\r\n",
    "a header of 100 kB": b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"a" * 100_000 + b"\r\n\r\n",
    "a name that says who it is": b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-User: ops\r\n"
    b"X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
}


@pytest.mark.parametrize("name", RAW)
def test_nothing_is_read_past_the_door(url, name):
    answer = sent(url, RAW[name])
    assert SECRET not in answer
    assert b"Traceback" not in answer
    assert b"root:" not in answer
    assert b" 500 " not in answer.split(b"\r\n")[0]
    assert httpx.get(f"{url}/healthz", trust_env=False).text == "ok\n"


@pytest.mark.parametrize(
    "path",
    ["/workloads", "/workloads/", "/WORKLOADS", "/api/v1/workloads/", "/login/../", "/metrics/x"],
)
def test_no_spelling_of_an_address_is_open(url, path):
    answer = httpx.get(f"{url}{path}", trust_env=False, follow_redirects=False)
    assert answer.status_code == 401
    assert SECRET not in answer.content


def test_who_is_let_in_gets_what_others_do_not(url):
    assert SECRET in sent(
        url,
        f"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode(),
    )


def test_the_time_of_a_refusal_does_not_tell_how_much_was_right(url):
    """Medians of a wrong first and a wrong last character lie within what the machine varies."""
    wrong = {"first": "x" + TOKEN[1:], "last": TOKEN[:-1] + "x"}
    took: dict[str, list[float]] = {name: [] for name in wrong}
    with httpx.Client(base_url=url, trust_env=False) as client:
        for _ in range(60):
            for name, token in wrong.items():
                began = time.perf_counter()
                answer = client.get("/api/v1/plan", headers={"authorization": f"Bearer {token}"})
                took[name].append(time.perf_counter() - began)
                assert answer.status_code == 401
    first, last = (statistics.median(took[name]) for name in ("first", "last"))
    spread = statistics.quantiles([*took["first"], *took["last"]], n=4)
    assert abs(first - last) <= spread[2] - spread[0]


def test_a_slow_body_holds_nobody_else_up_and_one_that_breaks_off_is_no_fault(url, caplog):
    place = urlsplit(url)
    head = b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    held = [socket.create_connection((place.hostname, place.port)) for _ in range(60)]
    try:
        for one in held:
            one.sendall(head + b"Content-Length: 9\r\n\r\nt")
        began = time.monotonic()
        assert httpx.get(f"{url}/healthz", trust_env=False, timeout=20).text == "ok\n"
        assert time.monotonic() - began < 10
    finally:
        for one in held:
            one.close()
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        time.sleep(0.2)
    assert "Exception in ASGI" not in caplog.text


def test_a_body_without_end_is_cut_off(url, book):
    answer = httpx.post(
        f"{url}/login",
        content=iter([b"a" * 4096] * 64),
        headers={"content-type": "application/x-www-form-urlencoded"},
        trust_env=False,
    )
    assert answer.status_code == 413
    assert book.decisions() == []
