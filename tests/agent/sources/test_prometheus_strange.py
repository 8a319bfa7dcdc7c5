"""Strange answers and addresses: each is read, or told in words; none ends in a traceback."""

import gzip

import httpx
import msgspec
import pytest

from gputailor_agent.sources.prometheus.answers import Series, labels_of
from gputailor_agent.sources.prometheus.client import PrometheusError, base_url
from gputailor_agent.sources.prometheus.gauges import _by_step
from gputailor_agent.sources.prometheus.promql import equal
from tests.agent.sources.answering import EMPTY, Server, refused

BODY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


def packed(body, how="gzip"):
    """An answer whose body is sent as it is and unpacked by the client."""
    stream = httpx.ByteStream(body)
    return httpx.Response(200, headers={"Content-Encoding": how}, stream=stream)


def ask(*answers):
    server = Server(*answers)
    with server.client() as client:
        return client.query("up", 0)


def test_text_that_is_no_utf_8_is_read_with_a_sign_in_its_place():
    body = BODY.replace(b"[]", b'[{"metric":{"pod":"a\xff-\xc3\xa9"},"value":[1,"1"]}]')
    (sample,) = ask(httpx.Response(200, content=body)).result
    assert labels_of(sample.metric) == {"pod": "a\ufffd-\xe9"}


@pytest.mark.parametrize("call", ["metric_names", "series"])
def test_null_in_place_of_a_list_is_an_empty_one(call):
    server = Server({"status": "success", "data": None, "warnings": None})
    with server.client() as client:
        assert getattr(client, call)("up", 0, 1) == []


def test_null_results_are_none():
    null = {"status": "success", "data": {"resultType": "vector", "result": None}}
    assert ask(null).result == []


def test_a_label_that_reads_like_a_null_is_left_as_it_is():
    odd = 'x"result":null'
    told = [{"metric": {"pod": odd}, "value": [1, "1"]}]
    answer = {"status": "success", "warnings": None, "data": {"result": told}}
    (sample,) = ask(answer).result
    assert labels_of(sample.metric) == {"pod": odd}


def test_a_packed_answer_is_unpacked():
    assert ask(packed(gzip.compress(BODY))).result == []


def test_an_answer_that_cannot_be_unpacked_is_asked_for_again_and_told():
    assert ask(packed(BODY), EMPTY).result == []
    assert "cannot be unpacked" in refused(Server(packed(BODY)), attempts=1)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_but_told(status):
    there = "https://me:secret@new.example/prom/api/v1/query?token=secret"
    answer = httpx.Response(status, headers={"Location": there})
    server = Server(answer)
    said = refused(server, bearer_token="secret")
    assert "has moved: give its address, https://new.example/prom" in said
    assert "secret" not in said
    assert len(server.requests) == 1


def test_a_redirect_to_a_login_is_told_apart():
    answer = httpx.Response(302, headers={"Location": "/oauth2/start?rd=%2Fapi%2Fv1%2Fquery"})
    said = refused(Server(answer))
    assert "sends us to http://prom:9090/oauth2/start, perhaps a login" in said


@pytest.mark.parametrize(
    ("access", "where"),
    [
        ({"bearer_token": "sec\nret"}, "bearer token cannot be sent: its character 4"),
        ({"bearer_token": "s\xe9cret"}, "its character 2 is U.00E9"),
        ({"headers": {"X-Key": "se\rcret"}}, "header X-Key cannot be sent: its character 3"),
    ],
)
def test_a_secret_that_cannot_be_sent_is_told_without_it(access, where):
    server = Server(EMPTY)
    with pytest.raises(PrometheusError, match=where) as caught, server.client(**access) as client:
        client.query("up", 0)
    assert "cret" not in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize("name", ["X Key", "", "X-Key:", "X-K\xe9y"])
def test_a_header_that_cannot_have_that_name_is_told(name):
    with pytest.raises(PrometheusError, match="a header's name"):
        Server(EMPTY).client(headers={name: "value"})


def test_an_empty_token_file_is_told(tmp_path):
    file = tmp_path / "token"
    file.write_text("\n", "utf-8")
    assert f"bearer token file {file} is empty" in refused(Server(EMPTY), bearer_token_file=file)


@pytest.mark.parametrize(
    "text",
    [
        "http://prom:9090/x/api/v1/query",
        " http://prom:9090/x/\n",
        "http://prom:9090/x/api/v1/",
        "prom:9090/x",
    ],
)
def test_addresses_out_of_a_browser_or_a_file_are_understood(text):
    assert str(base_url(text)) == "http://prom:9090/x"


def test_the_path_of_an_api_servers_proxy_is_kept():
    proxy = "https://api:6443/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"
    assert str(base_url(proxy)) == proxy
    assert str(base_url(f"{proxy}/api/v1/query")) == proxy
    there = httpx.Response(302, headers={"Location": f"{proxy}/api/v1/query"})
    assert f"give its address, {proxy}" in refused(Server(there))


@pytest.mark.parametrize(
    "text",
    [
        "http://me:secret/1@prom",
        "http://me:secret@prom/?token=secret",
        "http://prom/#secret",
        "ftp://me:secret@prom",
        "http://prom:99999?secret",
    ],
)
def test_an_address_of_no_use_is_told_without_its_secrets(text):
    with pytest.raises(PrometheusError, match="expected http://host:9090") as caught:
        base_url(text)
    assert "secret" not in str(caught.value)


def test_a_label_of_other_signs_is_named_in_quotes():
    assert equal({"k8s.cluster": 'a"b', "_x1": "c"}) == ('"k8s.cluster"="a\\"b"', '_x1="c"')


def test_steps_that_were_not_asked_for_are_left_out():
    """A server that aligns ranges its own way must not put its first value last."""
    begin = 1_768_046_400
    values = [[begin + 300 * step, str(0.1 * step)] for step in range(14)]
    series = Series(metric=msgspec.Raw(b"{}"), values=[(float(at), told) for at, told in values])
    found = _by_step(series, (begin, begin + 3600))
    assert found == pytest.approx([0.1 * step for step in range(1, 13)])
