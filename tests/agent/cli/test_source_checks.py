"""Doctor lists what tells of containers and nodes beside the devices, and what it leaves out."""

import json
from urllib.parse import parse_qs

import httpx
import pytest
from msgspec.structs import replace

from gputailor_agent.cli.prometheus_checks import at_nodes, node_checks, state_checks
from gputailor_agent.cli.source_checks import Beside, look, source_checks
from gputailor_agent.dialects import cadvisor, node_exporter
from gputailor_agent.dialects.engines import engines
from gputailor_agent.dialects.kube_state_metrics import KubeState, StateSample
from gputailor_agent.inventory.naming import NodeNames
from gputailor_agent.sources.prometheus.client import Access, PrometheusClient
from tests.agent.cli.test_doctor_prometheus import inspection, inventory, node, pod, seen

VLLM = next(one for one in engines() if one.name == "vllm")
TRITON = next(one for one in engines() if one.name == "triton")
ALL_OF_VLLM = frozenset(metric.names[0] for metric in VLLM.metrics)
SERVER = {"namespace": "team", "pod": "p", "instance": "10.0.0.9:8000"}
ALL_OF_CADVISOR = frozenset(
    {one.name for one in (*cadvisor.COUNTERS, *cadvisor.OF_THE_POD)} | {cadvisor.MEMORY}
)


def lines(*beside, world=None):
    checks = source_checks(beside, world or inventory())
    return {check.name: check for check in checks}


def test_an_engine_in_order_is_counted_by_server_and_node():
    check = lines(Beside(name="vllm", names=ALL_OF_VLLM, places=(SERVER,)))["engine vLLM"]
    assert (check.standing, check.found, check.advice) == ("ok", "1 server on 1 node", "")


def test_what_an_engine_leaves_out_comes_with_the_metric_to_keep():
    names = frozenset(name for name in ALL_OF_VLLM if "cache" not in name and "wait" not in name)
    check = lines(Beside(name="vllm", names=names, places=(SERVER,)))["engine vLLM"]
    assert check.standing == "note"
    assert "does not tell requests waiting, share of the KV cache in use" in check.found
    assert "vllm:num_requests_waiting, vllm:kv_cache_usage_perc" in check.advice


def test_an_engine_that_went_silent_is_told():
    check = lines(Beside(name="vllm", names=ALL_OF_VLLM))["engine vLLM"]
    assert check.standing == "note"
    assert "nothing for five minutes" in check.found
    assert "is its Service or pod scraped?" in check.advice


def test_an_engine_that_runs_and_is_not_scraped_is_told_with_its_workloads():
    made = pod()
    container = replace(made.containers[0], image="vllm/vllm-openai:v0.10")
    world = replace(inventory(), pods=(replace(made, containers=(container,)),))
    check = lines(world=world)["engine vLLM"]
    assert check.standing == "note"
    assert check.found.startswith("team/Pod/p/main run it, and none of its metrics are scraped")
    assert "PodMonitor" in check.advice
    assert "engine SGLang" not in lines(world=world)


def test_sources_that_are_not_there_at_all_are_notes_with_what_they_would_give():
    found = lines()
    assert set(found) == {"cAdvisor (kubelet)", "node_exporter"}
    assert all(check.standing == "note" and check.advice for check in found.values())
    assert "/metrics/cadvisor" in found["cAdvisor (kubelet)"].advice


def test_what_is_scraped_of_some_nodes_only_names_the_others():
    beside = Beside(name="cadvisor", names=ALL_OF_CADVISOR, places=({"node": "node-a"},))
    check = lines(beside, world=inventory(nodes=("node-a", "node-b")))["cAdvisor (kubelet)"]
    assert check.found == "on 1 node, 1 of the 2 with GPUs"
    assert (check.standing, check.advice) == ("note", "scrape it on node-b, too")


def test_a_node_that_is_known_by_the_scraped_address_counts():
    world = inventory(nodes=(node("node-a", addresses=("10.0.0.5",)),))
    names = frozenset({*node_exporter.COUNTERS, node_exporter.UNAME})
    places = ({"instance": "10.0.0.5:9100"},)
    check = lines(Beside(name="node_exporter", names=names, places=places), world=world)
    assert check["node_exporter"].standing == "ok"
    assert check["node_exporter"].found == "on 1 node, 1 of the 1 with GPUs"


@pytest.mark.parametrize(
    ("without", "told", "fix"),
    [
        ("_pressure_", "pressure (PSI)", "Kubernetes 1.34"),
        ("_cfs_", "CPU throttling", "CPU limit"),
        ("_network_", "network", "metricRelabelings"),
        ("_fs_", "file system", "metricRelabelings"),
        ("working_set", "memory", "metricRelabelings"),
    ],
)
def test_what_cadvisor_leaves_out_comes_with_how_to_get_it(without, told, fix):
    names = frozenset(name for name in ALL_OF_CADVISOR if without not in name)
    beside = Beside(name="cadvisor", names=names, places=({"node": "node-a"},))
    check = lines(beside)["cAdvisor (kubelet)"]
    assert f"it does not tell {told}" in check.found
    assert fix in check.advice


def test_a_node_exporter_without_pressure_says_so():
    names = frozenset({node_exporter.UNAME})
    places = ({"nodename": "node-a"},)
    check = lines(Beside(name="node_exporter", names=names, places=places))["node_exporter"]
    assert check.found.endswith("it does not tell pressure (PSI)")
    assert "--no-collector.pressure" in check.advice


def test_metrics_that_several_engines_have_prove_none_without_its_own():
    lookalike = next(one for one in engines() if one.signature)
    names = frozenset(lookalike.metrics[0].names[:1]) - {lookalike.signature}
    told = lines(Beside(name=lookalike.name, names=names, places=(SERVER,)))
    assert f"engine {lookalike.title}" not in told


def test_the_server_is_asked_for_names_first_and_only_for_places_of_what_is_there():
    asked = []

    def answer(request):
        if request.url.path.endswith("/values"):
            asked.append(dict(request.url.params)["match[]"])
            data = ["vllm:num_requests_running", "container_cpu_usage_seconds_total"]
        else:
            query = parse_qs(request.content.decode())["query"][0]
            asked.append(query)
            labels = {"node": "n1"} if "cpu" in query else {**SERVER, "__name__": "vllm:x"}
            data = {"resultType": "vector", "result": [{"metric": labels, "value": [0, "3"]}]}
        return httpx.Response(200, text=json.dumps({"status": "success", "data": data}))

    transport = httpx.MockTransport(answer)
    with PrometheusClient("http://p", Access(attempts=1), transport=transport) as client:
        found = {one.name: one for one in look(client, {"cluster": "prod"}, 1e9)}
    assert set(found) == {"vllm", "cadvisor"}
    assert found["cadvisor"].places == ({"node": "n1"},)
    assert all('cluster="prod"' in query for query in asked)
    assert len([query for query in asked if "count by" in query]) == 1


def test_devices_that_are_known_by_their_address_are_at_their_node():
    world = inventory(nodes=(node("node-a", addresses=("10.0.0.5",)),))
    told = inspection(seen(devices={"GPU-0": "10.0.0.5"}))
    found = at_nodes(told, NodeNames(world.nodes))
    assert found.seen[0].devices == {"GPU-0": "node-a"}
    assert [check.standing for check in node_checks(found, world)] == ["ok"]


def state(*samples):
    return KubeState(at=0.0, samples=samples)


def test_without_the_api_server_it_is_told_that_taints_are_not_known():
    sample = StateSample("kube_node_info", {"node": "n1"}, 1.0)
    told = [check for check in state_checks(state(sample), taints=True) if "taints" in check.found]
    assert [(check.standing, "--context" in check.advice) for check in told] == [("note", True)]
    assert not [one for one in state_checks(state(sample)) if "taints" in one.found]
