"""A report on jobs of a node without an exporter: what is known is shown, the rest is unknown."""

import json
import subprocess
import sys
import time

import pytest

from tests.agent.dialects.engine_pages import page
from tests.agent.inventory.kube_state_metrics.told import pod, sample
from tests.system.prometheus_history import Running, need_binaries
from tests.system.test_kube_state_history import exposed
from tests.system.test_prometheus_engines import lines

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

HOUR = 3600
SCRAPE = 60
MEASURED = (
    'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",Hostname="node-a",namespace="team",pod="train-0",'
    'container="main"} 50\n'
)


def kubelet(name, seconds, cpus):
    of = f'namespace="team",pod="{name}",container="main",id="/{name}"'
    return (
        f'container_cpu_usage_seconds_total{{{of},cpu="total"}} {cpus * seconds}\n'
        f"container_memory_working_set_bytes{{{of}}} {8 * 2**30}\n"
    )


def history(begin, end):
    """``train-0`` on a measured node; ``served-0`` and ``batch-0`` on one without an exporter."""
    state = [*pod("train-0", node="node-a", began=begin)]
    for name in ("served-0", "batch-0"):
        state += pod(name, node="node-b", began=begin)
    for node in ("node-a", "node-b"):
        device = {"node": node, "resource": "nvidia_com_gpu"}
        state += [
            sample("kube_node_info", node=node),
            sample("kube_node_status_capacity", 2.0, **device),
            sample("kube_node_status_allocatable", 2.0, **device),
        ]
    told = "".join(f"{line}\n" for line in exposed(state))
    for at in range(begin, end, SCRAPE):
        ran = at - begin
        yield from lines(MEASURED, at, job="dcgm", instance="node-a:9400")
        yield from lines(told, at, job="state", instance="10.0.0.5:8080")
        cpu = kubelet("train-0", ran, 1.0) + kubelet("served-0", ran, 2.0)
        cpu += kubelet("batch-0", ran, 3.0)
        yield from lines(cpu, at, job="kubelet", instance="10.0.0.1:10250")
        yield from lines(
            page("vllm", ran), at, job="engines", instance="10.0.1.0:8000", namespace="team",
            pod="served-0", container="main",
        )  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a command line on the server says."""
    end = int(time.time()) - 5
    begin = (end // HOUR - 4) * HOUR
    server = Running(need_binaries(), tmp_path_factory.mktemp("server"), history(begin, end))

    def run(*command):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "gputailor_agent.cli.entry", *command),
                *("--prometheus-url", server.url, "--since", "3h", "--output", "json"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    yield run
    server.stop()


def facts_of(said):
    return {one["label"]: one["text"] for one in said["explanation"]["facts"]}


def test_what_was_not_measured_is_unknown_and_never_zero(told):
    plan = told("report")["plan"]
    found = {one["workload"]["name"]: one for one in plan["verdicts"]}
    assert sorted(found) == ["batch-0", "served-0", "train-0"]
    assert found["train-0"]["mean_kernel"] == pytest.approx(0.5)
    for name in ("batch-0", "served-0"):
        one = found[name]
        assert (one["mean_kernel"], one["memory_peak_bytes"], one["primary"]) == (None, None, None)
        assert (one["state"], one["coverage"], one["gpus_now"]) == ("unknown", 0.0, 1.0)
        assert one["gpu_hours"] == pytest.approx(found["train-0"]["gpu_hours"], rel=0.01)
    assert all(check["holds"] for check in plan["checks"])


def test_cpu_memory_and_requests_of_a_job_without_measurements_are_told(told):
    facts = facts_of(told("explain", "served-0"))
    assert float(facts["CPUs used by a container, mean"]) == pytest.approx(2, rel=0.02)
    assert facts["memory of a container, highest"] == "8.0 GiB"
    assert facts["engine's own figures"].startswith("vLLM")
    assert "0.2 a second" in facts["requests finished"]
    facts = facts_of(told("explain", "batch-0"))
    assert float(facts["CPUs used by a container, mean"]) == pytest.approx(3, rel=0.02)
    assert facts["waiting for input and output"] == "unknown"
    assert "requests finished" not in facts
