"""Which GPUs nobody held, hour by hour, and what of it comes into the plan."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import Resolution
from gputailor_agent.model.judgement import Finding
from gputailor_agent.model.profile import Window
from gputailor_agent.planner import make_plan
from gputailor_agent.planner.capacity import node_books
from gputailor_agent.planner.occupancy import Occupancy
from gputailor_agent.profiles import build_profiles
from tests.agent.factories import DAY, HOUR, NOW, context, device, inventory, node, pod, rows

WINDOW = Window(start=NOW - 4 * DAY, end=NOW)


def free_hours(usage, pods, nodes, devices=()):
    world = inventory(pods, nodes)
    around = context(world)
    occupancy = Occupancy(around, WINDOW)
    for made in build_profiles(usage, devices, world, Resolution(), WINDOW):
        occupancy.add(made)
    return {one.name: one for one in occupancy.nodes(node_books(around, {}, float(NOW)))}


def plan(usage, pods, nodes, devices=()):
    world = inventory(pods, nodes)
    made = build_profiles(usage, devices, world, Resolution(), WINDOW)
    return make_plan(made, context(world), window=WINDOW, made_at=float(NOW))


def test_a_node_is_known_from_the_first_hour_with_a_measurement():
    start = NOW - 30 * HOUR
    found = free_hours(rows(start, NOW, kernel=0.5), [pod(start=start)], [node(gpus=4)])["node-a"]
    assert found.free == (3.0,) * 30
    assert found.free_now == 3


def test_of_a_node_that_nothing_was_measured_on_only_now_is_known():
    found = free_hours([], [pod(start=NOW - 2 * DAY)], [node(gpus=4), node("b", gpus=2)])
    assert (found["node-a"].free, found["node-a"].free_now) == ((), 3.0)
    assert (found["b"].free, found["b"].free_now) == ((), 2.0)


def test_a_pod_that_has_gone_from_the_inventory_held_what_was_measured():
    start = NOW - 30 * HOUR
    gone = rows(start, NOW - 20 * HOUR, pod="gone", gpu="G1", kernel=0.5)
    found = free_hours(
        [*gone, *rows(start, NOW, kernel=0.5)],
        [pod(start=start)],
        [node(gpus=4)],
        [device("GPU-0"), device("G1")],
    )["node-a"]
    assert found.free == (2.0,) * 10 + (3.0,) * 20


def test_a_pod_that_was_not_measured_held_its_gpus_all_the_same():
    start = NOW - 30 * HOUR
    blind = pod("blind", gpus=2, start=NOW - 10 * HOUR - HOUR / 2, finished=NOW - 5 * HOUR)
    found = free_hours(rows(start, NOW, kernel=0.5), [pod(start=start), blind], [node(gpus=4)])
    assert found["node-a"].free == (3.0,) * 19 + (2.0,) + (1.0,) * 5 + (3.0,) * 5


@pytest.mark.parametrize("state", [{"schedulable": False}, {"ready": False}, {"ready": None}])
def test_nodes_that_cannot_be_had_are_not_unallocated(state):
    assert free_hours([], [], [node(gpus=4, **state)]) == {}


def test_gpus_that_the_kubelet_no_longer_offers_are_not_free():
    start = NOW - 30 * HOUR
    lost = node(gpus=4, allocatable={"nvidia.com/gpu": 3.0})
    found = free_hours(rows(start, NOW, kernel=0.5), [pod(start=start)], [lost])["node-a"]
    assert found.free == (2.0,) * 30
    assert found.free_now == 2


def test_the_plan_tells_pools_findings_and_what_waits_and_adds_nothing_to_its_saving():
    start = NOW - 2 * DAY
    waits = pod("wait", gpus=4, start=NOW - HOUR, node=None, phase="Pending")
    nodes = [node(gpus=4, pool="train"), node("empty", gpus=4, pool="train")]
    busy = rows(start, NOW, kernel=1.0, sm=0.9, dram=0.6)
    once = rows(start, start + HOUR, pod="old", gpu="G1", kernel=1.0)
    old = pod("old", start=start, finished=start + HOUR, node="empty")
    made = plan(
        [*busy, *once],
        [pod(start=start), old, waits],
        nodes,
        [device("GPU-0"), device("G1", node="empty")],
    )
    (finding,) = made.cluster_findings
    assert finding.message.key == "unallocated.beside"
    assert finding.message.params["free"] == 7
    (pool,) = made.free_pools
    assert (pool.gpus, pool.nodes, pool.known_hours, pool.free_now) == (8.0, 2, 48, 7.0)
    assert pool.least_free == 6
    assert pool.free_gpu_hours == 6 + 47 * 7
    assert len(pool.by_hour) == 24
    assert [one.owner for one in made.waiting] == ["Pod/wait"]
    assert made.saving_gpu_hours_per_month == 0
    assert all(check.holds for check in made.checks)


def test_waste_stands_beside_the_demand_that_it_could_serve():
    """Six idle GPUs of a full node, and a pod that waits for four."""
    start = NOW - 6 * HOUR
    usage = [one for gpu in range(6) for one in rows(start, NOW, gpu=f"G{gpu}")]
    pods = [
        pod(gpus=6, start=start),
        pod("other", gpus=2, start=start),
        pod("wait", gpus=4, start=NOW - HOUR, node=None, phase="Pending"),
    ]
    made = plan(usage, pods, [node(gpus=8)], [device(f"G{gpu}") for gpu in range(6)])
    (one,) = made.waiting
    assert one.served_pods == 1
    (part,) = one.served_by
    assert (part.rule, part.node, part.devices) == ("idle", "node-a", 4.0)
    assert part.workload_id == "team-a/Pod/train-0/main"
    assert [reason.key for reason in one.reasons] == ["waiting.taken"]


def test_a_finding_of_low_confidence_promises_nothing():
    start = NOW - 6 * HOUR
    usage = [
        one for gpu in range(8) for one in rows(start, NOW, gpu=f"G{gpu}", kernel=0.15, sm=0.15)
    ]
    waits = pod("wait", gpus=4, start=NOW - HOUR, node=None, phase="Pending")
    made = plan(usage, [pod(gpus=8, start=start), waits], [node(gpus=8)])
    assert made.waiting[0].served_by == ()


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 40), st.integers(1, 3), st.booleans()),
        max_size=5,
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_free_hours_lie_between_none_and_all_and_the_order_of_pods_changes_nothing(held, order):
    pods, usage, devices = [], [], []
    for place, (began, length, gpus, measured) in enumerate(held):
        start = NOW - began * HOUR
        end = start + length * HOUR
        pods.append(pod(f"p{place}", gpus=gpus, start=start, finished=None if end >= NOW else end))
        if measured:
            devices.append(device(f"G{place}"))
            usage += rows(start, min(end, NOW), pod=f"p{place}", gpu=f"G{place}", kernel=0.5)
    found = free_hours(usage, pods, [node(gpus=4)], devices)["node-a"]
    assert all(0 <= free <= 4 for free in found.free)
    order.shuffle(pods)
    order.shuffle(usage)
    assert free_hours(usage, pods, [node(gpus=4)], devices)["node-a"] == found


def test_what_nobody_looks_at_is_no_finding():
    """Case 23: an exporter that never ran makes no GPU unallocated."""
    made = plan([], [pod(start=NOW - 2 * DAY)], [node(gpus=8)])
    assert made.cluster_findings == ()
    assert [one.kind for one in made.cluster_silences] == ["unknown"]


def test_a_finding_about_the_cluster_survives_being_written_and_read():
    start = NOW - 2 * DAY
    made = plan(rows(start, NOW, kernel=1.0, sm=0.9), [pod(start=start)], [node(gpus=2)])
    assert len(made.cluster_findings) == 1
    again = msgspec.json.decode(msgspec.json.encode(made.cluster_findings[0]), type=Finding)
    assert again == made.cluster_findings[0]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 8]),  # GPUs
            st.sampled_from([-200, -96, -30, -1]),  # hours from now at which it began
            st.sampled_from([None, -97, -40, -2]),  # and ended
        ),
        min_size=1,
        max_size=6,
    )
)
def test_pods_that_share_their_containers_are_counted_like_those_that_do_not(lives):
    apart = [
        pod(
            f"p{place}",
            gpus=gpus,
            start=NOW + begun * HOUR,
            finished=None if ended is None or ended <= begun else NOW + ended * HOUR,
        )
        for place, (gpus, begun, ended) in enumerate(lives)
    ]
    kept = {}
    shared = [
        msgspec.structs.replace(
            one, containers=kept.setdefault(msgspec.json.encode(one.containers), one.containers)
        )
        for one in apart
    ]
    nodes = [node(gpus=64)]
    usage = rows(NOW - 30 * HOUR, NOW, kernel=0.5)
    assert plan(usage, shared, nodes) == plan(usage, apart, nodes)
    found = free_hours(usage, shared, nodes)["node-a"]
    assert found == free_hours(usage, apart, nodes)["node-a"]
    held = sum(
        gpus
        for (gpus, _, _), one in zip(lives, apart, strict=True)
        if one.finished is None or one.finished > NOW - HOUR
    )
    assert found.free_now <= 64 - held
