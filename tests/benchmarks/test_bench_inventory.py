"""A cluster of 50,000 pods and 20,000 GPUs listed, joined with usage, and then watched.

The client is the product's own live inventory in a process of its own; the API server is another
process, whose work does not count. ``python -m tests.benchmarks.test_bench_inventory URL FOLDER
PODS NODES`` is the client: it prints a line of JSON once everything is joined and, after a line
``CHANGES`` on its input, another about the changes it watched since.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gputailor_agent.inventory.holding import holding
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.live import LiveInventory, LiveSettings
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.usage import Device, SignalUse, UsageKey, UsageRow
from gputailor_agent.profiles.attributing import Attribution
from tests.agent.inventory.live.conftest import kubeconfig_of
from tests.benchmarks.large_cluster import Shape, pod, waves
from tests.benchmarks.large_objects import GPUS_PER_NODE, uid

ROOT = Path(__file__).resolve().parents[2]
HOUR = 1_796_018_400  # 2026-11-30T06:00:00Z; pods that are named ended run until then
CLUSTER = "c1"
PODS, NODES, CHANGES, MINUTE = 50_000, 2_500, 10_000, 60.0
MOST_SECONDS, MOST_BYTES, MOST_OF_A_CORE, MOST_LAG_SECONDS = 10.0, 300e6, 0.2, 2.0


def devices(shape: Shape) -> list[Device]:
    return [
        Device(
            cluster=CLUSTER,
            gpu_uuid=f"GPU-{uid(gpu)}",
            node=f"node-{gpu // GPUS_PER_NODE}",
            index=str(gpu % GPUS_PER_NODE),
            vendor="nvidia",
            model="NVIDIA A100-SXM4-80GB",
            up=True,
        )
        for gpu in range(shape.gpus)
    ]


def rows(shape: Shape) -> Iterator[UsageRow]:
    """An hour of every GPU: half of them told with their pod, the others without."""
    use = {"kernel": SignalUse(observed_seconds=3600.0, active_seconds=900.0, maximum=1.0)}
    for gpu in range(shape.gpus):
        meta = pod(gpu, shape)["metadata"] if gpu < shape.serving else {}
        key = UsageKey(
            cluster=CLUSTER,
            namespace=meta.get("namespace", ""),
            pod=meta.get("name", ""),
            pod_uid=meta.get("uid", ""),
            container="main" if meta else "",
            gpu_uuid=f"GPU-{uid(gpu)}",
            hour=HOUR,
        )
        yield UsageRow(key=key, dialect="dcgm", allocated_seconds=3600.0, signals=use)


def joined(shape: Shape, inventory: Inventory) -> dict[str, Any]:
    """Every GPU's row with its workload."""
    resolution = resolve(inventory)
    workload_of = {
        (one.namespace, one.pod, one.pod_uid, one.container): one.workload_id
        for one in resolution.assignments
    }
    attribution = Attribution(devices(shape), inventory)
    workloads = Counter(
        workload_of.get((row.key.namespace, row.key.pod, row.key.pod_uid, row.key.container))
        for row in attribution.attributed(rows(shape))
        if isinstance(row, UsageRow)
    )
    return {
        "rows": workloads.total(),
        "rows_of_nobody": workloads.pop(None, 0),
        "workloads_with_rows": len(workloads),
        "workloads": len(resolution.workloads),
    }


def peak_bytes() -> int:
    """Of this program alone; the ``ru_maxrss`` of a process begins with that of who started it."""
    status = Path("/proc/self/status").read_text("utf-8")
    (line,) = (one for one in status.splitlines() if one.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def listed(live: LiveInventory, shape: Shape) -> dict[str, Any]:
    inventory = live.snapshot(HOUR + 3600.0)
    read_seconds = time.process_time()
    making = sum(1 for _ in rows(shape)) and time.process_time() - read_seconds
    found = joined(shape, inventory)
    total = time.process_time() - 2 * making  # the rows were made twice, and neither counts
    return {
        "pods": shape.pods,
        "gpus": shape.gpus,
        "pods_asking": len(inventory.pods),
        "pods_holding": sum(map(holding, inventory.pods)),
        "nodes": len(inventory.nodes),
        "owners": len(inventory.owners),
        "problems": len(inventory.problems),
        **found,
        "read_seconds": round(read_seconds, 2),
        "total_seconds": round(total, 2),
        "peak_bytes": peak_bytes(),
    }


def expected(changes: int, shape: Shape) -> dict[str, str]:
    """Phases of the pods with GPUs that came, as the changes leave them."""
    phases: dict[str, str] = {}
    for _, one in waves(changes, shape):
        if one["kind"] == "Pod" and "nvidia.com/gpu" in json.dumps(one["spec"]["containers"]):
            phases[one["metadata"]["name"]] = one["status"]["phase"]
    return phases


def came(live: LiveInventory, shape: Shape) -> dict[str, str]:
    pods = live.snapshot(HOUR + 3600.0).pods
    numbered = ((one, one.name.split("-")) for one in pods if one.name.startswith("job-"))
    return {one.name: one.phase for one, parts in numbered if int(parts[1]) >= shape.pods}


def watched(live: LiveInventory, shape: Shape) -> dict[str, Any]:
    """CPU while the changes came, and how long after the last one everything was known."""
    began, at = time.process_time(), time.monotonic()
    changes = int(sys.stdin.readline())
    seconds, spent = time.monotonic() - at, time.process_time() - began
    ended, wanted = time.monotonic(), expected(changes, shape)
    while (found := came(live, shape)) != wanted and time.monotonic() < ended + 10.0:
        time.sleep(0.1)
    return {
        "changes": changes,
        "pods_came": len(wanted),
        "known": sum(found.get(name) == phase for name, phase in wanted.items()),
        "watch_seconds": round(seconds, 1),
        "core_share": round(spent / seconds, 3),
        "peak_bytes": peak_bytes(),
    }


def client(url: str, folder: Path, shape: Shape) -> None:
    config = folder / "config"
    config.write_text(yaml.safe_dump(kubeconfig_of(url)), encoding="utf-8")
    with LiveInventory(CLUSTER, LiveSettings(kubeconfig=config, ready_seconds=120.0)) as live:
        for told in (listed, watched):
            sys.stdout.write(json.dumps(told(live, shape)) + "\n")
            sys.stdout.flush()


@contextmanager
def talking(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A module of ours as a process that one talks to by lines."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def say(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"it ended with {process.wait()}"
    return line


def measured(folder: Path, pods: int, nodes: int, changes: int, seconds: float) -> dict[str, Any]:
    size = (str(pods), str(nodes))
    with ExitStack() as stack:
        server = stack.enter_context(talking("tests.benchmarks.large_cluster", *size))
        command = ("tests.benchmarks.test_bench_inventory", hear(server).strip(), str(folder))
        reader = stack.enter_context(talking(*command, *size))
        figures = json.loads(hear(reader))
        say(server, f"{changes} {seconds}")
        hear(server)
        say(reader, str(changes))
        return figures | {"after": json.loads(hear(reader))}


def check_counts(figures: dict[str, Any], shape: Shape) -> None:
    """Everything is read, every GPU has its workload, no change is missed."""
    assert figures["problems"] == 0
    assert figures["pods_asking"] == shape.asking
    assert figures["pods_holding"] == shape.serving + shape.training
    assert figures["nodes"] == shape.nodes
    assert figures["rows"] == shape.gpus
    assert figures["rows_of_nobody"] == 0
    assert figures["after"]["known"] == figures["after"]["pods_came"] > 0


@pytest.mark.timeout(60)
def test_a_cluster_is_listed_joined_and_watched_with_nothing_missed(tmp_path):
    figures = measured(tmp_path, 2_000, 100, changes=400, seconds=2.0)
    check_counts(figures, Shape(2_000, 100))
    assert figures["after"]["peak_bytes"] < 110e6  # 60 of them are the libraries


@pytest.mark.bench
@pytest.mark.timeout(300)
def test_50_000_pods_and_20_000_gpus_stay_in_their_bounds(tmp_path, capsys):
    figures = measured(tmp_path, PODS, NODES, CHANGES, MINUTE)
    with capsys.disabled():
        sys.stdout.write(json.dumps(figures) + "\n")
    check_counts(figures, Shape(PODS, NODES))
    assert figures["total_seconds"] < MOST_SECONDS
    assert figures["peak_bytes"] < MOST_BYTES
    assert figures["after"]["core_share"] < MOST_OF_A_CORE


if __name__ == "__main__":
    client(sys.argv[1], Path(sys.argv[2]), Shape(int(sys.argv[3]), int(sys.argv[4])))
