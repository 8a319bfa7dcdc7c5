import pytest

from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.resources import device_count, pod_requests
from gputailor_agent.inventory.templates import pod_templates
from tests.agent.inventory.objects import (
    MANIFESTS,
    NOON_SECONDS,
    container,
    controller,
    inventory,
    owner,
    pod,
)


def _asked(file):
    found = read_inventory([MANIFESTS / file], "lab", NOON_SECONDS)
    assert found.problems == ()
    assert all(one.template for one in found.pods)
    return {
        (one.namespace, one.name): (one.replicas, device_count(pod_requests(one)))
        for one in found.pods
        if pod_requests(one)
    }


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("pytorchjob.yaml", {("vision", "caption-model-master"): (1, 4),
                             ("vision", "caption-model-worker"): (3, 4)}),
        ("jobset.yaml", {("llm", "pretraining-ranks"): (8, 8)}),
        ("leaderworkerset.yaml", {("serving", "big-model-leader"): (2, 8),
                                  ("serving", "big-model-worker"): (6, 8)}),
        ("ray.yaml", {("research", "tuning-cards"): (6, 1), ("research", "sweep"): (1, 2),
                      ("research", "chat-llm"): (2, 2)}),
        ("kserve.yaml", {("serving", "flowers"): (1, 1), ("serving", "experts"): (2, 8),
                         ("serving", "experts-worker"): (2, 8)}),
        ("vendors.yaml", {("serving", "runtime"): (2, 1), ("npu", "rings"): (2, 8),
                          ("npu", "unheard-of"): (5, 2), ("npu", "v2"): (4, 2),
                          ("npu", "etl"): (6, 1), ("npu", "pipeline"): (1, 1),
                          ("npu", "nightly"): (2, 1)}),
    ],
)  # fmt: skip
def test_a_manifest_alone_stands_for_its_pods(file, expected):
    assert _asked(file) == expected


def test_a_template_keeps_its_annotations_and_points_to_its_controller():
    found = read_inventory([MANIFESTS / "pytorchjob.yaml"], "lab", NOON_SECONDS)
    master = next(one for one in found.pods if one.name.endswith("master"))
    assert master.annotations == {"note": "kept"}
    assert [(ref.kind, ref.name) for ref in master.owners] == [("PyTorchJob", "caption-model")]
    assert found.owners[0].uid == master.owners[0].uid


def test_claimed_devices_are_requests_of_the_containers_that_name_them():
    found = read_inventory([MANIFESTS / "claims.yaml"], "lab", NOON_SECONDS)
    asked = {
        one.name: [(gpu.resource, gpu.count, gpu.kind, gpu.mig_profile) for gpu in one.gpus]
        for one in found.pods[0].containers
    }
    assert asked == {
        "a": [("gpu.nvidia.com", 1.0, "shared", "")],
        "b": [("gpu.nvidia.com", 1.0, "shared", "")],
        "c": [("mig.nvidia.com", 1.0, "mig", "1g.10gb")],
        "d": [("resourceclaims/not-exported", 1.0, "other", "")],
        "e": [("nvidia.com/gpu", 4.0, "gpu", "")],
    }


TEMPLATE = {"template": {"spec": {"containers": [container()]}}}


def test_a_controller_with_pods_is_not_counted_a_second_time(tmp_path):
    found = inventory(
        tmp_path,
        controller("Job", "fit", uid="j", spec=TEMPLATE),
        pod("fit-x7k2p", owners=[owner("Job", "fit", "j")]),
    )
    assert [(one.name, one.template) for one in found.pods] == [("fit-x7k2p", False)]


def test_a_manifest_whose_pods_are_live_is_not_counted_a_second_time(tmp_path):
    found = inventory(
        tmp_path,
        controller("Job", "fit", spec=TEMPLATE),
        pod("fit-x7k2p", owners=[owner("Job", "fit", "j")]),
    )
    assert [one.name for one in found.pods] == ["fit-x7k2p"]


def test_a_live_controller_without_pods_has_none(tmp_path):
    found = inventory(
        tmp_path,
        controller("Deployment", "idle", uid="d", spec={"replicas": 0, **TEMPLATE}),
        pod("other"),
    )
    assert [one.name for one in found.pods] == ["other"]


def test_controllers_alone_stand_for_their_pods_once(tmp_path):
    found = inventory(
        tmp_path,
        controller("Deployment", "web", uid="d", spec={"replicas": 2, **TEMPLATE}),
        controller("ReplicaSet", "web-abc", uid="r", spec={"replicas": 2, **TEMPLATE},
                   owners=[owner("Deployment", "web", "d")]),
    )  # fmt: skip
    assert [(one.name, one.replicas) for one in found.pods] == [("web", 2)]


def test_a_controller_of_a_maker_that_is_missing_still_stands_for_its_pods(tmp_path):
    found = inventory(
        tmp_path,
        controller("Job", "nightly-28512345", uid="j", spec=TEMPLATE,
                   owners=[owner("CronJob", "nightly", "gone")]),
    )  # fmt: skip
    assert [one.name for one in found.pods] == ["nightly-28512345"]


def test_a_template_that_asks_for_too_little_names_nothing(tmp_path):
    found = inventory(tmp_path, controller("Deployment", "web", spec={"template": {"spec": {}}}))
    assert found.pods == ()


def test_quotas_and_queues_are_no_workloads(tmp_path):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
             "spec": {"hard": {"requests.nvidia.com/gpu": 4}}}  # fmt: skip
    queue = {"apiVersion": "x/v1", "kind": "SomeQueue", "metadata": {"name": "q"},
             "spec": {"capability": {"nvidia.com/gpu": 2}}}  # fmt: skip
    found = inventory(tmp_path, quota, queue)
    assert (found.pods, found.owners, found.problems) == ((), (), ())


def _job(**roles):
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"},
            "spec": {"pytorchReplicaSpecs": roles}}  # fmt: skip


def test_a_template_that_an_alias_names_again_counts_again():
    role = {"replicas": 2, **TEMPLATE}
    found = pod_templates(_job(Master=role, Worker=role))
    assert [(one.role, one.replicas) for one in found] == [("Master", 2), ("Worker", 2)]


def test_loops_and_aliases_of_aliases_end():
    loop: dict = {"replicas": 1, **TEMPLATE}
    loop["again"] = loop
    many: list = [{"a": 1}]
    for _ in range(20):
        many = [many] * 9
    found = pod_templates(_job(Worker=loop, Other=many))
    assert len(found) == 1
