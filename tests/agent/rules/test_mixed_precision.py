"""Mixed precision: FP32 work beside idle tensor cores, second by second."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import Outcome, TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Interval, Silence, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.mixed_precision import RULE
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    device,
    pod,
    profile,
    rows,
    spec,
    workload,
)
from tests.agent.rules.advice_parts import (
    host,
    job,
    judged,
    key,
    number,
    seconds_told,
    without,
)

FP32 = {"kernel": 0.95, "sm": 0.7, "tensor": 0.0, "fp32": 0.5, "fp64": 0.0, "dram": 0.2}
TOLD = {"amp_candidate": 0.8, "zero_inside_active_minute": 0.0}


def test_fp32_work_beside_idle_tensor_cores_is_told_to_use_them():
    answer = judged(RULE, *job(6, TOLD, **FP32))
    assert isinstance(answer, Finding)
    assert key(answer) == "mixed_precision.candidate"
    assert answer.message.params["candidate"] == pytest.approx(0.8 * 6 * HOUR)
    assert answer.message.params["dtype"] == "bfloat16"
    assert "torch.autocast" in answer.change.code
    assert answer.change.links == ("https://docs.pytorch.org/docs/stable/amp.html",)
    assert answer.change.undo


def test_what_it_brings_is_told_by_recorded_jobs_and_not_counted():
    answer = judged(RULE, *job(6, TOLD, **FP32))
    assert isinstance(answer, Finding)
    assert answer.saving.gpu_hours_per_month is None
    assert answer.saving.money_per_month is None
    assert say(answer.saving.why, strict=True) == (
        "how much faster it gets is known only after one run: of 29 recorded jobs of all kinds the "
        "speed went to 0.68x to 1.65x of what it was, 0.97x in the median"
    )
    low, high = 0.2 + 0.8 / 1.65, 0.2 + 0.8 / 0.68
    assert answer.slowdown == Interval(low=pytest.approx(low), high=pytest.approx(high))
    assert "Lucid" in number(answer, "time left at most").formula


def test_it_may_get_slower_and_the_words_ask_for_one_run():
    answer = judged(RULE, *job(6, TOLD, **FP32))
    assert answer.slowdown.high > 1 > answer.slowdown.low
    assert say(answer.message, strict=True).endswith("try mixed precision (bfloat16) in one run")


@pytest.mark.parametrize(
    ("share", "confidence"), [(0.5, Confidence.MEDIUM), (0.499, Confidence.LOW)]
)
def test_work_that_could_gain_in_less_than_half_of_the_time_is_a_weak_sign(share, confidence):
    answer = judged(RULE, *job(6, {**TOLD, "amp_candidate": share}, **FP32))
    assert isinstance(answer, Finding)
    assert answer.confidence == confidence


def test_the_speed_ups_can_be_set_even_to_nothing():
    told = {"speed_up_low": 0.0, "speed_up_high": 2.0}
    answer = judged(RULE, *job(6, TOLD, **FP32), thresholds=told)
    assert answer.slowdown == Interval(low=pytest.approx(0.6), high=pytest.approx(0.2 + 0.8 / 0.1))


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("pytorch", "torch.autocast"),
        ("deepspeed", "torch.autocast"),
        ("tensorflow", "mixed_bfloat16"),
        ("jax", "jnp.bfloat16"),
        ("mindspore", "auto_mixed_precision"),
    ],
)
def test_the_code_is_that_of_the_framework(framework, words):
    answer = judged(RULE, *job(6, TOLD, **FP32), workload(framework=framework))
    assert isinstance(answer, Finding)
    assert words in answer.change.code


def test_an_unknown_framework_gets_the_pages_of_all_and_low_confidence():
    answer = judged(RULE, *job(6, TOLD, **FP32), workload(framework=""))
    assert isinstance(answer, Finding)
    assert answer.change.code == ""
    assert len(answer.change.links) == 4
    assert answer.confidence == Confidence.LOW


def card(**figures):
    catalogue = FakeCatalogue()
    catalogue.devices = (spec("A100", 80, **figures),)
    return catalogue


def test_a_card_of_volta_or_turing_has_no_bfloat16_so_fp16_with_scaling():
    answer = judged(RULE, *job(6, TOLD, **FP32), catalogue=card(compute_capability="7.5"))
    assert isinstance(answer, Finding)
    assert answer.message.params["dtype"] == "float16"
    assert "GradScaler" in answer.change.code
    assert "mixed_precision.risk_scaling" in {risk.key for risk in answer.risks}


def test_a_card_of_capability_7_5_without_tensor_cores_is_left_alone():
    """A GTX 16xx: the capability alone would mislead."""
    answer = judged(
        RULE, *job(6, TOLD, **FP32), catalogue=card(tensor_cores=False, compute_capability="7.5")
    )
    assert (answer.kind, key(answer)) == (
        SilenceKind.NOT_APPLICABLE,
        "mixed_precision.no_tensor_cores",
    )


@pytest.mark.parametrize("model", ["GTX 9999", "A100"])
def test_a_card_of_which_nobody_knows_is_unknown(model):
    answer = judged(
        RULE,
        *job(6, TOLD, **FP32),
        devices=[device(model=model)],
        catalogue=card(tensor_cores=None),
    )
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "mixed_precision.no_model")


def test_half_an_hour_is_enough_and_a_second_less_is_not():
    enough = 1800 / (2 * HOUR)
    fires = judged(RULE, *job(2, {**TOLD, "amp_candidate": enough}, **FP32))
    below = judged(RULE, *job(2, {**TOLD, "amp_candidate": enough - 1 / 3600}, **FP32))
    assert isinstance(fires, Finding)
    assert key(below) == "mixed_precision.not_enough"
    assert number(below, "FP32 work beside idle tensor cores").passed is False


def test_a_fifth_of_the_time_is_enough_and_less_is_not():
    assert isinstance(judged(RULE, *job(6, {**TOLD, "amp_candidate": 0.2}, **FP32)), Finding)
    below = judged(RULE, *job(6, {**TOLD, "amp_candidate": 0.199}, **FP32))
    assert (below.kind, key(below)) == (SilenceKind.FINE, "mixed_precision.not_enough")


def test_gpus_of_a_run_work_at_once_so_their_seconds_do_not_add_up():
    """Eight GPUs with ten minutes each are ten minutes."""
    start = NOW - HOUR
    usage = [o for i in range(8) for o in rows(start, NOW, gpu=f"G{i}", **FP32)]
    told = seconds_told(usage, {**TOLD, "amp_candidate": 600 / HOUR})
    answer = judged(RULE, told, [pod(gpus=8, start=start)], thresholds={"least_share": 0.1})
    assert number(answer, "FP32 work beside idle tensor cores").value == pytest.approx(600)
    assert key(answer) == "mixed_precision.not_enough"


def test_tf32_that_is_on_already_shows_in_the_tensor_cores():
    on = judged(RULE, *job(6, TOLD, **{**FP32, "tensor": 0.05}))
    off = judged(RULE, *job(6, TOLD, **{**FP32, "tensor": 0.049}))
    assert (on.kind, key(on)) == (SilenceKind.FINE, "mixed_precision.in_use")
    assert isinstance(off, Finding)


def test_a_job_that_asks_for_it_already_is_not_told_again():
    work = workload(framework="pytorch", precision="bf16", precision_evidence="argument --bf16")
    answer = judged(RULE, *job(6, TOLD, **FP32), work)
    assert key(answer) == "mixed_precision.asked"
    asked = workload(framework="pytorch", precision="fp32", precision_evidence="argument --dtype")
    assert isinstance(judged(RULE, *job(6, TOLD, **FP32), asked), Finding)


def test_a_job_that_waits_for_its_input_gains_nothing():
    waits = {**FP32, "sm": 0.45}
    answer = judged(RULE, *job(6, TOLD, **waits), with_host=host(cpu_of_limit=0.95))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "mixed_precision.input_bound")


def test_where_waiting_cannot_be_excluded_it_is_a_trial():
    answer = judged(RULE, *job(6, TOLD, **{**FP32, "sm": 0.45}))
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.LOW
    assert "mixed_precision.risk_unknown" in {risk.key for risk in answer.risks}
    busy = judged(RULE, *job(6, TOLD, **FP32))
    assert isinstance(busy, Finding)
    assert busy.confidence == Confidence.MEDIUM


@pytest.mark.parametrize("signal", ["sm", "tensor", "fp32", "fp64"])
def test_a_signal_that_cannot_be_read_is_named(signal):
    levels = {name: level for name, level in FP32.items() if name != signal}
    answer = judged(RULE, *job(6, TOLD, **levels))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "mixed_precision.no_signal")
    assert answer.missing_signals == (signal,)


def test_means_alone_do_not_show_that_all_held_at_once():
    answer = judged(RULE, *job(6, {}, **FP32))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "mixed_precision.no_condition")
    assert answer.missing_signals == ("amp_candidate",)


def test_case_23_a_gap_in_the_data_is_not_advice():
    usage, pods = job(6, TOLD, **FP32, observed=0.8 * HOUR)
    answer = judged(RULE, usage, pods)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "gate.coverage")


def test_a_short_run_is_watched():
    start = NOW - HOUR // 2
    usage = seconds_told(rows(NOW - HOUR, NOW, seconds=1800, **FP32), TOLD)
    answer = judged(RULE, usage, [pod(start=start)])
    assert (answer.kind, key(answer)) == (SilenceKind.WATCHING, "gate.batch_runs")


def test_case_28_a_service_is_watched_for_a_whole_week():
    usage, pods = job(5 * 24, TOLD, **FP32)
    work = workload("web", "Deployment", TaskClass.INFERENCE, framework="pytorch")
    answer = judged(RULE, usage, pods, work)
    assert (answer.kind, key(answer)) == (SilenceKind.WATCHING, "gate.service_days")


def test_failed_runs_say_nothing():
    usage, pods = job(6, TOLD, **FP32)
    answer = judged(RULE, usage, pods, outcomes={"run-1": Outcome.FAILED})
    assert key(answer) == "gate.only_failed"


def test_a_quiet_weekend_does_not_hide_the_work_of_the_week():
    """Seven days of FP32 work by day and nothing by night or at the weekend: share 0.3."""
    start = NOW - 8 * DAY
    usage = []
    for hour in range(start, NOW, HOUR):
        works = (hour // HOUR) % 24 < 10 and (hour // DAY) % 7 < 5
        levels = FP32 if works else dict.fromkeys(FP32, 0.0)
        usage += seconds_told(rows(hour, hour + HOUR, **levels), {**TOLD, "amp_candidate": works})
    work = workload("web", "Deployment", TaskClass.INFERENCE, framework="pytorch")
    answer = judged(RULE, usage, [pod(start=start)], work)
    assert isinstance(answer, Finding)
    assert answer.message.params["share"] < 0.35


levels = st.sampled_from([0.0, 0.04, 0.05, 0.3, 0.45, 0.55, 0.9])
shares = st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0])


@given(
    told=st.fixed_dictionaries(
        {"kernel": st.just(0.95), "sm": levels, "tensor": levels, "fp32": levels, "fp64": levels}
    ),
    candidate=shares,
    zeros=shares,
    lost=st.sampled_from(["kernel", "sm", "tensor", "fp32", "fp64", "amp_candidate"]),
)
@example(
    told={"kernel": 0.95, "sm": 0.0, "tensor": 0.0, "fp32": 0.0, "fp64": 0.0},
    candidate=0.2,
    zeros=0.0,
    lost="kernel",
)
@settings(max_examples=60, deadline=None)
def test_a_signal_that_is_lost_never_makes_a_finding(told, candidate, zeros, lost):
    conditions = {"amp_candidate": candidate, "zero_inside_active_minute": zeros}
    made, world = profile(*job(4, conditions, **told), workload(framework="pytorch"))
    if isinstance(RULE.evaluate(without(made, lost), context(world)), Finding):
        assert isinstance(RULE.evaluate(made, context(world)), Finding)


def test_sm_activity_that_its_own_seconds_contradict_is_not_believed():
    still = {**FP32, "sm": 0.0, "fp32": 0.0}
    made, world = profile(*job(4, {**TOLD, "amp_candidate": 0.5}, **still), workload())
    answer = RULE.evaluate(without(made, "kernel"), context(world))
    assert answer.kind == SilenceKind.UNKNOWN
    assert answer.missing_signals == ("sm",)


@given(parts=st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=3, max_size=3))
@settings(max_examples=20, deadline=None)
def test_the_order_of_gpus_changes_nothing(parts):
    def told(order):
        usage = []
        for gpu in order:
            part = {**TOLD, "amp_candidate": parts[gpu]}
            usage += seconds_told(rows(NOW - 2 * HOUR, NOW, gpu=f"G{gpu}", **FP32), part)
        made, world = profile(usage, [pod(gpus=3, start=NOW - 2 * HOUR)])
        return RULE.evaluate(made, context(world))

    assert told([0, 1, 2]) == told([2, 0, 1])


def test_a_device_that_was_not_counted_counts_as_without_the_condition():
    start = NOW - 4 * HOUR
    usage = [o for i in range(10) for o in rows(start, NOW, gpu=f"G{i}", **FP32)]
    told = seconds_told(usage, {**TOLD, "amp_candidate": 0.21})
    told = [
        msgspec.structs.replace(row, conditions={}) if row.key.gpu_uuid == "G0" else row
        for row in told
    ]
    answer = judged(RULE, told, [pod(gpus=10, start=start)])
    assert isinstance(answer, Silence)
    assert number(answer, "share of the time held").value == pytest.approx(0.189)


def test_where_one_gpu_s_seconds_were_not_counted_it_is_not_known():
    """Two GPUs of a run, of which one exporter counts the condition and the other does not."""
    start = NOW - 6 * HOUR
    counted = seconds_told(rows(start, NOW, gpu="G0", **FP32), TOLD)
    usage = [*counted, *rows(start, NOW, gpu="G1", **FP32)]
    answer = judged(RULE, usage, [pod(gpus=2, start=start)])
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "mixed_precision.no_condition")
