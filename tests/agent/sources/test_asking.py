"""Containers that asked for accelerators and that no exporter names: read all the same."""

import pytest

from gputailor_agent.inventory.kube_state_metrics import accelerator_pattern
from gputailor_agent.model.containers import Amount
from gputailor_agent.sources.prometheus.container_readings import AskedContainer
from gputailor_agent.sources.prometheus.containers import ContainerReader
from tests.agent.sources.memory_prometheus import MemoryPrometheus
from tests.agent.sources.test_containers import BEGIN, END, HOUR, KSM, KUBELET, cadvisor

TRAIN = ("team", "train-0")


def asks(pod="train-0", uid="u-0", *, phase="Running", resource="nvidia_com_gpu"):
    """What kube-state-metrics says of a pod of two containers, one of which asks."""
    of = f'namespace="team",pod="{pod}",uid="{uid}"'
    return f"""\
kube_pod_container_resource_requests{{{of},container="main",node="node-z",resource="{resource}"}} 1
kube_pod_container_resource_limits{{{of},container="main",node="node-z",resource="{resource}"}} 1
kube_pod_container_resource_requests{{{of},container="log",node="node-z",resource="cpu"}} 1
kube_pod_status_phase{{{of},phase="Running"}} {int(phase == "Running")}
kube_pod_status_phase{{{of},phase="Succeeded"}} {int(phase == "Succeeded")}
kube_pod_status_phase{{{of},phase="Failed"}} {int(phase == "Failed")}
"""


@pytest.fixture
def server():
    made = MemoryPrometheus()
    made.scrapes(cadvisor, BEGIN - 300, END, **KUBELET)
    return made


def read(server, *, held=(), asked=(), accelerators=None):
    with server.client() as client:
        pattern = accelerator_pattern() if accelerators is None else accelerators
        reader = ContainerReader(client, accelerators=pattern, asked=lambda: asked)
        reader.look(BEGIN, END)
        return reader.hour(BEGIN, END, set(held))


def test_who_asked_by_kube_state_metrics_is_read_with_node_and_uid(server):
    server.scrapes(lambda _: asks(), BEGIN - 300, END, **KSM)
    found = read(server)
    assert found.asked == (
        AskedContainer(
            namespace="team", pod="train-0", pod_uid="u-0", container="main", node="node-z"
        ),
    )
    (used,) = found.containers
    assert used.amounts[Amount.HOST_OBSERVED] == HOUR


def test_labels_that_a_scrape_renamed_are_the_real_ones(server):
    target = KSM | {"namespace": "monitoring", "pod": "ksm-0", "container": "ksm", "uid": "x"}
    server.scrapes(lambda _: asks(), BEGIN - 300, END, **target)
    (asked,) = read(server).asked
    assert (asked.namespace, asked.pod, asked.container) == ("team", "train-0", "main")
    assert asked.pod_uid == "u-0"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_case_33_requests_that_outlive_their_pod_ask_for_nothing_more(server, phase):
    server.scrapes(lambda _: asks(phase=phase), BEGIN - 300, END, **KSM)
    assert read(server).asked == ()
    assert read(server).containers == ()


def test_a_pod_that_ended_inside_the_hour_is_read(server):
    def page(at):
        return asks(phase="Running" if at < BEGIN + 1800 else "Succeeded")

    server.scrapes(page, BEGIN - 300, END, **KSM)
    assert [one.pod for one in read(server).asked] == ["train-0"]


def test_a_pod_made_again_under_the_name_of_one_that_ended_is_read(server):
    server.scrapes(lambda _: asks(phase="Failed") + asks(uid="u-1"), BEGIN - 300, END, **KSM)
    assert [one.pod_uid for one in read(server).asked] == ["u-1"]


def test_whom_an_exporter_names_is_not_asked_for_again(server):
    server.scrapes(lambda _: asks(), BEGIN - 300, END, **KSM)
    found = read(server, held=[TRAIN])
    assert found.asked == ()
    assert len(found.containers) == 1


def test_nobody_else_is_read(server):
    server.scrapes(lambda _: asks(resource="cpu"), BEGIN - 300, END, **KSM)
    assert read(server).containers == ()
    assert read(server, accelerators="").containers == ()


def test_without_kube_state_metrics_the_inventory_says_who_asked(server):
    here = AskedContainer(namespace="team", pod="train-0", container="main", began=BEGIN + 60.0)
    found = read(server, asked=[here])
    assert found.asked == (here,)
    assert len(found.containers) == 1


@pytest.mark.parametrize(
    "times", [{"began": float(END)}, {"ended": float(BEGIN)}, {"began": 0.0, "ended": 10.0}]
)
def test_a_pod_of_another_time_is_not_read(server, times):
    gone = AskedContainer(namespace="team", pod="train-0", container="main", **times)
    assert read(server, asked=[gone]).containers == ()


def test_finding_them_touches_two_samples_of_each(server):
    pods = "".join(asks(f"old-{n}", f"o-{n}", phase="Succeeded") for n in range(50))
    server.scrapes(lambda _: pods, BEGIN - 300, END, **KSM)
    before = server.touched
    assert read(server).asked == ()
    assert server.touched - before == 2 * 50  # both phases of an end
