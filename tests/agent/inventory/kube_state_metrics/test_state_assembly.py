"""Owners, holders and endings, out of series made by hand."""

import pytest

from gputailor_agent.dialects.kube_state_metrics import OWNERS
from gputailor_agent.inventory.hints import DEADLINE_HINT
from gputailor_agent.inventory.holding import held_interval, holding
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.model.inventory import Outcome
from tests.agent.inventory.kube_state_metrics.told import AT, HOUR, inventory, pod, sample

REPLICA_SET = ("ReplicaSet", "chat-7c9d8b6f5c")


def owned(kind, label, name, owner=("", "")):
    return sample(
        f"kube_{kind}_owner",
        **{label: name},
        owner_kind=owner[0],
        owner_name=owner[1],
        owner_is_controller="true",
    )


def workloads(found):
    return [one.id for one in resolve(found).workloads]


def runs(found):
    return [run.id.partition("@")[2] for run in resolve(found).runs]


@pytest.mark.parametrize(
    ("phase", "node", "holds"),
    [
        ("Running", "node-1", True),
        ("Pending", "node-1", True),
        ("Pending", "", False),
        ("Succeeded", "node-1", False),
        ("Failed", "node-1", False),
    ],
)
def test_only_a_bound_pod_that_goes_on_holds_its_devices(phase, node, holds):
    (found,) = inventory(pod("a", phase=phase, node=node)).pods
    assert holding(found) is holds


def test_a_replica_set_leads_to_its_deployment_and_tells_the_revision():
    found = inventory(
        pod("chat-7c9d8b6f5c-x2x4z", owner=REPLICA_SET),
        owned("replicaset", "replicaset", REPLICA_SET[1], ("Deployment", "chat")),
    )
    assert workloads(found) == ["team/Deployment/chat/main"]
    assert runs(found) == ["7c9d8b6f5c"]
    assert not any("replicaset" in one for one in found.problems)


def test_without_its_series_a_replica_set_is_read_by_its_name_and_that_is_told():
    found = inventory(pod("chat-7c9d8b6f5c-x2x4z", owner=REPLICA_SET))
    assert workloads(found) == ["team/Deployment/chat/main"]
    assert runs(found) == ["7c9d8b6f5c"]
    (problem,) = [one for one in found.problems if "kube_replicaset_owner" in one]
    assert "have replicasets in its --resources" in problem


def test_a_replica_set_that_nobody_owns_stands_for_itself():
    found = inventory(
        pod("chat-7c9d8b6f5c-x2x4z", owner=REPLICA_SET),
        owned("replicaset", "replicaset", REPLICA_SET[1]),
    )
    assert workloads(found) == ["team/ReplicaSet/chat-7c9d8b6f5c/main"]


def test_a_rollouts_pods_have_its_revision():
    found = inventory(
        pod("chat-7c9d8b6f5c-x2x4z", owner=REPLICA_SET),
        owned("replicaset", "replicaset", REPLICA_SET[1], ("Rollout", "chat")),
    )
    assert workloads(found) == ["team/Rollout/chat/main"]
    assert runs(found) == ["7c9d8b6f5c"]


def test_runs_of_a_cron_job_join():
    jobs = ("nightly-29384", "nightly-29385")
    found = inventory(
        *(pod(f"{job}-abcde", owner=("Job", job), phase="Succeeded", ended=AT) for job in jobs),
        *(owned("job", "job_name", job, ("CronJob", "nightly")) for job in jobs),
    )
    assert workloads(found) == ["team/CronJob/nightly/main"]
    assert sorted(runs(found)) == list(jobs)


def test_a_custom_resource_is_the_owner_that_is_named_its_api_unknown():
    found = inventory(pod("bert-worker-0", owner=("PyTorchJob", "bert")))
    (workload,) = resolve(found).workloads
    assert (workload.id, workload.owner_api_version) == ("team/PyTorchJob/bert/main", "")


def test_a_job_is_kubernetes_own_only_where_a_series_of_jobs_tells_of_it():
    volcano = inventory(pod("a-0", owner=("Job", "a")))
    batch = inventory(pod("a-0", owner=("Job", "a")), owned("job", "job_name", "a"))
    assert [one.owner_api_version for one in resolve(volcano).workloads] == [""]
    assert [one.owner_api_version for one in resolve(batch).workloads] == ["batch/v1"]


def test_an_owner_above_a_deployment_is_followed():
    found = inventory(
        pod("chat-7c9d8b6f5c-x2x4z", owner=REPLICA_SET),
        owned("replicaset", "replicaset", REPLICA_SET[1], ("Deployment", "chat")),
        owned("deployment", "deployment", "chat", ("InferenceService", "llm")),
    )
    assert workloads(found) == ["team/InferenceService/llm/main"]


def test_labels_tell_what_stands_above_an_owner_whose_own_owner_is_not_told():
    found = inventory(
        pod("lab-0", owner=("StatefulSet", "lab")),
        sample("kube_pod_labels", pod="lab-0", uid="uid-lab-0", label_notebook_name="lab"),
        sample("kube_statefulset_created", AT, statefulset="lab"),
        sample("kube_statefulset_replicas", 1.0, statefulset="lab"),
    )
    assert workloads(found) == ["team/Notebook/lab/main"]


def test_replicas_and_annotations_of_an_owner_are_kept():
    found = inventory(
        pod("web-0", owner=("StatefulSet", "web")),
        sample("kube_statefulset_created", AT, statefulset="web"),
        sample("kube_statefulset_replicas", 3.0, statefulset="web"),
        sample(
            "kube_statefulset_annotations", statefulset="web", annotation_gputailor_io_ignore="all"
        ),
    )
    (owner,) = found.owners
    assert (owner.kind, owner.replicas, owner.api_version) == ("StatefulSet", 3, "apps/v1")
    (workload,) = resolve(found).workloads
    assert workload.annotations == {"gputailor.io/ignore": "all"}


def test_who_created_a_pod_owns_it_where_owners_are_not_told():
    told = [one for one in pod("a-0") if one.name not in {"kube_pod_owner", "kube_pod_info"}]
    info = {"created_by_kind": "PyTorchJob", "created_by_name": "a", "node": "node-1"}
    found = inventory(told, sample("kube_pod_info", pod="a-0", uid="uid-a-0", **info))
    assert workloads(found) == ["team/PyTorchJob/a/main"]
    assert any("kube_pod_owner is missing" in one for one in found.problems)


def test_a_pod_that_went_while_it_ran_ended_when_it_was_last_seen_running():
    seen = {"gone": {"uid-a": AT - HOUR}, "ran": {"uid-a": AT - HOUR - 30}}
    (found,) = inventory(pod("a"), **seen).pods
    assert (found.phase, found.reason) == ("Unknown", "NoLongerSeen")
    assert held_interval(found, AT) == (AT - 8 * HOUR, AT - HOUR - 30)
    assert not holding(found)


def test_a_pod_that_went_after_its_end_keeps_its_end():
    ended = AT - 3 * HOUR
    told = pod("a", phase="Succeeded", ended=ended, owner=("Job", "a"))
    found = inventory(told, gone={"uid-a": AT - HOUR}, ran={})
    (run,) = resolve(found).runs
    assert (run.finished, run.outcome) == (ended, Outcome.SUCCEEDED)


@pytest.mark.parametrize(
    ("metric", "outcome"),
    [("kube_job_complete", Outcome.SUCCEEDED), ("kube_job_failed", Outcome.FAILED)],
)
def test_the_job_tells_how_a_pod_ended_that_went_too_soon(metric, outcome):
    found = inventory(
        pod("a-x", owner=("Job", "a")),
        sample(metric, job_name="a", condition="true"),
        gone={"uid-a-x": AT - HOUR},
        ran={"uid-a-x": AT - HOUR},
    )
    (run,) = resolve(found).runs
    assert (run.outcome, run.finished) == (outcome, AT - HOUR)


def test_an_evicted_pod_ended_when_it_was_last_seen_running():
    who = {"pod": "a", "uid": "uid-a"}
    found = inventory(
        pod("a", phase="Failed"),
        sample("kube_pod_status_reason", reason="Evicted", **who),
        sample("kube_pod_status_reason", 0.0, reason="NodeLost", **who),
        ran={"uid-a": AT - 2 * HOUR},
    )
    (evicted,) = found.pods
    assert (evicted.reason, evicted.finished) == ("Evicted", AT - 2 * HOUR)


def test_of_two_replicas_that_differ_the_later_phase_counts():
    who = {"pod": "a", "uid": "uid-a"}
    late = sample("kube_pod_status_phase", phase="Succeeded", **who)
    (found,) = inventory(pod("a"), late).pods
    assert found.phase == "Succeeded"


def test_sidecars_run_beside_and_other_init_containers_before():
    who = {"pod": "a", "uid": "uid-a"}
    asked = {"resource": "nvidia_com_gpu", **who}
    found = inventory(
        pod("a"),
        *(
            sample("kube_pod_init_container_info", container=name, restart_policy=policy, **who)
            for name, policy in (("warm", ""), ("proxy", "Always"))
        ),
        *(
            sample("kube_pod_init_container_resource_requests", 1.0, container=name, **asked)
            for name in ("warm", "proxy")
        ),
    )
    (found_pod,) = found.pods
    told = {one.name: (one.init, bool(one.gpus)) for one in found_pod.containers}
    assert told == {"proxy": (False, True), "warm": (True, True), "main": (False, True)}


def test_names_that_were_given_twice_are_two_runs_by_the_jobs_uid():
    def labelled(name):
        uid = {"label_controller_uid": f"{name}-4711-job"}
        return sample("kube_pod_labels", pod=name, uid=f"uid-{name}", **uid)

    first, second = pod("a-x", owner=("Job", "a")), pod("a-y", owner=("Job", "a"))
    told = inventory(first, second, labelled("a-x"), labelled("a-y"))
    assert runs(told) == ["a.a-x-4711", "a.a-y-4711"]


def test_a_job_s_time_limit_is_no_number_of_copies():
    deadline = "kube_job_spec_active_deadline_seconds"
    assert deadline in OWNERS["Job"].values
    found = inventory(
        pod("train-x2x4z", owner=("Job", "train")),
        owned("job", "job_name", "train"),
        sample("kube_job_spec_parallelism", 2.0, job_name="train"),
        sample(deadline, 1_234_567.0, job_name="train"),
    )
    assert [one.replicas for one in found.owners] == [2]
    (workload,) = resolve(found).workloads
    assert workload.annotations == {DEADLINE_HINT: "1234567"}


def test_a_namespace_tells_the_team_and_who_is_told():
    found = inventory(
        pod("a"),
        sample("kube_namespace_labels", namespace="team", label_team="vision", label_other="x"),
        sample(
            "kube_namespace_annotations",
            namespace="team",
            annotation_gputailor_io_notify="ops@example.org",
            annotation_other="y",
        ),
        sample("kube_namespace_labels", namespace="elsewhere", label_team="speech"),
    )
    said = {"team": "vision", "other": "x", "gputailor.io/notify": "ops@example.org"}
    assert found.namespaces == {"team": said}
    (work,) = resolve(found).workloads
    assert work.team == "vision"
    assert work.annotations["gputailor.io/notify"] == "ops@example.org"


def test_a_namespace_that_says_nothing_is_left_out():
    found = inventory(pod("a"), sample("kube_namespace_labels", namespace="team"))
    assert found.namespaces == {}
