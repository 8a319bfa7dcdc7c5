"""The plan: one primary each, and sums that conserve for any cluster."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import Resolution, TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Money
from gputailor_agent.model.profile import Window
from gputailor_agent.planner import make_plan
from gputailor_agent.planner.choosing import ranked
from gputailor_agent.planner.interplay import without_early_commitments
from gputailor_agent.profiles import build_profiles
from gputailor_agent.reports.overview import leading_silence
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

WINDOW = Window(start=NOW - 14 * DAY, end=NOW)


def plan(profiles, world, catalogue=None, **options):
    return make_plan(profiles, context(world, catalogue), window=WINDOW, made_at=NOW, **options)


def plan_of(usage, pods, nodes, catalogue=None, devices=()):
    world = inventory(pods, nodes)
    return plan(build_profiles(usage, devices, world, Resolution(), WINDOW), world, catalogue)


@st.composite
def clusters(draw):
    """Nodes of some kinds in some state, and pods that fit on them, some measured, some not."""
    nodes, pods, usage, devices = [], [], [], []
    for place in range(draw(st.integers(1, 4))):
        name = f"node-{place}"
        model = draw(st.sampled_from(["A100", "L4", "T4", "Mystery"]))
        sliced = model == "A100" and draw(st.booleans())
        gpus = draw(st.integers(1, 4))
        capacity = {"nvidia.com/mig-1g.10gb": 7.0 * gpus} if sliced else {"nvidia.com/gpu": gpus}
        lost = draw(st.integers(0, 1)) if not sliced else 0
        nodes.append(
            node(
                name,
                model=model,
                gpus=gpus,
                capacity={key: float(count) for key, count in capacity.items()},
                allocatable={key: float(count - lost) for key, count in capacity.items()},
                schedulable=draw(st.booleans()),
                ready=draw(st.sampled_from([True, False, None])),
            )
        )
        free = (7 * gpus if sliced else gpus) - lost
        for number in range(draw(st.integers(0, 3))):
            asked = draw(st.integers(0, free))
            free -= asked
            if not asked:
                continue
            start = NOW - draw(st.integers(1, 20 * 24)) * HOUR
            finished = draw(st.none() | st.just(NOW - HOUR / 2))
            one = pod(
                f"p-{place}-{number}",
                gpus=asked,
                start=start,
                finished=finished,
                node=name,
                resource=next(iter(capacity)),
                kind="mig" if sliced else "gpu",
                mig_profile="1g.10gb" if sliced else "",
            )
            pods.append(one)
            for gpu in range(draw(st.integers(0, asked))):
                uuid = f"{one.name}-{gpu}"
                devices.append(device(uuid, model, name, "1g.10gb" if sliced else ""))
                usage += [
                    row(hour, pod=one.name, gpu=uuid, kernel=draw(st.sampled_from([0.0, 0.5])))
                    for hour in range(int(max(start, NOW - 3 * HOUR)), NOW, HOUR)
                ]
    return usage, pods, nodes, devices


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_capacity_and_cost_conserve_in_any_cluster_case_32(cluster):
    usage, pods, nodes, devices = cluster
    made = plan_of(usage, pods, nodes, devices=devices)
    assert all(check.holds for check in made.checks), [c for c in made.checks if not c.holds]
    assert sum(line.capacity for line in made.capacity) == pytest.approx(
        sum(one.gpu_count or 0 for one in nodes)
    )
    for line in made.capacity:
        parts = (line.allocated, line.free, line.unavailable, line.unknown)
        assert all(part >= -1e-9 for part in parts)
        assert sum(parts) == pytest.approx(line.capacity)
    if made.cost is not None:
        cost = made.cost
        parts = (cost.workloads, cost.free, cost.unavailable, cost.unknown)
        assert all(part >= -1e-9 for part in parts)
        assert sum(parts) == pytest.approx(cost.nodes)
        known = [one.cost.amount for one in made.verdicts if one.cost is not None]
        assert sum(known) == pytest.approx(cost.workloads)


@given(clusters())
@settings(max_examples=30, deadline=None)
def test_no_saving_is_larger_than_what_the_workloads_cost(cluster):
    usage, pods, nodes, devices = cluster
    made = plan_of(usage, pods, nodes, devices=devices)
    for verdict in made.verdicts:
        if verdict.primary is None or verdict.primary.saving.gpu_hours_per_month is None:
            continue
        most = max(verdict.gpus_now * 730, verdict.gpu_hours * 730 / (14 * 24))
        assert verdict.primary.saving.gpu_hours_per_month <= most + 1e-6


def idle_pods(count=1, hours=6):
    start = NOW - hours * HOUR
    pods = [pod(f"p{i}", start=start) for i in range(count)]
    usage = [one for i in range(count) for one in rows(start, NOW, pod=f"p{i}", gpu=f"G{i}")]
    return usage, pods


def test_a_completed_pod_holds_nothing_of_the_capacity_case_33():
    done = pod("done", gpus=8, start=NOW - DAY, finished=NOW - HOUR)
    (line,) = plan_of([], [done], [node()]).capacity
    assert (line.allocated, line.free) == (0, 8)


def test_cordoned_and_unhealthy_gpus_are_unavailable_and_an_untold_state_is_unknown():
    nodes = [
        node("a", gpus=2, schedulable=False),
        node("b", gpus=4, allocatable={"nvidia.com/gpu": 3.0}),
        node("c", gpus=1, ready=None),
        node("d", gpus=1, ready=False),
    ]
    held = pod("x", gpus=1, node="a")
    (line,) = plan_of([], [held], nodes).capacity
    assert (line.allocated, line.free, line.unavailable, line.unknown) == (1, 3, 1 + 1 + 1, 1)
    assert line.capacity == 8


def test_time_before_anything_was_measured_is_unknown_and_not_free():
    usage, pods = idle_pods()
    cost = plan_of(usage, pods, [node(gpus=2)], devices=[device("G0")]).cost
    assert cost is not None
    assert cost.nodes == pytest.approx(2 * 14 * 24 * 4.0)
    assert cost.workloads == pytest.approx(6 * 4.0)
    assert cost.free == pytest.approx(6 * 4.0)


def test_gpus_without_a_price_stand_outside_the_sums_and_are_counted():
    cost = plan_of(
        [], [], [node(gpus=2), node("b", model="T4", gpus=3)], FakeCatalogue({"A100": 1.0})
    ).cost
    assert cost is not None
    assert cost.unpriced_gpus == 3
    assert cost.nodes == pytest.approx(2 * 14 * 24)


def test_without_any_price_there_is_no_cost_line_and_each_verdict_says_why():
    usage, pods = idle_pods(hours=30)
    made = plan_of(usage, pods, [node()], FakeCatalogue({}), devices=[device("G0")])
    assert made.cost is None
    assert made.saving_money_per_month is None
    assert made.saving_gpu_hours_per_month > 0
    (verdict,) = made.verdicts
    assert verdict.cost is None
    assert verdict.cost_why is not None


def test_a_node_that_left_the_inventory_costs_what_was_used_on_it():
    usage = rows(NOW - 6 * HOUR, NOW, pod="p", gpu="G")
    made = plan_of(usage, [], [node(gpus=1)], devices=[device("G", "L4", "gone")])
    assert all(check.holds for check in made.checks)
    assert made.cost is not None
    assert made.cost.workloads == pytest.approx(6 * 0.8)
    assert any("not in the inventory" in problem for problem in made.problems)


def test_held_hours_beyond_a_nodes_gpus_are_a_failed_check():
    pods = [pod(f"p{i}", gpus=4, start=NOW - 14 * DAY) for i in range(2)]
    made = plan_of([], pods, [node(gpus=4)])
    failed = [check.name for check in made.checks if not check.holds]
    assert "GPU-hours held on node node-a <= its GPUs x hours" in failed


def test_one_primary_is_chosen_and_alternatives_are_never_added():
    start = NOW - 14 * DAY
    levels = {"sm": 0.05, "tensor": 0.0, "dram": 0.01, "memory_gib": 5}
    usage = [
        one
        for i in range(4)
        for one in rows(start, NOW, gpu=f"G{i}", kernel=0.1 if i < 2 else 0.0, **{
            name: value if i < 2 or name == "memory_gib" else 0.0 for name, value in levels.items()
        })
    ]  # fmt: skip
    made, world = profile(usage, [pod(gpus=4, start=start)], nodes=[node(), node("l", model="L4")])
    result = plan([made], world)
    (verdict,) = result.verdicts
    assert verdict.primary is not None
    assert verdict.alternatives
    assert result.saving_money_per_month == verdict.primary.saving.money_per_month
    assert verdict.state == "finding"


def finding(rule, money, confidence=Confidence.HIGH):
    usage, pods = idle_pods()
    world = inventory(pods, [node()])
    (verdict,) = plan(
        build_profiles(usage, [device("G0")], world, Resolution(), WINDOW), world
    ).verdicts
    assert isinstance(verdict.primary, Finding)
    saving = msgspec.structs.replace(
        verdict.primary.saving,
        gpu_hours_per_month=None,
        money_per_month=None if money is None else Money(amount=money),
    )
    return msgspec.structs.replace(verdict.primary, rule=rule, saving=saving, confidence=confidence)


def test_what_is_unused_goes_first_then_fewer_then_smaller_then_spot_then_a_commitment():
    """Each is worth less after those before it, so a larger promise does not come first."""
    order = ["idle", "too_many_gpus", "smaller_gpu", "spot", "reserve"]
    found = [finding(rule, 10.0 * place) for place, rule in enumerate(order, 1)]
    assert [one.rule for one in ranked(found[::-1])] == order


def test_within_one_step_the_primary_is_chosen_by_saving_then_confidence_then_the_rules_order():
    small = finding("share", 10.0)
    large = finding("smaller_gpu", 50.0, Confidence.MEDIUM)
    guess = finding("idle", 900.0, Confidence.LOW)
    assert ranked([small, guess, large]) == [large, small, guess]
    sure, unsure = finding("mig_slice", 10.0), finding("smaller_gpu", 10.0, Confidence.MEDIUM)
    assert ranked([unsure, sure]) == [sure, unsure]
    first, second = finding("too_many_gpus", 10.0), finding("too_many_replicas", 10.0)
    assert ranked([second, first]) == [first, second]


def test_a_finding_without_a_counted_saving_comes_after_every_one_that_has_one():
    spot, rewrite = finding("spot", 1.0, Confidence.MEDIUM), finding("mixed_precision", None)
    assert ranked([rewrite, spot]) == [spot, rewrite]


def test_a_commitment_is_held_back_while_another_rule_has_something_to_say():
    """Also where that rule is not sure: a commitment would keep what it may take away."""
    commitment = finding("reserve", 500.0)
    others = ["compile", "share", "too_many_gpus", "spot", "serving"]
    for rule in others:
        kept, held = without_early_commitments([finding(rule, None, Confidence.LOW), commitment])
        assert [one.rule for one in kept] == [rule]
        assert [(one.rule, one.message.key) for one in held] == [
            ("reserve", "reserve.after_others")
        ]
        assert held[0].message.params["rules"] == rule
        assert held[0].not_chosen == (commitment.message,)


def test_a_commitment_stands_beside_what_leaves_the_gpus_alone():
    aside = [finding(rule, None, Confidence.LOW) for rule in ("health", "time_limit")]
    kept, held = without_early_commitments([*aside, finding("reserve", 500.0)])
    assert len(kept) == 3
    assert held == []


def test_a_low_confidence_finding_counts_no_saving():
    start = NOW - 6 * HOUR
    usage = [one for i in range(8) for one in rows(start, NOW, gpu=f"G{i}", kernel=0.15, sm=0.15)]
    made, world = profile(usage, [pod(gpus=8, start=start)])
    result = plan([made], world)
    assert result.verdicts[0].primary is not None
    assert result.saving_gpu_hours_per_month == 0
    assert result.saving_money_per_month is None


@pytest.mark.parametrize(
    ("usage", "task", "state"),
    [
        ([], TaskClass.TRAINING, "unknown"),
        (rows(NOW - 6 * HOUR, NOW, kernel=1.0, sm=0.9, dram=0.9), TaskClass.TRAINING, "ok"),
        (rows(NOW - 6 * HOUR, NOW, kernel=1.0, sm=0.9), TaskClass.INFERENCE, "watching"),
        (rows(NOW - 6 * HOUR, NOW), TaskClass.TRAINING, "finding"),
    ],
)
def test_every_workload_has_a_state(usage, task, state):
    made, world = profile(usage, [pod(start=NOW - 6 * HOUR)], workload(task=task))
    (verdict,) = plan([made], world).verdicts
    assert verdict.state == state


def test_a_workload_with_half_of_its_data_missing_is_unknown_however_busy_it_is():
    usage = [
        *rows(NOW - 8 * HOUR, NOW - 6 * HOUR, kernel=1.0, last_active=float(NOW)),
        *rows(NOW - HOUR, NOW, kernel=1.0, last_active=float(NOW)),
    ]
    made, world = profile(usage, [pod(start=NOW - 8 * HOUR)])
    assert plan([made], world).verdicts[0].state == "unknown"


def test_a_service_that_is_fine_is_not_watched_for_the_sake_of_a_commitment():
    """That asks for thirty days; everything else for a week."""
    start = NOW - 10 * DAY
    usage = rows(start, NOW, kernel=1.0, sm=0.9, tensor=0.5, dram=0.3)
    made, world = profile(usage, [pod(start=start)], workload("web", "Deployment",
                                                              TaskClass.INFERENCE))  # fmt: skip
    (verdict,) = plan([made], world).verdicts
    silences = {one.rule: one for one in verdict.silences}
    assert silences["reserve"].kind == "watching"
    assert verdict.state == "ok"
    told = leading_silence(verdict)
    assert told is not None
    assert (told.kind, told.rule) == ("fine", "serving")


def test_an_empty_cluster_makes_an_empty_plan():
    made = plan([], inventory())
    assert (made.verdicts, made.capacity, made.cost) == ((), (), None)
    assert all(check.holds for check in made.checks)


def test_problems_and_sources_are_handed_on():
    made = plan([], inventory(), problems=("x.csv: line 3",), sources=("archive",))
    assert made.problems == ("x.csv: line 3",)
    assert made.sources == ("archive",)
