"""The inventory of a real control plane: owners, permissions, and a server that restarts."""

import contextlib
import time

import pytest

from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.live import (
    ClusterError,
    LiveInventory,
    LiveSettings,
    connect,
    missing_permissions,
    read_live_inventory,
    rules,
)
from gputailor_agent.inventory.live.watching import WatchSettings
from tests.system.live_parts import NAME, grant, start_again
from tests.testbed import objects
from tests.testbed.fixtures import control_plane, control_plane_factory, namespace, nodes
from tests.testbed.servers import eventually

__all__ = ["control_plane", "control_plane_factory", "namespace", "nodes"]

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def _now():
    return time.time()


def _running(plane, namespace, number):
    def enough():
        found = plane.get("pods", namespace)
        return len([one for one in found if one["status"].get("phase") != "Pending"]) >= number

    eventually(enough, f"{number} pods of {namespace} run")


def _fill(plane, namespace):
    """A Deployment of two, two runs of a CronJob, and a pod that a custom resource owns."""
    plane.apply(
        [
            objects.deployment("chat", replicas=2, gpus=1),
            objects.cron_job("nightly", gpus=1, completes_after="1s"),
            objects.custom_definition("PyTorchJob"),
        ],
        namespace,
    )
    for run in ("nightly-1", "nightly-2"):
        plane.kubectl("create", "job", "--from=cronjob/nightly", run, "-n", namespace)
    custom = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "bert"}}
    plane.apply({**custom, "spec": {}}, namespace)
    made = plane.get("pytorchjob bert", namespace)
    plane.apply(objects.pod("bert-worker-0", gpus=1, owner=made), namespace)
    _running(plane, namespace, 5)


def _workloads(inventory):
    found = resolve(inventory)
    runs = {}
    for run in found.runs:
        runs[run.workload_id] = runs.get(run.workload_id, 0) + 1
    return {(one.kind, one.name): runs[one.id] for one in found.workloads}


def test_pods_roll_up_to_deployment_cron_job_and_custom_resource(control_plane, namespace, nodes):
    nodes(objects.gpu_node("inventory-a", 8))
    _fill(control_plane, namespace)

    def read():
        return read_live_inventory(
            "lab", kubeconfig=control_plane.kubeconfig, namespaces=[namespace], at=_now()
        )

    def ended():
        return [one for one in read().pods if one.phase == "Succeeded"]

    eventually(lambda: len(ended()) == 2, "both Jobs of the CronJob have ended")
    found = read()
    assert found.problems == ()
    assert _workloads(found) == {
        ("Deployment", "chat"): 1,
        ("CronJob", "nightly"): 2,
        ("PyTorchJob", "bert"): 1,
    }
    assert {one.name: one.capacity for one in found.nodes}["inventory-a"] == {"nvidia.com/gpu": 8.0}
    assert {one.node for one in found.pods} == {"inventory-a"}
    done = [one for one in found.pods if one.phase == "Succeeded"]
    assert len(done) == 2
    assert all(one.started <= one.finished for one in done)


def test_the_rules_suffice_and_nothing_more_is_ever_asked_for(control_plane, namespace, nodes):
    nodes(objects.gpu_node("inventory-b", 8))
    _fill(control_plane, namespace)
    kubeconfig, token = grant(control_plane, namespace, namespaced=False)
    with contextlib.closing(connect(kubeconfig)) as client:
        eventually(lambda: missing_permissions(client) == (), "the rules are in force")
    read_live_inventory("lab", kubeconfig=kubeconfig, at=_now())
    with LiveInventory("lab", LiveSettings(kubeconfig=kubeconfig)) as live:
        found = live.snapshot(_now())
    assert found.problems == ()
    granted = {
        (group, resource, verb)
        for rule in rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    asked, refused = set(), []
    for event in control_plane.audit(f"system:serviceaccount:{namespace}:{NAME}"):
        reference = event.get("objectRef") or {}
        if reference.get("resource") and reference["resource"] != "selfsubjectaccessreviews":
            group = reference.get("apiGroup", "")
            asked.add((group, reference["resource"], event["verb"]))
            if event["responseStatus"]["code"] == 403:
                refused.append(event["requestURI"])
    assert not refused
    assert ("", "pods", "watch") in asked
    assert ("batch", "cronjobs", "get") in asked
    assert asked <= granted
    assert control_plane.request("GET", "/api/v1/secrets", token=token).status_code == 403


def test_a_role_in_one_namespace_is_enough_for_it_and_nodes_are_said_to_be_missing(
    control_plane, namespace, nodes
):
    nodes(objects.gpu_node("inventory-c", 8))
    control_plane.apply(objects.deployment("chat", replicas=1, gpus=1), namespace)
    _running(control_plane, namespace, 1)
    kubeconfig, _ = grant(control_plane, namespace, namespaced=True)
    with contextlib.closing(connect(kubeconfig)) as client:

        def only_what_no_role_holds():
            missing = missing_permissions(client, [namespace])
            return missing if {one.scope for one in missing} == {"cluster"} else None

        missing = eventually(only_what_no_role_holds, "the role is in force")
    assert [one.resource for one in missing] == ["nodes", "deviceclasses.resource.k8s.io"]
    assert "list, watch on nodes is not granted in all namespaces" in missing[0].text
    found = read_live_inventory("lab", kubeconfig=kubeconfig, namespaces=[namespace], at=_now())
    assert _workloads(found) == {("Deployment", "chat"): 1}
    assert found.nodes == ()
    (problem,) = found.problems
    assert "nodes may not be read" in problem
    with pytest.raises(ClusterError, match=r"pods cannot be read.*403.*--namespace"):
        read_live_inventory("lab", kubeconfig=kubeconfig, at=_now())


def test_a_token_that_nobody_issued_is_refused_in_words(control_plane):
    kubeconfig = control_plane.kubeconfig_with("made-up")
    with pytest.raises(
        ClusterError, match=r"401: Unauthorized; the credentials of context .* log in"
    ):
        read_live_inventory("lab", kubeconfig=kubeconfig, at=_now())


def test_many_pods_come_in_pages(control_plane, namespace):
    made = [objects.pod(f"waiting-{n:03}", gpus=1) for n in range(600)]
    control_plane.apply(made, namespace)
    found = read_live_inventory(
        "lab", kubeconfig=control_plane.kubeconfig, namespaces=[namespace], at=_now()
    )
    assert len({one.uid for one in found.pods}) == 600
    path = f"/api/v1/namespaces/{namespace}/pods?limit=500"
    asked = [one["requestURI"] for one in control_plane.audit("admin")]
    pages = [uri for uri in asked if uri.startswith(path)]
    assert ["continue=" in uri for uri in pages] == [False, True]


def test_what_is_deleted_stays_known_as_ended(control_plane, namespace, nodes):
    nodes(objects.gpu_node("inventory-d", 8))
    control_plane.apply(objects.pod("short", gpus=1), namespace)
    _running(control_plane, namespace, 1)
    settings = LiveSettings(kubeconfig=control_plane.kubeconfig, namespaces=(namespace,))
    with LiveInventory("lab", settings) as live:
        assert [one.finished for one in live.snapshot(_now()).pods] == [None]
        before = _now()
        control_plane.kubectl("delete", "pod", "short", "-n", namespace, "--now")

        def ended():
            (one,) = live.snapshot(_now()).pods
            return one.finished

        assert before - 1 <= eventually(ended, "the end is known") <= _now() + 1


def test_a_watch_survives_a_restart_of_the_api_server(control_plane_factory):
    plane = control_plane_factory()
    plane.apply(objects.gpu_node("inventory-e", 8))
    plane.apply(objects.pod("before", gpus=1))
    settings = LiveSettings(
        kubeconfig=plane.kubeconfig, watch=WatchSettings(watch_seconds=60), stale_seconds=120
    )
    with LiveInventory("lab", settings) as live:
        assert [one.name for one in live.snapshot(_now()).pods] == ["before"]
        plane.servers["kube-apiserver"].stop()
        time.sleep(2)
        live.snapshot(_now())  # still known while nobody answers
        start_again(plane)
        plane.apply(objects.pod("after", gpus=1))
        plane.kubectl("delete", "pod", "before", "--now")

        def both():
            found = {one.name: one.finished for one in live.snapshot(_now()).pods}
            return found if "after" in found and found["before"] else None

        found = eventually(both, "the watch goes on", 60)
    assert found["after"] is None
