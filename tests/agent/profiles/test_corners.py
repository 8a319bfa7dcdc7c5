"""Corners of profiles that no ordinary workload stands in, with figures worked out by hand."""

import msgspec
import pytest

from gputailor_agent.model.inventory import Outcome, PodAssignment, Resolution, TaskClass
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles import Holdings, build_profiles, holding
from gputailor_agent.profiles.courses import stragglers, week_shape
from gputailor_agent.profiles.edges import moved
from tests.agent.factories import (
    CLUSTER,
    DAY,
    HOUR,
    NOW,
    device,
    inventory,
    node,
    pod,
    profile,
    resolution,
    row,
    rows,
    workload,
)

WINDOW = Window(start=NOW - 2 * DAY, end=NOW)


def built(usage, pods, mapping=None, *, window=WINDOW, devices=None, nodes=None):
    known = [device(uuid) for uuid in sorted({one.key.gpu_uuid for one in usage})]
    world = inventory(pods, [node()] if nodes is None else nodes)
    return build_profiles(usage, devices or known, world, mapping or Resolution(), window)


def only(*arguments, **options):
    (found,) = built(*arguments, **options)
    return found


@pytest.mark.parametrize(("hours", "days"), [(22, 0), (23, 0), (24, 1), (26, 1), (48, 2)])
def test_a_day_that_the_window_cuts_short_is_no_full_day(hours, days):
    start = NOW - 2 * DAY
    made, _ = profile(
        rows(start, start + hours * HOUR, kernel=0.5),
        [pod(start=start)],
        window=Window(start=start, end=start + hours * HOUR),
    )
    assert made.full_days == days


@pytest.mark.parametrize("hours", [1, 2])
def test_a_day_that_the_window_begins_in_is_no_full_day(hours):
    """22 or 23 hours of it are observed, nine tenths of a day."""
    start = NOW - DAY + hours * HOUR
    made, _ = profile(
        rows(start, NOW, kernel=0.5), [pod(start=start)], window=Window(start=start, end=NOW)
    )
    assert made.full_days == 0


@pytest.mark.parametrize("uid", ["uid-0", "uid-z"])
def test_a_pod_of_another_uid_is_another_pod(uid):
    known = msgspec.structs.replace(pod("a"), uid="uid-m")
    holdings = Holdings(inventory([known]))
    assert holdings.find("team-a", "a", uid) is None
    assert holdings.find("team-a", "a", "uid-m") is known
    assert holdings.find("team-a", "a", "") is known


def test_a_run_of_which_one_pod_s_end_nobody_knows_is_of_unknown_end():
    start, end = NOW - 9 * HOUR, NOW - 5 * HOUR
    both = [
        pod("a", start=start, finished=end),
        pod("b", start=start, finished=end, phase="Unknown"),
    ]
    work = workload()
    mapping = msgspec.structs.replace(resolution(work, {"run": both}), runs=())
    usage = [one for name in "ab" for one in rows(start, end, pod=name, gpu=f"G{name}")]
    (run,) = only(usage, both, mapping).runs
    assert run.outcome == Outcome.UNKNOWN
    ended = [msgspec.structs.replace(one, phase="Succeeded") for one in both]
    (run,) = only(usage, ended, mapping).runs
    assert run.outcome == Outcome.SUCCEEDED


def test_pods_that_wait_are_the_plain_part_s_where_peaks_stand_apart():
    usage, runs = [], {}
    for place, peak in enumerate((10, 30)):
        start = NOW - (9 - 4 * place) * HOUR
        usage += rows(start, start + HOUR, pod=f"r{place}", kernel=0.5, memory_gib=peak)
        runs[f"r{place}"] = [pod(f"r{place}", start=start, finished=start + HOUR)]
    waits = pod("r2", start=None, node=None, phase="Pending")
    runs["r2"] = [waits]
    pods = [one for members in runs.values() for one in members]
    plain, other = built(usage, pods, resolution(workload(), runs))
    assert other.workload.id.endswith("#peak-32g")
    assert (plain.pending_pods, other.pending_pods) == (1, 0)


def test_a_pod_without_times_that_nobody_measured_is_there_while_it_runs():
    running = msgspec.structs.replace(
        pod("a"), created=None, scheduled=None, started=None, phase="Running"
    )
    made = only([], [running])
    assert (made.pods_now, made.allocated_seconds, made.gpus_per_pod) == (1, 0.0, 1.0)
    ended = msgspec.structs.replace(running, phase="Succeeded")
    assert built([], [ended]) == []


def test_live_pods_of_which_one_does_not_say_since_when_do_not_say_it_together():
    known = pod("a", start=NOW - DAY)
    other = msgspec.structs.replace(pod("b"), created=None, scheduled=None, started=None)
    work = workload("web", "Deployment", TaskClass.INFERENCE)
    usage = [one for name in "ab" for one in rows(NOW - DAY, NOW, pod=name, gpu=f"G{name}")]
    both = only(usage, [known, other], resolution(work, {"run": [known, other]}))
    assert (both.pods_now, both.allocated_since) == (2, None)
    alone = only(usage[:24], [known], resolution(work, {"run": [known]}))
    assert alone.allocated_since == NOW - DAY


def _assigned(pod_uid):
    work = workload("db", "StatefulSet", TaskClass.INFERENCE)
    told = PodAssignment(
        cluster=CLUSTER,
        namespace="team-a",
        pod="db-0",
        pod_uid=pod_uid,
        container="main",
        workload_id=work.id,
        run_id="run-named",
    )
    return Resolution(workloads=(work,), assignments=(told,))


@pytest.mark.parametrize(
    ("uid", "run"), [("", "run-named"), ("uid-1", "run-named"), ("uid-2", "team-a/db-0/uid-2")]
)
def test_the_next_pod_of_a_name_is_the_same_workload_s_in_a_run_of_its_own(uid, run):
    made = only(rows(NOW - DAY, NOW, pod="db-0", uid=uid), [], _assigned("uid-1"))
    assert made.workload.name == "db"
    assert [one.id for one in made.runs] == [run]


@pytest.mark.parametrize(
    ("told", "model"),
    [
        (device("G", model="", node=""), "A100"),
        (device("G", model="", node="node-a"), "A100"),
        (device("G", model="", node="node-b"), ""),
        (device("G", model="L4", node="node-a"), "L4"),
    ],
)
def test_kubernetes_names_the_model_only_of_devices_that_may_be_its_node_s(told, model):
    made = only(rows(NOW - DAY, NOW, gpu="G"), [pod("train-0")], devices=[told])
    assert made.device_models == ((model,) if model else ())


def test_a_rank_that_was_never_measured_makes_stragglers_unknown():
    start = NOW - 6 * HOUR
    levels = (0.9, 0.5, 0.5, 0.5, 0.5)
    usage = [
        row(hour, gpu=f"G{place}", kernel=level)
        for hour in range(start, NOW, HOUR)
        for place, level in enumerate(levels)
    ]
    made, _ = profile(usage, [pod(start=start, gpus=5)])
    (found,) = stragglers(made)
    assert found.slow
    lost, _ = profile(usage, [pod(start=start, gpus=6)])
    assert len(lost.gpus) == 6
    assert stragglers(lost) == ()


def test_an_hour_without_an_observed_second_is_no_hour_of_the_week():
    made, _ = profile(
        [row(NOW - 2 * HOUR, kernel=0.5), row(NOW - HOUR, kernel=0.5, observed=0.0, seconds=HOUR)],
        [pod(start=NOW - 2 * HOUR)],
    )
    shape = week_shape(made)
    assert int(shape.weeks.sum()) == 1


@pytest.mark.parametrize("by", [-HOUR, HOUR])
def test_edges_that_moved_either_way_are_told(by):
    asked = Window(start=float(NOW - DAY), end=float(NOW))
    read = Window(start=asked.start + by, end=asked.end + by)
    (told,) = moved(asked, read)
    assert "begins" in told
    assert "ends" in told
    assert moved(asked, asked) == ()


def test_nobody_s_device_is_whose_who_asks_for_more_than_the_node_is_known_to_have():
    nodes = [node("node-a", gpus=2)]
    usage = rows(NOW - 5 * HOUR, NOW, pod="", uid="", namespace="", container="", gpu="G0")
    template = pod("template", template=True, gpus=2)
    for asked, named in ((1, []), (2, ["all"]), (3, ["all"])):
        holder = pod("all", gpus=asked, start=NOW - 5 * HOUR)
        found = built(usage, [template, holder], nodes=nodes)
        measured = [one.workload.name for one in found if one.use("kernel").observed_seconds]
        assert measured == named


def test_what_is_remembered_of_pods_stays_small_and_is_each_pod_s_own():
    many = [pod(f"p{place}", start=NOW - place) for place in range(holding._MOST_ASKED + 10)]
    for one in many:
        assert holding.held_from(one) == one.started
        assert len(holding._asked) <= holding._MOST_ASKED
    assert len(holding._asked) > 1  # of the last ones something is remembered
    first, other = many[0], many[1]
    holding._asked[id(first)] = (other, (5.0, 6.0))  # an address that another pod had before
    assert holding.held_from(first) == first.started
    remembered = (first, (7.0, 8.0))
    holding._asked[id(first)] = remembered
    assert holding.held_from(first) == 7.0
