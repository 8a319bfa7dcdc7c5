"""What primary findings would free, on which nodes, and what of a plan's checks may differ."""

import msgspec
import pytest

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Finding,
    Interval,
    Message,
    Saving,
    Severity,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.planner.choosing import verdict
from gputailor_agent.planner.clusterwide import Survey
from gputailor_agent.planner.freeing import freed
from gputailor_agent.planner.planning import _check
from tests.agent.factories import DAY, NOW, context, node, pod, profile, rows, workload

WINDOW = Window(start=NOW - 14 * DAY, end=NOW)
NODES = [node("node-a"), node("node-b")]


def service(levels, *, gpus=2):
    """A pod of so many GPUs for each level, one after the other on two nodes; it ran for a day."""
    start = NOW - DAY
    usage = [
        one
        for place, level in enumerate(levels)
        for gpu in range(gpus)
        for one in rows(start, NOW, pod=f"web-{place}", gpu=f"G{place}-{gpu}", kernel=level)
    ]
    pods = [
        pod(f"web-{place}", gpus=gpus, start=start, node=f"node-{'ab'[place % 2]}")
        for place in range(len(levels))
    ]
    work = workload("web", "Deployment", TaskClass.INFERENCE)
    made, world = profile(usage, pods, work, nodes=NODES)
    return made, context(world)


def freeing(levels, change, *, confidence=Confidence.HIGH, gpus=2):
    """Devices freed by node when the primary finding asks for the change."""
    made, around = service(levels, gpus=gpus)
    base = verdict(made, around)
    primary = _finding(made, change, confidence)
    found = freed(made, msgspec.structs.replace(base, primary=primary), around)
    assert all(one.workload_id == made.workload.id and one.rule == "idle" for one in found)
    return {one.node: one.devices for one in found}


def _finding(made, change, confidence):
    return Finding(
        id="test/web/idle", cluster="test", workload_id=made.workload.id, rule="idle",
        severity=Severity.HIGH, message=Message(key="idle.from_start"), confidence=confidence,
        evidence=(), change=change, saving=Saving(gpu_hours_per_month=1.0),
        slowdown=Interval(low=1.0, high=1.0), window=made.window,
    )  # fmt: skip


def change(kind, **params):
    return Change(kind=kind, target="Deployment team-a/web", params=params)


def test_a_release_frees_every_device_of_its_pods_by_node():
    assert freeing([0.1, 0.1, 0.1], change("release")) == {"node-a": 4.0, "node-b": 2.0}


def test_fewer_gpus_free_what_each_pod_holds_beyond_them():
    assert freeing([0.1, 0.1], change("set_gpus", gpus=1)) == {"node-a": 1.0, "node-b": 1.0}
    assert freeing([0.1, 0.1], change("set_gpus", gpus=2)) == {}
    assert freeing([0.1], change("set_gpus", gpus=3)) == {}


def test_of_fewer_replicas_those_go_that_worked_least():
    assert freeing([0.5, 0.1], change("set_replicas", replicas=1)) == {"node-b": 2.0}
    assert freeing([0.1, 0.5], change("set_replicas", replicas=1)) == {"node-a": 2.0}
    assert freeing([0.1, 0.5], change("set_replicas", replicas=2)) == {}
    assert freeing([0.1, 0.5], change("set_replicas", replicas=3)) == {}


@pytest.mark.parametrize("kind", ["set_gpu_type", "edit_code"])
def test_a_cheaper_card_or_a_shorter_run_frees_nothing_at_once(kind):
    assert freeing([0.1, 0.1], change(kind, gpus=0, replicas=0)) == {}


def test_a_finding_that_is_not_counted_promises_nothing():
    assert freeing([0.1], change("release"), confidence=Confidence.LOW) == {}


@pytest.mark.parametrize(
    ("problems", "complete", "whole"),
    [((), None, True), (("jobs",), None, False), (("jobs",), True, True), ((), False, False)],
)
def test_the_cluster_is_whole_where_nothing_of_it_could_not_be_read(problems, complete, whole):
    """Free nodes save money only then."""
    _, around = service([0.5])
    told = msgspec.structs.replace(around.inventory, problems=problems, complete=complete)
    seen = []

    def look(view, _):
        seen.append(view.complete)
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gputailor_agent.planner.clusterwide.evaluate_cluster", look)
        Survey(context(told)).clusterwide([], WINDOW)
    assert seen == [whole]


@pytest.mark.parametrize(
    ("left", "right", "holds"),
    [(8.0, 8.0, True), (8.0, 8.01, False), (0.0, 1e-7, True), (0.0, 0.001, False),
     (1e9, 1e9 + 0.1, True), (1e9, 1e9 + 10, False)],
)  # fmt: skip
def test_a_check_forgives_the_last_digits_of_a_sum_and_no_more(left, right, holds):
    assert _check("sums", left, right).holds is holds
