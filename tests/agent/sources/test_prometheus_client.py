"""The client of Prometheus' API: what it sends, what it waits out, what it says when it fails."""

import base64

import httpx
import msgspec
import pytest

from gputailor_agent.sources.prometheus.client import (
    Access,
    PrometheusClient,
    PrometheusError,
    base_url,
)
from gputailor_agent.sources.prometheus.promql import chunks, one_of, quoted, selector
from tests.agent.sources.answering import EMPTY, Server, form, refused


def test_a_query_is_a_posted_form_that_asks_for_its_cost():
    server = Server(EMPTY)
    with server.client(timeout_seconds=20) as client:
        client.query('up{job="a"}', 1700000000.25)
    (request,) = server.requests
    assert request.method == "POST"
    assert request.url == "http://prom:9090/api/v1/query"
    assert form(request) == {
        "query": 'up{job="a"}',
        "time": "1700000000.250",
        "stats": "all",
        "timeout": "20s",
    }


def test_a_path_in_front_is_kept():
    server = Server(EMPTY)
    with server.client("https://host/prometheus/") as client:
        client.query("up", 0)
    assert server.requests[0].url == "https://host/prometheus/api/v1/query"


@pytest.mark.parametrize("text", ["host:9090", "http://host:9090/", "http://host:9090/api/v1"])
def test_addresses_people_write_are_understood(text):
    assert str(base_url(text)).rstrip("/") == "http://host:9090"


@pytest.mark.parametrize("text", ["ftp://host", "http://", "http://[::1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(PrometheusError, match="no address"):
        base_url(text)


def test_a_password_in_the_address_is_never_shown():
    server = Server(httpx.ConnectError("refused"))
    with (
        server.client("http://me:secret@prom:9090", attempts=1) as client,
        pytest.raises(PrometheusError) as caught,
    ):
        client.query("up", 0)
    assert "secret" not in str(caught.value)
    assert "prom:9090" in str(caught.value)


def test_what_the_server_says_it_cost_is_counted():
    stats = {"samples": {"totalQueryableSamples": 4321, "peakSamples": 3}}
    data = {"resultType": "vector", "result": [], "stats": stats}
    server = Server({"status": "success", "data": data})
    with server.client() as client:
        client.query("up", 0)
        client.query("up", 0)
        assert (client.cost.requests, client.cost.samples) == (2, 8642)


def test_a_server_that_does_not_say_is_charged_what_it_returned():
    result = [{"metric": {"a": str(i)}, "value": [0, "1"]} for i in range(3)]
    server = Server({"status": "success", "data": {"resultType": "vector", "result": result}})
    with server.client() as client:
        assert [sample.value for sample in client.query("up", 0).result] == [(0, "1")] * 3
        assert client.cost.samples == 3


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_overloaded_server_is_given_time(status):
    server = Server(httpx.Response(status), httpx.Response(status), EMPTY)
    with server.client() as client:
        client.query("up", 0)
    assert server.pauses == [1.0, 2.0]


def test_the_pause_a_server_asks_for_is_kept():
    server = Server(httpx.Response(429, headers={"Retry-After": "7"}), EMPTY)
    with server.client() as client:
        client.query("up", 0)
    assert server.pauses == [7.0]


def test_no_server_makes_us_wait_for_ever():
    server = Server(httpx.Response(429, headers={"Retry-After": "86400"}))
    assert "overloaded" in refused(server, attempts=3)
    assert server.pauses == [30.0, 30.0]


def test_a_lost_connection_is_tried_again():
    server = Server(httpx.ConnectError("reset"), httpx.RemoteProtocolError("cut"), EMPTY)
    with server.client() as client:
        client.query("up", 0)
    assert len(server.requests) == 3


def test_a_slow_query_is_not_sent_again():
    server = Server(httpx.ReadTimeout("slow"))
    assert "did not answer within 60 s" in refused(server)
    assert len(server.requests) == 1


def test_a_query_the_server_refuses_is_told_with_its_reason():
    answer = {"status": "error", "errorType": "bad_data", "error": "parse error: unexpected )"}
    text = refused(Server(httpx.Response(400, json=answer)))
    assert "http://prom:9090 refused up: parse error: unexpected )" in text


def test_a_query_too_large_is_told_with_what_to_do():
    answer = {"status": "error", "errorType": "execution", "error": "too many samples"}
    assert "--query.max-samples" in refused(Server(httpx.Response(422, json=answer)))


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "credentials"), (403, "read access"), (404, "base address"), (414, "long addresses")],
)
def test_a_proxys_refusal_is_told_with_what_to_do(status, advice):
    text = refused(Server(httpx.Response(status, text="<html>no</html>")))
    assert str(status) in text
    assert advice in text


def test_a_login_page_is_recognised():
    text = refused(Server(httpx.Response(200, text="<html>Please log in</html>")))
    assert "no Prometheus API" in text
    assert "Please log in" in text


def test_a_certificate_that_is_not_trusted_is_told_apart():
    server = Server(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"))
    assert "give the CA" in refused(server, attempts=1)


def test_a_proxy_that_lets_no_post_through_is_asked_by_get():
    server = Server(httpx.Response(405), EMPTY)
    with server.client() as client:
        client.query("up", 5)
        client.query("up", 6)
    assert [request.method for request in server.requests] == ["POST", "GET", "GET"]
    assert server.requests[-1].url.params["time"] == "6.000"


def test_user_and_password_are_sent():
    server = Server(EMPTY)
    with server.client(username="me", password="p") as client:
        client.query("up", 0)
    expected = base64.b64encode(b"me:p").decode()
    assert server.requests[0].headers["Authorization"] == f"Basic {expected}"


def test_a_token_and_more_headers_are_sent():
    server = Server(EMPTY)
    with server.client(bearer_token="t", headers={"X-Scope-OrgID": "team"}) as client:
        client.query("up", 0)
    headers = server.requests[0].headers
    assert (headers["Authorization"], headers["X-Scope-OrgID"]) == ("Bearer t", "team")


def test_a_token_file_is_read_again_since_tokens_are_rotated(tmp_path):
    file, server = tmp_path / "token", Server(EMPTY)
    with server.client(bearer_token_file=file) as client:
        for token in ("one", "two"):
            file.write_text(f"{token}\n", encoding="utf-8")
            client.query("up", 0)
    assert [r.headers["Authorization"] for r in server.requests] == ["Bearer one", "Bearer two"]


def test_a_token_file_that_is_not_there_is_told(tmp_path):
    text = refused(Server(EMPTY), bearer_token_file=tmp_path / "none")
    assert "the bearer token file" in text


def test_a_ca_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(PrometheusError, match="the CA file"):
        PrometheusClient("https://prom", Access(ca_file=tmp_path / "none"))


def test_a_range_comes_with_all_its_values():
    result = [{"metric": {"a": "b"}, "values": [[1, "0.5"], [2.5, "NaN"]]}]
    server = Server({"status": "success", "data": {"resultType": "matrix", "result": result}})
    with server.client() as client:
        (series,) = client.query_range("up", 1, 4, 1.5).result
    assert series.values == [(1, "0.5"), (2.5, "NaN")]
    assert msgspec.json.decode(series.metric) == {"a": "b"}
    assert form(server.requests[0])["step"] == "1.5"


def test_label_values_are_escaped():
    assert quoted('a"b\\c\nd') == r'"a\"b\\c\nd"'
    assert one_of("pod", ["a.b", "c|d"]) == r'pod=~"a\\.b|c\\|d"'
    assert one_of("pod", ["a.b", "a.b"]) == 'pod="a.b"'


def test_selectors_name_one_metric_or_several():
    assert selector(["up"]) == "up"
    assert selector(["up"], 'a="b"') == 'up{a="b"}'
    assert selector(["x", "y"], 'a="b"') == '{__name__=~"x|y",a="b"}'


def test_long_lists_are_cut():
    assert [len(part) for part in chunks(range(250), 100)] == [100, 100, 50]


def test_credentials_are_not_shown_in_logs():
    access = Access(bearer_token="t0ken", password="s3cret", headers={"X-Key": "k3y"})
    assert not any(secret in repr(access) for secret in ("t0ken", "s3cret", "k3y"))
