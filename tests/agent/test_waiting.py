"""Pods that wait for devices: why they fit nowhere, and what could serve them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import ContainerSpec, OwnerReference
from gputailor_agent.model.judgement import Serving
from gputailor_agent.planner.matching import served
from gputailor_agent.planner.waiting import rooms, waiting, waiting_pods
from gputailor_agent.reports.wording import say
from tests.agent.factories import DAY, HOUR, NOW, context, inventory, node, pod

GPU = "nvidia.com/gpu"
JOB = OwnerReference(api_version="batch/v1", kind="Job", name="wide", uid="u")


def pending(name="wait-0", gpus=1.0, *, since=HOUR, **fields: Any):
    made = pod(name, gpus=gpus, start=NOW - since, node=None, phase="Pending",
               **{key: fields.pop(key) for key in ("owner", "resource", "kind", "mig_profile")
                  if key in fields})  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def demand(pods, nodes, freed=()):
    around = context(inventory(pods, nodes))
    free, groups = rooms(around, float(NOW)), waiting_pods(around)
    found = served(waiting(groups, free), groups, free, freed)
    assert all(say(reason, strict=True) for one in found for reason in one.reasons)
    return found


def why(pods, nodes):
    (one,) = demand(pods, nodes)
    return [reason.key for reason in one.reasons]


def test_what_waits_is_told_by_owner_longest_first():
    pods = [
        pending("w-0", 2, owner=JOB),
        pending("w-1", 2, owner=JOB, since=3 * HOUR),
        pending("other", 1, since=5 * HOUR),
        pod("runs", gpus=1),
        pod("done", gpus=8, finished=NOW - DAY),
    ]
    found = demand(pods, [node(gpus=1)])
    assert [(one.owner, one.pods, one.devices) for one in found] == [
        ("Pod/other", 1, 1.0),
        ("Job/wide", 2, 2.0),
    ]
    assert found[1].since == NOW - 3 * HOUR


def test_a_bound_pod_a_template_and_one_without_gpus_do_not_wait():
    bound = pod("bound", gpus=1, phase="Pending")
    template = pod("t", gpus=1, node=None, phase="Pending", template=True)
    plain = msgspec.structs.replace(pending("cpu"), containers=(ContainerSpec(name="main"),))
    assert demand([bound, template, plain], [node()]) == ()


def test_no_node_offers_such_a_device():
    mig = pending(resource="nvidia.com/mig-1g.10gb", kind="mig", mig_profile="1g.10gb")
    assert why([mig], [node()]) == ["waiting.no_such"]
    assert why([pending()], []) == ["waiting.no_such"]


def test_no_node_is_large_enough():
    assert why([pending(gpus=16)], [node("a"), node("b")]) == ["waiting.too_large"]


def test_all_of_them_are_taken():
    assert why([pending(gpus=2), pod("x", gpus=7)], [node(gpus=8)]) == ["waiting.taken"]


@pytest.mark.parametrize(("asked", "told"), [(4, "fragmented"), (3, "unexplained")])
def test_free_gpus_that_lie_apart_are_fragmented(asked, told):
    pods = [pending(gpus=asked), pod("x", gpus=1, node="a"), pod("y", gpus=1, node="b")]
    assert why(pods, [node("a", gpus=4), node("b", gpus=4)]) == [f"waiting.{told}"]


def test_fragmented_names_how_many_lie_where():
    pods = [pending(gpus=4), pod("x", gpus=1, node="a"), pod("y", gpus=2, node="b")]
    (one,) = demand(pods, [node("a", gpus=4), node("b", gpus=4)])
    assert say(one.reasons[0]) == (
        "5 x nvidia.com/gpu are free on 2 nodes, but at most 3 on any one of them"
    )


def test_a_taint_that_is_not_tolerated_keeps_it_away():
    tainted = node("a", taints=("team=x:NoSchedule", "soft:PreferNoSchedule"))
    (one,) = demand([pending()], [tainted])
    assert [reason.key for reason in one.reasons] == ["waiting.tainted"]
    assert one.reasons[0].params["taints"] == "team=x:NoSchedule"
    assert why([pending(tolerations=("team",))], [tainted]) == ["waiting.unexplained"]
    assert why([pending(tolerations=("*",))], [tainted]) == ["waiting.unexplained"]


@pytest.mark.parametrize("state", [{"schedulable": False}, {"ready": False}])
def test_a_node_that_is_cordoned_or_not_ready_is_said_to_be(state):
    assert why([pending()], [node("a", **state)]) == ["waiting.unavailable"]


def test_free_gpus_without_cpus_or_memory_beside_them_are_of_no_use():
    def asking(cpus=1.0, gib=1):
        spec = msgspec.structs.replace(
            pending().containers[0], cpu_request=cpus, memory_request_bytes=gib * 2**30
        )
        return pending(containers=(spec,))

    small = node("a", cpus=8.0, memory_bytes=32 * 2**30)
    assert why([asking(cpus=9.0)], [small]) == ["waiting.cpu_memory"]
    assert why([asking(gib=33)], [small]) == ["waiting.cpu_memory"]
    assert why([asking(cpus=8.0, gib=32)], [small]) == ["waiting.unexplained"]
    holder = msgspec.structs.replace(pod("x", gpus=1, node="a"), containers=(
        msgspec.structs.replace(pod().containers[0], cpu_request=4.0),))  # fmt: skip
    assert why([asking(cpus=5.0), holder], [small]) == ["waiting.cpu_memory"]


def test_where_all_that_is_known_would_let_it_run_the_queue_or_what_is_not_read_is_named():
    queued = pending(labels={"kueue.x-k8s.io/queue-name": "research"})
    (one,) = demand([queued], [node()])
    assert [reason.key for reason in one.reasons] == ["waiting.queue"]
    assert one.queue == "research"
    assert why([pending()], [node()]) == ["waiting.unexplained"]


def test_a_claim_of_which_nodes_tell_no_number_is_said_to_be_one():
    assert why([pending(resource="gpu.nvidia.com", kind="gpu")], [node()]) == ["waiting.claim"]


def freeing(devices, on="node-a", work="team-a/Job/idle/main"):
    return Serving(workload_id=work, rule="idle", node=on, devices=devices)


def test_what_a_finding_would_free_serves_what_waits_longest():
    pods = [pod("x", gpus=8), pending("late", 4), pending("early", 4, since=2 * HOUR)]
    early, late = demand(pods, [node(gpus=8)], [freeing(6.0)])
    assert (early.owner, early.served_pods) == ("Pod/early", 1)
    assert early.served_by == (freeing(4.0),)
    assert (late.served_pods, late.served_by) == (0, ())


def test_free_devices_beside_those_that_would_be_freed_count_with_them():
    pods = [pod("x", gpus=6), pending("w", 4)]
    (one,) = demand(pods, [node(gpus=8)], [freeing(3.0)])
    assert one.served_by == (freeing(2.0),)


def test_devices_on_different_nodes_do_not_serve_one_pod():
    pods = [pod("x", gpus=4, node="a"), pod("y", gpus=4, node="b"), pending("w", 4)]
    nodes = [node("a", gpus=4), node("b", gpus=4)]
    (one,) = demand(pods, nodes, [freeing(2.0, "a"), freeing(2.0, "b")])
    assert one.served_pods == 0


def test_a_node_that_it_may_not_use_serves_nothing():
    pods = [pod("x", gpus=8), pending("w", 4)]
    (one,) = demand(pods, [node(gpus=8, taints=("a:NoSchedule",))], [freeing(8.0)])
    assert one.served_pods == 0


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 4)), max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_no_device_is_promised_twice(asked, spare):
    pods = [pod("x", gpus=8, node="a"), pod("y", gpus=8, node="b")]
    pods += [
        pending(f"w-{place}-{copy}", gpus, owner=msgspec.structs.replace(JOB, name=f"j{place}"))
        for place, (gpus, copies) in enumerate(asked)
        for copy in range(copies)
    ]
    freed = [
        freeing(float(devices), on, f"work-{place}") for place, (on, devices) in enumerate(spare)
    ]
    taken: dict[tuple[str, str], float] = {}
    for one in demand(pods, [node("a", gpus=8), node("b", gpus=8)], freed):
        assert one.served_pods <= one.pods
        assert sum(part.devices for part in one.served_by) == one.served_pods * one.devices
        for part in one.served_by:
            key = part.workload_id, part.node
            taken[key] = taken.get(key, 0.0) + part.devices
    for one in freed:
        assert taken.get((one.workload_id, one.node), 0.0) <= one.devices
