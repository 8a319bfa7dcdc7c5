"""Cases from the field that belong to the inventory, by their numbers."""

import random

import pytest

from gputailor_agent.inventory.holding import held_interval, holding
from gputailor_agent.inventory.identity import resolve
from tests.agent.inventory.objects import NOON_SECONDS, container, controller, inventory, owner, pod


def test_case_25_one_job_per_pipeline_run_is_one_workload_with_many_runs(tmp_path):
    letters = random.Random(25)
    suffixes = ["".join(letters.choices("bcdfghjklmnpqrstvwxz2456789", k=5)) for _ in range(500)]
    objects = []
    for number, suffix in enumerate(sorted(set(suffixes))):
        name = f"nightly-train-{20260000 + number}-{suffix}"
        workflow = owner("Workflow", name, f"w{number}", api_version="argoproj.io/v1alpha1")
        objects.append(pod(f"{name}-fit-{number}", owners=[workflow]))
    found = resolve(inventory(tmp_path, *objects))
    assert len(found.workloads) == 1
    assert len(found.runs) == len(objects)


@pytest.mark.parametrize(
    ("chain", "root"),
    [
        (["PyTorchJob"], "PyTorchJob"),
        (["Job", "JobSet"], "JobSet"),
        (["RayCluster", "RayJob"], "RayJob"),
        (["Job", "JobSet", "TrainJob"], "TrainJob"),
        (["StatefulSet", "LeaderWorkerSet", "LLMInferenceService"], "LLMInferenceService"),
        (["NodeSet"], "NodeSet"),
        (["ReplicaSet", "Deployment", "Revision", "Configuration", "Service"], "Service"),
    ],
)
def test_case_26_every_controller_s_pods_are_rolled_up_to_the_root(tmp_path, chain, root):
    objects = []
    for place, kind in enumerate(chain):
        above = chain[place + 1 : place + 2]
        owners = [owner(above[0], f"{above[0].lower()}-a", f"u{place + 1}")] if above else []
        objects.append(controller(kind, f"{kind.lower()}-a", uid=f"u{place}", owners=owners))
    made = pod("p", owners=[owner(chain[0], f"{chain[0].lower()}-a", "u0")])
    (workload,) = resolve(inventory(tmp_path, made, *objects)).workloads
    assert (workload.kind, workload.name) == (root, f"{root.lower()}-a")


def test_case_27_an_owner_that_cannot_be_read_drops_no_pod_and_no_run(tmp_path):
    pods = [
        pod(f"fit-{n}-x", owners=[owner("TrainJob", f"fit-{n}", f"u{n}")], phase="Succeeded")
        for n in (1, 2, 3)
    ]
    owners = [controller("TrainJob", f"fit-{n}", uid=f"u{n}") for n in (1, 2, 3)]
    whole, without = (resolve(inventory(tmp_path, *pods, *more)) for more in (owners, []))
    assert whole.runs == without.runs
    assert [one.id for one in whole.workloads] == [one.id for one in without.workloads]
    assert len(without.runs) == 3


@pytest.mark.parametrize(
    ("phase", "node", "holds"),
    [
        ("Running", "n", True),
        ("Pending", "n", True),  # bound: it pulls its image, the device is its own
        ("Pending", None, False),
        ("Succeeded", "n", False),
        ("Failed", "n", False),
        ("Unknown", "n", False),
    ],
)
def test_case_33_a_device_is_held_only_while_the_pod_holds_it(tmp_path, phase, node, holds):
    ended = {
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {"finishedAt": "2026-03-02T13:00:00Z"}}}
        ]
    }
    status = ended if phase in {"Succeeded", "Failed"} else {}
    made = pod("a", phase=phase, node=node, containers=[container(gpus=8)], status=status)
    (found,) = inventory(tmp_path, made).pods
    assert holding(found) is holds
    interval = held_interval(found, NOON_SECONDS + 86_400)
    if status:
        assert interval == (NOON_SECONDS, NOON_SECONDS + 3600)
    else:
        assert (interval is not None) is holds
