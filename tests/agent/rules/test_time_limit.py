"""Time limits: far above what runs take, or the end of them."""

import msgspec
import pytest

from gputailor_agent.model.inventory import ContainerSpec, Outcome, TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.time_limit import RULE
from tests.agent.factories import DAY, HOUR, NOW, pod, rows, workload
from tests.agent.rules.advice_parts import judged, key, number

LIMIT = "gputailor.io/deadline-seconds"


def runs(hours, *, limit=24 * HOUR, outcomes=(), reasons=(), args=(), kind="CronJob",
         labels=None, task=TaskClass.TRAINING, oom=()):  # fmt: skip
    """Runs of so many hours each, one a day, the last one yesterday."""
    usage, pods, by_run, ends = [], [], {}, {}
    for place, length in enumerate(hours):
        start = NOW - (len(hours) - place) * DAY
        end = start + length * HOUR
        one = pod(f"run-{place}", start=start, finished=end, oom=place in oom)
        reason = reasons[place] if place < len(reasons) else ""
        container = msgspec.structs.replace(one.containers[0], args=tuple(args))
        one = msgspec.structs.replace(one, reason=reason, containers=(container,))
        usage += rows(start, int(end), pod=one.name, kernel=0.9)
        pods.append(one)
        by_run[one.name] = [one]
        ends[one.name] = outcomes[place] if place < len(outcomes) else Outcome.SUCCEEDED
    said = {LIMIT: f"{limit:g}"} if limit else {}
    work = workload(kind=kind, task=task, annotations=said, labels=labels or {})
    return judged(RULE, usage, pods, work, runs=by_run, outcomes=ends)


def test_a_limit_far_above_what_runs_take_is_told_with_one_that_would_do():
    answer = runs([2, 3, 2])
    assert isinstance(answer, Finding)
    assert key(answer) == "time_limit.too_high"
    assert answer.message.params["wanted"] == 6 * HOUR
    assert (answer.severity, answer.confidence) == (Severity.INFO, Confidence.MEDIUM)
    assert "activeDeadlineSeconds: 21600" in answer.change.patch
    assert answer.change.command == "kubectl -n team-a patch cronjob/train --patch-file PATCH.yaml"
    assert answer.saving.gpu_hours_per_month is None
    assert say(answer.message).startswith("its time limit is 1 d")


@pytest.mark.parametrize(("limit", "fires"), [(15 * HOUR, True), (15 * HOUR - 60, False)])
def test_a_fifth_of_the_limit_is_exact(limit, fires):
    assert isinstance(runs([3, 3, 3], limit=limit), Finding) is fires


def test_ten_runs_make_it_sure():
    answer = runs([2] * 10)
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.HIGH


def test_two_runs_are_too_few():
    answer = runs([2, 2])
    assert (answer.kind, key(answer)) == (SilenceKind.WATCHING, "time_limit.few_runs")


def test_failed_and_killed_runs_tell_nothing_of_what_a_run_takes():
    answer = runs([2, 2, 1, 1], outcomes=[Outcome.SUCCEEDED] * 2 + [Outcome.FAILED] * 2)
    assert key(answer) == "time_limit.few_runs"
    out_of_memory = runs([2, 2, 2, 2], oom={0, 1})
    assert key(out_of_memory) == "time_limit.few_runs"


def test_a_run_that_still_goes_counts_by_the_time_it_has_taken():
    start = NOW - 20 * HOUR
    long_one = pod("now", start=start)
    done = [pod(f"r{i}", start=NOW - (4 - i) * DAY, finished=NOW - (4 - i) * DAY + HOUR)
            for i in range(3)]  # fmt: skip
    usage = rows(start, NOW, pod="now", kernel=0.9)
    for one in done:
        usage += rows(one.started, int(one.finished), pod=one.name, kernel=0.9)
    work = workload(kind="CronJob", annotations={LIMIT: f"{24 * HOUR}"})
    by_run = {one.name: [one] for one in (*done, long_one)}
    answer = judged(RULE, usage, [*done, long_one], work, runs=by_run)
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "time_limit.fine")
    assert number(answer, "longest run of the limit").value == pytest.approx(20 / 24)


def test_runs_that_kubernetes_ended_at_the_limit_are_told_with_what_they_cost():
    answer = runs(
        [8, 8, 3], limit=8 * HOUR, outcomes=[Outcome.FAILED] * 2, reasons=["DeadlineExceeded"] * 2
    )
    assert isinstance(answer, Finding)
    assert key(answer) == "time_limit.reached"
    assert answer.message.params["hours"] == pytest.approx(16)
    assert answer.message.params["wanted"] == 16 * HOUR
    assert (answer.severity, answer.confidence) == (Severity.HIGH, Confidence.HIGH)


def test_a_run_that_saves_its_state_loses_less():
    answer = runs(
        [8, 8, 3], limit=8 * HOUR, outcomes=[Outcome.FAILED] * 2,
        reasons=["DeadlineExceeded"] * 2, args=("--resume",),
    )  # fmt: skip
    assert isinstance(answer, Finding)
    assert answer.severity == Severity.MEDIUM
    assert number(answer, "sign of checkpoints").value == "argument --resume"


@pytest.mark.parametrize(("hours", "fires"), [(7.85, True), (7.8, False)])
def test_a_failed_run_near_the_limit_was_ended_by_it(hours, fires):
    answer = runs([hours, 3, 3, 3], limit=8 * HOUR, outcomes=[Outcome.FAILED])
    assert (key(answer) == "time_limit.reached") is fires
    if fires:
        assert answer.confidence == Confidence.MEDIUM


def test_a_run_killed_for_memory_was_not_ended_by_the_limit():
    answer = runs([8, 3, 3, 3], limit=8 * HOUR, outcomes=[Outcome.FAILED], oom={0})
    assert key(answer) == "time_limit.fine"


def test_without_a_known_limit_the_rule_is_silent_and_says_where_one_would_stand():
    answer = runs([2, 2, 2], limit=None)
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "time_limit.none")
    assert "activeDeadlineSeconds" in say(answer.message)


def test_kueue_s_limit_and_the_pod_s_own_count_too_and_the_lowest_holds():
    kueue = runs([2, 2, 2], limit=None, labels={"kueue.x-k8s.io/max-exec-time-seconds": "86400"})
    assert key(kueue) == "time_limit.too_high"
    both = runs([2, 2, 2], labels={"kueue.x-k8s.io/max-exec-time-seconds": "14400"})
    assert key(both) == "time_limit.fine"


def test_a_pod_s_own_deadline_is_a_limit():
    done = [
        msgspec.structs.replace(
            pod(f"r{i}", start=NOW - (4 - i) * DAY, finished=NOW - (4 - i) * DAY + HOUR),
            deadline_seconds=float(DAY),
        )
        for i in range(3)
    ]
    usage = [o for p in done for o in rows(p.started, int(p.finished), pod=p.name, kernel=0.9)]
    answer = judged(RULE, usage, done, workload(kind="Workflow"), runs={p.name: [p] for p in done})
    assert key(answer) == "time_limit.too_high"
    assert answer.change.patch == ""  # a kind whose field is not known


@pytest.mark.parametrize(
    ("kind", "task"),
    [("Deployment", TaskClass.UNKNOWN), ("Job", TaskClass.INFERENCE), ("Job", TaskClass.NOTEBOOK)],
)
def test_what_runs_until_somebody_stops_it_has_no_time_limit(kind, task):
    assert key(runs([2, 2, 2], kind=kind, task=task)) == "time_limit.service"


def test_runs_without_times_are_unknown():
    start = NOW - 6 * HOUR
    gone = msgspec.structs.replace(
        pod(start=start, finished=NOW - HOUR), started=None, scheduled=None, finished=None,
        phase="Succeeded", containers=(ContainerSpec(name="main"),),
    )  # fmt: skip
    work = workload(annotations={LIMIT: "86400"})
    answer = judged(
        RULE, rows(start, NOW - HOUR, kernel=0.9), [gone], work,
        outcomes={"run-1": Outcome.SUCCEEDED},
    )  # fmt: skip
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "time_limit.no_runs")


def test_the_least_limit_that_is_named_is_a_quarter_of_an_hour():
    """Six minutes, doubled, are twelve."""
    answer = runs([0.1, 0.1, 0.1])
    assert isinstance(answer, Finding)
    assert answer.message.params["wanted"] == 900
