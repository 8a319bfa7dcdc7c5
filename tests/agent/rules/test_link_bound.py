"""Link-bound: a full link for a fifth of the active time."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Confidence, Finding, SilenceKind
from gputailor_agent.rules.link_bound import RULE
from tests.agent.factories import HOUR, NOW, context, pod, profile, rows
from tests.agent.rules.advice_parts import job, judged, key, number, seconds_told, without

BUSY = {"kernel": 0.9, "sm": 0.4}


def linked(full, sent=None, **levels):
    usage, pods = job(6, {"link_saturated": full}, **{**BUSY, **levels})
    usage = [msgspec.structs.replace(row, link_bytes=sent or {}) for row in usage]
    return judged(RULE, usage, pods)


def test_a_fifth_of_the_active_time_is_enough_and_less_is_not():
    fires, below = linked(0.2), linked(0.199)
    assert isinstance(fires, Finding)
    assert number(fires, "active time with a full link").value == pytest.approx(0.2)
    assert (below.kind, key(below)) == (SilenceKind.FINE, "link_bound.fine")


def test_time_in_which_nothing_ran_does_not_count():
    """Half of each hour nothing runs: a tenth of the time is a fifth of the active time."""
    start = NOW - 6 * HOUR
    quiet = seconds_told(rows(start, start + 3 * HOUR, kernel=0.0), {"link_saturated": 0.0})
    busy = seconds_told(rows(start + 3 * HOUR, NOW, **BUSY), {"link_saturated": 0.2})
    answer = judged(RULE, [*quiet, *busy], [pod(start=start)])
    assert isinstance(answer, Finding)


@pytest.mark.parametrize(
    ("sent", "link"),
    [
        ({"pcie/rx": 2e12, "nvlink/tx": 1e12}, "pcie"),
        ({"pcie/rx": 1e12, "nvlink/tx": 1e12, "nvlink/rx": 1e12}, "nvlink"),
        ({}, "some"),
    ],
)
def test_the_bytes_tell_which_link_it_was(sent, link):
    answer = linked(0.5, sent)
    assert isinstance(answer, Finding)
    assert key(answer) == f"link_bound.{link}"
    assert answer.change.code
    assert (answer.confidence == Confidence.LOW) is (link == "some")
    reason = number(answer, "confidence").formula
    assert ("which link was full is not known" in reason) is (link == "some")
    assert ("watched second by second" in reason) is (link != "some")


def test_it_cannot_get_faster_than_the_full_seconds_allow():
    answer = linked(0.5)
    assert isinstance(answer, Finding)
    assert answer.slowdown is not None
    assert (answer.slowdown.low, answer.slowdown.high) == (pytest.approx(0.5), 1.0)
    assert answer.saving.money_per_month is None


def test_an_exporter_that_does_not_count_it_leaves_it_unknown():
    answer = judged(RULE, *job(6, **BUSY))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "link_bound.unknown")
    assert answer.missing_signals == ("link_saturated",)


def test_nothing_ran_is_no_business_of_this_rule():
    answer = linked(0.0, kernel=0.0, sm=0.0)
    assert answer.kind == SilenceKind.NOT_APPLICABLE


def test_a_short_run_is_watched():
    usage = seconds_told(rows(NOW - HOUR, NOW, seconds=1800, **BUSY), {"link_saturated": 0.9})
    assert key(judged(RULE, usage, [pod(start=NOW - HOUR // 2)])) == "gate.batch_runs"


@given(
    full=st.floats(0.0, 1.0),
    kernel=st.sampled_from([0.0, 0.1, 0.9]),
    lost=st.sampled_from(["kernel", "sm", "link_saturated"]),
)
@settings(max_examples=40, deadline=None)
def test_what_is_lost_never_makes_a_finding(full, kernel, lost):
    made, world = profile(*job(3, {"link_saturated": full}, kernel=kernel, sm=kernel / 2))
    if isinstance(RULE.evaluate(without(made, lost), context(world)), Finding):
        assert isinstance(RULE.evaluate(made, context(world)), Finding)
