"""Patches by kind: what can be applied, and what has to be made again."""

import msgspec
import pytest
import yaml

from gputailor_agent.model.inventory import OwnerReference
from gputailor_agent.rules import changes
from tests.agent.factories import HOUR, NOW, context, pod, profile, rows, workload


def made(kind, **fields):
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="train-x7k2p", uid="u")
    members = [pod(start=NOW - HOUR, owner=owner if kind in {"Job", "CronJob"} else None)]
    built, world = profile(rows(NOW - HOUR, NOW), members, workload(kind=kind, **fields))
    return built, context(world)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("Deployment", "kubectl -n team-a scale deployment/train --replicas=0"),
        ("StatefulSet", "kubectl -n team-a scale statefulset/train --replicas=0"),
        ("Job", "kubectl -n team-a delete job/train-x7k2p"),
        ("CronJob", "kubectl -n team-a delete job/train-x7k2p"),
        ("PyTorchJob", "kubectl -n team-a delete pytorchjob/train"),
        ("Pod", "kubectl -n team-a delete pod/train-0"),
        ("RayCluster", "kubectl -n team-a delete raycluster/train"),
        ("DaemonSet", ""),
    ],
)
def test_releasing_scales_to_zero_or_deletes_what_holds_the_device(kind, command):
    change = changes.release(*made(kind))
    assert change.command == command
    assert change.target == f"{kind} team-a/train"


@pytest.mark.parametrize(
    ("kind", "path", "recreate"),
    [
        ("Deployment", ("spec", "template", "spec"), False),
        ("StatefulSet", ("spec", "template", "spec"), False),
        ("Job", ("spec", "template", "spec"), True),
        ("CronJob", ("spec", "jobTemplate", "spec", "template", "spec"), False),
        (
            "PyTorchJob",
            ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec"),
            True,
        ),
        ("Pod", ("spec",), True),
    ],
)
def test_fewer_gpus_are_asked_for_where_the_kind_keeps_its_pod_template(kind, path, recreate):
    built, _ = made(kind)
    change = changes.set_gpus(built, 3)
    place = yaml.safe_load(change.patch)
    for name in path:
        place = place[name]
    (container,) = place["containers"]
    assert container["name"] == "main"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 3}
    assert change.params["recreate"] is recreate
    assert ("replace --force" in change.command) is recreate


def test_a_slice_replaces_the_whole_gpu_in_the_request():
    built, _ = made("Deployment")
    change = changes.set_gpu_type(built, "A100 1g.10gb", "A100", "NVIDIA", "1g.10gb")
    (container,) = yaml.safe_load(change.patch)["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {
        "nvidia.com/gpu": None,
        "nvidia.com/mig-1g.10gb": 1,
    }


def test_another_card_is_chosen_by_its_node_label():
    built, _ = made("Deployment")
    change = changes.set_gpu_type(built, "L4", "NVIDIA-L4", "NVIDIA", "")
    template = yaml.safe_load(change.patch)["spec"]["template"]["spec"]
    assert template["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}


def test_a_vendor_without_a_known_label_gets_no_guessed_patch():
    built, _ = made("Deployment")
    assert changes.set_gpu_type(built, "X", "X", "Other", "").patch == ""


def test_the_command_names_the_run_that_holds_the_device_not_the_name_of_all_runs():
    root = OwnerReference(
        api_version="kubeflow.org/v1", kind="PyTorchJob", name="train-r42", uid="p"
    )
    live = pod("train-r42-worker-0", start=NOW - HOUR, owner=root)
    gone = msgspec.structs.replace(root, name="train-r41", uid="q")
    old = pod("train-r41-worker-0", start=NOW - 9 * HOUR, finished=NOW - 5 * HOUR, owner=gone)
    usage = [
        *rows(NOW - HOUR, NOW, pod=live.name),
        *rows(NOW - 9 * HOUR, NOW - 5 * HOUR, pod=old.name),
    ]
    built, world = profile(
        usage, [live, old], workload(kind="PyTorchJob"), runs={"r42": [live], "r41": [old]}
    )
    change = changes.release(built, context(world))
    assert change.command == "kubectl -n team-a delete pytorchjob/train-r42"
