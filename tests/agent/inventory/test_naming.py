"""Nodes are found by whatever exporters and scrapes call them, and never by guess."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.assessment import assess
from gputailor_agent.inventory.naming import NodeNames, placed
from gputailor_agent.model.inventory import Node
from gputailor_agent.model.profile import Window
from tests.agent import factories as make
from tests.agent.inventory.objects import inventory


def node(name, *addresses):
    return Node(cluster="c", name=name, addresses=addresses)


NODES = (
    node("ip-10-0-0-5.ec2.internal", "10.0.0.5", "ip-10-0-0-5", "54.1.2.3"),
    node("gpu-2", "10.0.0.6", "fd00::6", "gpu-2"),
    node("gpu-3.lab.example.org", "10.0.0.7", "GPU-3"),
)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("gpu-2", "gpu-2"),
        ("10.0.0.5", "ip-10-0-0-5.ec2.internal"),
        ("10.0.0.5:9400", "ip-10-0-0-5.ec2.internal"),
        ("54.1.2.3", "ip-10-0-0-5.ec2.internal"),
        ("fd00:0::6", "gpu-2"),
        ("[fd00::6]:9400", "gpu-2"),
        ("gpu-2:9400", "gpu-2"),
        ("gpu-2.lab.example.org", "gpu-2"),
        ("gpu-3", "gpu-3.lab.example.org"),
        ("Gpu-3.lab.example.org", "gpu-3.lab.example.org"),
        ("10.0.0.99", "10.0.0.99"),
        ("10", "10"),
        ("gpu-4", "gpu-4"),
        ("", ""),
    ],
)
def test_a_node_is_found_by_name_address_and_host_name(told, name):
    assert NodeNames(NODES).find(told) == name


def test_what_two_nodes_are_called_finds_neither():
    names = NodeNames(
        [node("a.east", "10.0.0.5"), node("a.west", "10.0.0.5"), node("b", "10.0.0.5")]
    )
    assert [names.find(told) for told in ("a", "10.0.0.5", "a.east")] == ["a", "10.0.0.5", "a.east"]


@given(st.text(max_size=30))
def test_a_name_that_no_node_has_stays_as_it_is(told):
    found = NodeNames([node("only-one", "10.9.8.7")]).find(told)
    assert found in {told, "only-one"}
    if not any(part in told.lower() for part in ("only-one", "10.9.8.7")):
        assert found == told


def test_addresses_come_from_the_nodes_status(tmp_path):
    told = [
        {"type": "InternalIP", "address": "10.0.0.5"},
        {"type": "Hostname", "address": "n1"},
        {"type": "InternalDNS", "address": "n1"},
    ]
    made = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"addresses": told}}
    (found,) = inventory(tmp_path, made).nodes
    assert found.addresses == ("10.0.0.5", "n1")


def test_use_that_is_known_by_an_address_only_goes_to_the_pod_that_held_the_node():
    start = make.NOW - make.DAY
    one = make.row(start, gpu="GPU-0", kernel=0.4)
    key = msgspec.structs.replace(one.key, namespace="", pod="", pod_uid="", container="")
    nobodys = msgspec.structs.replace(one, key=key, dialect="nvidia_gpu_exporter")
    known = msgspec.structs.replace(make.node(gpus=1), addresses=("10.0.0.5",))
    device = make.device("GPU-0", node="10.0.0.5")
    world = make.inventory([make.pod("train-0", gpus=1)], [known])
    found = assess(
        [nobodys],
        [device],
        world,
        window=Window(start=start, end=start + 3600.0),
        now=make.NOW,
        catalogue=make.FakeCatalogue(),
    )
    (profile,) = found.profiles
    (use,) = profile.gpus
    assert (use.pod, use.signals["kernel"].mean) == ("train-0", 0.4)
    assert [one.node for one in placed([device], world)] == ["node-a"]
