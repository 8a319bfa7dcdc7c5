"""What must hold of all rules together, whatever the workload."""

import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Plan, Verdict
from gputailor_agent.model.profile import Window
from gputailor_agent.planner import make_plan
from gputailor_agent.planner.choosing import counts
from gputailor_agent.rules import evaluate_all, registry
from tests.agent.factories import (
    DAY,
    NOW,
    PRICES,
    FakeCatalogue,
    context,
    device,
    node,
    pod,
    profile,
    rows,
    workload,
)
from tests.agent.rules.advice_parts import no_stronger, without

WINDOW = Window(start=NOW - 14 * DAY, end=NOW)
SIGNALS = ("kernel", "sm", "tensor", "dram", "fp32", "fp64")
#: Rules whose advice leaves a workload with fewer or smaller GPUs.
SHRINKING = {
    "idle", "idle_notebook", "standby", "too_many_gpus", "too_many_replicas", "smaller_gpu",
    "mig_slice", "share",
}  # fmt: skip
NODES = [node("node-a", model="A100", gpus=8), node("l", model="L4"), node("t", model="T4"),
         node("x", model="A40")]  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One workload: GPUs of a kind, of which the first ``used`` work alike, the others never."""

    gpus: int = 1
    used: int = 1
    model: str = "A100"
    kernel: float = 0.5
    sm: float = 0.3
    tensor: float = 0.1
    dram: float = 0.2
    memory_gib: float = 8.0
    service: bool = False
    replicas: int = 1

    def made(self, order: random.Random | None = None):
        """Profile and inventory; ``order`` shuffles whatever has an order."""
        return _made(self) if order is None else _build(self, order)

    def plan(self, catalogue: Any = None) -> Plan:
        made, world = self.made()
        return make_plan([made], context(world, catalogue), window=WINDOW, made_at=float(NOW))

    def verdict(self, catalogue: Any = None) -> Verdict:
        (verdict,) = self.plan(catalogue).verdicts
        return verdict

    def busier(self, factor: float) -> "Job":
        """The same job with more of everything that is a share of time."""
        return replace(
            self,
            **{
                name: min(1.0, getattr(self, name) * factor)
                for name in ("kernel", "sm", "tensor", "dram")
            },
        )


def _build(job: Job, order: random.Random | None = None):
    days = 8 if job.service else 1
    start = NOW - days * DAY
    total = {"A100": 80.0, "L4": 24.0, "T4": 16.0, "A40": 48.0}[job.model]
    names = [f"job-{place}" for place in range(job.replicas)]
    usage, devices = [], []
    for name in names:
        for gpu in range(job.gpus):
            works = float(gpu < job.used)
            uuid = f"{name}-{gpu}"
            devices.append(device(uuid, job.model, "node-a"))
            usage += rows(
                start, NOW, pod=name, gpu=uuid, kernel=works * job.kernel,
                sm=works * job.sm, tensor=works * job.tensor, dram=works * job.dram,
                fp64=0.0, memory_gib=job.memory_gib, total_gib=total,
            )  # fmt: skip
    nodes = [node("node-a", model=job.model, gpus=16), *NODES[1:]]
    pods = [pod(name, gpus=job.gpus, start=start) for name in names]
    if order is not None:
        for some in (usage, devices, nodes, pods):
            order.shuffle(some)
    kind, task = ("Deployment", TaskClass.INFERENCE) if job.service else (
        "Job", TaskClass.TRAINING)  # fmt: skip
    work = workload("job", kind, task, framework="pytorch")
    return profile(usage, pods, work, devices=devices, nodes=nodes, window=WINDOW)


@cache
def _made(job: Job):
    """Built once: many properties look at the same jobs."""
    return _build(job)


@st.composite
def jobs(draw):
    """Jobs and services of one to four GPUs; no signal is above that of kernels."""
    gpus = draw(st.sampled_from([1, 2, 4]))
    kernel = draw(st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0]))
    return Job(
        gpus=gpus,
        used=draw(st.integers(0, gpus)),
        kernel=kernel,
        sm=kernel * draw(st.sampled_from([0.05, 0.3, 0.7])),
        tensor=kernel * draw(st.sampled_from([0.0, 0.2])),
        dram=kernel * draw(st.sampled_from([0.02, 0.2, 0.7])),
        memory_gib=draw(st.sampled_from([4.0, 10.0, 30.0, 70.0])),
        service=draw(st.booleans()),
        replicas=draw(st.sampled_from([1, 1, 2])),
    )


def shrinks(verdict: Verdict) -> bool:
    """Whether a counted finding would leave it with less."""
    found = [verdict.primary, *verdict.alternatives]
    return any(one is not None and one.rule in SHRINKING and counts(one) for one in found)


def said(answers):
    """What is said, without amounts of money."""
    return [
        (one.rule, one.message.key, one.confidence if isinstance(one, Finding) else one.kind)
        for one in answers
    ]


@given(jobs(), st.sampled_from([1.2, 2.0, 5.0]))
@settings(max_examples=25, deadline=None)
def test_more_use_never_turns_a_keep_into_a_shrink(job, factor):
    if not shrinks(job.verdict()):
        assert not shrinks(job.busier(factor).verdict())


@given(jobs())
@settings(max_examples=15, deadline=None)
def test_one_more_gpu_that_works_never_turns_a_keep_into_a_shrink(job):
    if not shrinks(job.verdict()) and job.used < job.gpus:
        assert not shrinks(replace(job, used=job.used + 1).verdict())


@given(jobs(), st.sampled_from([0.9, 0.5, 0.1]))
@settings(max_examples=25, deadline=None)
def test_a_cheaper_catalogue_never_lowers_a_saving(job, factor):
    """The present card costs what it did; all others cost less."""
    cheaper = {key: price * (1 if key == job.model else factor) for key, price in PRICES.items()}
    before, after = job.plan(), job.plan(FakeCatalogue(cheaper))
    if before.saving_money_per_month is not None:
        assert after.saving_money_per_month is not None
        now, then = before.saving_money_per_month.amount, after.saving_money_per_month.amount
        assert then >= now - 1e-6


@given(jobs(), st.sampled_from([0.001, 0.9, 150.0]))
@settings(max_examples=20, deadline=None)
def test_another_unit_of_money_changes_no_answer(job, rate):
    other = FakeCatalogue({key: price * rate for key, price in PRICES.items()}, currency="XYZ")
    made, world = job.made()
    ours = evaluate_all(made, context(world))
    theirs = evaluate_all(made, context(world, other))
    assert said(theirs) == said(ours)
    for one, same in zip(ours, theirs, strict=True):
        if isinstance(one, Finding) and one.saving.money_per_month is not None:
            assert isinstance(same, Finding)
            assert same.saving.money_per_month is not None
            amount = one.saving.money_per_month.amount
            assert same.saving.money_per_month.amount == pytest.approx(amount * rate)
            assert same.saving.money_per_month.currency == "XYZ"


@given(jobs(), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_permuting_pods_gpus_nodes_and_hours_changes_nothing(job, order):
    made, world = job.made()
    mixed, same = job.made(order)
    assert evaluate_all(mixed, context(same)) == evaluate_all(made, context(world))


@given(jobs(), st.sampled_from(SIGNALS))
@settings(max_examples=25, deadline=None)
def test_an_unknown_signal_never_makes_a_finding_that_no_known_value_could(job, lost):
    made, world = job.made()
    around = context(world)
    blind = {
        one.rule for one in evaluate_all(without(made, lost), around) if isinstance(one, Finding)
    }
    possible = {one.rule for one in evaluate_all(made, around) if isinstance(one, Finding)}
    for level in (0.0, 0.02, 0.3, 0.6, 1.0):
        if blind <= possible or lost not in {"kernel", "sm", "tensor", "dram"}:
            break
        told, there = replace(job, **{lost: min(job.kernel, level)}).made()
        answers = evaluate_all(told, context(there))
        possible |= {one.rule for one in answers if isinstance(one, Finding)}
    assert blind <= possible


@given(jobs(), st.sampled_from((*SIGNALS, "encoder", "decoder")))
@settings(max_examples=25, deadline=None)
def test_an_unknown_signal_makes_no_finding_surer_more_urgent_or_worth_more(job, lost):
    made, world = job.made()
    around = context(world)
    answers = zip(
        evaluate_all(made, around), evaluate_all(without(made, lost), around), strict=True
    )
    for whole, less in answers:
        if isinstance(whole, Finding):
            assert no_stronger(less, whole), (lost, whole.message, less.message)


@given(jobs())
@settings(max_examples=20, deadline=None)
def test_without_any_signal_no_rule_finds_anything_to_shrink(job):
    made, world = job.made()
    for signal in (*SIGNALS, "encoder", "decoder"):
        made = without(made, signal)
    answers = evaluate_all(made, context(world))
    assert not [one.rule for one in answers if isinstance(one, Finding) and one.rule in SHRINKING]


@given(jobs())
@settings(max_examples=20, deadline=None)
def test_each_finding_is_whole(job):
    """Gate, numbers, confidence with its reason, change, saving or why not, interval, undo."""
    made, world = job.made()
    for one in evaluate_all(made, context(world)):
        assert one.message.key
        if not isinstance(one, Finding):
            continue
        assert one.evidence
        assert one.change.kind
        assert one.change.target
        saving = one.saving
        assert saving.gpu_hours_per_month is not None or saving.why is not None, one.rule
        if one.confidence is Confidence.LOW:
            assert saving.money_per_month is None, one.rule
        if one.slowdown is not None:
            assert 0 <= one.slowdown.low <= one.slowdown.high


def applied(job: Job, finding: Finding) -> Job | None:
    """The job once the change is made; None where nothing is left of it.

    A card with less of a resource is busier by as much; kernels run for no more of the time than
    there is, and the work takes longer instead.
    """
    params = finding.change.params
    if finding.change.kind == "release":
        return None
    if finding.change.kind == "set_gpus":
        return replace(job, gpus=int(params["gpus"]))
    if finding.change.kind == "set_replicas":
        return replace(job, replicas=int(params["replicas"]))
    if finding.change.kind == "set_gpu_type" and not params["mig_profile"]:
        model = str(params["model"])
        slower = finding.slowdown.high if finding.slowdown is not None else 1.0
        return replace(job.busier(slower), model=model)
    return job


def monthly_cost(job: Job) -> float:
    return job.gpus * job.replicas * PRICES[job.model] * 730


@given(jobs())
@settings(max_examples=25, deadline=None)
def test_advice_that_is_applied_and_looked_at_again_comes_to_an_end(job):
    """No ping-pong: each step costs less, and all steps together save no more than the bill."""
    bill, saved, now = monthly_cost(job), 0.0, job
    for _ in range(6):
        primary = now.verdict().primary
        if primary is None or not counts(primary):
            break
        money = primary.saving.money_per_month
        then = applied(now, primary)
        if money is None or then == now:
            break
        saved += money.amount
        if then is None:
            break
        assert monthly_cost(then) < monthly_cost(now), (primary.rule, now)
        now = then
    else:
        pytest.fail(f"no end after six steps: {now}")
    assert saved <= bill + 1e-6


def test_the_rules_that_shrink_are_rules():
    assert {rule.id for rule in registry()} >= SHRINKING


def test_what_the_properties_look_at_makes_rules_speak():
    """Else they would hold of silence."""
    spoke = set()
    for job in (
        Job(gpus=4, used=0, kernel=0.5),
        Job(gpus=4, used=1, kernel=0.7, sm=0.3),
        Job(kernel=0.05, sm=0.01, tensor=0.0, dram=0.002, memory_gib=4.0),
        Job(kernel=1.0, sm=0.1, dram=0.1),
        Job(kernel=0.3, sm=0.02, tensor=0.0, dram=0.1, service=True, replicas=2),
        Job(gpus=2, used=0, service=True, kernel=0.0),
    ):
        made, world = job.made()
        answers = evaluate_all(made, context(world))
        spoke |= {one.rule for one in answers if isinstance(one, Finding)}
    assert {"idle", "too_many_gpus", "smaller_gpu", "compile", "serving"} <= spoke
