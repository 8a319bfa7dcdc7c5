"""Cases of the field that are about judging, by their numbers, from rows and objects to the report.

Nothing between them is chosen by the test: identity, class, framework, profile, rules, plan and
words are the agent's own.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.assessment import assess
from gputailor_agent.model.inventory import Owner, OwnerReference, Pod
from gputailor_agent.model.judgement import Finding, Plan, SilenceKind, Verdict
from gputailor_agent.model.profile import Window
from gputailor_agent.reports import markdown, plan_page
from gputailor_agent.reports.units import ratio
from tests.agent.factories import (
    CLUSTER,
    DAY,
    GIB,
    HOUR,
    NOW,
    FakeCatalogue,
    device,
    inventory,
    node,
    pod,
    row,
    rows,
)
from tests.agent.rules.service_parts import commanded

WINDOW = Window(start=NOW - 14 * DAY, end=NOW)


def owned(pods: list[Pod], kind: str, name: str) -> tuple[list[Pod], tuple[Owner, ...]]:
    """The pods of one object; a Deployment's by way of its ReplicaSet."""
    version = "batch/v1" if kind == "Job" else "apps/v1"
    top = OwnerReference(api_version=version, kind=kind, name=name, uid=f"uid-{name}")
    direct, chain = top, [_owner(top)]
    if kind == "Deployment":
        middle = f"{name}-7d4b9c6f5d"
        direct = OwnerReference(
            api_version="apps/v1", kind="ReplicaSet", name=middle, uid=f"uid-{middle}"
        )
        chain.append(_owner(direct, top))
    members = [msgspec.structs.replace(one, owners=(direct,)) for one in pods]
    return members, tuple(chain)


def _owner(reference: OwnerReference, *above: OwnerReference) -> Owner:
    return Owner(
        cluster=CLUSTER, api_version=reference.api_version, kind=reference.kind,
        namespace="team-a", name=reference.name, uid=reference.uid, owners=above,
    )  # fmt: skip


def plan_of(
    usage: Any, pods: list[Pod], kind: str = "Job", name: str = "train", *, nodes: Any = None,
    window: Window = WINDOW,
) -> Plan:  # fmt: skip
    """The plan of a cluster with one object and its pods."""
    members, owners = owned(pods, kind, name)
    there = [node("node-a", gpus=16), node("node-l", model="L4")] if nodes is None else nodes
    world = msgspec.structs.replace(inventory(members, there), owners=owners)
    devices = [device(uuid) for uuid in sorted({one.key.gpu_uuid for one in usage})]
    return assess(
        usage, devices, world, window=window, now=NOW, catalogue=FakeCatalogue()
    ).plan  # fmt: skip


def only(plan: Plan) -> Verdict:
    (verdict,) = plan.verdicts
    return verdict


def found(verdict: Verdict) -> dict[str, Finding]:
    every = [verdict.primary, *verdict.alternatives]
    return {one.rule: one for one in every if one is not None}


def silent(verdict: Verdict) -> dict[str, Any]:
    return {one.rule: one for one in verdict.silences}


def report(plan: Plan) -> str:
    return markdown.draw(plan_page.compose(plan)).replace("\\", "")


def eight(levels: list[float], *, hours: int = 20) -> tuple[list[Any], list[Pod]]:
    """One pod with a GPU for each level."""
    start = NOW - hours * HOUR
    usage = [
        one
        for place, level in enumerate(levels)
        for one in rows(start, NOW, gpu=f"G{place}", kernel=level, sm=level)
    ]
    return usage, [pod(gpus=len(levels), start=start)]


def replicas(levels: list[float], *, days: int = 8) -> tuple[list[Any], list[Pod]]:
    start = NOW - days * DAY
    usage = [
        one
        for place, level in enumerate(levels)
        for one in rows(start, NOW, pod=f"web-{place}", gpu=f"G{place}", kernel=level, sm=level)
    ]
    return usage, [pod(f"web-{place}", start=start) for place in range(len(levels))]


def test_case_18_one_idle_gpu_of_eight_is_one_gpu_too_many_and_nothing_is_released():
    plan = plan_of(*eight([0.9] * 7 + [0.0]))
    primary = only(plan).primary
    assert primary is not None
    assert primary.rule == "too_many_gpus"
    assert primary.change.params["gpus"] == 7
    assert "idle" not in found(only(plan))
    assert silent(only(plan))["idle"].kind == SilenceKind.FINE
    assert "release" not in {one.change.kind for one in found(only(plan)).values()}
    assert "--replicas=0" not in report(plan)


def test_case_18_one_idle_replica_of_ten_leaves_nine():
    plan = plan_of(*replicas([0.3] * 9 + [0.0]), "Deployment", "web")
    primary = only(plan).primary
    assert primary is not None
    assert (primary.rule, primary.change.params["replicas"]) == ("too_many_replicas", 9)
    assert primary.change.command.endswith("scale deployment/web --replicas=9")
    assert primary.saving.gpu_hours_per_month == pytest.approx(730)
    assert {"idle", "standby"} <= set(silent(only(plan)))


@pytest.mark.parametrize(("gpus", "level"), [(8, 1.0), (4, 0.99)])
def test_case_19_many_gpus_at_full_use_are_full_neither_an_eighth_nor_four_times(gpus, level):
    plan = plan_of(*eight([level] * gpus))
    assert only(plan).mean_kernel == pytest.approx(level)
    assert only(plan).mean_sm == pytest.approx(level)
    page = report(plan)
    assert f"| {ratio(level)} |" in page
    assert "12.5 %" not in page
    assert "396" not in page
    assert "too_many_gpus" in silent(only(plan))


def test_case_20_a_job_that_did_nothing_at_all_is_advised_by_its_zeros():
    plan = plan_of(*eight([0.0], hours=24))
    primary = only(plan).primary
    assert primary is not None
    assert primary.rule == "idle"
    assert only(plan).mean_kernel == 0.0
    assert primary.saving.gpu_hours_per_month is not None
    assert primary.saving.gpu_hours_per_month > 0


def test_case_20_zeros_count_in_the_quantile_that_sizes():
    """Half of the time at zero: with those dropped p95 of 0.2 would be what half of it hides."""
    start = NOW - 20 * HOUR
    usage = [
        row(hour, gpu=f"G{place}", kernel=level, sm=level)
        for place in range(4)
        for hour in range(start, NOW, HOUR)
        for level in (0.2 if hour == start else 0.0,)
    ]
    verdict = only(plan_of(usage, [pod(gpus=4, start=start)]))
    fewer = found(verdict)["too_many_gpus"]
    (sum_p95,) = [one for one in fewer.evidence if one.name.startswith("sum of p95")]
    assert sum_p95.value == pytest.approx(0.0, abs=4 * 0.051)  # one hour of twenty is the 95th


def test_case_21_copying_memory_for_most_of_the_time_makes_no_memory_need():
    start = NOW - 20 * HOUR
    usage = rows(start, NOW, kernel=0.2, sm=0.1, tensor=0.0, dram=0.02, memcopy=0.9)
    verdict = only(plan_of(usage, [pod(start=start)]))
    assert verdict.memory_peak_bytes == 8 * GIB
    smaller = found(verdict)["smaller_gpu"]
    for one in smaller.evidence:
        assert one.name != "memory needed" or one.value == pytest.approx(8 * GIB * 1.15, rel=1e-9)
    assert "memory_bound" in silent(verdict)


def test_case_22_the_peak_of_the_first_hour_is_the_need_not_what_comes_after():
    """70 GiB while it starts, 8 GiB for the other 19 hours: an L4 of 24 GiB would not do."""
    start = NOW - 20 * HOUR
    light = {"kernel": 0.2, "sm": 0.1, "tensor": 0.0, "dram": 0.02}
    usage = [*rows(start, start + HOUR, memory_gib=70, **light),
             *rows(start + HOUR, NOW, memory_gib=8, **light)]  # fmt: skip
    verdict = only(plan_of(usage, [pod(start=start)]))
    assert verdict.memory_peak_bytes == 70 * GIB
    smaller = silent(verdict)["smaller_gpu"]
    assert smaller.kind == SilenceKind.FINE
    (peak,) = [one for one in smaller.evidence if one.name == "memory peak"]
    assert peak.value == 70 * GIB


def test_case_23_a_gap_is_unknown_and_nobody_is_told_zero_percent():
    start = NOW - 20 * HOUR
    usage = rows(start, start + 4 * HOUR, kernel=0.8, sm=0.7)  # and then nobody looked
    plan = plan_of(usage, [pod(start=start)])
    assert not found(only(plan))
    assert only(plan).state == "unknown"
    assert silent(only(plan))["idle"].kind == SilenceKind.UNKNOWN
    assert only(plan).mean_kernel == pytest.approx(0.8)
    assert "| 0.0 %" not in report(plan)
    assert plan.saving_gpu_hours_per_month == 0


def test_case_23_a_pod_that_nobody_measured_has_no_figure_at_all():
    plan = plan_of([], [pod(start=NOW - 20 * HOUR)])
    assert not found(only(plan))
    assert only(plan).mean_kernel is None
    assert only(plan).state == "unknown"


def serving_pods(**container: Any) -> list[Pod]:
    (one,) = commanded([pod("llm-0", start=NOW - 8 * DAY)])
    spec = msgspec.structs.replace(one.containers[0], **container)
    return [msgspec.structs.replace(one, containers=(spec,))]


def test_case_24_vllm_that_holds_nine_tenths_of_the_memory_is_not_judged_by_it():
    usage = rows(NOW - 8 * DAY, NOW, pod="llm-0", kernel=0.4, sm=0.2, tensor=0.1, dram=0.2,
                 memory_gib=72)  # fmt: skip
    pods = serving_pods(
        image="vllm/vllm-openai:v0.6.3", args=("serve", "m", "--gpu-memory-utilization", "0.9")
    )
    verdict = only(plan_of(usage, pods, "Deployment", "llm"))
    assert verdict.workload.preallocates
    for rule in ("smaller_gpu", "share", "memory_bound"):
        silence = silent(verdict)[rule]
        assert (silence.kind, silence.message.key) == (SilenceKind.UNKNOWN, f"{rule}.preallocates")
    assert "mig_slice" in silent(verdict)


@pytest.mark.parametrize(("days", "judged"), [(6, False), (7, True)])
def test_case_28_a_service_is_downsized_after_a_whole_week_with_its_weekend_and_not_before(
    days, judged
):
    """Quiet since Saturday: what it needs on a Monday nobody has seen before the week is over."""
    start = NOW - days * DAY
    usage = rows(start, NOW, pod="web-0", kernel=0.1, sm=0.05, tensor=0.0, dram=0.01)
    verdict = only(plan_of(usage, [pod("web-0", start=start)], "Deployment", "web"))
    assert ("smaller_gpu" in found(verdict)) is judged
    if not judged:
        silence = silent(verdict)["smaller_gpu"]
        assert silence.kind == SilenceKind.WATCHING
        assert silence.ready_at == NOW + DAY


@given(
    before=st.lists(
        st.tuples(st.integers(1, 20 * 24), st.floats(0, 1), st.sampled_from([1.0, 60.0, 79.0])),
        max_size=6,
        unique_by=lambda one: one[0],
    )
)
@settings(max_examples=25, deadline=None)
def test_case_29_whatever_lies_before_the_window_changes_no_word_of_the_plan(before):
    usage, pods = eight([0.3], hours=3 * 24)
    window = Window(start=NOW - 2 * DAY, end=NOW)
    older = [
        row(NOW - 2 * DAY - hours * HOUR, gpu="G0", kernel=level, sm=level, memory_gib=gib)
        for hours, level, gib in before
    ]
    inside = [one for one in usage if one.key.hour >= window.start]
    assert plan_of([*older, *inside], pods, window=window) == plan_of(inside, pods, window=window)


def test_case_32_what_workloads_cost_and_what_is_free_adds_up_to_the_nodes():
    usage, pods = eight([0.9] * 4, hours=48)
    plan = plan_of(usage, pods, nodes=[node("node-a", gpus=8), node("node-l", model="L4", gpus=2)])
    cost = plan.cost
    assert cost is not None
    assert plan.checks
    assert all(check.holds for check in plan.checks)
    assert cost.nodes == pytest.approx(14 * 24 * (8 * 4.0 + 2 * 0.8))
    assert cost.workloads + cost.free + cost.unavailable + cost.unknown == pytest.approx(cost.nodes)
    assert cost.workloads == pytest.approx(48 * 4 * 4.0)
