"""Requests that an inference engine tells of, as evidence for and against idleness."""

import msgspec
import pytest

from gputailor_agent.model.containers import Amount, EngineUse, Peak
from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Finding, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import idle
from tests.agent.factories import HOUR, NOW, context, pod, profile, rows, workload


def judged(requests, last_request=None, *, hours=100):
    """A server whose GPU has done nothing since its start so many hours ago."""
    start = NOW - hours * HOUR
    made, world = profile(
        rows(start, NOW), [pod(start=start)], workload(kind="Deployment", task=TaskClass.UNKNOWN)
    )
    amounts = {Amount.ENGINE_OBSERVED: 3600.0, Amount.REQUESTS: float(requests)}
    peaks = {} if last_request is None else {Peak.LAST_REQUEST: float(last_request)}
    made = msgspec.structs.replace(made, engine=EngineUse.of({"vllm"}, amounts, peaks))
    return idle.RULE.evaluate(made, context(world))


def number(answer):
    return next(item for item in answer.evidence if item.name == "requests in the window")


def test_a_server_that_was_asked_lately_is_not_idle_though_its_gpu_did_nothing():
    answer = judged(12, NOW - HOUR)
    assert answer.kind is SilenceKind.FINE
    assert say(answer.message) == "standby: its engine had requests within the last 2 h"
    assert number(answer).value == 12


@pytest.mark.parametrize(("requests", "last"), [(0, None), (12, NOW - 90 * HOUR)])
def test_a_server_that_nobody_asked_for_days_is_idle_and_the_evidence_says_so(requests, last):
    answer = judged(requests, last)
    assert isinstance(answer, Finding)
    assert number(answer).value == requests
    assert "vllm" in number(answer).formula


def test_without_an_engine_nothing_is_said_of_requests():
    start = NOW - 100 * HOUR
    made, world = profile(rows(start, NOW), [pod(start=start)], workload(kind="Deployment"))
    answer = idle.RULE.evaluate(made, context(world))
    assert all(item.name != "requests in the window" for item in answer.evidence)
