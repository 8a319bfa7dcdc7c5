"""The object above a workload's latest run: what is told of a recommendation."""

from gputailor_agent.inventory.identity import resolve
from tests.agent.inventory.objects import container, controller, inventory, owner, pod


def roots(*objects):
    return {
        identity: (root.api_version, root.kind, root.name, root.uid)
        for identity, root in resolve(inventory(*objects)).roots.items()
    }


def test_a_deployment_stands_above_its_replica_sets_pods(tmp_path):
    made = controller("Deployment", "chat", uid="d1", api_version="apps/v1")
    above = [owner("Deployment", "chat", "d1", api_version="apps/v1")]
    middle = controller("ReplicaSet", "chat-7d9", uid="r1", api_version="apps/v1", owners=above)
    below = [owner("ReplicaSet", "chat-7d9", "r1", api_version="apps/v1")]
    assert roots(tmp_path, made, middle, pod("chat-7d9-a", owners=below)) == {
        "team-a/Deployment/chat/main": ("apps/v1", "Deployment", "chat", "d1")
    }


def test_of_many_runs_the_latest_ones_object_is_meant(tmp_path):
    made = []
    for number in (1, 2):
        name = f"train-{number}"
        made += [
            controller("Job", name, uid=f"j{number}", api_version="batch/v1"),
            pod(
                name,
                owners=[owner("Job", name, f"j{number}", api_version="batch/v1")],
                created=f"2026-03-0{number}T00:00:00Z",
            ),
        ]
    assert roots(tmp_path, *made) == {"team-a/Job/train/main": ("batch/v1", "Job", "train-2", "j2")}


def test_a_bare_pod_is_its_own(tmp_path):
    assert roots(tmp_path, pod("alone", uid="p1")) == {
        "team-a/Pod/alone/main": ("v1", "Pod", "alone", "p1")
    }


def test_an_owner_that_was_not_seen_is_none(tmp_path):
    below = [owner("Deployment", "chat", "d1", api_version="apps/v1")]
    assert roots(tmp_path, pod("chat-a", owners=below)) == {}


def test_an_owner_out_of_a_manifest_is_none(tmp_path):
    template = {"spec": {"containers": [container()]}}
    made = controller("Deployment", "chat", api_version="apps/v1", spec={"template": template})
    found = resolve(inventory(tmp_path, made))
    assert [one.id for one in found.workloads] == ["team-a/Deployment/chat/main"]
    assert found.roots == {}
