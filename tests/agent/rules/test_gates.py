"""Gates: opt-outs, coverage, history, failed runs, warm-up."""

import msgspec
import pytest

from gputailor_agent.model.inventory import Outcome, TaskClass
from gputailor_agent.model.judgement import Finding, Silence, SilenceKind
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import SignalUse, Warmup
from gputailor_agent.rules import Context, evaluate_all, registry
from gputailor_agent.rules.gates import Basis, sizing, steady, steady_mean
from gputailor_agent.rules.smaller_gpu import RULE
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    context,
    pod,
    profile,
    row,
    rows,
    workload,
)

BUSY = {"kernel": 0.9, "sm": 0.8}


EVERY_RULE = {rule.id for rule in registry()}


def gate(usage, pods, work=None, **options):
    made, world = profile(usage, pods, work, **options)
    around = context(world)
    return sizing(RULE.id, made, around, RULE.limits(around))


def ignored(annotations, now=NOW):
    start = NOW - 6 * HOUR
    made, world = profile(rows(start, NOW), [pod(start=start)], workload(annotations=annotations))
    around = context(world)
    around = Context(now=float(now), catalogue=around.catalogue, inventory=world)
    answers = evaluate_all(made, around)
    return {
        answer.rule
        for answer in answers
        if isinstance(answer, Silence) and answer.kind == SilenceKind.OPTED_OUT
    }


@pytest.mark.parametrize(
    ("annotations", "silent"),
    [
        ({}, set()),
        ({"gputailor.io/ignore": "idle"}, {"idle"}),
        ({"gputailor.io/ignore": "idle, too-many-gpus"}, {"idle", "too_many_gpus"}),
        ({"gputailor.io/ignore": "all"}, EVERY_RULE),
        ({"gputailor.io/ignore-until": "2099-01-01"}, EVERY_RULE),
        ({"gputailor.io/ignore": "idle", "gputailor.io/ignore-until": "2020-01-01"}, set()),
        (
            {"gputailor.io/ignore": "idle", "gputailor.io/ignore-until": "2099-01-01T00:00:00Z"},
            {"idle"},
        ),
        ({"gputailor.io/ignore": "idle", "gputailor.io/ignore-until": "next week"}, {"idle"}),
    ],
)
def test_annotations_opt_out_of_rules_until_a_date(annotations, silent):
    assert ignored(annotations) == silent


def test_an_opt_out_is_shown_with_its_reason():
    start = NOW - 6 * HOUR
    work = workload(
        annotations={"gputailor.io/ignore": "idle", "gputailor.io/reason": "demo on Friday"}
    )
    made, world = profile(rows(start, NOW), [pod(start=start)], work)
    answer = evaluate_all(made, context(world))[0]
    assert answer.message.params["reason"] == "demo on Friday"


def test_below_ninety_percent_coverage_sizing_is_unknown_and_names_the_signal():
    start = NOW - 10 * HOUR
    answer = gate(rows(start, NOW - 2 * HOUR, **BUSY), [pod(start=start)])
    assert isinstance(answer, Silence)
    assert answer.kind == SilenceKind.UNKNOWN
    assert answer.missing_signals == ("kernel",)
    assert answer.evidence[0].value == pytest.approx(0.8)
    assert answer.evidence[0].threshold == 0.9


def short_runs(count, seconds, outcome=None):
    pods, usage, runs = [], [], {}
    for i in range(count):
        start = NOW - (i + 1) * DAY
        one = pod(f"r{i}", start=start, finished=start + seconds)
        pods.append(one)
        runs[f"r{i}"] = [one]
        usage.append(row(start, pod=f"r{i}", gpu=f"G{i}", seconds=seconds, **BUSY))
    outcomes = None if outcome is None else dict.fromkeys(runs, outcome)
    return usage, pods, {"runs": runs, "outcomes": outcomes}


def test_three_completed_runs_or_one_of_an_hour_are_enough_for_a_batch():
    usage, pods, options = short_runs(3, 900)
    assert isinstance(gate(usage, pods, **options), Basis)
    usage, pods, options = short_runs(2, 900)
    answer = gate(usage, pods, **options)
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.WATCHING, "gate.batch_runs")
    usage, pods, options = short_runs(1, 3600)
    assert isinstance(gate(usage, pods, **options), Basis)


def test_a_running_batch_says_when_it_will_have_run_for_an_hour():
    start = NOW - 1200
    answer = gate([row(NOW - HOUR, seconds=1200, **BUSY)], [pod(start=start)])
    assert isinstance(answer, Silence)
    assert answer.ready_at == start + HOUR


def test_runs_under_a_minute_are_there_and_too_short_to_judge_case_30():
    usage, pods, options = short_runs(5, 40)
    answer = gate(usage, pods, **options)
    assert isinstance(answer, Silence)
    assert answer.message.key == "gate.too_short"
    assert answer.message.params["runs"] == 5


def test_failed_runs_are_no_completed_ones():
    usage, pods, options = short_runs(4, 900, Outcome.FAILED)
    answer = gate(usage, pods, **options)
    assert isinstance(answer, Silence)
    assert answer.message.key == "gate.only_failed"


def test_a_window_too_short_for_a_service_says_so_instead_of_a_date():
    start = NOW - 10 * DAY
    answer = gate(
        rows(NOW - 3 * DAY, NOW, **BUSY),
        [pod(start=start)],
        workload(kind="Deployment", task=TaskClass.INFERENCE),
        window=Window(start=NOW - 3 * DAY, end=NOW),
    )
    assert isinstance(answer, Silence)
    assert answer.message.key == "gate.window_too_short"
    assert answer.ready_at is None


def test_a_workload_that_only_waits_is_unknown_not_idle():
    made, world = profile([], [pod(phase="Pending", node=None)])
    for answer in evaluate_all(made, context(world)):
        assert isinstance(answer, Silence)
        assert answer.kind == SilenceKind.UNKNOWN
        assert answer.message.params["pending"] == 1


def test_the_warm_up_is_left_out_of_means_but_at_most_a_tenth_of_the_run():
    def with_warmup(hours):
        first = msgspec.structs.replace(
            row(NOW - hours * HOUR, kernel=0.5),
            warmup={"kernel": Warmup(observed_seconds=600.0, active_seconds=0.0)},
        )
        usage = [first, *rows(NOW - (hours - 1) * HOUR, NOW, kernel=0.5)]
        made, _ = profile(usage, [pod(start=NOW - hours * HOUR)])
        return made.gpus

    (long,) = with_warmup(10)
    assert steady(long, "kernel").observed_seconds == 36000 - 600
    (short,) = with_warmup(1)
    assert steady(short, "kernel").observed_seconds == 3600 - 360
    assert steady_mean((long,), "kernel") == pytest.approx(0.5 * 36000 / 35400)
    assert steady_mean((long,), "sm") is None


def test_a_signal_without_warm_up_stays_as_it_is():
    made, _ = profile(rows(NOW - 2 * HOUR, NOW, kernel=0.5), [pod(start=NOW - 2 * HOUR)])
    assert steady(made.gpus[0], "kernel") == made.gpus[0].signals["kernel"]


def test_frozen_profiling_counters_are_seen_in_the_histogram_too():
    """Half of the window the SM counter works, then it stays at zero under full kernels."""
    start = NOW - 10 * HOUR
    usage = rows(start, NOW - 6 * HOUR, kernel=0.9, sm=0.8)
    usage += rows(NOW - 6 * HOUR, NOW, kernel=0.9, sm=0.0)
    answer = gate(usage, [pod(start=start)])
    assert isinstance(answer, Basis)
    assert answer.use("sm") == SignalUse(observed_seconds=0.0, active_seconds=0.0)
    assert answer.use("kernel").mean == pytest.approx(0.9)


def test_unknown_use_never_makes_any_rule_fire():
    start = NOW - 9 * HOUR
    nothing = [row(hour, signals={}) for hour in range(start, NOW, HOUR)]
    made, world = profile(nothing, [pod(gpus=4, start=start)])
    assert not [a for a in evaluate_all(made, context(world)) if isinstance(a, Finding)]


def used(levels, observed=HOUR, days=2):
    """Two days of one pod with a GPU per level; ``observed`` seconds an hour of the last one."""
    start = NOW - days * DAY
    last = len(levels) - 1
    return [
        one
        for place, level in enumerate(levels)
        for one in rows(
            start, NOW, gpu=f"G{place}", kernel=level, sm=level,
            observed=observed if place == last else HOUR,
        )
    ]  # fmt: skip


def test_gpus_that_a_job_never_used_are_in_no_mean_of_how_busy_it_is():
    """Two of eight at 90 %: the job is busy at 90 %, not at 23 %."""
    basis = gate(used([0.9, 0.9] + [0.0] * 6), [pod(gpus=8, start=NOW - 2 * DAY)])
    assert isinstance(basis, Basis)
    assert [use.gpu_uuid for use in basis.uses] == ["G0", "G1"]
    assert [use.gpu_uuid for use in basis.unused] == [f"G{place}" for place in range(2, 8)]
    assert basis.use("sm").mean == pytest.approx(0.9)


def test_a_gpu_that_was_not_watched_for_long_enough_may_have_been_used():
    basis = gate(used([0.9] * 9 + [0.0], observed=HOUR / 2), [pod(gpus=10, start=NOW - 2 * DAY)])
    assert isinstance(basis, Basis)
    assert basis.unused == ()


def test_where_nothing_worked_nothing_is_left_out():
    basis = gate(used([0.0, 0.0]), [pod(gpus=2, start=NOW - 2 * DAY)])
    assert isinstance(basis, Basis)
    assert (len(basis.uses), basis.unused) == (2, ())


def test_a_replica_that_got_no_requests_is_a_part_of_its_service():
    start = NOW - 8 * DAY
    work = workload(kind="Deployment", task=TaskClass.INFERENCE)
    pods = [pod("a", start=start, gpus=2), pod("b", start=start)]
    levels = {("a", "G0"): 0.8, ("a", "G1"): 0.0, ("b", "G2"): 0.0}
    usage = [
        one
        for (name, gpu), level in levels.items()
        for one in rows(start, NOW, pod=name, gpu=gpu, kernel=level, sm=level)
    ]
    basis = gate(usage, pods, work)
    assert isinstance(basis, Basis)
    assert [use.gpu_uuid for use in basis.uses] == ["G0", "G2"], "b waits for what a cannot take"
    assert [use.gpu_uuid for use in basis.unused] == ["G1"], "nothing in a can use it"
