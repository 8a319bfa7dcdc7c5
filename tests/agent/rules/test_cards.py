"""Cards and slices of a cluster, what a workload needs of one, and what power says of it."""

from dataclasses import replace

import msgspec
import pytest

from gputailor_agent.model.inventory import Outcome, TaskClass
from gputailor_agent.model.usage import SignalUse
from gputailor_agent.rules import smaller_gpu
from gputailor_agent.rules.base import Limits, RuleSettings
from gputailor_agent.rules.candidates import candidate, elsewhere, present, slice_shares
from gputailor_agent.rules.needs import active_share, needed_bytes, oom_seen, start_unseen
from gputailor_agent.rules.power import idle_watts_limit, least_idle_watts
from tests.agent.factories import (
    A100,
    DAY,
    HOUR,
    MIG_1G,
    MIG_3G,
    NOW,
    FakeCatalogue,
    context,
    device,
    histogram,
    inventory,
    node,
    pod,
    profile,
    rows,
    spec,
    workload,
)
from tests.agent.rules.card_parts import LIMITS, USED, made_of

# --- candidates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "read"), [("8.6", (8, 6)), ("9", (9, 0)), ("", None), ("gfx942", None)]
)
def test_a_candidate_s_architecture(told, read):
    assert candidate(spec("X", 8, compute_capability=told), "", None).compute_capability == read


def test_a_slice_has_its_share_of_everything():
    """14 of 108 SMs, an eighth of the bandwidth, and a seventh of the price."""
    price = FakeCatalogue().price(A100)
    one = candidate(A100, "1g.10gb", price)
    assert one.fp32_flops == pytest.approx(20e12 * 14 / 108)
    assert one.tensor_flops == pytest.approx(300e12 * 14 / 108)
    assert one.bandwidth == 2e12 / 8
    assert one.usable_memory_bytes == MIG_1G.usable_memory_bytes
    assert (one.price, one.fraction) == (pytest.approx(4 / 7), pytest.approx(1 / 7))
    assert (one.name, one.currency, one.estimate) == ("A100 1g.10gb", "USD", False)
    assert candidate(A100, "3g.40gb", price).price == 2.0  # half of the memory
    whole = candidate(A100, "", None)
    assert (whole.price, whole.currency, whole.fraction, whole.name) == (None, "", 1.0, "A100")
    assert whole.fp32_flops == 20e12


def test_a_slice_that_the_catalogue_does_not_know_has_the_share_in_its_name():
    one = candidate(A100, "2g.20gb", None)
    assert one.usable_memory_bytes is None
    assert one.fp32_flops == pytest.approx(20e12 * 2 / 7)
    assert one.bandwidth == pytest.approx(2e12 * 2 / 7)
    assert candidate(spec("X", 8, fp32_flops=None), "", None).fp32_flops is None


def test_where_sms_are_not_known_compute_slices_tell():
    assert slice_shares(A100, MIG_3G) == (pytest.approx(42 / 108), 0.5)
    without = msgspec.structs.replace(MIG_3G, sm_count=None)
    assert slice_shares(A100, without) == (pytest.approx(3 / 7), 0.5)
    assert slice_shares(spec("X", 80, sm_count=None), MIG_3G) == (pytest.approx(3 / 7), 0.5)


def here(*nodes, catalogue=None):
    return [(one.name, one.price) for one in present(context(inventory(nodes=nodes), catalogue))]


def test_the_cards_of_the_cluster_each_at_its_cheapest():
    labels = {"gputailor.io/price-per-gpu-hour": "1.5"}
    assert here(node("a"), node("b", labels=labels), node("c", model="T4")) == [
        ("A100", 1.5), ("T4", 0.4)
    ]  # fmt: skip
    assert here(node("a"), catalogue=FakeCatalogue({})) == [("A100", None)]
    assert here(node("a", model="Foo"), node("b", sharing_replicas=4)) == []
    sliced = node("s", gpus=1, capacity={"nvidia.com/mig-1g.10gb": 7.0})
    assert here(sliced) == [("A100 1g.10gb", pytest.approx(4 / 7))]
    both = node("s", gpus=2, capacity={"nvidia.com/gpu": 1.0, "nvidia.com/mig-1g.10gb": 7.0})
    assert [name for name, _ in here(both)] == ["A100", "A100 1g.10gb"]
    single = node("s", gpus=1, model="A100-MIG-1g.10gb", capacity={"nvidia.com/gpu": 7.0})
    assert [name for name, _ in here(single)] == ["A100 1g.10gb"]


def test_a_known_price_comes_before_none_and_equal_ones_by_their_label():
    labels = {"gputailor.io/price-per-gpu-hour": "1.5"}
    unpriced = FakeCatalogue({})
    assert here(node("a"), node("b", labels=labels), catalogue=unpriced) == [("A100", 1.5)]
    assert here(node("a", labels=labels), node("b"), catalogue=unpriced) == [("A100", 1.5)]


def test_elsewhere_are_priced_cards_that_the_cluster_lacks():
    around = context(inventory(nodes=[node()]), FakeCatalogue({"A100": 4.0, "L4": 0.8, "T4": 0.4}))
    assert [one.name for one in elsewhere(around)] == ["L4", "T4"]
    assert elsewhere(around) is elsewhere(around)
    assert present(around) is present(around)


class OneProvider(FakeCatalogue):
    """Prices that one provider alone tells, except that of the card of an instance type."""

    def price(self, spec, *, instance_type="", **asked):
        found = super().price(spec, instance_type=instance_type, **asked)
        if found is None:
            return None
        return msgspec.structs.replace(found, provider="cloud-b", estimate=not instance_type)


def test_the_price_of_one_provider_counts_only_where_the_cluster_is_that_provider_s():
    prices = OneProvider({"A100": 4.0, "L4": 0.8})
    assert elsewhere(context(inventory(nodes=[node()]), prices)) == ()
    there = context(inventory(nodes=[node(instance_type="b.large")]), prices)
    assert [one.name for one in elsewhere(there)] == ["L4"]


# --- what a workload needs ----------------------------------------------------------------------


def failed_with(peak, outcome=Outcome.FAILED):
    made, _, _ = made_of(rows(NOW - 6 * HOUR, NOW, **USED))
    odd = msgspec.structs.replace(made.runs[0], outcome=outcome, memory_peak_bytes=peak)
    return msgspec.structs.replace(made, runs=(odd,))


USABLE = A100.usable_memory_bytes


@pytest.mark.parametrize(
    ("peak", "outcome", "usable", "seen"),
    [
        (int(0.95 * USABLE) + 1, Outcome.FAILED, USABLE, True),
        (int(0.95 * USABLE), Outcome.FAILED, USABLE, False),
        (USABLE, Outcome.SUCCEEDED, USABLE, False),
        (USABLE, Outcome.FAILED, None, False),
        (None, Outcome.FAILED, USABLE, False),
    ],
)
def test_a_failed_run_that_had_filled_the_card_ran_out_of_memory(peak, outcome, usable, seen):
    now = replace(candidate(A100, "", None), usable_memory_bytes=usable)
    assert oom_seen(failed_with(peak, outcome), now, LIMITS) is seen


def test_memory_needed_is_the_peak_with_the_larger_headroom_rounded_up():
    now = candidate(A100, "", None)
    made = msgspec.structs.replace(failed_with(None, Outcome.SUCCEEDED), memory_peak_bytes=1001)
    assert needed_bytes(made, now, LIMITS) == 1152  # 1151.15
    killed = msgspec.structs.replace(made, oom_seen=True)
    assert needed_bytes(killed, now, LIMITS) == 1252  # 1251.25
    wide = Limits(smaller_gpu.RULE, RuleSettings({"smaller_gpu": {"memory_headroom": 1.5}}))
    assert needed_bytes(killed, now, wide) == 1502
    assert needed_bytes(msgspec.structs.replace(made, memory_peak_bytes=None), now, LIMITS) == 0


def test_the_busiest_gpu_of_a_run_counts_and_runs_weigh_by_their_time():
    start = NOW - 6 * HOUR
    usage = [*rows(start, NOW, gpu="A", kernel=0.8), *rows(start, NOW, gpu="B", kernel=0.2)]
    made, _, basis = made_of(usage, [pod(gpus=2, start=start)])
    assert active_share(made, basis) == pytest.approx(0.8)
    web = workload("web", "Deployment", TaskClass.INFERENCE)
    start = NOW - 8 * DAY
    pods = [pod("a", start=start), pod("b", start=NOW - 2 * DAY)]
    usage = [*rows(start, NOW, pod="a", gpu="A", kernel=0.8),
             *rows(NOW - 2 * DAY, NOW, pod="b", gpu="B", kernel=0.3)]  # fmt: skip
    made, _, basis = made_of(usage, pods, web)
    assert active_share(made, basis) == pytest.approx((8 * 0.8 + 2 * 0.3) / 10)


def test_where_sms_stand_in_each_second_in_which_any_was_busy_counts():
    told = SignalUse(observed_seconds=HOUR, active_seconds=360.0,
                     histogram=histogram({0.0: 2700, 0.4: 900}))  # fmt: skip
    usage = [
        msgspec.structs.replace(one, signals={"sm": told}) for one in rows(NOW - 6 * HOUR, NOW)
    ]
    made, _, basis = made_of(usage)
    assert active_share(made, basis) == pytest.approx(0.25)
    flat = [msgspec.structs.replace(one, signals={"sm": msgspec.structs.replace(told, histogram=None)})
            for one in usage]  # fmt: skip
    made, _, basis = made_of(flat)
    assert active_share(made, basis) == 1.0  # who tells no seconds may have been busy in all


@pytest.mark.parametrize(
    ("began", "unseen"), [(NOW - 6 * HOUR, False), (NOW - 6 * HOUR - 1, True), (None, False)]
)
def test_a_start_before_the_first_row_may_hide_a_peak(began, unseen):
    member = pod(start=NOW - 6 * HOUR)
    member = msgspec.structs.replace(member, created=began, scheduled=began, started=began)
    made, world = profile(rows(NOW - 6 * HOUR, NOW), [member])
    assert start_unseen(made, context(world)) is unseen


# --- power --------------------------------------------------------------------------------------


def watched(model="A100", *, limit=None, share=1.0, mig="", joules=60.0, devices=True):
    usage = [msgspec.structs.replace(one, share=share, energy_joules=joules)
             for one in rows(NOW - HOUR, NOW)]  # fmt: skip
    known = msgspec.structs.replace(device(model=model, mig=mig), power_limit_watts=limit)
    made, world = profile(usage, [pod()], devices=[known] if devices else [], nodes=[])
    return context(world), made.gpus[0]


@pytest.mark.parametrize(
    ("told", "watts"),
    [
        ({}, 140.0),  # 0.35 x 400 W
        ({"limit": 300.0}, 140.0),  # the catalogue's board power, not what it was turned down to
        ({"model": "T4"}, 45.0),  # 0.35 x 70 W is less than the floor
        ({"share": 0.5}, None),
        ({"mig": "1g.10gb"}, None),
        ({"model": "Foo", "limit": 300.0}, None),
        ({"devices": False}, None),
    ],
)
def test_a_card_that_draws_more_has_not_been_idle(told, watts):
    around, one = watched(**told)
    assert idle_watts_limit(around, one, LIMITS) == (
        None if watts is None else pytest.approx(watts)
    )


@pytest.mark.parametrize(
    ("joules", "busy", "idle", "limit", "watts"),
    [
        (7200.0, 0.0, 100.0, None, 72.0),
        (7200.0, 10.0, 100.0, None, 32.0),  # ten seconds at 400 W
        (7200.0, 10.0, 100.0, 300.0, 42.0),  # its own limit is the most it drew
        (7200.0, 100.0, 100.0, None, 0.0),
        (7200.0, 0.5, 0.5, None, 14_000.0),
        (7200.0, 0.0, 0.0, None, None),
        (None, 0.0, 100.0, None, None),
    ],
)
def test_least_power_of_the_idle_part(joules, busy, idle, limit, watts):
    around, one = watched(limit=limit, joules=joules)
    assert least_idle_watts(around, one, busy, idle) == watts


def test_without_a_board_power_busy_time_leaves_the_idle_part_unknown():
    around, one = watched("Foo")
    assert least_idle_watts(around, one, 10.0, 100.0) is None
    assert least_idle_watts(around, one, 0.0, 100.0) == pytest.approx(0.6)
