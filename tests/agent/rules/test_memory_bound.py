"""Memory-bound: a full card, and runs that died for want of memory."""

import msgspec
import pytest

from gputailor_agent.model.inventory import Distribution, Outcome, TaskClass
from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Interval,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.memory_bound import RULE
from tests.agent.factories import DAY, GIB, HOUR, NOW, pod, row, rows, workload
from tests.agent.rules.advice_parts import job, judged, key, number

BUSY = {"kernel": 0.9, "sm": 0.8}
MINDSPORE = workload(framework="mindspore")


def test_a_full_card_is_told_to_recompute_activations():
    answer = judged(RULE, *job(6, **BUSY, memory_gib=0.93 * 80), MINDSPORE)
    assert isinstance(answer, Finding)
    assert key(answer) == "memory_bound.full"
    assert "recompute" in answer.change.code
    assert answer.slowdown == Interval(low=1.0, high=pytest.approx(4 / 3))
    assert answer.saving.money_per_month is None
    assert answer.saving.why is not None


@pytest.mark.parametrize(("gib", "fires"), [(0.92 * 80 + 0.001, True), (0.92 * 80 - 0.01, False)])
def test_the_threshold_is_exact(gib, fires):
    answer = judged(RULE, *job(6, **BUSY, memory_gib=gib), MINDSPORE)
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "memory_bound.fine")


def test_case_24_a_program_that_takes_memory_in_advance_is_not_judged_by_it():
    work = workload(
        "llm", "Deployment", TaskClass.INFERENCE, framework="vllm", preallocates=True,
        preallocates_evidence="gpu-memory-utilization 0.9",
    )  # fmt: skip
    answer = judged(RULE, *job(8 * 24, **BUSY, memory_gib=78), work)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "memory_bound.preallocates")


def failing(gib, *, oom=False, hours=0.2, work=MINDSPORE):
    start = NOW - 5 * HOUR
    usage = [row(start, **BUSY, memory_gib=gib, seconds=hours * HOUR)]
    dead = pod(start=start, finished=start + hours * HOUR, phase="Failed", oom=oom)
    failed = {"run-1": Outcome.FAILED}
    return judged(RULE, usage, [dead], work, outcomes=failed, measured_since=start)


def test_a_short_run_that_failed_with_a_full_card_probably_ran_out_of_memory():
    answer = failing(0.951 * 80)
    assert isinstance(answer, Finding)
    assert key(answer) == "memory_bound.failed"
    assert answer.message.params["runs"] == 1
    assert answer.severity == Severity.HIGH
    assert "memory_bound.risk_failed" in {risk.key for risk in answer.risks}


def test_a_run_that_failed_with_room_left_did_not():
    assert key(failing(0.949 * 80)) == "gate.only_failed"


def test_kubernetes_oom_kill_is_host_memory():
    assert key(failing(0.99 * 80, oom=True)) == "gate.only_failed"


def test_one_failed_run_among_good_ones_counts():
    usage, pods = job(6, **BUSY, memory_gib=40)
    start = NOW - 2 * DAY
    dead = pod("dead", start=start, finished=start + HOUR, phase="Failed")
    usage += rows(start, start + HOUR, pod="dead", **BUSY, memory_gib=79)
    answer = judged(
        RULE, usage, [*pods, dead], MINDSPORE, runs={"ok": pods, "dead": [dead]},
        outcomes={"ok": Outcome.RUNNING, "dead": Outcome.FAILED},
    )  # fmt: skip
    assert key(answer) == "memory_bound.failed"


@pytest.mark.parametrize("framework", ["pytorch", "deepspeed", "huggingface"])
def test_a_full_card_says_nothing_of_pytorch_which_keeps_what_it_has_freed(framework):
    answer = judged(RULE, *job(6, **BUSY, memory_gib=79), workload(framework=framework))
    assert isinstance(answer, Silence)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "memory_bound.cached")
    assert "num_alloc_retries" in say(answer.message)


def test_a_failed_run_with_a_full_card_is_told_of_pytorch_too():
    answer = failing(0.951 * 80, work=workload(framework="pytorch"))
    assert isinstance(answer, Finding)
    assert key(answer) == "memory_bound.failed"
    assert "memory_bound.risk_cache" in {risk.key for risk in answer.risks}


def test_of_an_unknown_framework_a_full_card_is_a_weak_sign():
    unknown = judged(RULE, *job(6, **BUSY, memory_gib=76), workload(framework=""))
    known = judged(RULE, *job(6, **BUSY, memory_gib=76), MINDSPORE)
    assert (unknown.confidence, known.confidence) == (Confidence.LOW, Confidence.MEDIUM)


def test_the_model_that_the_arguments_name_is_counted_beside_the_peak():
    usage, (one,) = job(6, **BUSY, memory_gib=76)
    arguments = ("--model_name_or_path", "meta-llama/Llama-3.1-8B", "--bf16", "--optim",
                 "adamw_torch", "--per_device_train_batch_size", "1")  # fmt: skip
    container = msgspec.structs.replace(one.containers[0], args=arguments)
    told = [msgspec.structs.replace(one, containers=(container,))]
    answer = judged(RULE, usage, told, workload(framework="huggingface"))
    assert key(answer) == "memory_bound.cached"
    least = number(answer, "meta-llama/Llama-3.1-8B by arithmetic, least")
    assert least.value > 80 * GIB  # 16 bytes of 8 billion parameters
    assert "--bf16" in least.formula


def test_a_server_is_told_of_fewer_bits_not_of_activations():
    work = workload("web", "Deployment", TaskClass.INFERENCE, framework="triton")
    answer = judged(RULE, *job(8 * 24, **BUSY, memory_gib=76), work)
    assert isinstance(answer, Finding)
    assert key(answer) == "memory_bound.full_serving"
    assert answer.change.kind == "reduce_precision"
    assert answer.slowdown is None


@pytest.mark.parametrize(
    ("gpus", "sharding", "said"),
    [(1, "", "not_sharding_alone"), (8, "", "not_sharding"), (8, "fsdp", "not_sharding_done")],
)
def test_what_is_said_of_zero_and_fsdp_depends_on_how_it_is_spread(gpus, sharding, said):
    start = NOW - 6 * HOUR
    usage = [o for i in range(gpus) for o in rows(start, NOW, gpu=f"G{i}", **BUSY, memory_gib=76)]
    work = workload(framework="mindspore", distribution=Distribution(sharding=sharding))
    answer = judged(RULE, usage, [pod(gpus=gpus, start=start)], work)
    assert f"memory_bound.{said}" in {other.key for other in answer.not_chosen}


def test_memory_that_cannot_be_read_is_unknown():
    usage, pods = job(6, **BUSY, memory_gib=None)
    answer = judged(RULE, usage, pods, MINDSPORE)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "memory_bound.no_memory")
    assert answer.missing_signals == ("memory",)


def test_a_shared_gpu_holds_the_memory_of_others():
    usage, pods = job(6, **BUSY, memory_gib=79)
    usage = [msgspec.structs.replace(one, share=0.25) for one in usage]
    assert judged(RULE, usage, pods, MINDSPORE).kind == SilenceKind.NOT_APPLICABLE


def test_case_22_the_peak_counts_start_up_included():
    usage, pods = job(6, **BUSY, memory_gib=20)
    usage[0] = row(NOW - 6 * HOUR, **BUSY, memory_gib=76)
    assert key(judged(RULE, usage, pods, MINDSPORE)) == "memory_bound.full"


def test_a_run_that_goes_well_but_is_short_is_watched():
    usage = rows(NOW - HOUR, NOW, seconds=1800, **BUSY, memory_gib=79)
    assert key(judged(RULE, usage, [pod(start=NOW - HOUR // 2)], MINDSPORE)) == "gate.batch_runs"
