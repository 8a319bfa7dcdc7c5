"""Stragglers: the rank that the others wait for, and what only looks like one."""

import msgspec
import pytest

from gputailor_agent.model.inventory import Distribution, Outcome, TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.straggler import RULE
from tests.agent.factories import DAY, HOUR, NOW, context, pod, profile, rows, workload
from tests.agent.rules.advice_parts import check_words, judged, key, number, seconds_told, without


def ranks(levels, *, runs=1, hours=6, slow_gpu="same", conditions=None, work=None, **options):
    """Runs of one pod with a GPU per level, one run a day; the last level is the slow rank's."""
    usage, by_run = [], {}
    for place in range(runs):
        start = NOW - (runs - place) * DAY
        name = f"train-{place}"
        for rank, level in enumerate(levels):
            own = f"G{rank}" if slow_gpu == "same" else f"G{place}-{rank}"
            made = rows(start, start + hours * HOUR, pod=name, gpu=own, kernel=1.0, sm=level)
            last = rank == len(levels) - 1
            usage += seconds_told(made, conditions if conditions and last else {})
        by_run[name] = [pod(name, gpus=len(levels), start=start, finished=start + hours * HOUR)]
    pods = [one for members in by_run.values() for one in members]
    work = work or workload(framework="pytorch")
    return judged(RULE, usage, pods, work, runs=by_run, **options)


def test_the_same_gpu_that_holds_up_several_runs_is_to_be_looked_at():
    answer = ranks([0.5, 0.52, 0.48, 0.9], runs=3)
    assert isinstance(answer, Finding)
    assert key(answer) == "straggler.device"
    assert answer.message.params["gpu"] == "G3"
    assert answer.message.params["node"] == "node-a"
    assert (answer.severity, answer.confidence) == (Severity.MEDIUM, Confidence.MEDIUM)
    assert answer.change.command == "kubectl cordon node-a"
    assert "-i G3" in answer.change.code
    assert answer.slowdown is not None
    assert answer.slowdown.low == pytest.approx(0.6)
    assert answer.saving.gpu_hours_per_month is None
    assert number(answer, "GPU-hours that the others waited").value == pytest.approx(
        3 * 6 * 3 * 0.4
    )
    assert say(answer.message).startswith("the others wait for one rank: GPU G3 on node-a is busy")


def test_another_gpu_each_time_is_the_rank_s_own_work():
    answer = ranks([0.5, 0.52, 0.48, 0.9], runs=3, slow_gpu="another")
    assert isinstance(answer, Finding)
    assert key(answer) == "straggler.rank"
    assert answer.confidence == Confidence.LOW
    assert "torch.profiler" in answer.change.code
    assert answer.change.links


def test_clocks_held_down_meanwhile_are_the_cause():
    answer = ranks([0.5] * 3 + [0.9], conditions={"throttled/hw_slowdown": 0.3})
    assert isinstance(answer, Finding)
    assert key(answer) == "straggler.device"
    assert number(answer, "slow GPU's clocks held down").value == pytest.approx(0.3, 1e-3)


@pytest.mark.parametrize(("level", "fires"), [(0.66, True), (0.64, False)])
def test_a_difference_of_less_than_fifteen_hundredths_is_none(level, fires):
    answer = ranks([0.5] * 3 + [level])
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "straggler.fine")


def test_a_threshold_of_one_s_own_can_only_ask_for_more():
    assert isinstance(ranks([0.5] * 3 + [0.75]), Finding)
    stricter = ranks([0.5] * 3 + [0.75], thresholds={"apart": 0.3})
    assert stricter.kind == SilenceKind.FINE


def test_one_run_of_three_with_a_slow_rank_is_chance():
    levels = [[0.5] * 4, [0.5] * 4, [0.5, 0.5, 0.5, 0.9]]
    usage, by_run = [], {}
    for place, shape in enumerate(levels):
        start = NOW - (3 - place) * DAY
        name = f"train-{place}"
        for rank, level in enumerate(shape):
            usage += rows(start, start + 4 * HOUR, pod=name, gpu=f"G{rank}", kernel=1.0, sm=level)
        by_run[name] = [pod(name, gpus=4, start=start, finished=start + 4 * HOUR)]
    pods = [one for members in by_run.values() for one in members]
    answer = judged(RULE, usage, pods, runs=by_run)
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "straggler.seldom")


def test_a_rank_that_waits_holds_up_nobody():
    answer = ranks([0.9, 0.9, 0.9, 0.5])
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "straggler.waits")


def test_by_kernels_alone_waiting_looks_like_work():
    start = NOW - 6 * HOUR
    usage = [
        one
        for rank, level in enumerate([0.5, 0.5, 0.5, 0.9])
        for one in rows(start, NOW, gpu=f"G{rank}", kernel=level, sm=level)
    ]
    made, world = profile(usage, [pod(gpus=4, start=start)])
    answer = RULE.evaluate(without(made, "sm"), context(world))
    check_words(answer)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "straggler.unknown")
    assert answer.missing_signals == ("sm",)


def test_three_gpus_are_too_few_to_tell_one_apart():
    answer = ranks([0.3, 0.3, 0.9])
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "straggler.few_ranks")


def test_gpus_that_nobody_uses_are_no_ranks_that_wait():
    """Two of eight at work: the six are for ``too_many_gpus``, and no node is to be cordoned."""
    start = NOW - 6 * HOUR
    usage = [
        one
        for rank in range(8)
        for level in (0.67 if rank < 2 else 0.0,)
        for one in rows(start, NOW, gpu=f"G{rank}", kernel=level, sm=level)
    ]
    answer = judged(RULE, usage, [pod(gpus=8, start=start)])
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "straggler.few_ranks")


@pytest.mark.parametrize("spread", [Distribution(pipeline=4), Distribution(expert=8)])
def test_ranks_of_different_roles_differ_by_their_work(spread):
    answer = ranks([0.5] * 3 + [0.9], work=workload(distribution=spread))
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "straggler.roles")


def test_tensor_parallel_ranks_do_the_same_work():
    assert isinstance(ranks([0.5] * 3 + [0.9], work=workload(distribution=Distribution(tensor=4))),
                      Finding)  # fmt: skip


def test_replicas_of_a_service_do_not_wait_for_each_other():
    start = NOW - 14 * DAY
    pods = [pod(f"web-{i}", start=start) for i in range(4)]
    usage = [
        one
        for i, level in enumerate([0.3, 0.3, 0.3, 0.9])
        for one in rows(start, NOW, pod=f"web-{i}", gpu=f"G{i}", kernel=level, sm=level)
    ]
    answer = judged(RULE, usage, pods, workload("web", "Deployment", TaskClass.INFERENCE))
    assert key(answer) == "straggler.service"


def test_runs_that_failed_and_short_ones_tell_nothing():
    failed = ranks([0.5] * 3 + [0.9], outcomes={"train-0": Outcome.FAILED})
    assert key(failed) == "gate.only_failed"
    start = NOW - 30
    usage = [
        one
        for rank, level in enumerate([0.5] * 3 + [0.9])
        for one in rows(NOW - HOUR, NOW, gpu=f"G{rank}", seconds=30, kernel=1.0, sm=level)
    ]
    short = judged(RULE, usage, [pod(gpus=4, start=start, finished=NOW)])
    assert short.kind == SilenceKind.WATCHING


def test_the_order_of_ranks_changes_nothing():
    one = ranks([0.5, 0.52, 0.48, 0.9])
    usage_reversed = ranks([0.48, 0.52, 0.5, 0.9])
    assert isinstance(one, Finding)
    assert isinstance(usage_reversed, Finding)
    assert one.message == usage_reversed.message
    assert msgspec.json.encode(one.evidence) == msgspec.json.encode(usage_reversed.evidence)
