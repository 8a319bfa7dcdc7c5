"""Rows of containers themselves: once per container, whatever it holds, and nobody else's."""

from gputailor_agent.model.containers import CONTAINER_ITSELF, Amount
from gputailor_agent.rollup.containers import Span, container_rows
from gputailor_agent.sources.prometheus.container_readings import (
    AskedContainer,
    ContainerHour,
    ContainerReading,
    NodeReading,
)
from tests.agent.factories import NOW, device, row

HOUR = 3600.0
DEVICES = {gpu: device(gpu) for gpu in ("GPU-0", "GPU-1")}


def reading(container="main", source="cadvisor", *, of_engine=False, pod="train-0", **more):
    more = more or {"counted": {"cpu_used_seconds": 100.0}}
    return ContainerReading(
        source=source, namespace="team-a", pod=pod, container=container, of_engine=of_engine, **more
    )


def rows_of(*readings, rows=None, nodes=(), asked=()):
    held = [row(NOW, gpu="GPU-0"), row(NOW, gpu="GPU-1")] if rows is None else rows
    hour = ContainerHour(containers=readings, nodes=nodes, asked=asked)
    begin = held[0].key.hour if held else int(NOW // HOUR * HOUR)
    return container_rows(hour, held, DEVICES, Span("test", begin, begin + int(HOUR)))


def asking(pod="train-9", container="main", **more):
    return AskedContainer(namespace="team-a", pod=pod, container=container, **more)


def ran(pod="train-9", container="main", seconds=HOUR):
    return reading(container, pod=pod, amounts={Amount.HOST_OBSERVED: seconds})


def test_a_container_of_two_devices_has_its_cpu_once():
    (found,) = rows_of(reading())
    assert found.key.gpu_uuid == CONTAINER_ITSELF
    assert found.key.pod_uid == row(NOW).key.pod_uid
    assert found.cpu_used_seconds == 100.0
    assert found.allocated_seconds == 0.0
    assert found.signals == {}
    assert found.dialect == "cadvisor"


def test_a_container_that_holds_no_device_gets_no_row():
    assert rows_of(reading("sidecar"), reading(pod="web")) == []
    assert rows_of(reading(), rows=[]) == []


def test_sources_of_one_container_make_one_row():
    (found,) = rows_of(
        reading(),
        reading(source="vllm", of_engine=True, amounts={Amount.REQUESTS: 4.0}),
        reading(source="kube_state_metrics", counted={"restarts": 2.0, "oom_kills": 1.0}),
        reading(counted={"oom_kills": 2.0}),
    )
    assert found.dialect == "cadvisor+kube_state_metrics+vllm"
    assert found.amounts == {Amount.REQUESTS: 4.0}
    assert (found.restarts, found.oom_kills) == (2, 2)  # both saw the same kills


def test_an_engine_behind_a_proxy_is_the_pods_only_holders():
    proxied = reading("proxy", "vllm", of_engine=True, amounts={Amount.REQUESTS: 4.0})
    (found,) = rows_of(proxied)
    assert found.key.container == "main"
    two = [row(NOW), row(NOW, gpu="GPU-1", container="other")]
    assert rows_of(proxied, rows=two) == []


def test_a_pods_network_is_counted_once():
    two = [row(NOW), row(NOW, gpu="GPU-1", container="other")]
    network = reading("", amounts={Amount.NETWORK_SENT: 10.0})
    assert [r.key.container for r in rows_of(network, rows=two)] == ["main"]


def test_a_nodes_pressure_is_that_of_containers_that_were_there_all_the_hour():
    node = NodeReading(source="node_exporter", node="node-a", amounts={Amount.NODE_OBSERVED: HOUR})
    (found,) = rows_of(nodes=(node,))
    assert found.amounts == {Amount.NODE_OBSERVED: HOUR}
    assert rows_of(nodes=(NodeReading(source="n", node="node-b", amounts={"x": 1.0}),)) == []
    short = [row(NOW, seconds=1800.0)]
    assert rows_of(nodes=(node,), rows=short) == []
    longer = NodeReading(source="n", node="node-a.example.org", amounts={"x": 1.0})
    assert len(rows_of(nodes=(longer,))) == 1


def test_a_container_that_asked_and_that_no_exporter_names_has_its_own_row_and_no_device():
    (found,) = rows_of(ran(), rows=[], asked=[asking(pod_uid="u-9", node="node-z")])
    assert (found.key.pod, found.key.pod_uid, found.key.container) == ("train-9", "u-9", "main")
    assert (found.key.cluster, found.key.gpu_uuid) == ("test", CONTAINER_ITSELF)
    assert found.amounts == {Amount.HOST_OBSERVED: HOUR}
    assert (found.signals, found.allocated_seconds) == ({}, 0.0)


def test_an_engine_alone_proves_that_who_asked_ran():
    engine = reading("proxy", "vllm", of_engine=True, pod="train-9", amounts={Amount.REQUESTS: 4.0})
    (found,) = rows_of(engine, rows=[], asked=[asking()])
    assert found.key.container == "main"


def test_who_asked_and_did_not_run_has_no_row():
    kept = reading(source="kube_state_metrics", pod="train-9", counted={"restarts": 0.0})
    assert rows_of(kept, rows=[], asked=[asking()]) == []
    assert rows_of(rows=[], asked=[asking()]) == []


def test_an_exporters_word_on_a_pod_counts_before_what_was_asked():
    (found,) = rows_of(
        ran("train-0"), ran("train-0", "sidecar"), asked=[asking("train-0", "sidecar")]
    )
    assert found.key.container == "main"


def test_a_nodes_pressure_is_that_of_who_asked_and_ran_there_all_the_hour():
    node = NodeReading(source="n", node="node-z", amounts={Amount.NODE_OBSERVED: HOUR})
    asked = [asking(node="node-z"), asking("train-8", node="node-z"), asking("train-7")]
    ends = [ran(), ran("train-8", seconds=1800.0), ran("train-7")]
    told = {
        one.key.pod: Amount.NODE_OBSERVED in one.amounts
        for one in rows_of(*ends, rows=[], asked=asked, nodes=(node,))
    }
    assert told == {"train-9": True, "train-8": False, "train-7": False}
