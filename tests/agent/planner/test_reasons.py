"""What a pod that waits is told, and what would be freed for it: each edge of each condition."""

import math

import msgspec
import pytest

from gputailor_agent.model.inventory import ContainerSpec, OwnerReference
from gputailor_agent.model.judgement import (
    Confidence,
    Serving,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.planner.freeing import freed
from gputailor_agent.planner.matching import served
from gputailor_agent.planner.waiting import reasons, rooms, waiting, waiting_pods
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    context,
    inventory,
    node,
    pod,
    profile,
    rows,
)
from tests.agent.planner.planning_parts import GPU, change, finding, judged

WINDOW = Window(start=NOW - 14 * DAY, end=NOW)


def pending(name="wait", gpus=1.0, *, since=HOUR, **fields):
    made = pod(name, gpus=gpus, start=NOW - since, node=None, phase="Pending")
    return msgspec.structs.replace(made, **fields)


def around_of(pods, nodes):
    around = context(inventory(pods, nodes))
    return rooms(around, float(NOW)), waiting_pods(around)


def entries(pods, nodes, spare=()):
    free, groups = around_of(pods, nodes)
    return served(waiting(groups, free), groups, free, spare)


def said(pods, nodes):
    (one,) = entries(pods, nodes)
    return [(why.key.partition(".")[2], why.params) for why in one.reasons]


def test_what_is_free_is_what_is_offered_less_what_pods_hold():
    holder = msgspec.structs.replace(
        pod("x", gpus=3), containers=(
            msgspec.structs.replace(pod("x", gpus=3).containers[0], cpu_request=1.5,
                                    memory_request_bytes=100),
            ContainerSpec(name="side", cpu_request=0.5, memory_request_bytes=10),
            ContainerSpec(name="first", cpu_request=9.0, memory_request_bytes=900, init=True),
        ),
    )  # fmt: skip
    (room,) = around_of([holder], [node(gpus=8, allocatable={GPU: 7.0}, cpus=8.0,
                                        memory_bytes=1000)])[0]  # fmt: skip
    assert (room.free, room.cpus, room.memory) == ({GPU: 4.0}, 6.0, 890.0)
    (bare,) = around_of([], [node(gpus=8, allocatable={})])[0]
    assert (bare.free, bare.cpus, bare.memory) == ({GPU: 8.0}, math.inf, math.inf)
    (over,) = around_of([pod("x", gpus=9)], [node(gpus=8)])[0]
    assert over.free == {GPU: 0.0}
    assert around_of([], [node(capacity={}, gpu_count=None)])[0] == []


@pytest.mark.parametrize(
    ("taints", "tolerations", "kept"),
    [
        (("a=x:NoSchedule",), (), ("a=x:NoSchedule",)),
        (("a:NoExecute",), (), ("a:NoExecute",)),
        (("a=x:PreferNoSchedule",), (), ()),
        (("a=x:NoSchedule", "b:NoSchedule"), ("a",), ("b:NoSchedule",)),
        (("a=x:NoSchedule", "b:NoSchedule"), ("*",), ()),
    ],
)
def test_hard_taints_keep_pods_away(taints, tolerations, kept):
    (room,) = around_of([], [node(taints=taints)])[0]
    assert room.untolerated(pending(tolerations=tolerations)) == kept


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        (4.0, [("unexplained", {"node": "a", "queue": ""})]),
        (5.0, [("fragmented", {"free": 7.0, "resource": GPU, "nodes": 2, "most": 4.0})]),
        (7.0, [("fragmented", {"free": 7.0, "resource": GPU, "nodes": 2, "most": 4.0})]),
        (8.0, [("taken", {"free": 7.0, "resource": GPU, "asked": 8.0})]),
        (9.0, [("too_large", {"most": 8.0, "resource": GPU, "asked": 9.0})]),
    ],
)
def test_why_so_many_gpus_are_nowhere_to_be_had(gpus, why):
    holders = [pod("x", gpus=4, node="a"), pod("y", gpus=5, node="b"), pod("z", gpus=8, node="c")]
    assert said([pending(gpus=gpus), *holders], [node("a"), node("b"), node("c")]) == why


def test_nodes_that_it_may_not_use_are_told_beside_what_is_too_little():
    nodes = [node("a", gpus=2), node("b", schedulable=False), node("c", taints=("t:NoSchedule",)),
             node("d", schedulable=False), node("e", ready=False)]  # fmt: skip
    assert said([pending(gpus=4)], nodes) == [
        ("taken", {"free": 2.0, "resource": GPU, "asked": 4.0}),
        ("unavailable", {"free": 8.0, "resource": GPU, "node": "b"}),
        ("tainted", {"free": 8.0, "resource": GPU, "node": "c", "taints": "t:NoSchedule"}),
    ]


def test_no_cpus_beside_free_gpus_are_told_with_nodes_that_it_may_not_use():
    wide = msgspec.structs.replace(pending().containers[0], cpu_request=9.0)
    nodes = [node("a", cpus=8.0), node("b", schedulable=False)]
    assert said([pending(containers=(wide,))], nodes) == [
        ("cpu_memory", {"node": "a", "free": 8.0, "resource": GPU}),
        ("unavailable", {"free": 8.0, "resource": GPU, "node": "b"}),
    ]


def test_where_it_may_go_nowhere_only_that_is_told():
    assert [key for key, _ in said([pending(gpus=4)], [node("b", ready=False)])] == ["unavailable"]
    unknown = node("a", ready=None)
    assert [key for key, _ in said([pending(gpus=4)], [unknown])] == ["unexplained"]


def test_a_node_with_a_part_of_a_device_is_not_counted_as_one_with_some():
    halves = [pod("x", gpus=0.5, node="a"), pod("y", gpus=1, node="b"), pod("z", gpus=7, node="c")]
    nodes = [node("a", gpus=1), node("b", gpus=2), node("c")]
    (why,) = reasons(pending(), GPU, 2.0, around_of(halves, nodes)[0])
    assert why.params == {"free": 2.5, "resource": GPU, "nodes": 2, "most": 1.0}


def test_pods_of_one_owner_that_ask_alike_stand_together_the_first_for_all():
    job = OwnerReference(api_version="batch/v1", kind="Job", name="wide", uid="u")
    other = msgspec.structs.replace(job, kind="JobSet", name="other")
    pods = [
        pending("w-0", 2.0, owners=(job, other)), pending("w-1", 2.0, owners=(job,), since=3 * HOUR),
        pending("w-2", 1.0, owners=(job,)), pending("w-3", 2.0, owners=(job,), created=None),
    ]  # fmt: skip
    found = entries(pods, [node(gpus=1)])
    assert [(one.owner, one.devices, one.pods, one.since) for one in found] == [
        ("Job/wide", 2.0, 3, NOW - 3 * HOUR), ("Job/wide", 1.0, 1, NOW - HOUR)
    ]  # fmt: skip
    (alone,) = entries([pending("w", created=None)], [node(gpus=1)])
    assert (alone.owner, alone.since) == ("Pod/w", None)


def spare(devices, on="node-a", work="w"):
    return Serving(workload_id=work, rule="idle", node=on, devices=devices)


@pytest.mark.parametrize(
    ("held", "asked", "offered", "taken"),
    [
        (8, 4.0, (4.0,), {"w0": 4.0}),
        (8, 4.0, (3.0,), {}),
        (8, 4.0, (3.0, 2.0), {"w0": 3.0, "w1": 1.0}),
        (5, 4.0, (2.0,), {"w0": 1.0}),
        (4, 4.0, (2.0,), {}),  # enough are free: nothing of what would be freed is needed
        (3, 4.0, (2.0,), {}),
        (8, 0.5, (0.25, 0.25), {"w0": 0.25, "w1": 0.25}),
    ],
)
def test_what_is_freed_is_taken_beside_what_is_free(held, asked, offered, taken):
    told = [spare(devices, work=f"w{place}") for place, devices in enumerate(offered)]
    (one,) = entries([pod("x", gpus=held), pending(gpus=asked)], [node(gpus=8)], told)
    assert {part.workload_id: part.devices for part in one.served_by} == taken
    assert one.served_pods == bool(taken)


def test_what_one_pod_leaves_the_next_one_takes():
    pods = [pod("x", gpus=8), pending("a", 3.0, since=3 * HOUR), pending("b", 2.0, since=2 * HOUR),
            pending("c", 1.0)]  # fmt: skip
    found = entries(pods, [node(gpus=8)], [spare(4.0), spare(1.5, work="v")])
    assert [(one.owner, one.served_pods) for one in found] == [
        ("Pod/a", 1), ("Pod/b", 1), ("Pod/c", 0)
    ]  # fmt: skip
    assert found[0].served_by == (spare(1.5, work="v"), spare(1.5))
    assert found[1].served_by == (spare(2.0),)


def test_freed_devices_are_of_what_the_node_offers_most_of():
    both = node(gpus=1, capacity={"nvidia.com/mig-1g.10gb": 7.0, GPU: 1.0})
    slices = pod("x", gpus=7, resource="nvidia.com/mig-1g.10gb", kind="mig", mig_profile="1g.10gb")
    waits = msgspec.structs.replace(
        pod("w", gpus=1, start=NOW - HOUR, node=None, phase="Pending",
            resource="nvidia.com/mig-1g.10gb", kind="mig", mig_profile="1g.10gb"))  # fmt: skip
    (one,) = entries([slices, waits], [both], [spare(1.0)])
    assert one.served_pods == 1
    (other,) = entries([pod("x"), pending("w")], [both], [spare(1.0)])
    assert other.served_pods == 0


def freeing(change, works=(0.1, 0.1), nodes=("node-a", "node-b"), sure=Confidence.HIGH):
    start = NOW - 6 * HOUR
    pods, usage = [], []
    for place, level in enumerate(works):
        name = f"p{place}"
        pods.append(pod(name, gpus=2, start=start, node=nodes[place]))
        for gpu in range(2):
            usage += rows(start, NOW, pod=name, gpu=f"{name}-{gpu}", kernel=level)
    made, world = profile(usage, pods, nodes=[node(name) for name in set(nodes)])
    told = judged("train", finding(change=change, sure=sure))
    return {one.node: one.devices for one in freed(made, told, context(world))}


@pytest.mark.parametrize(
    ("told", "devices"),
    [
        (change("release"), {"node-a": 2.0, "node-b": 2.0}),
        (change("set_gpus", gpus=1), {"node-a": 1.0, "node-b": 1.0}),
        (change("set_gpus"), {"node-a": 2.0, "node-b": 2.0}),
        (change("set_replicas", replicas=1), {"node-a": 2.0}),  # equal ones go by name
        (change("set_replicas"), {"node-a": 2.0, "node-b": 2.0}),
        (change("use_spot"), {}),
    ],
)
def test_each_change_frees_its_devices(told, devices):
    assert freeing(told) == devices


def test_devices_freed_on_one_node_add_up():
    assert freeing(change("release"), nodes=("node-a", "node-a")) == {"node-a": 4.0}
    assert freeing(change("release"), sure=Confidence.LOW) == {}
