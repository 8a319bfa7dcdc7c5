"""Idle: only what was seen to do nothing, all of it, for long enough."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Message,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.usage import SignalUse
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import idle
from gputailor_agent.rules.idleness import Doubt
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    FakeCatalogue,
    device,
    node,
    pod,
    row,
    rows,
    use,
    workload,
)
from tests.agent.rules.idle_parts import evidence, idle_since_start, judge, worked_until


def test_six_hours_of_nothing_since_the_start_should_be_released():
    answer = judge(*idle_since_start(6), workload(kind="Deployment", task=TaskClass.UNKNOWN))
    assert isinstance(answer, Finding)
    assert answer.message.key == "idle.from_start_outlook"
    assert (answer.severity, answer.confidence) == (Severity.HIGH, Confidence.HIGH)
    assert answer.change.kind == "release"
    assert answer.change.command == "kubectl -n team-a scale deployment/train --replicas=0"
    assert answer.saving.gpu_hours_per_month == 730
    assert answer.saving.money_per_month is not None
    assert answer.saving.money_per_month.amount == pytest.approx(730 * 4.0)


def test_from_one_hour_to_six_it_is_told_without_a_saving():
    start = NOW - 1.5 * HOUR
    usage = [row(NOW - 2 * HOUR, seconds=HOUR / 2), row(NOW - HOUR)]
    answer = judge(usage, [pod(start=start)])
    assert isinstance(answer, Finding)
    assert answer.message.key == "idle.notice_from_start_outlook"
    assert (answer.severity, answer.confidence) == (Severity.LOW, Confidence.LOW)
    assert answer.saving.gpu_hours_per_month is None
    assert answer.saving.money_per_month is None
    assert answer.saving.why == Message(key="money.not_counted")


def test_before_the_first_hour_is_over_it_waits_and_says_until_when():
    start = NOW - HOUR / 2
    answer = judge([row(NOW - HOUR, seconds=HOUR / 2)], [pod(start=start)])
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.WATCHING, "idle.too_early")
    assert answer.ready_at == start + HOUR


def test_after_some_work_it_takes_four_hours_to_tell_and_sixteen_to_act():
    paused = worked_until(3).message
    assert say(paused) == "in use: none of 1 GPU has paused for longer than 3 h by now"
    told, still_told, acted = worked_until(4), worked_until(15), worked_until(16)
    assert all(isinstance(one, Finding) for one in (told, still_told, acted))
    assert told.message.key == still_told.message.key == "idle.notice_went_idle_outlook"
    assert told.confidence == still_told.confidence == Confidence.LOW
    assert (acted.severity, acted.confidence) == (Severity.HIGH, Confidence.HIGH)
    assert acted.message.key == "idle.went_idle_outlook"
    assert acted.message.params["since"] == NOW - 16 * HOUR


def test_without_a_last_active_time_the_hour_of_the_last_activity_counts_to_its_end():
    start = NOW - 8 * HOUR
    usage = [row(hour, kernel=0.1 if hour == start else 0.0) for hour in range(start, NOW, HOUR)]
    answer = judge(usage, [pod(start=start)])
    assert isinstance(answer, Finding)
    assert answer.message.params["since"] == start + HOUR


def test_a_notebook_is_asked_after_thirty_minutes_and_softly():
    lab = workload(kind="Notebook", task=TaskClass.NOTEBOOK)
    answer = judge([row(NOW - HOUR, seconds=HOUR / 2)], [pod(start=NOW - HOUR / 2)], lab)
    assert isinstance(answer, Finding)
    assert answer.message.key == "idle.notebook_outlook"
    assert (answer.severity, answer.confidence) == (Severity.LOW, Confidence.LOW)
    assert answer.saving.gpu_hours_per_month is None
    assert "kubeflow-resource-stopped" in answer.change.command


def test_a_notebook_over_the_weekend_is_asked_softly_and_its_saving_counts():
    start = NOW - 2 * DAY
    lab = workload(kind="Notebook", task=TaskClass.NOTEBOOK)
    answer = judge(rows(start, NOW), [pod(start=start)], lab)
    assert answer.message.key == "idle.notebook_outlook"
    assert (answer.severity, answer.confidence) == (Severity.MEDIUM, Confidence.HIGH)
    assert answer.saving.gpu_hours_per_month is not None


def test_of_a_notebook_only_the_part_that_it_idled_is_saved_since_its_person_comes_back():
    start = NOW - 4 * DAY
    usage = [row(hour, kernel=0.5 if hour < NOW - DAY else 0.0) for hour in range(start, NOW, HOUR)]
    lab = workload(kind="Notebook", task=TaskClass.NOTEBOOK)
    answer = judge(usage, [pod(start=start)], lab)
    assert isinstance(answer, Finding)
    assert answer.saving.gpu_hours_per_month == pytest.approx(730 / 4)


def test_a_loaded_inference_service_that_worked_this_morning_stands_by():
    answer = worked_until(8, workload(kind="Deployment", task=TaskClass.INFERENCE))
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.FINE, "idle.standby")


def test_a_loaded_inference_service_without_any_request_gets_a_softer_word():
    serves = workload(kind="Deployment", task=TaskClass.INFERENCE)
    early, answer = judge(*idle_since_start(5), serves), judge(*idle_since_start(6), serves)
    assert isinstance(answer, Finding)
    assert early.message.key == answer.message.key == "idle.inference_outlook"
    assert (early.severity, answer.severity) == (Severity.LOW, Severity.MEDIUM)
    assert (early.confidence, answer.confidence) == (Confidence.LOW, Confidence.HIGH)


def test_one_idle_gpu_of_eight_is_not_idleness_case_18():
    usage = [
        one
        for i in range(8)
        for one in rows(NOW - 6 * HOUR, NOW, gpu=f"G{i}", kernel=0.0 if i == 7 else 0.9)
    ]
    answer = judge(usage, [pod(gpus=8, start=NOW - 6 * HOUR)])
    assert isinstance(answer, Silence)
    assert answer.message.key == "idle.some_active"
    assert answer.message.params == {"gpus": 8, "idle_gpus": 1}


def test_one_idle_replica_of_ten_is_not_idleness_case_18():
    pods = [pod(f"web-{i}", start=NOW - DAY) for i in range(10)]
    usage = [
        one
        for i in range(10)
        for one in rows(NOW - DAY, NOW, pod=f"web-{i}", gpu=f"G{i}", kernel=0.3 if i else 0.0)
    ]
    answer = judge(usage, pods, workload("web", "Deployment", TaskClass.INFERENCE))
    assert isinstance(answer, Silence)
    assert answer.message.key == "idle.some_active"


def test_a_gap_is_unknown_and_never_zero_case_23():
    usage = rows(NOW - 10 * HOUR, NOW - 5 * HOUR)
    answer = judge(usage, [pod(start=NOW - 10 * HOUR)])
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.UNKNOWN, "idle.unknown_coverage")
    assert evidence(answer, "coverage of the idle time").value == 0.5
    assert evidence(answer, "coverage of the idle time").passed is False


def test_after_a_gap_only_what_was_observed_since_counts():
    """Five hours, a gap of five, five hours: idle for the last five, whatever was before."""
    usage = [*rows(NOW - 15 * HOUR, NOW - 10 * HOUR), *rows(NOW - 5 * HOUR, NOW)]
    answer = judge(usage, [pod(start=NOW - 15 * HOUR)])
    assert isinstance(answer, Finding)
    assert answer.message.key == "idle.notice_went_idle_outlook"
    assert answer.message.params["since"] == NOW - 5 * HOUR
    shorter = [one for one in usage if one.key.hour != NOW - 5 * HOUR]
    late = judge(
        [one for one in shorter if one.key.hour != NOW - 4 * HOUR], [pod(start=NOW - 15 * HOUR)]
    )
    assert isinstance(late, Silence)
    assert late.kind == SilenceKind.UNKNOWN


def test_a_pod_that_ran_before_anybody_looked_is_judged_from_then_on():
    answer = judge(rows(NOW - 6 * HOUR, NOW), [pod(start=NOW - 40 * HOUR)])
    assert isinstance(answer, Finding)
    assert answer.message.params["since"] == NOW - 6 * HOUR


def test_a_pod_that_was_never_measured_is_unknown():
    answer = judge([], [pod(start=NOW - 10 * HOUR)])
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.UNKNOWN


def test_a_signal_that_stopped_is_unknown_from_then_on():
    worked = [row(NOW - 8 * HOUR, kernel=1.0, last_active=float(NOW - 7 * HOUR))]
    stopped = [row(hour, signals={}) for hour in range(NOW - 7 * HOUR, NOW, HOUR)]
    answer = judge([*worked, *stopped], [pod(start=NOW - 8 * HOUR)])
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.UNKNOWN


def test_one_unmeasured_gpu_of_two_keeps_the_answer_unknown():
    usage = rows(NOW - 6 * HOUR, NOW)
    answer = judge(usage, [pod(gpus=2, start=NOW - 6 * HOUR)])
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.UNKNOWN


def test_power_above_that_of_a_loaded_card_contradicts_zero_counters_case_5():
    answer = judge(*idle_since_start(6, watts=300.0))
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.UNKNOWN
    assert answer.message.key == "idle.unknown_power"
    drawn = evidence(answer, "least mean power while idle")
    assert (drawn.value, drawn.threshold, drawn.passed) == (300.0, 140.0, False)


def test_a_small_card_with_a_loaded_context_may_draw_half_its_board_power():
    answer = judge(
        *idle_since_start(6, watts=30.0, gpu="G"),
        devices=[device("G", "T4")],
        nodes=[node(model="T4")],
    )
    assert isinstance(answer, Finding)


def test_the_energy_of_earlier_work_does_not_contradict_idleness_now():
    start = NOW - 12 * HOUR
    usage = [
        row(hour, kernel=1.0 if hour < NOW - 6 * HOUR else 0.0,
            watts=390.0 if hour < NOW - 6 * HOUR else 60.0)
        for hour in range(start, NOW, HOUR)
    ]  # fmt: skip
    assert isinstance(judge(usage, [pod(start=start)]), Finding)


def test_profiling_counters_stuck_at_zero_on_a_slice_with_kernels_running_are_not_idle_case_5():
    usage = rows(NOW - 6 * HOUR, NOW, kernel=0.9, sm=0.0, tensor=0.0)
    answer = judge(usage, [pod(start=NOW - 6 * HOUR)])
    assert isinstance(answer, Silence)


def test_kernels_at_zero_while_tensor_cores_work_contradict_each_other():
    usage = rows(NOW - 6 * HOUR, NOW, kernel=0.0, tensor=0.5)
    answer = judge(usage, [pod(start=NOW - 6 * HOUR)])
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.UNKNOWN


def test_a_transcoding_job_without_kernels_is_not_idle():
    usage = rows(NOW - 6 * HOUR, NOW, kernel=0.0, decoder=0.8, last_active=float(NOW))
    answer = judge(usage, [pod(start=NOW - 6 * HOUR)])
    assert isinstance(answer, Silence)
    assert say(answer.message) == "in use: 1 GPU at work up to the window's end"


def test_kernels_alone_are_enough_only_with_that_said_and_less_confidence():
    usage = [row(h, signals={"kernel": use(0.0)}) for h in range(NOW - 6 * HOUR, NOW, HOUR)]
    answer = judge(usage, [pod(start=NOW - 6 * HOUR)])
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.MEDIUM
    assert "idle.risk_no_video" in {risk.key for risk in answer.risks}
    assert evidence(answer, "encoder active").value is None


def test_an_encoder_that_stopped_being_readable_is_unknown():
    usage = rows(NOW - 6 * HOUR, NOW - 3 * HOUR)
    usage += [row(h, signals={"kernel": use(0.0)}) for h in range(NOW - 3 * HOUR, NOW, HOUR)]
    answer = judge(usage, [pod(start=NOW - 6 * HOUR)])
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.UNKNOWN


def test_bytes_over_the_link_without_kernels_are_not_idleness():
    usage = [
        msgspec.structs.replace(one, link_bytes={"pcie/rx": 3600 * 50e6})
        for one in rows(NOW - 6 * HOUR, NOW)
    ]
    answer = judge(usage, [pod(start=NOW - 6 * HOUR)])
    assert isinstance(answer, Silence)
    assert evidence(answer, "link traffic while idle").value == 50e6


def test_a_slice_is_judged_by_sm_where_kernels_cannot_be_read():
    zero = {"sm": SignalUse(observed_seconds=3600.0, active_seconds=0.0)}
    usage = [row(h, gpu="M", signals=zero, watts=None) for h in range(NOW - 6 * HOUR, NOW, HOUR)]
    answer = judge(usage, [pod(start=NOW - 6 * HOUR)], devices=[device("M", "A100", mig="1g.10gb")])
    assert isinstance(answer, Finding)
    assert "idle.risk_no_power" in {risk.key for risk in answer.risks}


def test_an_ended_workload_is_not_idle():
    done = pod(start=NOW - 6 * HOUR, finished=NOW - HOUR)
    answer = judge(rows(NOW - 6 * HOUR, NOW - HOUR), [done])
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.NOT_APPLICABLE


def test_a_pod_older_than_the_window_is_not_called_idle_since_its_start():
    start = NOW - 30 * DAY
    answer = judge(rows(NOW - 14 * DAY, NOW), [pod(start=start)])
    assert isinstance(answer, Finding)
    assert answer.message.key == "idle.went_idle_outlook"
    assert answer.message.params["since"] == NOW - 14 * DAY


def test_savings_of_a_batch_are_its_runs_scaled_to_a_month():
    answer = judge(*idle_since_start(7))
    assert isinstance(answer, Finding)
    assert answer.saving.gpu_hours_per_month == pytest.approx(7 * 730 / (14 * 24))


def test_without_a_price_the_money_is_unknown_and_says_why():
    answer = judge(*idle_since_start(7), catalogue=FakeCatalogue(prices={}))
    assert isinstance(answer, Finding)
    assert answer.saving.money_per_month is None
    assert answer.saving.why is not None
    assert answer.saving.why.key == "money.no_price"


def test_every_doubt_has_words():
    assert {f"idle.unknown_{doubt}" for doubt in Doubt} <= set(idle.RULE.messages)


@pytest.mark.parametrize(("seen", "fires"), [(3490, False), (3527, False), (3529, True)])
def test_two_percent_unseen_is_the_most_that_idle_bears(seen, fires):
    start = NOW - 6 * HOUR
    usage = [row(start + place * HOUR, observed=float(seen)) for place in range(6)]
    assert isinstance(judge(usage, [pod(start=start)]), Finding) is fires


def test_every_number_carries_window_samples_and_threshold():
    answer = judge(*idle_since_start(7))
    assert isinstance(answer, Finding)
    assert all(item.window is not None and item.samples for item in answer.evidence)
    assert all(item.formula for item in answer.evidence)
    assert evidence(answer, "idle time").threshold == 3600.0


@given(
    observed=st.lists(
        st.one_of(st.integers(0, 3600), st.integers(3300, 3600)), min_size=6, max_size=6
    )
)
@settings(max_examples=60, deadline=None)
def test_it_never_fires_below_its_coverage_gate(observed):
    start = NOW - 6 * HOUR
    usage = [row(start + place * HOUR, observed=float(seen)) for place, seen in enumerate(observed)]
    answer = judge(usage, [pod(start=start)])
    covered = evidence(answer, "coverage of the idle time")
    if isinstance(answer, Finding):
        assert covered.value >= 0.98
        assert sum(observed) >= 0.98 * evidence(answer, "idle time").value
    elif sum(observed) < 0.98 * HOUR:
        assert answer.kind == SilenceKind.UNKNOWN
    if sum(observed) >= 0.98 * 6 * HOUR:
        assert isinstance(answer, Finding)
