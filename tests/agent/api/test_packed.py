"""The whole report is encoded once for a plan, and told from what the client has without that."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from fastapi.testclient import TestClient

from gputailor_agent.api import packed
from gputailor_agent.api.app import create_app
from gputailor_agent.api.packed import Packed
from tests.agent.api.standing import State, many
from tests.agent.reports.plans import sample_plan

PATH = "/api/v1/report"


@pytest.fixture
def encoded(monkeypatch):
    """How often a report was encoded, and a client of an agent."""
    made = []
    real = packed.json_report.encode
    monkeypatch.setattr(
        packed.json_report, "encode", lambda document: made.append(1) or real(document)
    )
    state = State(sample_plan())
    client = TestClient(create_app(state), headers={"accept-encoding": "identity"})
    return made, client, state


def test_it_is_encoded_once_for_a_plan_and_again_for_the_next(encoded):
    made, client, state = encoded
    first = client.get(PATH)
    assert client.get(PATH).content == first.content
    assert len(made) == 1
    state.plan = msgspec.structs.replace(state.plan, cluster="other")
    assert client.get(PATH).json()["plan"]["cluster"] == "other"
    assert len(made) == 2


def test_who_has_it_gets_304_without_anything_being_encoded(encoded):
    made, client, _ = encoded
    tag = client.get(PATH).headers["etag"]
    again = client.get(PATH, headers={"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert len(made) == 1


def test_each_language_has_its_own(encoded):
    made, client, _ = encoded
    texts = [client.get(PATH, params={"lang": name}).json()["headline"] for name in ("en", "zh")]
    assert len(set(texts)) == 2
    tags = {client.get(PATH, params={"lang": name}).headers["etag"] for name in ("en", "zh")}
    assert len(tags) == 2
    assert len(made) == 2


@pytest.mark.parametrize(
    ("accepted", "zipped"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000, *", False),
        ("br", False),
        ("identity", False),
        ("", False),
    ],
)
def test_it_comes_packed_to_who_reads_that(encoded, accepted, zipped):
    _, client, _ = encoded
    plain = client.get(PATH)
    answer = client.get(PATH, headers={"accept-encoding": accepted})
    assert (answer.headers.get("content-encoding") == "gzip") is zipped
    assert answer.content == plain.content
    assert "Accept-Encoding" in answer.headers["vary"]
    assert int(plain.headers["content-length"]) == len(plain.content)
    assert (answer.headers["etag"] == plain.headers["etag"]) is not zipped
    known = {"if-none-match": plain.headers["etag"], "accept-encoding": accepted}
    assert client.get(PATH, headers=known).status_code == 304


def test_a_head_tells_the_length_and_nothing_else(encoded):
    _, client, _ = encoded
    answer = client.head(PATH)
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 1000


def test_many_who_ask_at_once_wait_for_the_same(encoded):
    made, client, _ = encoded
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.get(PATH).content, range(16)))
    assert len(set(answers)) == 1
    assert len(made) == 1


def test_a_long_one_is_unpacked_in_pieces():
    text = json.dumps([f"{at:08d}" for at in range(200_000)]).encode()
    pieces = list(Packed(gzip.compress(text), len(text), "tag").pieces())
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= 1 << 18


def test_a_report_of_many_workloads_is_kept_small(encoded):
    _, client, state = encoded
    state.plan = sample_plan(verdicts=many(3000))
    kept = client.get(PATH, headers={"accept-encoding": "gzip"})
    assert int(kept.headers["content-length"]) < len(kept.content) / 10
