"""The agent is killed at any point and started again: no second counted twice or lost for pods that
still live; what ended meanwhile is missing, and shown as missing."""

import json
import random
import time

import httpx
import pytest

from gputailor_agent.store import Store
from tests.fakes.nvml import square
from tests.system.test_whole_way import (
    GPM_SM,
    POD_UID,
    Machine,
    h100,
    machine,
    node,
    pod,
    wait_for,
)

__all__ = ["machine"]  # the fixture

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

#: Each of some forty increments is kept to the nearest 1/1024 s (``model.usage.quantise``).
ROUNDING = 40 / 2048
OTHER_UID = "0a4be1f0-2c53-4e46-8f7a-9d4f64b6f2aa"


def counter(machine: Machine, name: str, pod_name: str) -> float | None:
    """The exporter's counter for the pod (signal kernel)."""
    for line in httpx.get(f"{machine.url}/metrics").text.splitlines():
        wanted = f'pod="{pod_name}"' in line and 'signal="kernel"' in line
        if line.startswith(f"gputailor_container_gpu_{name}{{") and wanted:
            return float(line.rsplit(" ", 1)[1])
    return None


def stored(machine: Machine, pod_name: str) -> tuple[float, float]:
    """Observed and active kernel seconds of the pod in the store (after a clean stop)."""
    with Store.open(f"sqlite:///{machine.folder / 'agent.db'}") as store:
        uses = [
            row.signals["kernel"]
            for row in store.usage("test", 0, time.time() + 7200)
            if row.key.pod == pod_name and "kernel" in row.signals
        ]
    return sum(u.observed_seconds for u in uses), sum(u.active_seconds for u in uses)


@pytest.fixture
def agent(machine, start):
    """A function that starts ``gputailor serve`` on the machine's exporter and store."""

    def begin():
        process = start(
            "gputailor_agent.cli.entry",
            *("serve", "--cluster", "test", "--target", machine.url, "--scrape-seconds", "1"),
            *("--inventory", str(machine.folder / "cluster.json")),
            *("--store", f"sqlite:///{machine.folder / 'agent.db'}", "--listen", "127.0.0.1:0"),
        )
        process.address = process.url()
        return process

    return begin


def test_killed_again_and_again_it_counts_every_second_once(machine, agent):
    gpu = machine.driver.add(h100(util_gpu=square(1, 1), gpm={GPM_SM: 20.0}))
    ended = machine.driver.add(h100(util_gpu=80.0, gpm={GPM_SM: 20.0}))
    machine.run_exporter()
    wait_for(lambda: httpx.get(f"{machine.url}/readyz").status_code == 200)
    began = time.time()
    objects = [node(), pod("lives", POD_UID, 1, began), pod("ends", OTHER_UID, 1, began)]
    (machine.folder / "cluster.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}), "utf-8"
    )
    process = agent()
    machine.hand_out("lives", POD_UID, [gpu.uuid])
    machine.hand_out("ends", OTHER_UID, [ended.uuid])
    wait_for(lambda: counter(machine, "observed_seconds_total", "lives") is not None)
    chance = random.Random(20261130)
    for _ in range(4):
        time.sleep(chance.uniform(0.5, 4.0))
        process.kill()
        process = agent()
    process.kill()
    time.sleep(3)
    last_of_ended = counter(machine, "observed_seconds_total", "ends")
    machine.kubelet.pods = [p for p in machine.kubelet.pods if p.name != "ends"]
    wait_for(lambda: 'pod="ends",' not in _allocated(machine))
    process = agent()
    before = counter(machine, "observed_seconds_total", "lives")
    time.sleep(3)  # a scrape or two
    assert process.stop() == 0

    observed, active = stored(machine, "lives")
    limit = counter(machine, "observed_seconds_total", "lives")
    assert before - ROUNDING <= observed <= limit + ROUNDING  # nothing twice, nothing lost
    assert active / observed == pytest.approx(0.5, abs=0.03)
    # its counters linger, so even what it did while no agent ran is known to the last second
    assert last_of_ended - 1 <= stored(machine, "ends")[0] <= last_of_ended + 5


def _allocated(machine: Machine) -> str:
    lines = httpx.get(f"{machine.url}/metrics").text.splitlines()
    return "\n".join(line for line in lines if "container_gpu_allocated{" in line)


def test_what_ended_while_exporter_and_agent_were_down_is_missing_and_not_zero(machine, agent):
    gpu = machine.driver.add(h100(util_gpu=90.0, gpm={GPM_SM: 50.0}))
    exporter = machine.run_exporter()
    wait_for(lambda: httpx.get(f"{machine.url}/readyz").status_code == 200)
    began = time.time()
    objects = [node(), pod("gone", POD_UID, 1, began)]
    file = machine.folder / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}), "utf-8")
    process = agent()
    machine.hand_out("gone", POD_UID, [gpu.uuid])
    wait_for(lambda: (counter(machine, "observed_seconds_total", "gone") or 0) > 5)
    known = counter(machine, "observed_seconds_total", "gone")
    process.kill()
    exporter.kill()
    time.sleep(8)  # the pod works on, and nobody sees it
    machine.kubelet.pods = []
    machine.kubelet.stop()
    machine.run_exporter()
    process = agent()
    wait_for(lambda: httpx.get(f"{process.address}/readyz").status_code == 200)
    time.sleep(2)
    report = httpx.get(f"{process.address}/api/v1/workloads").json()
    full = httpx.get(f"{process.address}/api/v1/report").json()
    assert process.stop() == 0
    assert stored(machine, "gone")[0] == pytest.approx(known, abs=2.5)
    (workload,) = report["workloads"]
    assert workload["id"] == "team/Pod/gone/main"
    assert workload["state"] == "unknown"
    (verdict,) = full["plan"]["verdicts"]
    assert verdict["primary"] is None
    assert verdict["alternatives"] == []
    assert verdict["coverage"] < 0.7
    kinds = {silence["rule"]: silence["kind"] for silence in verdict["silences"]}
    assert kinds["too_many_gpus"] == kinds["smaller_gpu"] == "unknown"
