"""The scenario's Kubernetes objects are those kubectl would list at that moment."""

import json
from pathlib import Path

import pytest

from gputailor_exporter.scenarios.scenario import DEMO, load, manifests, parse

SMALL = Path(__file__).resolve().parents[1] / "fakes" / "scenarios" / "small.yaml"
NOW = 1_764_590_400.0
HOUR = 3600.0


@pytest.fixture(scope="module")
def small():
    return load(SMALL, NOW)


def named(objects, kind):
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


@pytest.fixture(scope="module")
def objects(small):
    return manifests(small, NOW)


def test_everything_is_json(objects):
    assert json.loads(json.dumps(objects)) == objects


def test_a_node_has_the_labels_of_cloud_and_feature_discovery(objects):
    node = named(objects, "Node")["node-a"]
    labels = node["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == "p4de.24xlarge"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB"
    assert labels["nvidia.com/gpu.memory"] == "81920"
    assert labels["nvidia.com/gpu.count"] == "4"
    assert labels["nvidia.com/mig-1g.10gb.count"] == "1"
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "6"
    assert node["status"]["allocatable"]["nvidia.com/mig-3g.40gb"] == "1"


def test_a_finished_job_stays_with_its_terminated_pod(objects):
    job = named(objects, "Job")["train"]
    pod = next(one for name, one in named(objects, "Pod").items() if name.startswith("train"))
    assert job["status"]["succeeded"] == 1
    assert pod["status"]["phase"] == "Succeeded"
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["startedAt"] == "2025-12-01T09:00:00Z"
    assert ended["finishedAt"] == "2025-12-01T11:00:00Z"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "2"


def test_the_same_job_was_running_two_hours_ago(small):
    objects = manifests(small, NOW - 2 * HOUR)
    job = named(objects, "Job")["train"]
    pod = next(one for name, one in named(objects, "Pod").items() if name.startswith("train"))
    assert job["status"]["active"] == 1
    assert pod["status"]["phase"] == "Running"
    assert "running" in pod["status"]["containerStatuses"][0]["state"]


def test_what_has_not_begun_is_not_there(small):
    kinds = {one["kind"] for one in manifests(small, NOW - 10 * 86400)}
    assert kinds == {"Node"}


def test_pods_of_a_deployment_lead_over_their_replica_set_to_it(objects):
    deployment = named(objects, "Deployment")["sharer"]
    pods = [one for name, one in named(objects, "Pod").items() if name.startswith("sharer")]
    sets = named(objects, "ReplicaSet")
    assert deployment["spec"]["replicas"] == len(pods) == 2
    for pod in pods:
        reference = pod["metadata"]["ownerReferences"][0]
        owner = sets[reference["name"]]
        assert owner["metadata"]["uid"] == reference["uid"]
        assert owner["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"]
        assert pod["metadata"]["labels"]["pod-template-hash"] in reference["name"]


def test_a_slice_is_requested_by_its_profile(objects):
    pod = named(objects, "Pod")["slices-0"]
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests["nvidia.com/mig-3g.40gb"] == "1"
    assert "nvidia.com/gpu" not in requests


def test_each_night_has_a_job_below_the_cron_job(objects):
    cron = named(objects, "CronJob")["batch"]
    jobs = {name: one for name, one in named(objects, "Job").items() if name.startswith("batch-")}
    assert cron["spec"]["schedule"] == "30 2 * * *"
    assert len(jobs) == 3
    for job in jobs.values():
        assert job["metadata"]["ownerReferences"][0]["uid"] == cron["metadata"]["uid"]


def test_a_process_of_the_host_is_no_object(objects):
    assert not any("host-agent" in one["metadata"]["name"] for one in objects)


def test_pods_carry_the_uids_that_the_exporter_publishes(small, objects):
    listed = {one["metadata"]["uid"] for one in named(objects, "Pod").values()}
    for node in small.nodes:
        assert {one.holder.pod_uid for one in small.allocations(node, NOW)} <= listed


def test_failed_runs_end_as_kubernetes_says_it():
    document = {
        "version": 1,
        "nodes": [{"name": "n", "gpus": [{"model": "l4"}]}],
        "workloads": [
            {
                "name": "crash",
                "kind": "PyTorchJob",
                "runs": [
                    {
                        "start": "-2h",
                        "end": "-1h",
                        "outcome": "oom_killed",
                        "pods": [{"node": "n", "gpus": [0]}],
                    }
                ],
            }
        ],
    }
    objects = manifests(parse(document, NOW), NOW)
    ended = named(objects, "Pod")["crash-master-0"]["status"]["containerStatuses"][0]["state"]
    assert ended["terminated"]["exitCode"] == 137
    assert ended["terminated"]["reason"] == "OOMKilled"
    conditions = named(objects, "PyTorchJob")["crash"]["status"]["conditions"]
    assert [one["type"] for one in conditions] == ["Failed"]


def test_every_machine_of_the_demo_has_a_known_price(shared_data):
    prices = (shared_data / "catalog" / "gpu_prices.csv").read_text(encoding="utf-8")
    for node in load(DEMO, NOW).nodes.values():
        assert f"aws,{node.instance_type},{node.region}," in prices


def test_every_running_pod_of_the_demo_has_an_owner_and_a_node():
    objects = manifests(load(DEMO, NOW), NOW)
    nodes, uids = named(objects, "Node"), {one["metadata"]["uid"] for one in objects}
    pods = [one for one in objects if one["kind"] == "Pod"]
    assert len(pods) > 60
    for pod in pods:
        assert pod["spec"]["nodeName"] in nodes
        assert pod["metadata"]["ownerReferences"][0]["uid"] in uids
