"""Input-bound: signs that the GPU waits for data, and what feeds it."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, Silence, SilenceKind
from gputailor_agent.rules.advising import opened
from gputailor_agent.rules.feeding import zero_share
from gputailor_agent.rules.input_bound import RULE
from tests.agent.factories import HOUR, NOW, context, pod, profile, rows, use, workload
from tests.agent.rules.advice_parts import (
    host,
    job,
    judged,
    key,
    number,
    seconds_told,
    without,
)

SLOW = {"kernel": 0.5, "sm": 0.3}
QUIET = {"zero_inside_active_minute": 0.0}
CALM = {"cpu_of_limit": 0.3, "throttled_ratio": 0.0, "pressure": {"io/some": 0.0}}


def with_cpus(pods, limit, shared=None):
    (one,) = pods
    container = msgspec.structs.replace(one.containers[0], cpu_limit=limit)
    return [msgspec.structs.replace(one, containers=(container,), shared_memory_bytes=shared)]


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ({"cpu_of_limit": 0.9}, "cpu"),
        ({"throttled_ratio": 0.25}, "cpu"),
        ({"pressure": {"io/some": 0.2}}, "io"),
    ],
)
def test_each_sign_is_enough_at_its_threshold(told, cause):
    answer = judged(RULE, *job(6, QUIET, **SLOW), with_host=host(**{**CALM, **told}))
    assert isinstance(answer, Finding)
    assert key(answer) == f"input_bound.{cause}"


@pytest.mark.parametrize(
    "told",
    [{"cpu_of_limit": 0.899}, {"throttled_ratio": 0.249}, {"pressure": {"io/some": 0.199}}],
)
def test_just_below_its_threshold_no_sign_is_enough(told):
    answer = judged(RULE, *job(6, QUIET, **SLOW), with_host=host(**{**CALM, **told}))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "input_bound.no_sign")


def pausing(zeros, work=None, **options):
    """An hour has ``zeros`` s at zero inside active minutes and 1800 s in which kernels ran."""
    start = NOW - 6 * HOUR
    levels = {"kernel": 1.0}
    told = {
        "kernel": msgspec.structs.replace(
            use(0.5), histogram=use(0.0, 1800).merge(use(1.0, 1800)).histogram
        ),
        "sm": use(0.3),
    }
    usage = rows(start, NOW, signals=told, **levels)
    usage = seconds_told(usage, {"zero_inside_active_minute": zeros / HOUR})
    return judged(RULE, usage, [pod(start=start)], work, **options)


def test_a_fifth_of_the_seconds_of_active_minutes_at_zero_is_a_sign():
    answer = pausing(450)
    assert isinstance(answer, Finding)
    assert key(answer) == "input_bound.zeros"
    assert number(answer, "samples at zero inside active minutes").value == pytest.approx(0.2)
    assert answer.slowdown is not None
    assert answer.slowdown.low == pytest.approx(1 - 450 / 3600)
    assert key(pausing(448)) == "input_bound.no_sign"


def test_a_server_that_pauses_waits_for_requests_not_for_data():
    work = workload("web", "Deployment", TaskClass.INFERENCE)
    usage, pods = job(8 * 24, {"zero_inside_active_minute": 0.4}, **SLOW)
    answer = judged(RULE, usage, pods, work)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "input_bound.unknown")


def test_a_notebook_pauses_as_its_person_does():
    work = workload("nb", "Notebook", TaskClass.NOTEBOOK)
    answer = judged(RULE, *job(8 * 24, {"zero_inside_active_minute": 0.4}, **SLOW), work)
    assert answer.kind == SilenceKind.NOT_APPLICABLE


def test_a_gpu_that_is_half_busy_is_busy_enough():
    starved = host(cpu_of_limit=1.0)
    assert isinstance(judged(RULE, *job(6, kernel=0.9, sm=0.499), with_host=starved), Finding)
    busy = judged(RULE, *job(6, kernel=0.9, sm=0.5), with_host=starved)
    assert (busy.kind, key(busy)) == (SilenceKind.FINE, "input_bound.busy")


def test_without_sm_kernels_stand_in_since_they_are_never_lower():
    starved = host(cpu_of_limit=1.0)
    answer = judged(RULE, *job(6, kernel=0.4), with_host=starved)
    assert isinstance(answer, Finding)
    assert answer.message.params["signal"] == "kernel"
    high = judged(RULE, *job(6, kernel=0.6), with_host=starved)
    assert key(high) == "input_bound.busy"


def test_where_nobody_tells_why_it_is_unknown_and_says_what_is_missing():
    answer = judged(RULE, *job(6, **SLOW))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "input_bound.unknown")
    assert answer.missing_signals == ("cpu", "throttled", "io_pressure", "zeros")


def test_a_gpu_that_never_ran_anything_is_left_to_idle():
    answer = judged(RULE, *job(6, kernel=0.0, sm=0.0), with_host=host(cpu_of_limit=1.0))
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "input_bound.nothing_ran")


def test_a_cpu_at_its_limit_gets_twice_as_many():
    usage, pods = job(6, **SLOW)
    work = workload(kind="CronJob", framework="pytorch")
    starved = host(cpu_of_limit=0.95, throttled_ratio=0.4)
    answer = judged(RULE, usage, with_cpus(pods, 2.5), work, with_host=starved)
    assert isinstance(answer, Finding)
    assert answer.change.kind == "set_cpu_limit"
    assert "cpu: '5'" in answer.change.patch
    assert answer.change.command.startswith("kubectl -n team-a patch cronjob/train")
    assert answer.confidence == Confidence.HIGH  # two signs agree


def test_workers_of_pytorch_need_a_larger_shared_memory_first():
    usage, pods = job(6, **SLOW)
    told = host(**{**CALM, "pressure": {"io/some": 0.5}})
    small = judged(RULE, usage, with_cpus(pods, 8.0), with_host=told)
    large = judged(RULE, usage, with_cpus(pods, 8.0, shared=2**33), with_host=told)
    assert isinstance(small, Finding)
    assert isinstance(large, Finding)
    assert "mountPath: /dev/shm" in small.change.patch
    assert "num_workers=8" in small.change.code
    assert (large.change.kind, large.change.patch) == ("edit_code", "")


def test_case_23_a_gap_is_not_advice():
    usage, pods = job(6, **SLOW, observed=0.8 * HOUR)
    answer = judged(RULE, usage, pods, with_host=host(cpu_of_limit=1.0))
    assert key(answer) == "gate.coverage"


@given(
    kernel=st.sampled_from([0.3, 0.45, 0.6, 1.0]),
    width=st.sampled_from([0.2, 0.5, 1.0]),
    zeros=st.sampled_from([0.0, 0.1, 0.5]),
    cpu=st.sampled_from([None, 0.5, 0.95]),
    lost=st.sampled_from(["kernel", "sm", "zero_inside_active_minute", "host"]),
)
@settings(max_examples=60, deadline=None)
def test_what_is_lost_never_makes_a_finding(kernel, width, zeros, cpu, lost):
    told = {"zero_inside_active_minute": zeros}
    made, world = profile(*job(4, told, kernel=kernel, sm=kernel * width))
    made = msgspec.structs.replace(made, host=host(cpu_of_limit=cpu))
    less = msgspec.structs.replace(made, host=None) if lost == "host" else without(made, lost)
    if isinstance(RULE.evaluate(less, context(world)), Finding):
        assert isinstance(RULE.evaluate(made, context(world)), Finding)


def test_where_nothing_ran_no_share_of_it_was_at_zero():
    usage, pods = job(6, QUIET, kernel=0.0, sm=0.0)
    made, world = profile(usage, pods)
    case = opened(RULE, made, context(world))
    assert not isinstance(case, Silence)
    assert zero_share(case) == 0.0


@pytest.mark.parametrize(
    ("told", "severity", "confidence"),
    [
        ({"cpu_of_limit": 0.95}, Severity.LOW, Confidence.MEDIUM),
        ({"cpu_of_limit": 0.95, "throttled_ratio": 0.3}, Severity.MEDIUM, Confidence.HIGH),
    ],
)
def test_two_signs_make_it_surer_and_more_urgent(told, severity, confidence):
    answer = judged(RULE, *job(6, QUIET, **SLOW), with_host=host(**{**CALM, **told}))
    assert isinstance(answer, Finding)
    assert (answer.severity, answer.confidence) == (severity, confidence)
