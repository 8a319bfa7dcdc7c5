"""Doctor beside real servers that have something wrong: each fault has a line with its fix."""

import time

import pytest

from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.cli.prometheus_checks import checks_of
from gputailor_agent.model.inventory import Inventory, Node
from tests.system.prometheus_between import between, broken_off, busy, partly
from tests.system.prometheus_history import Running, need_binaries

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

HOUR = 3600
SCRAPE = 30


def page():
    """Lines of two exporters without a time: dcgm-exporter on two nodes, ours on a third."""
    for node, pod in (("node-a", "p"), ("node-b", "")):
        target = {"job": "dcgm", "instance": f"{node}:9400"}
        own = {"UUID": f"GPU-{node}", "Hostname": node, "modelName": "L4", "gpu": "0", **target}
        held = {"exported_pod": pod, "exported_namespace": "team", "exported_container": "m"}
        labels = {**own, **(held if pod else {})}
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        yield f"DCGM_FI_DEV_GPU_UTIL{{{text}}} 50"
        yield f"DCGM_FI_DEV_FB_USED{{{text}}} 1000"
        yield f'up{{job="dcgm",instance="{node}:9400"}} 1'
    yield 'up{job="dcgm",instance="node-d:9400",node="node-d"} 0'
    device = 'node="node-c",gpu="0",gpu_uuid="GPU-c"'
    target = 'job="ours",instance="node-c:9836"'
    yield f'gputailor_device_info{{{device},{target},vendor="nvidia",model="L4"}} 1'
    yield f'gputailor_device_active_seconds_total{{{device},{target},signal="kernel"}} 7'
    unavailable = 'gpu_uuid="GPU-c",signal="sm",reason="GPM needs Hopper or later"'
    yield f"gputailor_exporter_signal_unavailable{{{unavailable},{target}}} 1"
    yield f"up{{{target}}} 1"
    now = time.time()
    worked = f'gputailor_exporter_last_success_timestamp_seconds{{source="nvml",{target}}}'
    yield f"{worked} {now + 4000:.0f}"
    yield from beside()


def beside():
    """A vLLM that tells of its queue and not of its cache, and two kubelets."""
    served = 'namespace="team",pod="chat-0",instance="10.244.0.9:8000",job="chat"'
    yield f"vllm:num_requests_running{{{served}}} 3"
    yield f"vllm:num_requests_waiting{{{served}}} 1"
    for node in ("node-a", "node-b"):
        held = f'namespace="team",pod="p",container="m",id="/a",node="{node}",job="kubelet"'
        for count in ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes"):
            yield f"{count}{{{held}}} 7"


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """A function that starts a server with two hours of pages, up to some seconds ago."""
    running, now = [], int(time.time())

    def begin(ago=0):
        lines = (
            f"{line} {at}\n"
            for line in page()
            for at in range(now - 2 * HOUR, now - ago + 1, SCRAPE)
        )
        running.append(Running(need_binaries(), tmp_path_factory.mktemp("prometheus"), lines))
        return running[-1]

    yield begin
    for server in running:
        server.stop()


@pytest.fixture(scope="module")
def server(serve):
    return serve()


def told(url, asked=None):
    return list(checks_of(PrometheusAccess(url=url), asked))


@pytest.fixture(scope="module")
def lines(server):
    """What is told of the server beside a cluster of five nodes."""
    nodes = [f"node-{name}" for name in "abcde"]
    inventory = Inventory(
        cluster="c",
        at=time.time(),
        nodes=tuple(
            Node(cluster="c", name=name, capacity={"nvidia.com/gpu": 1.0}) for name in nodes
        ),
    )
    return told(server.url, inventory)


def found(lines, name):
    return [f"{check.standing}: {check.found}" for check in lines if check.name == name]


def test_every_problem_and_note_says_what_to_do(lines):
    for check in lines:
        assert check.advice or check.standing == "ok", check


def test_server_facts_are_told(lines):
    assert found(lines, "Prometheus")[0].endswith("answers with dcgm and gputailor metrics")
    assert found(lines, "retention") == ["ok: data are kept for 7.3e+03 days"]
    assert found(lines, "scrape interval") == ["ok: dcgm: every 30 s", "ok: ours: every 30 s"]


def test_exporters_are_found_by_node_and_dialect(lines):
    assert found(lines, "exporter dcgm") == ["ok: 2 devices on 2 nodes: node-a, node-b"]
    assert found(lines, "exporter gputailor") == ["ok: 1 devices on 1 nodes: node-c"]
    assert found(lines, "exporter down") == [
        "problem: the last scrape of dcgm at node-d:9400 failed (node node-d)"
    ]


def test_sources_beside_the_devices_are_listed_with_what_they_leave_out(lines):
    (vllm,) = [check for check in lines if check.name == "engine vLLM"]
    assert vllm.found.startswith("1 server on 1 node; it does not tell requests finished")
    assert "share of the KV cache in use" in vllm.found
    (kubelet,) = [check for check in lines if check.name == "cAdvisor (kubelet)"]
    assert kubelet.found.startswith("on 2 nodes, 2 of the 5 with GPUs; it does not tell CPU throt")
    assert "scrape it on node-c, node-d, node-e, too" in kubelet.advice
    assert found(lines, "node_exporter")[0].startswith("note: not scraped")


def test_nodes_without_measurements_come_with_the_reason(lines):
    first, second = found(lines, "nodes measured")
    assert first.endswith(
        "node-d has GPUs and no measurements: the scrape of dcgm at node-d:9400 fails"
    )
    assert second.endswith(
        "node-e has GPUs and no measurements: no exporter that is scraped runs there"
    )


def test_joins_rules_clocks_and_time_are_told(lines):
    assert any("exported_pod" in line for line in found(lines, "label join"))
    (rules,) = [check for check in lines if check.name == "rules by dcgm"]
    assert "enable" in rules.advice
    (ours,) = [check for check in lines if check.name == "rules by gputailor"]
    assert "sm: GPM needs Hopper or later" in ours.advice
    (clock,) = found(lines, "clocks")
    assert clock.startswith("problem: the exporter node-c:9836 is")
    assert "services from" in found(lines, "first judgement")[0]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (busy, "overloaded or not ready"),
        (broken_off, "breaks its answers off"),
        (partly(lambda metric: metric.get("job") == "ours", "store x away"), "store x away"),
    ],
    ids=["503", "half", "partial"],
)
def test_a_server_at_fault_is_named(server, harm, words):
    with between(server.url) as proxy:
        proxy.harm = harm
        problems = [check for check in told(proxy.url) if check.standing == "problem"]
    assert any(words in check.found for check in problems)


def test_replicas_that_differ_are_named(serve, server):
    with between(server.url, serve(ago=40 * 60).url) as proxy:
        (replicas,) = [check for check in told(proxy.url) if check.name == "replicas"]
    assert "tell different things of" in replicas.found
    assert "look which of them misses scrapes" in replicas.advice
