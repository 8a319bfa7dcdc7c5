"""Whole GPUs, prices and months."""

import msgspec
import pytest

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.profile import Window
from gputailor_agent.rules.pricing import (
    cost_of,
    equivalent,
    is_service,
    mig_fraction,
    monthly,
    node_shape,
    node_spec,
    price_of,
)
from tests.agent.factories import (
    A100,
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
    rows,
    workload,
)


@pytest.mark.parametrize(
    ("profile_name", "part"),
    [("1g.10gb", 1 / 7), ("3g.40gb", 1 / 2), ("2g.20gb", 2 / 7), ("odd", 1.0)],
)
def test_a_slice_counts_as_the_larger_of_its_compute_and_memory_share(profile_name, part):
    assert mig_fraction(A100, profile_name) == pytest.approx(part)


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"gpus": 8}, 8),
        ({"gpus": 1, "capacity": {"nvidia.com/mig-1g.10gb": 7.0}}, 1),
        ({"gpus": 2, "capacity": {"nvidia.com/gpu": 1.0, "nvidia.com/mig-1g.10gb": 7.0}}, 2),
        ({"gpus": 2, "capacity": {"nvidia.com/gpu": 8.0}, "sharing_replicas": 4}, 2),
        ({"gpus": 2, "capacity": {"nvidia.com/gpu.shared": 8.0}, "sharing_replicas": 4}, 2),
        ({"gpu_count": None, "model": "A100-MIG-1g.10gb", "capacity": {"nvidia.com/gpu": 14.0}}, 2),
        ({"capacity": {}, "gpu_count": None}, 0),
        ({"gpus": 8, "labels": {"nvidia.com/mig.strategy": "single"}}, 8),
    ],
)
def test_a_node_has_as_many_whole_gpus_as_cards_whatever_is_scheduled_on_it(fields, gpus):
    one = node(**fields)
    assert node_shape(context(inventory(nodes=[one])), one).gpus == pytest.approx(gpus)


def test_slices_that_overlap_on_paper_are_scaled_to_the_card():
    one = node(gpus=1, capacity={"nvidia.com/mig-1g.10gb": 1.0, "nvidia.com/mig-3g.40gb": 2.0})
    units = node_shape(context(inventory(nodes=[one])), one).mig_units
    assert units["1g.10gb"] + 2 * units["3g.40gb"] == pytest.approx(1.0)


def test_a_shared_device_counts_by_the_share_held():
    usage = [msgspec.structs.replace(one, share=0.25) for one in rows(NOW - HOUR, NOW)]
    made, world = profile(usage, [pod()])
    assert equivalent(context(world), made.gpus[0]) == 0.25


def test_a_slice_of_a_known_node_counts_as_its_part():
    one = node(gpus=1, capacity={"nvidia.com/mig-1g.10gb": 7.0})
    made, world = profile(
        rows(NOW - HOUR, NOW, gpu="M"),
        [pod(kind="mig", resource="nvidia.com/mig-1g.10gb", mig_profile="1g.10gb")],
        nodes=[one],
        devices=[device("M", mig="1g.10gb")],
    )
    assert equivalent(context(world), made.gpus[0]) == pytest.approx(1 / 7)


@pytest.mark.parametrize(
    ("kind", "task", "service"),
    [
        ("Deployment", TaskClass.UNKNOWN, True),
        ("Job", TaskClass.UNKNOWN, False),
        ("Job", TaskClass.INFERENCE, True),
        ("Deployment", TaskClass.TRAINING, False),
        ("Pod", TaskClass.UNKNOWN, False),
    ],
)
def test_what_runs_until_stopped_is_a_service(kind, task, service):
    made, _ = profile([], [pod()], workload(kind=kind, task=task))
    assert is_service(made) is service


def test_a_batch_of_a_window_shorter_than_a_day_is_not_scaled_to_a_month():
    window = Window(start=NOW - 6 * HOUR, end=NOW)
    made, world = profile(rows(NOW - 3 * HOUR, NOW), [pod(start=NOW - 3 * HOUR)], window=window)
    month = monthly(made, context(world))
    assert month.gpu_hours is None
    assert month.why is not None
    assert month.why.key == "money.short_window"


@pytest.mark.parametrize(("seconds", "scaled"), [(DAY - HOUR, False), (DAY, True)])
def test_a_window_of_a_day_is_long_enough(seconds, scaled):
    window = Window(start=NOW - seconds, end=NOW)
    made, world = profile(rows(NOW - 3 * HOUR, NOW), [pod(start=NOW - 3 * HOUR)], window=window)
    month = monthly(made, context(world))
    assert (month.gpu_hours is not None) is scaled
    if scaled:
        assert month.gpu_hours == pytest.approx(3 * 730 / 24)


def test_a_service_costs_what_it_holds_now_all_month():
    pods = [pod(f"w{i}", start=NOW - DAY) for i in range(3)]
    usage = [one for i in range(3) for one in rows(NOW - DAY, NOW, pod=f"w{i}", gpu=f"G{i}")]
    made, world = profile(usage, pods, workload(kind="Deployment"))
    made = msgspec.structs.replace(
        made, workload=workload(kind="Deployment", task=TaskClass.INFERENCE)
    )
    month = monthly(made, context(world))
    assert month.gpu_hours == 3 * 730
    assert month.cost is not None
    assert month.cost.amount == pytest.approx(3 * 730 * 4.0)


def finished(ends, length=2, kind="Job"):
    """A batch whose runs ended so many hours ago."""
    usage, runs = [], {}
    for place, hours in enumerate(ends):
        end = NOW - hours * HOUR
        name = f"run-{place}"
        usage += rows(end - length * HOUR, end, pod=name)
        runs[name] = [pod(name, start=end - length * HOUR, finished=end)]
    pods = [one for members in runs.values() for one in members]
    return profile(usage, pods, workload(kind=kind), runs=runs)


def test_one_run_that_has_ended_promises_no_saving_per_month():
    made, world = finished([30])
    month = monthly(made, context(world))
    assert (month.gpu_hours, month.cost) == (None, None)
    assert month.why is not None
    assert month.why.key == "money.ended"
    assert month.why.params == {"runs": 1, "ended": NOW - 30 * HOUR}
    assert month.saving(0.5).money_per_month is None


@pytest.mark.parametrize(
    ("ends", "kind", "again"),
    [
        ([10], "Job", False),
        ([10], "CronJob", True),  # its kind starts runs by itself
        ([10, 40], "Job", True),
        ([60, 66, 72], "Job", False),  # every 6 h, and silent for two days and a half
        ([100, 172, 268], "Job", True),  # every three or four days, and silent for four
    ],
)
def test_runs_come_again_if_they_did_and_are_not_overdue(ends, kind, again):
    made, world = finished(ends, kind=kind)
    month = monthly(made, context(world))
    assert (month.gpu_hours is not None) is again


def test_a_run_that_still_goes_on_is_scaled_as_it_goes():
    made, world = profile(rows(NOW - 7 * DAY, NOW), [pod(start=NOW - 7 * DAY)])
    month = monthly(made, context(world))
    assert month.gpu_hours == pytest.approx(7 * 24 * 730 / (14 * 24))


def test_a_service_that_was_taken_down_promises_nothing_either():
    gone = pod("web-0", start=NOW - 9 * DAY, finished=NOW - 2 * DAY)
    made, world = profile(
        rows(NOW - 9 * DAY, NOW - 2 * DAY, pod="web-0"), [gone], workload(kind="Deployment")
    )
    made = msgspec.structs.replace(
        made, workload=workload(kind="Deployment", task=TaskClass.INFERENCE)
    )
    assert monthly(made, context(world)).gpu_hours is None


def test_a_node_without_a_product_label_is_known_by_its_instance_type():
    one = node(gpu_product="", instance_type="cloud-A100", gpus=1)
    made, world = profile(rows(NOW - HOUR, NOW), [pod()], nodes=[one], devices=[])
    around = context(world)
    assert node_spec(around, one).key == "A100"
    cost, _ = cost_of(around, [(made.gpus[0], 2.0)])
    assert cost is not None
    assert cost.amount == 8.0


def test_a_missing_price_makes_the_whole_sum_unknown():
    usage = [*rows(NOW - HOUR, NOW, gpu="G0"), *rows(NOW - HOUR, NOW, gpu="G1")]
    made, world = profile(
        usage, [pod(gpus=2, node=None, phase="Running", start=None)],
        devices=[device("G0"), device("G1", "T4", node="elsewhere")], nodes=[],
    )  # fmt: skip
    around = context(world, FakeCatalogue(prices={"A100": 4.0}))
    cost, why = cost_of(around, [(one, 1.0) for one in made.gpus])
    assert cost is None
    assert why is not None
    assert why.params == {"model": "T4"}


LABEL = {"gputailor.io/price-per-gpu-hour": "1.25", "gputailor.io/price-currency": "EUR"}


def test_a_node_s_own_label_tells_its_price_and_no_other_node_s():
    own, other = node("own", labels=LABEL), node("other")
    around = context(inventory(nodes=[own, other]))
    told = [price_of(around, A100, one) for one in (own, other, None)]
    assert [(one.amount_per_gpu_hour, one.currency) for one in told] == [
        (1.25, "EUR"), (4.0, "USD"), (4.0, "USD"),
    ]  # fmt: skip


def test_a_label_does_not_tell_what_another_kind_of_capacity_would_cost():
    own = node("own", labels=LABEL, capacity_type="on-demand")
    around = context(inventory(nodes=[own]))
    as_spot = msgspec.structs.replace(own, capacity_type="spot")
    assert price_of(around, A100, own).amount_per_gpu_hour == 1.25
    assert price_of(around, A100, as_spot).amount_per_gpu_hour == 4.0


def test_a_workload_is_billed_by_the_label_of_its_node():
    made, world = profile(
        rows(NOW - 2 * DAY, NOW),
        [pod(start=NOW - 2 * DAY)],
        workload(kind="Deployment", task=TaskClass.UNKNOWN),
        nodes=[node(labels=LABEL)],
    )
    month = monthly(made, context(world)).cost
    assert (month.amount, month.currency) == (pytest.approx(730 * 1.25), "EUR")


@pytest.mark.parametrize(("offered", "replicas", "gpus"), [(32, 4, 8), (8, 1, 8), (8, 0, 8)])
def test_a_node_that_offers_each_gpu_several_times_has_as_many_gpus_as_it_has(
    offered, replicas, gpus
):
    shared = node(gpus=offered, gpu_count=None, sharing_replicas=replicas)
    assert node_shape(context(inventory(nodes=[shared])), shared).gpus == gpus
