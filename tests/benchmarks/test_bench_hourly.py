"""One hourly pass of a large cluster: 10,000 pods, 2,000 GPUs, in a process of its own.

Pages of 250 exporters are folded at five times of an hour, then everything that is due runs: rows
into the store, inventory, identity, profiles, rules, plan. Making the simulated pages and inventory
is not counted. ``python tests/benchmarks/test_bench_hourly.py`` prints one line of JSON.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    Node,
    Owner,
    OwnerReference,
    Pod,
)
from gputailor_agent.model.usage import ContainerCounters, Device, Page
from gputailor_agent.schedule import AgentService, ServiceSettings
from gputailor_agent.store import Store
from gputailor_exporter.metrics import CONTAINER_SIGNALS, HISTOGRAM_BOUNDS, HISTOGRAM_SIGNALS

NODES, GPUS_PER_NODE, PODS = 250, 8, 10_000
GPUS = NODES * GPUS_PER_NODE
HOUR = 1_799_971_200
TIMES = range(HOUR, HOUR + 3601, 900)
GIB = 2**30
SIGNALS = tuple(str(signal) for signal in CONTAINER_SIGNALS)

MOST_SECONDS, MOST_MIB = 10.0, 400


def level(gpu: int) -> float:
    """How busy a GPU is: a tenth of the deployments idle, the rest anything up to full."""
    return 0.0 if gpu // 5 % 10 == 0 else (gpu * 37 % 100) / 100


class Cluster:
    """A source of simulated pages; ``made_seconds`` is the time it took to make them."""

    def __init__(self) -> None:
        self.made_seconds = 0.0
        self.failures = ()

    def scrape(self, at: float) -> "Cluster":
        self.at = at
        return self

    @property
    def pages(self) -> Iterator[Page]:
        for node in range(NODES):
            began = time.perf_counter()
            page = node_page(node, self.at)
            self.made_seconds += time.perf_counter() - began
            yield page


def node_page(node: int, at: float) -> Page:
    gpus = range(node * GPUS_PER_NODE, (node + 1) * GPUS_PER_NODE)
    return Page(
        at=at,
        exporter=f"http://node-{node}:9836/metrics",
        process_started=HOUR - 86400.0,
        devices=tuple(
            Device(
                cluster="c1",
                gpu_uuid=f"GPU-{gpu}",
                node=f"node-{node}",
                index=str(gpu % GPUS_PER_NODE),
                vendor="nvidia",
                model="NVIDIA A100-SXM4-80GB",
                memory_total_bytes=80 * GIB,
                up=True,
            )
            for gpu in gpus
        ),
        containers=tuple(container(gpu, at) for gpu in gpus),
        histogram_bounds=HISTOGRAM_BOUNDS,
    )


def container(gpu: int, at: float) -> ContainerCounters:
    seconds, busy = at - HOUR, level(gpu)
    place = next(i for i, bound in enumerate((*HISTOGRAM_BOUNDS, 1.0)) if busy <= bound)
    buckets = tuple(seconds if i >= place else 0.0 for i in range(len(HISTOGRAM_BOUNDS) + 1))
    return ContainerCounters(
        namespace=team(gpu),
        pod=pod_name(gpu),
        pod_uid=f"uid-{gpu}",
        container="main",
        gpu_uuid=f"GPU-{gpu}",
        allocated=True,
        allocated_seconds=seconds,
        active=dict.fromkeys(SIGNALS, seconds * busy),
        observed=dict.fromkeys(SIGNALS, seconds),
        histogram=dict.fromkeys(HISTOGRAM_SIGNALS, buckets),
        conditions={"amp_candidate": 0.0, "zero_inside_active_minute": 0.0, "link_saturated": 0.0},
        link_bytes={"pcie/rx": seconds * busy * 1e8, "pcie/tx": seconds * busy * 1e8},
        memory_peak_bytes=(gpu % 70 + 1) * GIB,
        energy_joules=seconds * (60 + 340 * busy),
        last_active=at if busy else None,
    )


def pod_name(place: int) -> str:
    """Pods 0..GPUS hold a GPU now, in deployments of five; the others are jobs that ended."""
    return f"svc-{place // 5}-6f9c{place % 5}" if place < GPUS else f"job-{place}-x7k2p"


def team(place: int) -> str:
    """Namespace of a pod; pods of one deployment share it."""
    return f"team-{(place // 5 if place < GPUS else place) % 20}"


def inventory(at: float) -> Inventory:
    pods = tuple(pod(place, at) for place in range(PODS))
    services, jobs = range(GPUS // 5), range(GPUS, PODS)
    owners = [owner("apps/v1", "Deployment", f"svc-{i}", i % 20) for i in services]
    owners += [
        owner("apps/v1", "ReplicaSet", f"svc-{i}-6f9c", i % 20, parent=f"Deployment-svc-{i}")
        for i in services
    ]
    owners += [owner("batch/v1", "Job", f"job-{i}", i % 20) for i in jobs]
    nodes = tuple(
        Node(
            cluster="c1",
            name=f"node-{place}",
            capacity={"nvidia.com/gpu": float(GPUS_PER_NODE)},
            allocatable={"nvidia.com/gpu": float(GPUS_PER_NODE)},
            ready=True,
            gpu_product="NVIDIA-A100-SXM4-80GB",
            gpu_memory_bytes=80 * GIB,
            gpu_count=GPUS_PER_NODE,
        )
        for place in range(NODES)
    )
    return Inventory(cluster="c1", at=at, pods=pods, nodes=nodes, owners=tuple(owners))


def owner(version: str, kind: str, name: str, team: int, parent: str = "") -> Owner:
    up = OwnerReference(
        api_version="apps/v1", kind="Deployment", name=parent.partition("-")[2], uid=parent
    )
    return Owner(
        cluster="c1",
        api_version=version,
        kind=kind,
        namespace=f"team-{team}",
        name=name,
        uid=f"{kind}-{name}",
        owners=(up,) if parent else (),
    )


def pod(place: int, at: float) -> Pod:
    service = place < GPUS
    kind, name = ("ReplicaSet", f"svc-{place // 5}-6f9c") if service else ("Job", f"job-{place}")
    owned = OwnerReference(
        api_version="apps/v1" if service else "batch/v1", kind=kind, name=name, uid=f"{kind}-{name}"
    )
    request = GpuRequest(resource="nvidia.com/gpu", count=1.0, vendor="nvidia")
    began = float(HOUR) if service else at - 7200.0 - place
    return Pod(
        cluster="c1",
        namespace=team(place),
        name=pod_name(place),
        uid=f"uid-{place}",
        node=f"node-{place // GPUS_PER_NODE % NODES}",
        phase="Running" if service else "Succeeded",
        labels={"app": name, "team": team(place)},
        owners=(owned,),
        containers=(ContainerSpec(name="main", image="example.org/train:1", gpus=(request,)),),
        created=began,
        scheduled=began,
        started=began,
        finished=None if service else began + 1800,
    )


def one_pass(folder: Path) -> dict[str, float]:
    """Run the pass; returns seconds by part, the peak of memory and what came out."""
    cluster, end = Cluster(), HOUR + 3600.0
    known = inventory(end)
    with Store.open(folder / "bench.db") as store:
        service = AgentService(
            ServiceSettings(cluster="c1"),
            store,
            cluster,
            lambda at: known,
            load_catalogue(),
            lambda: end,
        )
        began = time.perf_counter()
        for at in TIMES:
            if not service.tick_scrape(float(at)):
                raise SystemExit("a scrape failed")
        scraped = time.perf_counter()
        tried = service.run_due(end)
        done = time.perf_counter()
        if tried != ["rollup", "recommend"] or service.latest_plan() is None:
            raise SystemExit(f"the pass did not make a plan: {tried}")
        plan = service.latest_plan()
        rows = sum(1 for _ in store.usage("c1", HOUR, end))
    return {
        "pods": PODS,
        "gpus": GPUS,
        "rows": rows,
        "workloads": len(plan.verdicts),
        "findings": sum(verdict.primary is not None for verdict in plan.verdicts),
        "scrape_rollup_checkpoint_seconds": round(scraped - began - cluster.made_seconds, 2),
        "due_seconds": round(done - scraped, 2),
        "total_seconds": round(done - began - cluster.made_seconds, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


@pytest.mark.bench
@pytest.mark.timeout(300)
def test_an_hourly_pass_of_a_large_cluster_stays_in_its_bounds(capsys):
    run = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=False, timeout=240
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    with capsys.disabled():
        sys.stdout.write(run.stdout)
    assert figures["rows"] == GPUS
    assert figures["findings"] > 0  # the rules had work to do
    assert figures["total_seconds"] < MOST_SECONDS
    assert figures["peak_mib"] < MOST_MIB


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sys.stdout.write(json.dumps(one_pass(Path(scratch))) + "\n")
