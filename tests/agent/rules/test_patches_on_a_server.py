"""Patches and commands of findings, given to a real API server as a person would give them.

What a kind keeps in its template is patched in place by the change's own command; a Job's or a
pod's patch is merged into its manifest, and the server is asked for the new object.
"""

import json
import shlex

import msgspec
import pytest
import yaml

from gputailor_agent.rules import changes
from tests.agent.factories import HOUR, NOW, context, pod, profile, rows, workload
from tests.testbed import objects
from tests.testbed.fixtures import control_plane, namespace

__all__ = ["control_plane", "namespace"]
pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def _mounted(spec):
    """The volume in memory and where it stands."""
    mounts = spec["containers"][0].get("volumeMounts", [{}])
    return spec.get("volumes", [{}])[0].get("emptyDir"), mounts[0].get("mountPath")


LINKS = ("https://kubernetes.io/docs/",)
#: What each change asks for, and where the answer stands in the pod's spec afterwards.
CHANGES = {
    "fewer GPUs": (
        lambda made: changes.set_gpus(made, 1),
        lambda spec: spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1",
    ),
    "a slice": (
        lambda made: changes.set_gpu_type(made, "A100", "", "NVIDIA", "1g.10gb"),
        lambda spec: (
            spec["containers"][0]["resources"]["limits"] == {"nvidia.com/mig-1g.10gb": "2"}
        ),
    ),
    "another card": (
        lambda made: changes.set_gpu_type(made, "L4", "NVIDIA-L4", "NVIDIA", ""),
        lambda spec: spec.get("nodeSelector") == {"nvidia.com/gpu.product": "NVIDIA-L4"},
    ),
    "more CPUs": (
        lambda made: changes.set_cpu_limit(made, 8, 4),
        lambda spec: spec["containers"][0]["resources"]["limits"].get("cpu") == "8",
    ),
    "smaller requests": (
        lambda made: changes.set_requests(made, 2, 8, LINKS),
        lambda spec: (
            spec["containers"][0]["resources"]["requests"]
            == {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "2"}
        ),
    ),
    "shared memory": (
        lambda made: changes.mount_shared_memory(made, 8),
        lambda spec: _mounted(spec) == ({"medium": "Memory", "sizeLimit": "8Gi"}, "/dev/shm"),
    ),
    "spot nodes": (
        lambda made: changes.select_nodes(
            made, "use_spot", {"karpenter.sh/capacity-type": "spot"}, {}
        ),
        lambda spec: spec.get("nodeSelector") == {"karpenter.sh/capacity-type": "spot"},
    ),
}


def asking(kind):
    """The profile of a workload ``train`` of two GPUs."""
    start = NOW - HOUR
    built, world = profile(rows(start, NOW), [pod(gpus=2, start=start)], workload(kind=kind))
    return built, context(world)


def in_namespace(made, namespace):
    moved = msgspec.structs.replace(made.workload, namespace=namespace)
    return msgspec.structs.replace(made, workload=moved)


def running(kind):
    """An object of the kind, named ``train``, whose container ``main`` asks for two GPUs."""
    if kind == "CronJob":
        return objects.cron_job("train", gpus=2)
    made = objects.deployment("train", gpus=2)
    made["kind"] = kind
    if kind != "Deployment":
        made["spec"].pop("replicas")
    if kind == "StatefulSet":
        made["spec"]["serviceName"] = "train"
    return made


def pod_spec(found):
    spec = found["spec"]
    return (spec.get("jobTemplate") or found)["spec"]["template"]["spec"]


def given(control_plane, command, patch, tmp_path, *more):
    """Run a change's command with its patch in a file, as the report says."""
    file = tmp_path / "PATCH.yaml"
    file.write_text(patch, "utf-8")
    words = shlex.split(command.replace("PATCH.yaml", str(file)))
    assert words[0] == "kubectl"
    return control_plane.kubectl(*words[1:], *more)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "CronJob"])
def test_what_is_patched_in_place_asks_for_what_the_finding_says(
    control_plane, namespace, tmp_path, kind
):
    control_plane.apply(running(kind), namespace)
    before = pod_spec(control_plane.get(f"{kind}/train", namespace))
    made = in_namespace(asking(kind)[0], namespace)
    for name, (change_of, holds) in CHANGES.items():
        change = change_of(made)
        flags = ("--dry-run=server", "-o", "json")
        said = json.loads(given(control_plane, change.command, change.patch, tmp_path, *flags))
        assert holds(pod_spec(said)), name
        assert not holds(before), name


def test_a_deployment_is_taken_back_by_the_undo_of_its_change(control_plane, namespace, tmp_path):
    control_plane.apply(running("Deployment"), namespace)
    control_plane.kubectl("-n", namespace, "rollout", "history", "deployment/train")
    change = changes.set_gpus(in_namespace(asking("Deployment")[0], namespace), 1)
    control_plane.wait("deployment/train", "jsonpath={.status.observedGeneration}=1", namespace)
    given(control_plane, change.command, change.patch, tmp_path)
    control_plane.wait("deployment/train", "jsonpath={.status.observedGeneration}=2", namespace)
    assert "rolled back" in given(control_plane, change.undo, "", tmp_path)
    spec = pod_spec(control_plane.get("deployment/train", namespace))
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


@pytest.mark.parametrize("kind", ["Job", "Pod"])
@pytest.mark.parametrize("name", CHANGES)
def test_what_has_to_be_made_again_is_valid_with_the_patch_in_its_manifest(
    control_plane, namespace, tmp_path, kind, name
):
    change_of, holds = CHANGES[name]
    change = change_of(in_namespace(asking(kind)[0], namespace))
    assert change.params["recreate"]
    made = objects.job("train", gpus=2) if kind == "Job" else objects.pod("train", gpus=2)
    manifest, patch = tmp_path / "MANIFEST.json", tmp_path / "PATCH.yaml"
    manifest.write_text(json.dumps(made), "utf-8")
    patch.write_text(change.patch, "utf-8")
    flags = ("--local", "-f", str(manifest), "--patch-file", str(patch), "-o", "json")
    merged = control_plane.kubectl("patch", *flags)
    flags = ("--dry-run=server", "--validate=strict", "-n", namespace, "-o", "json", "-f", "-")
    answered = json.loads(control_plane.kubectl("create", *flags, text=merged))
    assert holds(answered["spec"] if kind == "Pod" else pod_spec(answered))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_an_idle_service_is_scaled_to_nothing_and_back(control_plane, namespace, tmp_path, kind):
    control_plane.apply(running(kind), namespace)
    built, around = asking(kind)
    change = changes.release(in_namespace(built, namespace), around)
    given(control_plane, change.command, "", tmp_path)
    assert control_plane.get(f"{kind}/train", namespace)["spec"]["replicas"] == 0
    fewer = changes.set_replicas(in_namespace(built, namespace), 0)
    given(control_plane, fewer.undo, "", tmp_path)
    assert control_plane.get(f"{kind}/train", namespace)["spec"]["replicas"] == 1


def test_a_cron_job_without_a_run_is_suspended_and_its_runs_get_a_deadline(
    control_plane, namespace, tmp_path
):
    control_plane.apply(running("CronJob"), namespace)
    built, around = asking("CronJob")
    made = in_namespace(built, namespace)
    change = changes.release(made, around)
    assert yaml.safe_load(change.patch) == {"spec": {"suspend": True}}
    given(control_plane, change.command, change.patch, tmp_path)
    limit = changes.set_time_limit(made, 3600, 86_400.0, LINKS)
    given(control_plane, limit.command, limit.patch, tmp_path)
    spec = control_plane.get("cronjob/train", namespace)["spec"]
    assert spec["suspend"] is True
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 3600


def test_a_finding_about_a_node_keeps_new_pods_from_it_and_is_taken_back(control_plane, tmp_path):
    node = objects.gpu_node("patched-node")
    control_plane.apply(node)
    try:
        change = changes.cordon(("patched-node",), "", LINKS)
        given(control_plane, change.command, "", tmp_path)
        assert control_plane.get("node/patched-node")["spec"]["unschedulable"] is True
        given(control_plane, change.undo, "", tmp_path)
        assert not control_plane.get("node/patched-node")["spec"].get("unschedulable")
    finally:
        control_plane.delete(node)
