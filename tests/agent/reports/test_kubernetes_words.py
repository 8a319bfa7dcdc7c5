"""What an object is told: short enough for the API server, the same whenever it is made."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Change, Confidence, Message, Money, Saving, Severity
from gputailor_agent.reports.delivery.kubernetes_words import (
    Series,
    Target,
    annotation,
    differs,
    event,
    reason_of,
    recommended,
)
from gputailor_agent.rules import registry
from tests.agent.reports.plans import FINE, IDLE, UNSEEN, WATCHED, finding, sample_plan, verdict

T0 = 1_800_000_000.0
CHAT = Target(api_version="apps/v1", kind="Deployment", namespace="team-a", name="old", uid="u-1")


def said(at=T0, **more):
    given_ = {"money": 500.0} | more
    found = finding(IDLE, "idle", given_.pop("money"), **given_)
    return recommended(verdict(IDLE, "finding", primary=found), at)


def made(recommendation, series=None):
    return event(CHAT, recommendation, series or Series(began=T0), cluster="blue")


def test_an_event_names_its_object_and_the_rule_and_what_it_saves():
    message = Message(key="idle.from_start", params={"gpus": 1, "idle": 7200.0})
    found = made(said(message=message))
    assert found["regarding"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "team-a",
        "name": "old",
        "uid": "u-1",
    }
    assert (found["apiVersion"], found["reason"], found["type"]) == (
        "events.k8s.io/v1",
        "GpuIdle",
        "Warning",
    )
    assert found["note"] == (
        "1 GPU held for 2 h and never used: release them. Saving: USD 500/month; confidence: high. "
        f"gputailor explain {IDLE}"
    )
    assert found["eventTime"] == "2027-01-15T08:00:00.000000Z"
    assert "series" not in found


def test_what_is_not_urgent_is_a_normal_event():
    assert made(said(severity=Severity.MEDIUM))["type"] == "Normal"


def test_a_recommendation_that_is_back_is_the_next_of_its_series():
    first, again = made(said()), made(said(at=T0 + 9000), Series(began=T0, count=2))
    assert again["metadata"]["name"] == first["metadata"]["name"]
    assert again["series"] == {"count": 2, "lastObservedTime": "2027-01-15T10:30:00.000000Z"}


def test_every_rule_has_a_reason_that_the_api_server_takes():
    reasons = [reason_of(rule.id) for rule in registry()]
    assert len(set(reasons)) == len(reasons)
    assert all(re.fullmatch(r"Gpu[A-Z][A-Za-z]{1,60}", one) for one in reasons)


def test_the_annotation_holds_the_recommendation_as_json():
    asked = Change(kind="release", target="Deployment team-a/old", command="kubectl scale old")
    told = said(change=asked)
    assert json.loads(annotation(told, "https://gpu.example.org/")) == {
        "rule": "idle",
        "change": "release: Deployment team-a/old",
        "why": told.words,
        "command": "kubectl scale old",
        "container": "main",
        "saving": {"gpuHoursPerMonth": 730.0, "moneyPerMonth": 500.0, "currency": "USD"},
        "confidence": "high",
        "date": "2027-01-15T08:00:00Z",
        "link": "https://gpu.example.org/workloads/team-a/Deployment/old/main",
    }


def test_a_saving_that_is_not_known_is_null_and_never_zero():
    told = json.loads(annotation(said(saving=Saving())))
    assert told["saving"] == {"gpuHoursPerMonth": None, "moneyPerMonth": None, "currency": None}
    assert "link" not in told
    assert " 0" not in made(said(saving=Saving()))["note"]


@pytest.mark.parametrize("identity", [FINE, WATCHED, UNSEEN])
def test_only_who_has_a_finding_is_told(identity):
    (one,) = [each for each in sample_plan().verdicts if each.workload.id == identity]
    assert recommended(one, T0) is None


def test_a_finding_whose_data_is_unknown_is_not_told():
    assert recommended(verdict(IDLE, "unknown", primary=finding(IDLE, "idle", 1.0)), T0) is None


@given(
    text=st.text(max_size=4000),
    name=st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=253),
)
def test_no_words_and_no_name_are_too_long_for_the_api_server(text, name):
    told = msgspec.structs.replace(said(), words=text)
    found = event(
        msgspec.structs.replace(CHAT, name=name), told, Series(began=T0), cluster="c" * 300
    )
    assert len(found["note"].encode()) <= 1024
    assert found["note"].endswith(f"gputailor explain {IDLE}")
    assert len(found["reportingInstance"]) <= 128
    assert len(found["metadata"]["name"]) <= 253
    assert re.fullmatch(
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
        re.sub(r"[.-]{2,}", ".", found["metadata"]["name"]),
    )
    assert len(annotation(told)) < 10_000


def test_names_that_would_turn_a_terminal_around_are_written_out():
    hostile = said(message=Message(key="x\u202e\x1b[31m\ny"))
    assert not re.search("[\u202e\x1b\n]", made(hostile)["note"])
    assert not re.search("[\u202e\x1b\n]", json.loads(annotation(hostile))["why"])


@given(amount=st.floats(1, 1e6), moved=st.floats(-0.099, 0.099))
def test_a_saving_that_moves_a_little_is_no_news(amount, moved):
    old, new = said(money=amount), said(money=amount * (1 + moved))
    assert not differs(old, new)


@pytest.mark.parametrize(
    "more",
    [
        {"money": 600.0},
        {"money": None},
        {"saving": Saving(money_per_month=Money(amount=500.0, currency="EUR"))},
        {"confidence": Confidence.LOW},
        {"severity": Severity.LOW},
        {"change": Change(kind="set_gpus", target="x", params={"gpus": 2})},
    ],
)
def test_another_saving_confidence_or_change_is_news(more):
    assert differs(said(), said(**more))


def test_the_time_that_passes_is_no_news():
    later = Message(key="idle.from_start", params={"gpus": 1, "idle": 9999.0})
    assert not differs(said(), said(at=T0 + 9000, message=later))
