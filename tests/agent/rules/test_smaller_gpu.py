"""Smaller GPU: memory by the peak, speed by an interval, price with the slowdown in it."""

import msgspec
import pytest

from gputailor_agent.model.inventory import Outcome, TaskClass
from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Silence,
    SilenceKind,
)
from gputailor_agent.rules import smaller_gpu
from tests.agent.factories import (
    DAY,
    GIB,
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    node,
    pod,
    profile,
    row,
    rows,
    use,
    workload,
)
from tests.agent.rules.card_parts import LIGHT, WITHOUT_T4, evidence, job, judge


def test_a_light_job_on_an_a100_would_do_on_an_l4():
    answer = judge(*job(**LIGHT, memory_gib=10))
    assert isinstance(answer, Finding)
    assert answer.message.key == "smaller_gpu.fits"
    assert answer.message.params["candidate"] == "L4"
    assert answer.change.kind == "set_gpu_type"
    assert "nvidia.com/gpu.product: L4" in answer.change.patch
    assert answer.confidence == Confidence.HIGH


def test_the_slowdown_interval_is_that_of_the_domain_formulas():
    """G = 0.2; rho: compute 20/30, tensor 300/120, bandwidth 2.0/0.3."""
    answer = judge(*job(**LIGHT, memory_gib=10))
    assert isinstance(answer, Finding)
    assert answer.slowdown is not None
    assert answer.slowdown.low == pytest.approx(1.0)
    assert answer.slowdown.high == pytest.approx(0.8 + 0.2 * (2.0 / 0.3))
    cost = evidence(answer, "most cost of the present one")
    assert cost.value == pytest.approx(0.8 / 4.0 * answer.slowdown.high)
    assert (cost.comparison, cost.threshold, cost.passed) == ("<=", 0.85, True)


def test_the_saving_of_a_batch_pays_for_its_slowdown():
    answer = judge(*job(hours=14 * 24, **LIGHT, memory_gib=10))
    assert isinstance(answer, Finding)
    high = 0.8 + 0.2 * (2.0 / 0.3)
    assert answer.saving.money_per_month is not None
    assert answer.saving.money_per_month.amount == pytest.approx(730 * (4.0 - 0.8 * high))
    assert answer.saving.gpu_hours_per_month == 0.0


def test_the_need_is_the_peak_and_fifteen_percent_start_included_case_22():
    usage, pods = job(**LIGHT, memory_gib=5)
    usage[0] = row(NOW - 6 * HOUR, **LIGHT, memory_gib=21)  # only while it started
    answer = judge(usage, pods)
    need = evidence(answer, "memory needed")
    assert need.value == pytest.approx(21 * 1.15 * GIB, abs=1)
    assert "L4" not in str(answer.message.params.get("candidate", ""))


def test_after_an_oom_kill_it_is_the_peak_and_a_quarter_never_both_factors():
    usage, pods = job(**LIGHT, memory_gib=10)
    dead = pod("dead", start=NOW - 8 * HOUR, finished=NOW - 7 * HOUR, oom=True, phase="Failed")
    usage += rows(NOW - 8 * HOUR, NOW - 7 * HOUR, pod="dead", **LIGHT, memory_gib=10)
    answer = judge(usage, [*pods, dead], runs={"ok": pods, "dead": [dead]})
    assert evidence(answer, "memory needed").value == pytest.approx(10 * 1.25 * GIB, abs=1)


def test_a_failed_run_that_filled_the_card_counts_as_out_of_memory():
    usage, pods = job(**LIGHT, memory_gib=10)
    dead = pod("dead", start=NOW - 8 * HOUR, finished=NOW - 7 * HOUR, phase="Failed")
    usage += rows(NOW - 8 * HOUR, NOW - 7 * HOUR, pod="dead", **LIGHT, memory_gib=79)
    answer = judge(
        usage,
        [*pods, dead],
        runs={"ok": pods, "dead": [dead]},
        outcomes={"ok": Outcome.RUNNING, "dead": Outcome.FAILED},
    )
    assert evidence(answer, "out of memory seen").value is True
    assert isinstance(answer, Silence)


def test_the_use_of_failed_runs_does_not_make_a_job_look_small():
    busy, pods = job(kernel=1.0, sm=0.95, tensor=0.5, dram=0.9, memory_gib=10)
    dead = pod("dead", start=NOW - 100 * HOUR, finished=NOW - 7 * HOUR, phase="Failed")
    busy += rows(NOW - 100 * HOUR, NOW - 7 * HOUR, pod="dead", kernel=0.01, sm=0.01)
    answer = judge(
        busy,
        [*pods, dead],
        runs={"ok": pods, "dead": [dead]},
        outcomes={"ok": Outcome.RUNNING, "dead": Outcome.FAILED},
        nodes=WITHOUT_T4,
    )
    assert isinstance(answer, Silence)
    assert evidence(answer, "share of time active").value == pytest.approx(1.0)


def test_nothing_is_taken_from_a_job_that_only_fails_or_is_killed():
    for options in ({"outcomes": {"run-1": Outcome.FAILED}}, {}):
        usage, _ = job(**LIGHT)
        killed = [pod(start=NOW - 6 * HOUR, oom=True)]
        answer = judge(usage, killed, **options)
        assert isinstance(answer, Silence)
        assert answer.message.key == "gate.only_failed"


def test_a_busy_job_stays_where_it_is():
    answer = judge(*job(kernel=1.0, sm=0.9, tensor=0.6, dram=0.8, memory_gib=10), nodes=WITHOUT_T4)
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.FINE, "smaller_gpu.none_here")


def test_where_only_the_lower_end_pays_it_is_one_run_to_try_and_no_money():
    """Active half of the time: G = 0.5 on an L4 gives 0.5 + 0.5 x 6.67 = 3.8 at the upper end."""
    answer = judge(
        *job(kernel=0.9, sm=0.1, tensor=0.02, dram=0.05, memory_gib=10), nodes=WITHOUT_T4
    )
    assert isinstance(answer, Finding)
    assert answer.message.key == "smaller_gpu.try_price"
    assert answer.confidence == Confidence.LOW
    assert answer.saving.money_per_month is None
    assert answer.slowdown is not None
    assert answer.slowdown.high > 4


def test_memory_known_only_as_an_average_is_one_run_to_try_case_22():
    usage, pods = job(**LIGHT, memory_gib=10)
    usage = [msgspec.structs.replace(one, memory_peak_kind="mean") for one in usage]
    answer = judge(usage, pods)
    assert isinstance(answer, Finding)
    assert answer.message.key == "smaller_gpu.try_memory"
    assert answer.saving.money_per_month is None


def test_a_sampled_peak_makes_it_less_sure():
    usage, pods = job(**LIGHT, memory_gib=10)
    usage = [msgspec.structs.replace(one, memory_peak_kind="sampled") for one in usage]
    answer = judge(usage, pods)
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.MEDIUM
    assert "smaller_gpu.risk_sampled" in {risk.key for risk in answer.risks}


def test_a_program_that_takes_memory_in_advance_is_not_judged_by_memory_case_24():
    work = workload(preallocates=True, preallocates_evidence="vLLM image")
    answer = judge(*job(**LIGHT, memory_gib=72), work)
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.UNKNOWN, "smaller_gpu.preallocates")
    assert answer.message.params["evidence"] == "vLLM image"


def service(days=8, **levels):
    start = NOW - days * DAY
    work = workload("web", "Deployment", TaskClass.INFERENCE)
    return rows(start, NOW, **levels), [pod(start=start)], work


def test_a_service_with_a_busy_second_in_a_hundred_needs_the_bigger_card():
    usage, pods, work = service(kernel=0.05, sm=0.02, tensor=0.0, dram=0.05, memory_gib=10)
    assert isinstance(judge(usage, pods, work), Finding)
    burst = {"kernel": 1.0, "sm": 0.9, "tensor": 0.0, "dram": 0.9, "memory_gib": 10}
    hot = [row(one.key.hour, **burst) if i % 20 == 0 else one for i, one in enumerate(usage)]
    answer = judge(hot, pods, work)
    assert isinstance(answer, Silence)
    assert any(other.key == "fitting.latency" for other in answer.not_chosen)


def test_a_service_saves_the_whole_difference_of_prices():
    answer = judge(*service(kernel=0.05, sm=0.02, tensor=0.0, dram=0.02, memory_gib=10))
    assert isinstance(answer, Finding)
    assert answer.message.params["candidate"] == "T4" or answer.message.params["candidate"] == "L4"
    assert answer.saving.money_per_month is not None
    price = {"L4": 0.8, "T4": 0.4}[str(answer.message.params["candidate"])]
    assert answer.saving.money_per_month.amount == pytest.approx(730 * (4.0 - price))


def test_a_service_is_not_downsized_after_a_quiet_weekend_case_28():
    answer = judge(*service(days=3, **LIGHT, memory_gib=10))
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.WATCHING


def test_a_card_older_than_bfloat16_is_only_worth_a_try_when_tensor_cores_are_used():
    nodes = [node("node-a", model="A100"), node("node-t", model="T4")]
    tensor = judge(*job(**LIGHT, memory_gib=10), nodes=nodes)
    assert isinstance(tensor, Finding)
    assert tensor.message.key == "smaller_gpu.try_bfloat16"
    plain = {**LIGHT, "tensor": 0.0}
    without = judge(*job(**plain, memory_gib=10), nodes=nodes)
    assert isinstance(without, Finding)
    assert (without.message.key, without.message.params["candidate"]) == ("smaller_gpu.fits", "T4")


def test_a_card_that_is_cheap_but_may_be_very_slow_is_only_worth_a_try():
    """G = 0.5: up to 0.5 + 0.5 x 6.67 = 3.83 the time, at a fortieth of the price."""
    usage, pods = job(kernel=0.5, sm=0.1, tensor=0.02, dram=0.05, memory_gib=10)
    cheap = FakeCatalogue({"A100": 4.0, "L4": 0.1})
    slow = judge(usage, pods, nodes=WITHOUT_T4, catalogue=cheap)
    assert isinstance(slow, Finding)
    assert slow.message.key == "smaller_gpu.try_slow"
    assert slow.saving.money_per_month is None
    made, world = profile(usage, pods, nodes=WITHOUT_T4)
    patient = context(world, cheap, smaller_gpu={"slowdown_most": 4.0})
    assert smaller_gpu.RULE.evaluate(made, patient).message.key == "smaller_gpu.fits"


def test_a_card_that_is_surely_too_slow_is_not_even_tried():
    busy = job(kernel=1.0, sm=0.5, tensor=0.1, dram=0.9, memory_gib=10)
    answer = judge(*busy, nodes=WITHOUT_T4, catalogue=FakeCatalogue({"A100": 4.0, "L4": 0.1}))
    assert isinstance(answer, Silence)
    assert any(other.key == "fitting.slow" for other in answer.not_chosen)


def test_cards_without_fast_links_are_only_worth_a_try_for_pods_of_several_gpus():
    start = NOW - 6 * HOUR
    usage = [
        msgspec.structs.replace(one, link_bytes={"nvlink/rx": sent})
        for gpu, sent in (("GPU-0", 2.0**40), ("GPU-1", 2.0**40))
        for one in rows(start, NOW, gpu=gpu, **LIGHT, memory_gib=10)
    ]
    pods = [pod(start=start, gpus=2)]
    linked = judge(usage, pods, nodes=WITHOUT_T4)
    assert isinstance(linked, Finding)
    assert linked.message.key == "smaller_gpu.try_links"
    apart = [msgspec.structs.replace(one, link_bytes={"nvlink/rx": 0.0}) for one in usage]
    assert judge(apart, pods, nodes=WITHOUT_T4).message.key == "smaller_gpu.fits"


def test_a_service_that_was_not_watched_from_its_start_may_have_peaked_there_case_22():
    usage, _, work = service(**LIGHT, memory_gib=10)
    seen = judge(usage, [pod(start=NOW - 8 * DAY)], work)
    unseen = judge(usage, [pod(start=NOW - 30 * DAY)], work)
    assert isinstance(seen, Finding)
    assert isinstance(unseen, Finding)
    assert (seen.confidence, unseen.confidence) == (Confidence.HIGH, Confidence.MEDIUM)
    assert "smaller_gpu.risk_start" in {risk.key for risk in unseen.risks}


def test_a_notebooks_next_day_is_not_known_and_the_advice_less_sure():
    answer = judge(
        *service(**LIGHT, memory_gib=10)[:2],
        workload(kind="StatefulSet", task=TaskClass.NOTEBOOK),
    )
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.MEDIUM
    assert "smaller_gpu.risk_interactive" in {risk.key for risk in answer.risks}


def test_a_resource_that_is_never_used_is_left_out():
    answer = judge(*job(kernel=0.2, sm=0.1, tensor=0.0, dram=0.0, memory_gib=10))
    assert isinstance(answer, Finding)
    named = {item.name for item in answer.evidence}
    assert "rho of compute" in named
    assert not {"rho of tensor", "rho of memory bandwidth"} & named


def test_what_is_not_measured_counts_in_the_upper_end_and_is_named():
    start = NOW - 6 * HOUR
    usage = [
        row(hour, signals={"kernel": use(0.1)}, memory_gib=10) for hour in range(start, NOW, HOUR)
    ]
    answer = judge(usage, [pod(start=start)])
    assert isinstance(answer, Finding)
    (risk,) = [r for r in answer.risks if r.key == "smaller_gpu.risk_unknown"]
    assert risk.params["signals"] == "sm, tensor, dram"


def test_sm_counters_stuck_at_zero_are_unknown_and_not_a_light_load_case_5():
    usage, pods = job(kernel=0.9, sm=0.0, tensor=0.0, dram=0.0, memory_gib=10)
    answer = judge(usage, pods)
    assert evidence(answer, "sm not believed").value is None
    assert not (isinstance(answer, Finding) and answer.confidence != Confidence.LOW)


def test_power_that_contradicts_the_counters_keeps_it_silent():
    usage, pods = job(kernel=0.001, sm=0.001, watts=350.0, memory_gib=10)
    answer = judge(usage, pods)
    assert isinstance(answer, Silence)
    assert answer.message.key == "gate.power"


def test_fp64_work_is_not_moved_to_a_card_of_unknown_fp64():
    answer = judge(*job(**LIGHT, fp64=0.3, memory_gib=10))
    assert isinstance(answer, Silence)
    assert answer.message.key == "smaller_gpu.fp64"


@pytest.mark.parametrize("card", ["A100", "L4"])
def test_a_tensor_figure_that_was_not_confirmed_makes_it_less_sure(card):
    doubtful = FakeCatalogue()
    doubtful.devices = tuple(
        msgspec.structs.replace(one, unconfirmed=("bf16",)) if one.key == card else one
        for one in doubtful.devices
    )
    sure, unsure = (
        judge(*job(**LIGHT, memory_gib=10), nodes=WITHOUT_T4, catalogue=one)
        for one in (FakeCatalogue(), doubtful)
    )
    assert sure.confidence == Confidence.HIGH
    assert unsure.confidence == Confidence.MEDIUM
    assert any("not confirmed" in item.formula for item in unsure.evidence)
