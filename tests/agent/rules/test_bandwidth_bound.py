"""Bandwidth-bound: memory busy, SMs waiting."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Confidence, Finding, Interval, SilenceKind
from gputailor_agent.rules.bandwidth_bound import RULE
from tests.agent.factories import HOUR, context, node, profile, workload
from tests.agent.rules.advice_parts import job, judged, key, without

BOUND = {"kernel": 1.0, "sm": 0.3, "dram": 0.8}


def test_busy_memory_and_waiting_sms_are_told_to_fuse_and_compile():
    answer = judged(RULE, *job(6, **BOUND))
    assert isinstance(answer, Finding)
    assert key(answer) == "bandwidth_bound.found"
    assert "torch.compile" in answer.change.code
    assert answer.saving.gpu_hours_per_month is None
    assert answer.slowdown == Interval(low=pytest.approx(0.3), high=1.0)


@pytest.mark.parametrize(
    ("levels", "fires"),
    [
        ({"dram": 0.5, "sm": 0.499}, True),
        ({"dram": 0.499, "sm": 0.3}, False),
        ({"dram": 0.8, "sm": 0.5}, False),
    ],
)
def test_both_thresholds_are_exact(levels, fires):
    answer = judged(RULE, *job(6, **{**BOUND, **levels}))
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "bandwidth_bound.fine")


def test_pauses_neither_hide_it_nor_make_it():
    """Means over the time it runs: 0.3 of 0.5 is 0.6, and SMs at 0.4 of 0.5 are busy."""
    half = judged(RULE, *job(6, kernel=0.5, sm=0.1, dram=0.3))
    assert isinstance(half, Finding)
    assert half.message.params["dram"] == pytest.approx(0.6)
    busy = judged(RULE, *job(6, kernel=0.5, sm=0.4, dram=0.3))
    assert key(busy) == "bandwidth_bound.fine"


def test_a_card_with_less_bandwidth_is_never_the_answer():
    nodes = [node("a", model="A100"), node("b", model="A40"), node("c", model="H100")]
    answer = judged(RULE, *job(6, **BOUND), nodes=nodes)
    assert isinstance(answer, Finding)
    named = [m.params["model"] for m in answer.not_chosen if m.key.endswith("less_bandwidth")]
    assert named == ["A40"]
    assert answer.change.kind == "edit_code"


@pytest.mark.parametrize("signal", ["sm", "dram"])
def test_a_signal_that_cannot_be_read_is_named(signal):
    levels = {name: level for name, level in BOUND.items() if name != signal}
    answer = judged(RULE, *job(6, **levels))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "bandwidth_bound.no_signal")
    assert answer.missing_signals == (signal,)


def test_case_21_memory_copy_utilisation_is_no_bandwidth():
    """NVML's memory utilisation is time, neither bandwidth nor size: it is not read."""
    answer = judged(RULE, *job(6, kernel=1.0, sm=0.3, memcopy=0.9))
    assert answer.kind == SilenceKind.UNKNOWN
    assert "dram" in answer.missing_signals


def test_an_unknown_framework_leaves_low_confidence():
    answer = judged(RULE, *job(6, **BOUND), workload(framework=""))
    assert isinstance(answer, Finding)
    assert (answer.confidence, answer.change.code) == (Confidence.LOW, "")


def test_what_never_ran_or_was_not_watched_is_not_judged():
    assert judged(RULE, *job(6, kernel=0.0, sm=0.0, dram=0.0)).kind == SilenceKind.NOT_APPLICABLE
    assert key(judged(RULE, *job(6, **BOUND, observed=0.8 * HOUR))) == "gate.coverage"


@given(
    kernel=st.sampled_from([0.2, 0.6, 1.0]),
    sm=st.sampled_from([0.1, 0.45, 0.55]),
    dram=st.sampled_from([0.1, 0.5, 0.9]),
    lost=st.sampled_from(["kernel", "sm", "dram"]),
)
@settings(max_examples=50, deadline=None)
def test_a_signal_that_is_lost_never_makes_a_finding(kernel, sm, dram, lost):
    made, world = profile(*job(3, kernel=kernel, sm=sm * kernel, dram=dram * kernel))
    if isinstance(RULE.evaluate(without(made, lost), context(world)), Finding):
        assert isinstance(RULE.evaluate(made, context(world)), Finding)
