import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.inventory.identity import IdentitySettings, resolve, split_stem
from gputailor_agent.inventory.runs import outcome
from gputailor_agent.model.inventory import ContainerSpec, GpuRequest, Inventory, Outcome, Pod
from tests.agent.inventory.objects import container, controller, inventory, owner, pod, unhurried


def _job(name, *, number=0, uid="", **more):
    uid = uid or f"job-{name}"
    return pod(f"{name}-{number}", owners=[owner("Job", name, uid)], **more)


def _ids(found):
    return [workload.id for workload in resolve(found).workloads]


def test_thousands_of_job_names_are_one_workload_with_many_runs_case_25(tmp_path):
    letters = random.Random(7)
    names = {
        "train-" + "".join(letters.choices("bcdfghjkmnpqrstvwxz2456789", k=5)) for _ in range(2000)
    }
    resolution = resolve(inventory(tmp_path, *(_job(name) for name in names)))
    assert [workload.id for workload in resolution.workloads] == ["team-a/Job/train/main"]
    assert resolution.workloads[0].name == "train"
    assert len(resolution.runs) == len(names)
    assert len(resolution.assignments) == len(names)


def test_numbered_training_jobs_are_runs_of_one_workload(tmp_path):
    pods = [
        pod(
            f"detector-train-{run}-worker-0",
            owners=[owner("PyTorchJob", f"detector-train-{run}", run)],
        )
        for run in ("r41", "r42")
    ]
    resolution = resolve(inventory(tmp_path, *pods))
    assert [(one.id, one.name) for one in resolution.workloads] == [
        ("team-a/PyTorchJob/detector-train/main", "detector-train")
    ]
    assert len(resolution.runs) == 2


def test_jobs_below_a_cronjob_are_runs_of_it(tmp_path):
    objects = [controller("CronJob", "nightly", uid="c")]
    for number in (28512345, 28513785):
        name = f"nightly-{number}"
        objects += [
            controller("Job", name, uid=f"u{number}", owners=[owner("CronJob", "nightly", "c")]),
            _job(name, uid=f"u{number}"),
        ]
    resolution = resolve(inventory(tmp_path, *objects))
    assert [(one.id, one.name) for one in resolution.workloads] == [
        ("team-a/CronJob/nightly/main", "nightly")
    ]
    assert len(resolution.runs) == 2


def test_all_pods_of_one_job_are_one_run(tmp_path):
    resolution = resolve(inventory(tmp_path, *(_job("fit", number=n) for n in range(4))))
    assert len(resolution.runs) == 1
    assert len(resolution.runs[0].pods) == 4


def test_a_jobset_is_one_run_whatever_jobs_it_makes(tmp_path):
    objects = [controller("JobSet", "big-x7k2p", uid="s")]
    for number in range(3):
        name = f"big-x7k2p-ranks-{number}"
        objects += [
            controller("Job", name, uid=f"j{number}", owners=[owner("JobSet", "big-x7k2p", "s")]),
            _job(name, uid=f"j{number}"),
        ]
    resolution = resolve(inventory(tmp_path, *objects))
    assert [one.id for one in resolution.workloads] == ["team-a/JobSet/big/main"]
    assert len(resolution.runs) == 1


def test_the_steps_of_a_pipeline_are_workloads_of_their_own(tmp_path):
    pods = [
        pod(f"flow-x7k2p-{step}-{number}", owners=[owner("Workflow", "flow-x7k2p", "w")])
        for step, number in (("fit", 123456), ("score", 654321))
    ]
    assert _ids(inventory(tmp_path, *pods)) == [
        "team-a/Workflow/flow.fit/main",
        "team-a/Workflow/flow.score/main",
    ]


def test_each_revision_of_a_deployment_is_a_run(tmp_path):
    objects = [controller("Deployment", "web-2", uid="d")]
    for hash_, count in (("7d4b9c6f5", 2), ("5f6c8b9d7", 1)):
        objects.append(
            controller(
                "ReplicaSet",
                f"web-2-{hash_}",
                uid=hash_,
                owners=[owner("Deployment", "web-2", "d")],
            )
        )
        objects += [
            pod(f"web-2-{hash_}-{n}", labels={"pod-template-hash": hash_},
                owners=[owner("ReplicaSet", f"web-2-{hash_}", hash_)])
            for n in range(count)
        ]  # fmt: skip
    resolution = resolve(inventory(tmp_path, *objects))
    assert [one.id for one in resolution.workloads] == ["team-a/Deployment/web-2/main"]
    assert sorted(len(run.pods) for run in resolution.runs) == [1, 2]


def test_services_people_number_are_not_joined(tmp_path):
    pods = [
        pod(f"web-{n}-0", owners=[owner("StatefulSet", f"web-{n}", f"s{n}")],
            labels={"controller-revision-hash": "h"})
        for n in (1, 2)
    ]  # fmt: skip
    assert _ids(inventory(tmp_path, *pods)) == [
        "team-a/StatefulSet/web-1/main",
        "team-a/StatefulSet/web-2/main",
    ]


def test_bare_pods_are_runs_of_their_stem(tmp_path):
    resolution = resolve(inventory(tmp_path, pod("probe-1"), pod("probe-2")))
    assert [one.id for one in resolution.workloads] == ["team-a/Pod/probe/main"]
    assert len(resolution.runs) == 2


def test_a_lookup_that_failed_keeps_the_history_in_its_workload_case_27(tmp_path):
    labels = {"pod-template-hash": "7d4b9c6f5"}
    reference = owner("ReplicaSet", "web-7d4b9c6f5", "r", api_version="apps/v1")
    seen = pod("web-7d4b9c6f5-x7k2p", owners=[reference], labels=labels)
    whole = inventory(
        tmp_path,
        controller("Deployment", "web", uid="d"),
        controller(
            "ReplicaSet", "web-7d4b9c6f5", uid="r", owners=[owner("Deployment", "web", "d")]
        ),
        seen,
    )
    assert _ids(inventory(tmp_path, seen)) == _ids(whole) == ["team-a/Deployment/web/main"]


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayJob", "JobSet", "NeverHeardOf"])
def test_an_unknown_owner_never_drops_a_pod(tmp_path, kind):
    found = inventory(tmp_path, pod("p-0", owners=[owner(kind, "train-x7k2p", "gone")]))
    assert _ids(found) == [f"team-a/{kind}/train/main"]
    assert len(resolve(found).assignments) == 1


def test_an_annotation_joins_what_names_would_not(tmp_path):
    note = {"gputailor.io/workload": "ranker"}
    found = inventory(
        tmp_path,
        _job("monday", annotations=note),
        _job("tuesday", annotations=note),
        controller("Job", "wednesday", uid="w", annotations=note),
        _job("wednesday", uid="w"),
    )
    assert _ids(found) == ["team-a/workload/ranker/main"]


def test_labels_join_by_a_list_of_keys(tmp_path):
    found = inventory(
        tmp_path,
        pod("a", labels={"dag_id": "etl", "task_id": "fit"}),
        pod("b", labels={"dag_id": "etl", "task_id": "fit"}),
        pod("c", labels={"dag_id": "etl"}),
    )
    assert _ids(found) == ["team-a/Pod/c/main", "team-a/workload/etl.fit/main"]
    own = IdentitySettings(label_keys=("dag_id",))
    assert [one.id for one in resolve(found, own).workloads] == ["team-a/workload/etl/main"]


def test_namespaces_and_containers_stay_apart(tmp_path):
    two = [container("a"), container("b"), container("log", None)]
    found = inventory(tmp_path, _job("fit", containers=two), _job("fit", namespace="team-b"))
    assert _ids(found) == ["team-a/Job/fit/a", "team-a/Job/fit/b", "team-b/Job/fit/main"]


def test_another_resource_shape_is_another_workload_and_the_oldest_keeps_the_plain_name(tmp_path):
    found = inventory(
        tmp_path,
        _job("fit-x7k2p", containers=[container(gpus=4)], created="2026-03-02T12:00:00Z"),
        _job("fit-b4c5d", containers=[container(gpus=8)], created="2026-03-01T12:00:00Z"),
    )
    resolution = resolve(found)
    shapes = {one.id: one.gpu_requests[0].count for one in resolution.workloads}
    assert shapes == {"team-a/Job/fit/main": 8, "team-a/Job/fit/main#4xgpu": 4}


def test_image_and_command_do_not_tell_workloads_apart(tmp_path):
    found = inventory(
        tmp_path,
        _job("fit-x7k2p", containers=[container(image="a:1", command=["x"])]),
        _job("fit-b4c5d", containers=[container(image="b:2", command=["y"])]),
    )
    assert len(_ids(found)) == 1


def test_the_newest_pod_describes_the_workload(tmp_path):
    found = inventory(
        tmp_path,
        _job("fit-x7k2p", containers=[container(image="new:2")], created="2026-03-02T12:00:00Z",
             annotations={"gputailor.io/ignore": "idle"}),
        _job("fit-b4c5d", containers=[container(image="old:1")], created="2026-03-01T12:00:00Z"),
    )  # fmt: skip
    workload = resolve(found).workloads[0]
    assert workload.image == "new:2"
    assert workload.annotations["gputailor.io/ignore"] == "idle"


def test_annotations_of_owners_reach_the_workload(tmp_path):
    found = inventory(
        tmp_path,
        controller("Job", "fit", uid="j", annotations={"gputailor.io/reason": "rented"}),
        _job("fit", uid="j"),
    )
    assert resolve(found).workloads[0].annotations == {"gputailor.io/reason": "rented"}


@unhurried
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_inventory_does_not_matter(shuffle):
    pods = [
        Pod(cluster="c", namespace="n", name=f"fit-{n}", uid=f"u{n}", created=float(n % 3),
            phase="Running", node="x", containers=_FOUR if n % 2 else _EIGHT)
        for n in range(8)
    ]  # fmt: skip
    shuffled = list(pods)
    shuffle.shuffle(shuffled)
    one = resolve(Inventory(cluster="c", at=0.0, pods=tuple(pods)))
    assert resolve(Inventory(cluster="c", at=0.0, pods=tuple(shuffled))) == one


def _spec(count):
    request = GpuRequest(resource="nvidia.com/gpu", count=count)
    return (ContainerSpec(name="main", gpus=(request,)),)


_FOUR, _EIGHT = _spec(4.0), _spec(8.0)


def _ended(phase, finished, index=None):
    labels = {} if index is None else {"batch.kubernetes.io/job-completion-index": index}
    return Pod(cluster="c", namespace="n", name=f"p{finished}", uid="", phase=phase,
               finished=finished, labels=labels)  # fmt: skip


def test_a_retry_that_succeeds_makes_the_run_succeed():
    pods = [_ended("Failed", 1.0), _ended("Succeeded", 2.0)]
    assert outcome(pods) is Outcome.SUCCEEDED


def test_one_member_that_failed_last_makes_the_run_fail():
    pods = [_ended("Succeeded", 9.0, "0"), _ended("Failed", 1.0, "1")]
    assert outcome(pods) is Outcome.FAILED


def test_a_pod_that_still_runs_makes_the_run_go_on():
    assert outcome([_ended("Failed", 1.0), _ended("Running", None)]) is Outcome.RUNNING


def test_unknown_phases_make_an_unknown_outcome():
    assert outcome([_ended("Succeeded", 1.0, "0"), _ended("Unknown", None, "1")]) is Outcome.UNKNOWN


def test_a_run_lasts_from_its_first_start_to_its_last_end(tmp_path):
    state = {
        "startedAt": "2026-03-02T12:00:00Z",
        "finishedAt": "2026-03-02T13:00:00Z",
        "exitCode": 0,
    }
    status = {"containerStatuses": [{"name": "main", "state": {"terminated": state}}]}
    found = inventory(tmp_path, _job("fit", phase="Succeeded", status=status))
    run = resolve(found).runs[0]
    assert run.finished - run.started == 3600
    assert run.outcome is Outcome.SUCCEEDED


PEAKS = st.dictionaries(st.text("abc", min_size=1, max_size=4), st.floats(0, 1e12), max_size=12)


@unhurried
@given(PEAKS)
def test_within_a_split_group_peaks_differ_less_than_twofold_and_no_run_is_lost(peaks):
    groups = split_stem(peaks)
    assert sorted(run for group in groups for run in group) == sorted(peaks)
    for group in groups:
        values = [peaks[run] for run in group]
        assert max(values) < 2 * min(values) or max(values) == min(values)


@unhurried
@given(PEAKS)
def test_the_order_of_peaks_does_not_change_the_split(peaks):
    assert split_stem(dict(reversed(list(peaks.items())))) == split_stem(peaks)


def test_runs_are_split_at_the_widest_gap():
    assert split_stem({"a": 10, "b": 11, "c": 40, "d": 44}) == (("a", "b"), ("c", "d"))
    assert split_stem({"a": 10, "b": 19}) == (("a", "b"),)
    assert split_stem({"a": 0, "b": 5}) == (("a",), ("b",))
    assert split_stem({}) == ()
