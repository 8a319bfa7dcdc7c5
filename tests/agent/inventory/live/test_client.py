import contextlib

import msgspec
import pytest

from gputailor_agent.inventory.live.client import Client, Timeouts, connect
from gputailor_agent.inventory.live.configuring import find_connection
from gputailor_agent.inventory.live.errors import (
    AnswerError,
    UnreachableError,
    UnreadableError,
    lost_advice,
)
from gputailor_agent.inventory.live.listing import list_objects
from gputailor_agent.inventory.live.waiting import Patience, retry_after_seconds
from tests.agent.inventory.live.api_server import Fault, status
from tests.agent.inventory.live.conftest import QUICK, body_of, kubeconfig_of
from tests.agent.inventory.objects import pod

PAGE = body_of({"metadata": {"resourceVersion": "7"}, "items": []})


class _Name(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Name


def _names(client, **more):
    def take(content):
        return msgspec.json.decode(content, type=_Named).metadata.name

    return list(list_objects(client, "/api/v1/pods", take, **more).items)


def _waiting(kubeconfig, waits, **more):
    """A client that notes how long it would sleep."""
    connection = find_connection(kubeconfig)
    return Client(connection, sleep=waits.append, jitter=lambda: 0.0, **more)


def test_pages_are_put_together(api, client):
    api.put(*(pod(f"p{n}") for n in range(7)))
    assert _names(client, page_size=3) == [f"p{n}" for n in range(7)]
    assert [one.query for one in api.asked("/api/v1/pods")] == [
        {"limit": "3"},
        {"limit": "3", "continue": "3"},
        {"limit": "3", "continue": "6"},
    ]


def test_an_expired_page_starts_the_list_over_and_doubles_nothing(api, client):
    api.put(*(pod(f"p{n}") for n in range(5)))
    api.fail("/api/v1/pods?*continue=2*", Fault(410, status(410, "expired")))
    assert _names(client, page_size=2) == [f"p{n}" for n in range(5)]


def test_pages_that_keep_expiring_give_way_to_one_list_of_everything(api, client):
    api.put(*(pod(f"p{n}") for n in range(5)))
    api.fail("/api/v1/pods?*continue=*", *(Fault(410, status(410)) for _ in range(9)))
    assert _names(client, page_size=2) == [f"p{n}" for n in range(5)]
    assert api.requests[-1].query == {}


def test_a_busy_server_is_asked_again_when_it_said(api, kubeconfig):
    waits = []
    api.fail("/api/v1/pods*", Fault(429, status(429), {"Retry-After": "7"}))
    with contextlib.closing(_waiting(kubeconfig, waits)) as client:
        assert _names(client) == []
    assert waits == [7.0]


def test_a_server_that_says_later_in_its_status_only_is_believed_too(api, kubeconfig):
    waits = []
    api.fail("/api/v1/pods*", Fault(503, status(503, details={"retryAfterSeconds": 3})))
    with contextlib.closing(_waiting(kubeconfig, waits)) as client:
        _names(client)
    assert waits == [3.0]


def test_server_errors_are_met_with_growing_waits_and_then_told(api, kubeconfig):
    waits = []
    api.fail("/api/v1/pods*", *(Fault(500, status(500, "etcd is away")) for _ in range(9)))
    with (
        contextlib.closing(_waiting(kubeconfig, waits)) as client,
        pytest.raises(AnswerError, match=r"GET http://127.*/api/v1/pods: 500: etcd is away"),
    ):
        _names(client)
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0]


def test_an_answer_cut_in_the_middle_is_asked_for_again(api, client):
    api.put(pod("a"))
    api.fail("/api/v1/pods*", Fault(200, PAGE, promised=9999), Fault(raw=b"HTTP/1.1 200 OK\r\nCo"))
    assert _names(client) == ["a"]


def test_a_connection_closed_without_an_answer_is_tried_again(api, client):
    api.put(pod("a"))
    api.fail("/api/v1/pods*", Fault(raw=b""))
    assert _names(client) == ["a"]


@pytest.mark.parametrize(
    "junk", [b"<html>Sign in</html>", b"", b"\xff\xfe{}", b"[1]", b'{"items":']
)
def test_an_answer_that_is_no_object_is_told_after_some_tries(api, client, junk):
    api.fail("/api/v1/pods*", *(Fault(200, junk) for _ in range(5)))
    with pytest.raises(UnreadableError, match=r"no Kubernetes object.*is a proxy between"):
        _names(client)
    assert len(api.requests) == 5


def test_broken_packing_is_a_lost_connection(api, client):
    junk = Fault(200, PAGE, {"Content-Encoding": "gzip"})
    api.fail("/api/v1/pods*", junk, junk, junk)
    with pytest.raises(UnreachableError):
        _names(client)


def test_a_server_that_falls_silent_is_given_up(api, kubeconfig):
    api.fail("/api/v1/pods*", *(Fault(200, PAGE, stall=1.0) for _ in range(3)))
    quick = Timeouts(connect_seconds=0.2, read_seconds=0.1)
    with (
        contextlib.closing(connect(kubeconfig, patience=QUICK, timeouts=quick)) as client,
        pytest.raises(UnreachableError, match="timed out"),
    ):
        _names(client)


def test_nobody_at_the_address_is_told_with_context_and_remedy(write_kubeconfig):
    path = write_kubeconfig(kubeconfig_of("http://127.0.0.1:9"))
    with (
        contextlib.closing(connect(path, patience=QUICK)) as client,
        pytest.raises(UnreachableError) as caught,
    ):
        _names(client)
    told = str(caught.value)
    assert "http://127.0.0.1:9/api/v1/pods (context 'lab' of" in told
    assert "refused" in told
    assert "is the address right, the network (VPN) up" in told
    assert "object at 0x" not in told


def test_refused_credentials_are_loaded_anew_once(api, write_kubeconfig, tmp_path):
    api.tokens = {"new"}
    token = tmp_path / "token"
    token.write_text("old")
    path = write_kubeconfig(kubeconfig_of(api.url, {"tokenFile": str(token)}))
    with contextlib.closing(connect(path, patience=QUICK)) as client:
        token.write_text("new")
        assert _names(client) == []
        assert _names(client) == []
    sent = [one.headers["authorization"] for one in api.requests]
    assert sent == ["Bearer old", "Bearer new", "Bearer new"]


def test_credentials_refused_again_are_told(api, write_kubeconfig):
    api.tokens = {"right"}
    path = write_kubeconfig(kubeconfig_of(api.url, {"token": "wrong"}))
    with (
        contextlib.closing(connect(path, patience=QUICK)) as client,
        pytest.raises(AnswerError, match=r"401: Unauthorized; the credentials of context"),
    ):
        _names(client)
    assert len(api.requests) == 2


def test_a_missing_permission_is_told_at_once(api, client):
    api.forbidden.add("pods")
    with pytest.raises(AnswerError, match=r"403: pods is forbidden.*docs/kubernetes.md"):
        _names(client)
    assert len(api.requests) == 1


def test_answers_come_packed(api, client):
    api.put(*(pod(f"p{n}") for n in range(20)))
    assert len(_names(client)) == 20
    assert api.requests[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("5", 5.0), ("-3", 0.0), ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0), ("soon", None), ("", None)],
)
def test_retry_after_is_read_as_seconds_or_date(header, seconds):
    assert retry_after_seconds(header, 10.0) == seconds


def test_no_server_can_make_us_wait_longer_than_two_minutes():
    assert Patience().pause_seconds(1, 0.0, asked=86_400.0) == 120.0
    assert Patience().pause_seconds(50, 1.0) == 30.0


@pytest.mark.parametrize(
    ("error", "passing", "advice"),
    [
        ("SSLError: [SSL] PEM lib (_ssl.c:3905)", False, "client-certificate and client-key"),
        ("SSLError: [X509: KEY_VALUES_MISMATCH] key values mismatch", False, "client-key"),
        ("SSLError: [SSL: WRONG_VERSION_NUMBER] wrong version number", False, "http://"),
        (
            "SSLError: [SSL: CERTIFICATE_VERIFY_FAILED] unable to get",
            False,
            "certificate-authority",
        ),
        ("ProxyError: Unable to connect to proxy", True, "proxy-url"),
        ("NewConnectionError: Connection refused", True, "is the address right"),
    ],
)
def test_a_lost_connection_says_where_to_look(error, passing, advice):
    again, told = lost_advice(error)
    assert again is passing
    assert advice in told
