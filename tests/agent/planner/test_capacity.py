"""Whole GPUs by node and model: who holds them, what is free, and what is not."""

import msgspec
import pytest

from gputailor_agent.model.inventory import ContainerSpec, GpuRequest
from gputailor_agent.model.judgement import Money
from gputailor_agent.planner.capacity import (
    NodeBook,
    capacity_lines,
    held_by,
    holders,
    node_books,
    sightings,
)
from tests.agent.factories import (
    HOUR,
    NOW,
    context,
    device,
    inventory,
    node,
    pod,
    profile,
    rows,
)
from tests.agent.planner.planning_parts import GPU, book


@pytest.mark.parametrize(
    ("one", "taken", "left"),
    [
        (book(), 1.0, (3.0, 0.0, 0.0)),
        (book(), 5.0, (0.0, 0.0, 0.0)),
        (book(broken=1.0), 1.0, (2.0, 1.0, 0.0)),
        (book(broken=1.0), 3.5, (0.0, 0.5, 0.0)),
        (book(schedulable=False), 1.0, (0.0, 3.0, 0.0)),
        (book(ready=False), 1.0, (0.0, 3.0, 0.0)),
        (book(ready=None), 1.0, (0.0, 0.0, 3.0)),
        (book(ready=None, schedulable=False), 1.0, (0.0, 3.0, 0.0)),
    ],
)
def test_what_is_left_of_a_node_is_free_unavailable_or_unknown(one, taken, left):
    assert one.split(taken, one.gpus) == left


def test_in_gpu_hours_what_is_broken_is_so_all_the_time():
    assert book(broken=1.0).split(10.0, 4 * 24.0) == (96 - 10 - 24, 24.0, 0.0)
    assert book(gpus=0.5, broken=0.5).split(0.0, 10.0) == (0.0, 10.0, 0.0)
    gone = NodeBook(node(), "A100", 0.0, 0.0, 1.0, 4.0, "USD")  # it lost all its GPUs since
    assert gone.split(0.0, 10.0) == (10.0, 0.0, 0.0)


def test_capacity_adds_up_by_model():
    one = book(held=1.0), book(broken=1.0), book(gpus=2.0, ready=None), book(2.0, model="L4")
    a100, l4 = capacity_lines(one)
    told = (a100.capacity, a100.allocated, a100.free, a100.unavailable, a100.unknown)
    assert told == (10.0, 1.0, 6.0, 1.0, 2.0)
    assert (l4.model, l4.capacity, l4.free) == ("L4", 2.0, 2.0)


@pytest.mark.parametrize(
    ("books", "price"),
    [
        ((book(3.0, price=4.0), book(1.0, price=8.0)), (5.0, "USD")),
        ((book(3.0, price=4.0), book(1.0, price=None)), None),
        ((book(3.0, price=4.0), book(1.0, price=8.0, currency="EUR")), None),
        ((book(3.0, price=4.0, currency="EUR"),), (4.0, "EUR")),
        ((book(3.0, price=0.0),), (0.0, "USD")),
        ((book(3.0, price=None),), None),
    ],
)
def test_the_price_of_a_model_is_the_mean_over_its_gpus_where_all_have_one_in_a_currency(
    books, price
):
    (line,) = capacity_lines(books)
    assert line.price_per_gpu_hour == (price and Money(amount=price[0], currency=price[1]))
    assert line.usd_per_gpu_hour == (price[0] if price and price[1] == "USD" else None)


def books_of(pods, nodes, seen=None, catalogue=None, at=NOW):
    return node_books(context(inventory(pods, nodes), catalogue), seen or {}, float(at))


def test_books_stand_by_name_and_only_of_nodes_with_gpus():
    found = books_of([], [node("b"), node("a"), node("c", gpu_count=None, capacity={})])
    assert [one.node.name for one in found] == ["a", "b"]
    assert [one.gpus for one in found] == [8.0, 8.0]
    half = node("d", gpus=1, gpu_count=None, capacity={GPU: 2.0}, sharing_replicas=4)
    assert [one.gpus for one in books_of([], [half])] == [0.5]


@pytest.mark.parametrize(
    ("fields", "at", "held"),
    [
        ({"start": NOW - HOUR}, NOW, 2.0),
        ({"start": NOW - HOUR, "finished": NOW}, NOW, 0.0),
        ({"start": NOW - HOUR, "finished": NOW + 1}, NOW, 2.0),
        ({"start": NOW}, NOW, 2.0),
        ({"start": NOW + 1}, NOW, 0.0),
        ({"node": None, "phase": "Pending"}, NOW, 0.0),
        ({"node": "elsewhere"}, NOW, 0.0),
    ],
)
def test_a_pod_holds_its_gpus_from_its_binding_to_its_end(fields, at, held):
    (one,) = books_of([pod(gpus=2, **fields)], [node()], at=at)
    assert one.held == held


def test_holders_are_asked_for_once_and_by_their_time():
    around = context(inventory([pod(start=NOW - HOUR)], [node()]))
    assert holders(around, float(NOW)) is holders(around, float(NOW))
    assert [one.name for one in holders(around, float(NOW))["node-a"]] == ["train-0"]
    assert holders(around, NOW - 2.0 * HOUR) == {}


def asking(*requests):
    told = tuple(
        GpuRequest(resource=name, count=count, kind=kind, vendor="nvidia", mig_profile=mig)
        for name, count, kind, mig in requests
    )
    return msgspec.structs.replace(pod(), containers=(ContainerSpec(name="main", gpus=told),))


@pytest.mark.parametrize(
    ("request_", "on", "gpus"),
    [
        ((GPU, 3, "gpu", ""), node(), 3.0),
        ((GPU, 2, "gpu", ""), node(gpus=2, capacity={GPU: 8.0}, sharing_replicas=4), 0.5),
        (("nvidia.com/gpu.shared", 2, "shared", ""),
         node(gpus=2, capacity={"nvidia.com/gpu.shared": 8.0}, sharing_replicas=4), 0.5),
        (("nvidia.com/mig-1g.10gb", 2, "mig", "1g.10gb"),
         node(gpus=1, capacity={"nvidia.com/mig-1g.10gb": 7.0}), 2 / 7),
        # slices that the node does not have count by the catalogue
        (("nvidia.com/mig-3g.40gb", 1, "mig", "3g.40gb"), node(), 0.5),
        (("nvidia.com/gpumem", 4000, "other", ""), node(), 0.0),
    ],
)  # fmt: skip
def test_what_a_pod_asks_for_in_whole_gpus(request_, on, gpus):
    around = context(inventory(nodes=[on]))
    assert held_by(around, on, asking(request_)) == pytest.approx(gpus)


@pytest.mark.parametrize(
    ("allocatable", "broken"),
    [({GPU: 4.0}, 0.0), ({GPU: 3.0}, 1.0), ({GPU: 5.0}, 0.0), ({"other": 1.0}, 4.0)],
)
def test_what_the_kubelet_no_longer_offers_is_broken(allocatable, broken):
    one = node(gpus=4, allocatable=allocatable)
    (told,) = books_of([], [one])
    assert told.broken == broken


def test_a_lost_half_of_a_shared_gpu_is_a_half():
    one = node(gpus=1, capacity={GPU: 4.0}, allocatable={GPU: 2.0}, sharing_replicas=4)
    (told,) = books_of([], [one])
    assert told.broken == 0.5


def test_a_node_without_labels_is_known_by_what_a_source_saw_on_it():
    bare = node(gpu_product="", gpus=2, gpu_count=2)
    usage = rows(NOW - HOUR, NOW)
    made, world = profile(usage, [pod(start=NOW - HOUR)], nodes=[bare],
                          devices=[device(model="L4")])  # fmt: skip
    around = context(world)
    ((name, seen),) = sightings(around, made)
    assert (name, seen.workload_id, seen.model) == ("node-a", made.workload.id, "L4")
    (told,) = node_books(around, {name: seen}, float(NOW))
    assert (told.model, told.price) == ("L4", 0.8)
    (untold,) = node_books(around, {}, float(NOW))
    assert (untold.model, untold.price, untold.currency) == ("unknown", None, "")


@pytest.mark.parametrize(
    ("model", "on", "seen"),
    [("L4", "node-a", 1), ("", "node-a", 0), ("L4", "", 0), ("L4", "gone", 0)],
)
def test_a_device_that_tells_no_model_or_node_is_no_sighting(model, on, seen):
    made, world = profile(
        rows(NOW - HOUR, NOW), [pod(start=NOW - HOUR)], nodes=[node(gpu_product="")],
        devices=[device(model=model, node=on)],
    )  # fmt: skip
    assert len(list(sightings(context(world), made))) == seen


def test_labels_come_before_sightings():
    made, world = profile(
        rows(NOW - HOUR, NOW), [pod(start=NOW - HOUR)], devices=[device(model="L4")]
    )
    assert list(sightings(context(world), made)) == []
