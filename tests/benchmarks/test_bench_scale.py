"""How one hourly pass grows with the cluster: rows of an hour in, profiles and rules out.

``python tests/benchmarks/test_bench_scale.py GPUS CONTAINERS`` does one pass in a process of its
own and prints one line of JSON. All of it is one cluster. Making the simulated rows and inventory,
and writing the inventory, is not counted as time, but as memory; the inventory is read from the
store as the agent reads it. CI compares two small clusters; ``make bench-scale`` goes up to 100,000
GPUs.
"""

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from gputailor_agent.assessment import assess_store
from gputailor_agent.catalog import load_catalogue
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    Node,
    OwnerReference,
    Pod,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import UsageRow
from gputailor_agent.store import Store
from tests.benchmarks import usage_history as history

ROOT = Path(__file__).resolve().parents[2]
HOUR, CLUSTER = 1_799_971_200, "c0"
#: GPUs and containers; two containers share a GPU.
SIZES = ((1_000, 2_000), (10_000, 20_000), (100_000, 200_000))
MOST_EXPONENT, MOST_SECONDS, MOST_MIB = 1.05, 60.0, 1024


def inventory(cluster: str, gpus: int, containers: int, at: float) -> Inventory:
    """Deployments of five pods, told apart by their pod template's hash; two share a GPU."""
    request = GpuRequest(resource="nvidia.com/gpu", count=1.0, vendor="nvidia")
    spec = ContainerSpec(name="main", image="example.org/serve:1", gpus=(request,))
    sharers = max(1, containers // gpus)
    offered = {"nvidia.com/gpu": float(history.GPUS_PER_NODE * sharers)}
    nodes = tuple(
        Node(
            cluster=cluster,
            name=f"node-{place}",
            capacity=offered,
            allocatable=offered,
            ready=True,
            gpu_product="NVIDIA-A100-SXM4-80GB",
            gpu_memory_bytes=80 * history.GIB,
            gpu_count=history.GPUS_PER_NODE,
            sharing_replicas=sharers,
        )
        for place in range(math.ceil(gpus / history.GPUS_PER_NODE))
    )
    pods = tuple(_pod(cluster, place, gpus, spec) for place in range(containers))
    return Inventory(cluster=cluster, at=at, pods=pods, nodes=nodes)


def _pod(cluster: str, place: int, gpus: int, spec: ContainerSpec) -> Pod:
    name = f"svc-{place // history.GPUS_PER_WORKLOAD}"
    owner = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name=f"{name}-6f9c", uid=f"rs-{name}"
    )
    return Pod(
        cluster=cluster,
        namespace=history.team(place),
        name=history.pod_name(place),
        uid=history.pod_uid(place),
        node=f"node-{history.gpu_of(place, gpus) // history.GPUS_PER_NODE}",
        phase="Running",
        labels={"app": name, "pod-template-hash": "6f9c"},
        owners=(owner,),
        containers=(spec,),
        created=HOUR - 86400.0,
        scheduled=HOUR - 86400.0,
        started=HOUR - 86400.0,
    )


class Stopwatch:
    """CPU seconds of what runs inside ``with``; ``left_out`` takes some of them out again."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self.seconds -= time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time()

    def left_out(self, source: Iterator[UsageRow]) -> Iterator[UsageRow]:
        """Hand rows on; making them does not count."""
        while True:
            began = time.process_time()
            row = next(source, None)
            self.seconds -= time.process_time() - began
            if row is None:
                return
            yield row


def one_pass(folder: Path, gpus: int, containers: int) -> dict[str, float]:
    """Run the pass; returns seconds of CPU by part, the peak of memory and what came out."""
    writing, judging = Stopwatch(), Stopwatch()
    end = HOUR + 3600.0
    with Store.open(folder / "bench.db") as store:
        with store.transaction() as tx:
            tx.put_inventory(inventory(CLUSTER, gpus, containers, end))
        with writing, store.transaction() as tx:
            rows = history.hour_rows(containers, HOUR, gpus=gpus, cluster=CLUSTER)
            tx.put_usage(writing.left_out(rows))
            tx.put_devices(history.devices(gpus, CLUSTER))
        with judging:
            window = Window(start=float(HOUR), end=end)
            known = store.inventory(CLUSTER, end, since=window.start)
            plan = assess_store(
                store, CLUSTER, known, window, now=end, catalogue=load_catalogue()
            ).plan
    return {
        "gpus": gpus,
        "containers": containers,
        "workloads": len(plan.verdicts),
        "judged": sum(bool(verdict.silences) for verdict in plan.verdicts),
        "held": sum(line.allocated for line in plan.capacity),
        "write_seconds": round(writing.seconds, 2),
        "judge_seconds": round(judging.seconds, 2),
        "total_seconds": round(writing.seconds + judging.seconds, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def measured(gpus: int, containers: int) -> dict[str, float]:
    """One pass in a process of its own."""
    command = [sys.executable, __file__, str(gpus), str(containers)]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def exponent(points: list[dict[str, float]]) -> float:
    """Slope of seconds over containers, both as logarithms: 1 is a cost that grows in step."""
    logs = [(math.log(one["containers"]), math.log(one["total_seconds"])) for one in points]
    mean_x, mean_y = (sum(part) / len(logs) for part in zip(*logs, strict=True))
    over = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    return over / sum((x - mean_x) ** 2 for x, _ in logs)


@pytest.mark.timeout(120)
def test_a_cluster_four_times_as_large_costs_no_more_than_four_times_as_much():
    small, large = measured(500, 1_000), measured(2_000, 4_000)
    assert (small["workloads"], large["workloads"]) == (200, 800)
    assert (large["judged"], large["held"]) == (800, 2_000)
    # what a process costs once is in both; a machine under load shakes the rest by some percent
    assert large["total_seconds"] <= small["total_seconds"] * 4 * 1.25
    assert large["peak_mib"] - small["peak_mib"] < 120


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_the_cost_of_a_pass_grows_in_step_with_the_cluster(capsys):
    points = [measured(*size) for size in SIZES]
    slope = exponent(points)
    with capsys.disabled():
        for point in points:
            sys.stdout.write(f"{json.dumps(point)}\n")
        sys.stdout.write(f"exponent {slope:.3f}\n")
    assert slope <= MOST_EXPONENT
    assert points[-1]["total_seconds"] <= MOST_SECONDS
    assert points[-1]["peak_mib"] <= MOST_MIB


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = one_pass(Path(scratch), int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(json.dumps(found) + "\n")
