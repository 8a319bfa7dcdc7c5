"""Too many GPUs: never-active ones, unused replicas, and low use everywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import GpuRequest, Outcome
from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Interval,
    Silence,
    SilenceKind,
)
from gputailor_agent.rules import too_many_gpus
from gputailor_agent.rules.margins import fewer_gpus_margins, widened
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    context,
    pod,
    profile,
    row,
    rows,
    use,
    workload,
)

EIGHT = (GpuRequest(resource="nvidia.com/gpu", count=8, kind="gpu", vendor="nvidia"),)


def judge(usage, pods, work=None, **options):
    made, world = profile(usage, pods, work, **options)
    return too_many_gpus.RULE.evaluate(made, context(world))


def job(levels, *, hours=6, name="train-0", finished=None, end=NOW, **options):
    """One pod with one GPU per level; a level of None was never measured."""
    start = end - hours * HOUR
    usage = [
        one
        for i, level in enumerate(levels)
        if level is not None
        for one in rows(start, end, pod=name, gpu=f"{name}-G{i}", kernel=level, sm=level, **options)
    ]
    return usage, [pod(name, gpus=len(levels), start=start, finished=finished)]


def evidence(answer, name):
    return next(item for item in answer.evidence if item.name == name)


def test_one_of_eight_never_active_means_seven_case_18():
    answer = judge(*job([0.9] * 7 + [0.0]), workload(gpu_requests=EIGHT))
    assert isinstance(answer, Finding)
    assert answer.message.key == "too_many_gpus.never_active"
    assert answer.message.params == {"unused": 1, "gpus": 8, "needed": 7}
    assert answer.change.kind == "set_gpus"
    assert answer.change.params["gpus"] == 7
    assert "nvidia.com/gpu: 7" in answer.change.patch
    assert {risk.key for risk in answer.risks} >= {"too_many_gpus.risk_divisor"}


def test_gpus_that_never_worked_slow_nothing_down_when_they_go():
    answer = judge(*job([0.9, 0.9, 0.0, 0.0]))
    assert isinstance(answer, Finding)
    assert answer.slowdown == Interval(low=1.0, high=1.0)


def test_the_slowdown_is_bounded_by_packing_and_by_perfect_scaling_with_measured_margins():
    answer = judge(*job([0.1] * 8))
    assert isinstance(answer, Finding)
    assert answer.change.params["gpus"] == 2
    margins = fewer_gpus_margins()
    plain = Interval(low=1.0, high=4.0)  # 8 x 0.1 / 2 = 0.4
    assert answer.slowdown == widened(plain, margins)
    assert (answer.slowdown.low, answer.slowdown.high) == (1 / margins.low, 4 * margins.high)
    assert evidence(answer, "mean sm").value == pytest.approx(0.1)
    (risk,) = [one for one in answer.risks if one.key == "too_many_gpus.risk_scaling"]
    assert risk.params["high"] == answer.slowdown.high


def test_the_margins_are_named_with_their_source():
    for end in ("slowdown at least", "slowdown at most"):
        formula = evidence(judge(*job([0.1] * 8)), end).formula
        assert fewer_gpus_margins().source in formula
    assert "Sia" not in evidence(judge(*job([0.9, 0.0])), "slowdown at most").formula


def test_the_unused_share_is_saved():
    answer = judge(*job([0.9, 0.9, 0.0, 0.0], hours=14 * 24))
    assert isinstance(answer, Finding)
    assert answer.saving.gpu_hours_per_month == pytest.approx(2 * 730)
    assert answer.saving.money_per_month is not None
    assert answer.saving.money_per_month.amount == pytest.approx(2 * 730 * 4.0)


def test_a_gpu_that_worked_in_any_run_is_needed():
    first, pods = job([0.9, 0.0], name="a", finished=NOW - DAY, end=NOW - DAY)
    second, more = job([0.9, 0.9], name="b")
    answer = judge([*first, *second], [*pods, *more], runs={"a": pods, "b": more})
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.FINE


def test_a_gpu_that_was_never_measured_counts_as_needed():
    levels = [0.9] * 15 + [None]
    answer = judge(*job(levels))
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.FINE


def test_a_gpu_that_only_decodes_is_needed():
    start = NOW - 6 * HOUR
    usage = [
        *rows(start, NOW, gpu="G0", kernel=0.9, sm=0.9),
        *rows(start, NOW, gpu="G1", kernel=0.0, sm=0.0, decoder=0.4),
    ]
    answer = judge(usage, [pod(gpus=2, start=start)])
    assert isinstance(answer, Silence)


def test_a_job_that_used_none_of_its_gpus_is_left_to_idle():
    answer = judge(*job([0.0, 0.0]))
    assert isinstance(answer, Silence)
    assert answer.message.key == "too_many_gpus.none_active"


def test_one_gpu_cannot_be_fewer():
    answer = judge(*job([0.9]))
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.NOT_APPLICABLE


def test_eight_gpus_that_are_used_little_are_worth_a_test_but_no_money():
    answer = judge(*job([0.15] * 8))
    assert isinstance(answer, Finding)
    assert answer.message.key == "too_many_gpus.verify_scaling"
    assert answer.message.params["needed"] == 4  # twice 1.2, up to a divisor of 8
    assert answer.confidence == Confidence.LOW
    assert answer.saving.money_per_month is None
    assert answer.saving.gpu_hours_per_month is None


def test_ordinary_training_at_forty_percent_is_left_alone():
    answer = judge(*job([0.4] * 8))
    assert isinstance(answer, Silence)
    assert answer.message.key == "too_many_gpus.all_active"


def test_bursts_are_seen_by_the_quantile_where_the_mean_is_low():
    """Full for a tenth of the time: the mean is 0.1, the p95 is 1."""
    start = NOW - 10 * HOUR
    usage = []
    for i in range(4):
        for hour in range(start, NOW, HOUR):
            level = 1.0 if hour == start else 0.01
            usage.append(row(hour, gpu=f"G{i}", kernel=level, sm=level))
    answer = judge(usage, [pod(gpus=4, start=start)])
    assert isinstance(answer, Silence)


def test_without_a_histogram_low_use_is_not_guessed_from_the_mean():
    start = NOW - 6 * HOUR
    usage = [
        row(
            hour,
            gpu=f"G{i}",
            signals={"kernel": use(0.1, with_histogram=False)},
        )
        for i in range(8)
        for hour in range(start, NOW, HOUR)
    ]
    answer = judge(usage, [pod(gpus=8, start=start)])
    assert isinstance(answer, Silence)
    assert answer.message.key == "too_many_gpus.no_quantile"


def test_kernel_activity_stands_in_for_sm_and_says_so():
    start = NOW - 6 * HOUR
    usage = [
        one for i in range(4) for one in rows(start, NOW, gpu=f"G{i}", kernel=0.9 if i < 2 else 0.0)
    ]
    answer = judge(usage, [pod(gpus=4, start=start)])
    assert isinstance(answer, Finding)
    assert "too_many_gpus.kernel_only" in {risk.key for risk in answer.risks}


def test_nothing_is_taken_from_a_job_that_only_fails():
    usage, pods = job([0.9, 0.0])
    answer = judge(usage, pods, outcomes={"run-1": Outcome.FAILED})
    assert isinstance(answer, Silence)
    assert answer.message.key == "gate.only_failed"


def test_runs_of_other_sizes_narrow_the_slowdown():
    """4 h on 8 GPUs and 6 h on 4: 2 h + 16 h / GPUs, so 10 h on 2, not 16."""
    usage, pods, runs = [], [], {}
    for place, (size, hours) in enumerate([(8, 4), (8, 4), (4, 6)]):
        end = NOW - place * DAY
        more, members = job([0.1] * size, hours=hours, name=f"run-{place}", finished=end, end=end)
        usage += more
        pods += members
        runs[f"run-{place}"] = members
    answer = judge(usage, pods, runs=runs)
    assert isinstance(answer, Finding)
    assert answer.change.params["gpus"] == 2
    assert answer.slowdown is not None
    assert answer.slowdown.high == pytest.approx(2.5 * fewer_gpus_margins().high)


@given(
    missing=st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4),
    level=st.sampled_from([0.0, 0.1, 0.9]),
)
@settings(max_examples=40, deadline=None)
def test_it_never_fires_below_its_coverage_gate(missing, level):
    start = NOW - 4 * HOUR
    usage = [
        row(start + place * HOUR, gpu=f"G{gpu}", observed=HOUR * seen,
            kernel=0.9 if gpu == 0 else level, sm=level)
        for gpu in range(4)
        for place, seen in enumerate(missing)
    ]  # fmt: skip
    answer = judge(usage, [pod(gpus=4, start=start)])
    if sum(missing) / 4 < 0.89:
        assert isinstance(answer, Silence)
