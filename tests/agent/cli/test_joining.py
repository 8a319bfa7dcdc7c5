"""Recorded logs find the pod they are of, or the user is shown the choices."""

from pathlib import Path

import msgspec
import pytest

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.joining import join_logs, parse_join
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    Pod,
    PodAssignment,
    Resolution,
)

GPU = (GpuRequest(resource="nvidia.com/gpu", count=1),)


class Log(msgspec.Struct):
    path: Path


def cluster(*names: str, containers=("main",)) -> tuple[Inventory, Resolution]:
    """One Job per name in namespace ``team``; a sidecar that asks for nothing beside each."""
    pods = tuple(
        Pod(
            cluster="c",
            namespace="team",
            name=f"{name}-template",
            uid="",
            template=True,
            containers=(
                *(ContainerSpec(name=one, gpus=GPU) for one in containers),
                ContainerSpec(name="sidecar"),
            ),
        )
        for name in names
    )
    assignments = tuple(
        PodAssignment(
            cluster="c",
            namespace="team",
            pod=f"{name}-template",
            pod_uid="",
            container=container,
            workload_id=f"team/Job/{name}/{container}",
            run_id="r",
        )
        for name in names
        for container in (*containers, "sidecar")
    )
    return Inventory(cluster="c", at=0.0, pods=pods), Resolution(assignments=assignments)


def join(logs, *wanted, of=("train",), **more):
    inventory, resolution = cluster(*of, **more)
    joined = join_logs(
        [Log(Path(log)) for log in logs], inventory, resolution, [parse_join(w) for w in wanted]
    )
    return [(one.assignment.workload_id, one.concluded) for one in joined]


def test_the_only_gpu_workload_takes_the_log():
    assert join(["run.csv"]) == [("team/Job/train/main", True)]


def test_with_several_the_user_is_shown_the_choices():
    with pytest.raises(UsageError, match="could belong to 2 GPU workloads") as caught:
        join(["a/run.csv"], of=("train", "serve"))
    assert "--for run.csv=NAMESPACE/NAME" in str(caught.value)
    assert "team/train/main" in str(caught.value)
    assert "sidecar" not in str(caught.value)


@pytest.mark.parametrize("wanted", ["team/serve", "team/serve/main", "team/serve-template"])
def test_for_says_whose_all_logs_are(wanted):
    joined = join(["a.csv", "b.csv"], wanted, of=("train", "serve"))
    assert joined == [("team/Job/serve/main", False)] * 2


@pytest.mark.parametrize("log", ["b.csv", "b", "x/b.csv"])
def test_for_says_whose_one_log_is(log):
    joined = join(["a.csv", "x/b.csv"], "team/train", f"{log}=team/serve", of=("train", "serve"))
    assert [workload for workload, _ in joined] == ["team/Job/train/main", "team/Job/serve/main"]


def test_a_pod_with_two_gpu_containers_needs_the_containers_name():
    with pytest.raises(UsageError, match="several containers"):
        join(["a.csv"], "team/train", containers=("one", "two"))
    assert join(["a.csv"], "team/train/two", containers=("one", "two")) == [
        ("team/Job/train/two", False)
    ]


def test_a_workload_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(
        UsageError, match=r"no GPU workload is team/x; there are:\n  team/train/main"
    ):
        join(["a.csv"], "team/x")


def test_a_log_that_was_not_read_is_told():
    with pytest.raises(UsageError, match=r"no log is called 'z\.csv'; logs read: a\.csv"):
        join(["a.csv"], "z.csv=team/train")


def test_manifests_without_gpus_are_told():
    with pytest.raises(UsageError, match="asks for a GPU"):
        join(["a.csv"], of=())


@pytest.mark.parametrize("text", ["train", "a/b/c/d", "/x", "team/", "=team/train", ""])
def test_a_for_that_makes_no_sense_is_wrong_usage(text):
    with pytest.raises(UsageError, match="--for: expected NAMESPACE/NAME"):
        parse_join(text)
