"""The client's care: pauses, parts, pace, clocks, partial answers, servers that differ."""

import httpx
import pytest

from gputailor_agent.sources.prometheus.client import (
    Access,
    Budget,
    PrometheusClient,
    PrometheusError,
)
from tests.agent.sources.answering import EMPTY, Server, form, refused


def test_half_of_a_pause_is_left_to_chance():
    server = Server(httpx.Response(503), EMPTY)
    with PrometheusClient(
        "http://p", Access(), transport=httpx.MockTransport(server),
        sleep=server.pauses.append, jitter=lambda: 0.0,
    ) as client:  # fmt: skip
        client.query("up", 0)
    assert server.pauses == [0.5]


def test_a_query_that_timed_out_in_the_server_is_not_sent_again():
    answer = {"status": "error", "errorType": "timeout", "error": "query timed out"}
    server = Server(httpx.Response(503, json=answer))
    assert "query timed out" in refused(server)
    assert len(server.requests) == 1


def test_an_answer_that_breaks_off_is_asked_for_again():
    server = Server(httpx.Response(200, text='{"status":"success","data":{"resul'), EMPTY)
    with server.client() as client:
        assert client.query("up", 0).result == []
    assert server.pauses == [1.0]
    whole = Server(httpx.Response(200, text='{"status":"success","data":{"resul'))
    assert "breaks its answers off" in refused(whole, attempts=2)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"warnings": ["store a unavailable"]}, ("store a unavailable",)),
        ({"isPartial": True}, ("a part of the storage did not answer",)),
        ({"warnings": ["PromQL info: metric might not be a counter"]}, ()),
        ({"isPartial": False, "infos": ["x"]}, ()),
    ],
)
def test_what_the_server_calls_incomplete_is_told_once(more, told):
    server = Server({**EMPTY, **more})
    with server.client() as client:
        client.query("up", 0)
        client.query("up", 0)
        assert client.take_partial() == told
        assert client.take_partial() == ()


def refusing(most):
    """A server that refuses ranges of more than so many seconds, and has a sample a minute."""

    def answer(request):
        asked = form(request)
        if request.url.path.endswith("query_range"):
            start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
            times = [start + n * step for n in range(int((end - start) // step) + 1)]
            seconds = end - start
        else:
            seconds = int(asked["query"].partition("[")[2].removesuffix("s]"))
            end = float(asked["time"])
            times = [at for at in range(0, 7200, 60) if end - seconds <= at <= end]
        if seconds > most:
            said = {"status": "error", "errorType": "execution", "error": "too many samples"}
            return httpx.Response(422, json=said)
        result = [{"metric": {"a": "b"}, "values": [[at, str(at)] for at in times]}]
        return httpx.Response(200, json={"status": "success", "data": {"result": result}})

    return answer


def times_of(matrix):
    (series,) = matrix.result
    return [at for at, _ in series.values]


def test_samples_that_are_too_many_at_once_come_in_parts_each_once():
    with PrometheusClient(
        "http://p", Access(), transport=httpx.MockTransport(refusing(500))
    ) as client:
        assert times_of(client.samples("up", 3600, 3600)) == list(range(0, 3601, 60))
        with pytest.raises(PrometheusError, match="max-samples"):
            client.query_raw("up[3600s]", 3600)


def test_a_range_that_is_too_long_at_once_comes_in_parts():
    with PrometheusClient(
        "http://p", Access(), transport=httpx.MockTransport(refusing(700))
    ) as client:
        assert times_of(client.query_range("up", 300, 3600, 300)) == list(range(300, 3601, 300))


def test_a_single_step_that_is_too_much_is_told():
    with (
        PrometheusClient("http://p", Access(), transport=httpx.MockTransport(refusing(-1))) as one,
        pytest.raises(PrometheusError, match="max-samples"),
    ):
        one.query_range("up", 300, 3600, 300)


def test_an_answer_larger_than_the_budget_is_not_read_to_its_end():
    server = Server(httpx.Response(200, content=b"x" * 5000))
    with (
        server.client(budget=Budget(answer_bytes=4096)) as client,
        pytest.raises(PrometheusError, match="shorter window"),
    ):
        client.query("up", 0)


def test_samples_are_paid_for_by_a_pause_before_the_next_query():
    stats = {"samples": {"totalQueryableSamples": 5000}}
    server = Server({"status": "success", "data": {"result": [], "stats": stats}})
    with server.client(budget=Budget(samples_per_second=1000.0)) as client:
        client.query("up", 0)
        assert server.pauses == []
        client.query("up", 0)
    assert server.pauses == [pytest.approx(5.0, abs=0.5)]


def test_the_servers_clock_is_read_off_its_answers():
    date = {"Date": "Sat, 10 Jan 2026 12:00:00 GMT"}
    with Server(httpx.Response(200, json=EMPTY, headers=date)).client() as client:
        assert client.skew_seconds is None
        client.query("up", 0)
        assert client.skew_seconds == 30.0


def test_parameters_go_with_every_request_beside_its_own():
    server = Server(EMPTY, {"status": "success", "data": []})
    with server.client(parameters={"dedup": "true"}) as client:
        client.query("up", 0)
        client.metric_names("up", 0, 1)
    assert [request.url.params["dedup"] for request in server.requests] == ["true", "true"]
    assert server.requests[1].url.params["match[]"] == "up"


def test_credentials_that_somebody_keeps_fresh_are_asked_for_each_time():
    server, tokens = Server(EMPTY), iter("ab")
    with server.client(credentials=lambda: {"Authorization": next(tokens)}) as client:
        client.query("up", 0)
        client.query("up", 0)
    assert [request.headers["Authorization"] for request in server.requests] == ["a", "b"]


def test_a_client_certificate_that_is_not_there_is_told(tmp_path):
    with pytest.raises(PrometheusError, match="the client certificate"):
        PrometheusClient("https://prom", Access(certificate_file=tmp_path / "none"))


@pytest.mark.parametrize("status", [403, 405])
def test_a_proxy_that_forbids_posts_alone_is_asked_by_get(status):
    server = Server(httpx.Response(status), EMPTY)
    with server.client() as client:
        client.query("up", 5)
    assert [request.method for request in server.requests] == ["POST", "GET"]


def vector(*values):
    result = [{"metric": {"n": name}, "value": [0, value]} for name, value in values]
    return {"status": "success", "data": {"result": result}}


def test_where_servers_differ_each_question_is_asked_several_times_by_new_connections():
    server = Server(vector(("a", "5")), vector(("a", "7"), ("b", "NaN")), vector())
    with server.client() as client:
        client.looks = 3
        told = {bytes(one.metric): one.value[1] for one in client.query("up", 0).result}
    assert told == {b'{"n":"a"}': "7", b'{"n":"b"}': "NaN"}
    assert [request.headers["Connection"] for request in server.requests] == ["close"] * 3


@pytest.mark.parametrize("differ", [False, True])
def test_servers_that_tell_of_different_series_do_not_agree(differ):
    sets = {"status": "success", "data": [{"a": "b"}]}
    other = {"status": "success", "data": []} if differ else sets
    server = Server(sets, other, vector(("", "1")))
    with server.client() as client:
        assert client.agrees("up", 0, 3600) is not differ
