"""The window's money and the hours that nobody held, with figures worked out by hand."""

import msgspec
import pytest

from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.profile import Window
from gputailor_agent.planner.capacity import (
    node_books,
)
from gputailor_agent.planner.clusterwide import Survey
from gputailor_agent.planner.costs import OVERLAP, Accounts, Taken, cost_line
from gputailor_agent.planner.occupancy import Occupancy, free_pools
from gputailor_agent.rules.cluster_rules import NodeHours
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    device,
    inventory,
    node,
    pod,
    profile,
    row,
    rows,
    workload,
)
from tests.agent.planner.planning_parts import book

WINDOW = Window(start=NOW - 2 * DAY, end=NOW)


def line(books, taken=None, measured=float(NOW - 2 * DAY), currency="USD", window=WINDOW):
    made = cost_line(list(books), taken or {}, window, measured, currency)
    parts = (made.workloads, made.free, made.unavailable, made.unknown)
    assert sum(parts) == pytest.approx(made.nodes)
    return made


def test_the_window_s_money_is_workloads_free_unavailable_and_unknown():
    """Two days of 4 GPUs at 4 USD are 768; 24 GPU-hours of them were used."""
    made = line([book()], {"a": Taken(24.0, 96.0)})
    assert (made.nodes, made.workloads, made.free) == (768.0, 96.0, 672.0)
    cordoned = line([book(schedulable=False)], {"a": Taken(24.0, 96.0)})
    assert (cordoned.free, cordoned.unavailable, cordoned.unknown) == (0.0, 672.0, 0.0)
    untold = line([book(ready=None)], {"a": Taken(24.0, 96.0)})
    assert (untold.free, untold.unavailable, untold.unknown) == (0.0, 0.0, 672.0)
    broken = line([book(broken=1.0)], {"a": Taken(24.0, 96.0)})
    assert (broken.free, broken.unavailable) == (480.0, 192.0)


@pytest.mark.parametrize(
    ("measured", "free", "unknown"),
    [
        (NOW - 2 * DAY, 768.0, 0.0),
        (NOW - 2 * DAY - HOUR, 768.0, 0.0),
        (NOW - DAY, 384.0, 384.0),
        (NOW, 0.0, 768.0),
        (None, 0.0, 768.0),
    ],
)
def test_time_before_anybody_looked_is_unknown(measured, free, unknown):
    made = line([book()], measured=measured)
    assert (made.free, made.unknown) == (pytest.approx(free), pytest.approx(unknown))


def test_what_is_not_in_the_currency_stands_outside():
    made = line([book(), book(2.0, name="b", price=None), book(1.0, name="c", currency="EUR")])
    assert (made.nodes, made.unpriced_gpus, made.currency) == (768.0, 2.0, "USD")


def test_a_node_that_has_gone_costs_what_was_used():
    made = line([book()], {"gone": Taken(3.0, 12.0), "a": Taken(24.0, 96.0)})
    assert (made.nodes, made.workloads, made.free) == (780.0, 108.0, 672.0)


def overlapping(used):
    """The parts need not add up where more was used than there is."""
    return cost_line([book()], {"a": Taken(used, used * 4)}, WINDOW, float(NOW - 2 * DAY), "USD")


def test_pods_that_follow_each_other_may_overlap_by_seconds_and_no_more():
    whole = 4 * 48.0
    assert overlapping(whole).nodes == 768.0
    assert overlapping(whole * (1 + OVERLAP)).nodes == pytest.approx(768.0 * (1 + OVERLAP))
    assert overlapping(whole * (1 + 2 * OVERLAP)).nodes == 768.0
    assert OVERLAP == 0.005


class TwoCurrencies(FakeCatalogue):
    """L4 is billed in EUR, everything else in USD."""

    def price(self, spec, **where):
        told = super().price(spec, **where)
        euro = told is not None and spec.key == "L4"
        return msgspec.structs.replace(told, currency="EUR") if euro else told


def accounts(*works, nodes, catalogue=None):
    told = []
    for place, (model, on, hours) in enumerate(works):
        start = NOW - hours * HOUR
        name = f"p{place}"
        told.append(
            profile(rows(start, NOW, pod=name, gpu=f"G{place}"), [pod(name, start=start, node=on)],
                    workload(name), nodes=nodes, devices=[device(f"G{place}", model, on)])
        )  # fmt: skip
    pods = [one for _, world in told for one in world.pods]
    around = context(inventory(pods, nodes), catalogue)
    made = Accounts(around)
    for one, _ in told:
        made.add(one)
    return made, node_books(around, {}, float(NOW))


def test_accounts_tell_hours_and_money_by_node_and_by_currency():
    nodes = [node("a"), node("b", model="L4")]
    works = (("A100", "a", 3), ("L4", "b", 5), ("A100", "a", 1))
    made, books = accounts(*works, nodes=nodes, catalogue=TwoCurrencies())
    assert made.taken("USD") == {"a": Taken(4.0, 16.0), "b": Taken(5.0, 0.0)}
    assert made.taken("EUR") == {"a": Taken(4.0, 0.0), "b": Taken(5.0, pytest.approx(4.0))}
    assert (made.cost("USD"), made.cost("EUR"), made.cost("GBP")) == (16.0, pytest.approx(4.0), 0.0)
    assert made.main_currency(books) == "USD"


@pytest.mark.parametrize(
    ("gpus", "currency"), [((8, 2), "USD"), ((2, 8), "EUR"), ((4, 4), "USD"), ((0.501, 0.5), "USD")]
)
def test_the_currency_is_that_of_most_gpus(gpus, currency):
    told = [book(gpus[0], currency="USD"), book(gpus[1], currency="EUR", name="b")]
    assert Accounts(context(inventory())).main_currency(told) == currency
    assert Accounts(context(inventory())).main_currency(told[::-1]) == currency


def test_without_a_priced_node_the_currency_is_that_of_most_devices():
    made, _ = accounts(("L4", "gone", 5), ("A100", "gone", 1), ("L4", "gone", 1), nodes=[],
                       catalogue=TwoCurrencies())  # fmt: skip
    assert made.main_currency([book(price=None)]) == "EUR"
    assert made.main_currency([book(1.0)]) == "USD"
    assert Accounts(context(inventory())).main_currency([]) == ""


def hours_of(usage, pods, nodes, window=WINDOW, devices=None):
    made, world = profile(usage, pods, nodes=nodes, window=window, devices=devices)
    around = context(world)
    told = Occupancy(around, window)
    told.add(made)
    return {one.name: one for one in told.nodes(node_books(around, {}, window.end))}


def test_only_whole_hours_of_the_window_are_told():
    window = Window(start=NOW - 4 * HOUR - 60.0, end=NOW - 60.0)
    start = NOW - 6 * HOUR
    found = hours_of(rows(start, NOW), [pod(start=start)], [node(gpus=2)], window)["node-a"]
    assert found.free == (1.0,) * 3


def test_a_device_seen_for_part_of_an_hour_was_held_for_that_part():
    start = NOW - 3 * HOUR
    usage = [row(start, observed=HOUR / 4), row(start + HOUR)]
    untold = pod(start=None)  # whose times the inventory does not tell
    found = hours_of(usage, [untold], [node(gpus=2)])["node-a"]
    assert found.free == (1.75, 1.0, 2.0)


def test_pods_hold_their_parts_of_hours():
    start = NOW - 3 * HOUR
    other = pod("other", gpus=2, start=start + HOUR / 2, finished=start + 1.75 * HOUR)
    found = hours_of(rows(start, NOW), [pod(start=start), other], [node(gpus=4)])["node-a"]
    assert found.free == (3 - 1.0, 3 - 1.5, 3.0)


def test_more_than_all_cannot_be_held():
    start = NOW - 2 * HOUR
    crowd = [pod(f"x{place}", gpus=3, start=start) for place in range(2)]
    found = hours_of(rows(start, NOW, pod="x0"), crowd, [node(gpus=4)])["node-a"]
    assert (found.free, found.free_now) == ((0.0, 0.0), 0.0)


def pool_node(name, free, model="A100", pool="train", **fields):
    values = {"gpus": 4.0, "free_now": free[-1] if free else 1.0, "price": None, "currency": ""}
    return NodeHours(name=name, model=model, pool=pool, resources={}, free=free,
                     **{**values, **fields})  # fmt: skip


def test_a_pool_s_free_hours_are_sums_of_the_hours_that_all_its_known_nodes_have():
    told = [pool_node("a", (1.0, 2.0, 3.0)), pool_node("b", (4.0, 0.0)), pool_node("c", ())]
    (pool,) = free_pools(told, WINDOW)
    assert (pool.nodes, pool.gpus, pool.free_now) == (3, 12.0, 3.0 + 0.0 + 1.0)
    assert (pool.known_hours, pool.free_gpu_hours, pool.least_free) == (2, 9.0, 3.0)
    assert pool.by_hour[22:] == (6.0, 3.0)  # the last hour of the window is 23:00 UTC
    assert pool.by_hour[:22] == (None,) * 22


def test_what_a_pod_took_a_moment_ago_is_not_always_free():
    """Nodes of which only now is known tell nothing of always."""
    told = [pool_node("a", (4.0, 4.0), free_now=1.0), pool_node("b", ())]
    (pool,) = free_pools(told, WINDOW)
    assert (pool.free_now, pool.least_free, pool.free_gpu_hours) == (2.0, 1.0, 8.0)


def test_a_pool_of_which_nothing_is_known_tells_no_hours():
    (pool,) = free_pools([pool_node("a", ())], WINDOW)
    assert (pool.known_hours, pool.free_gpu_hours, pool.least_free, pool.by_hour) == (
        0, None, None, ()
    )  # fmt: skip


def test_an_hour_of_the_day_is_the_mean_over_the_days():
    (pool,) = free_pools([pool_node("a", tuple(float(at) for at in range(25)))], WINDOW)
    assert pool.by_hour[23] == 12.0  # of hours 0 and 24 of these 25
    assert pool.by_hour[0] == 1.0


def test_pools_stand_by_model_and_name():
    told = [pool_node("a", (1.0,), "L4", "x"), pool_node("b", (1.0,), "A100", "y"),
            pool_node("c", (1.0,), "A100", "x")]  # fmt: skip
    assert [(one.model, one.pool) for one in free_pools(told, WINDOW)] == [
        ("A100", "x"), ("A100", "y"), ("L4", "x")
    ]  # fmt: skip


def test_a_survey_of_nothing_says_nothing():
    told = Survey(context(Inventory(cluster="test", at=NOW, pods=(), nodes=()))).clusterwide(
        [], WINDOW
    )
    assert (told.findings, told.free_pools, told.waiting) == ((), (), ())
    assert [one.kind for one in told.silences] == ["not_applicable"] * len(told.silences)
