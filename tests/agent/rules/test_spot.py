"""Spot: who may be interrupted, what interruptions cost, and what is not known."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.inventory import ContainerSpec, Outcome, TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, SilenceKind
from gputailor_agent.rules.checkpoints import checkpoint_sign
from gputailor_agent.rules.interruptions import best_interval, pays_from, time_factor
from gputailor_agent.rules.spot import RULE
from tests.agent.factories import DAY, HOUR, NOW, PRICES, FakeCatalogue, node, pod, rows, workload
from tests.agent.rules.advice_parts import judged, key, number

KARPENTER = {"karpenter.sh/capacity-type": "on-demand"}
RARE = {"hours_between_interruptions": 24.0}


class SpotCatalogue(FakeCatalogue):
    """The five cards, with spot at a share of the price (None: no spot price)."""

    def __init__(self, share=0.4):
        super().__init__()
        self.share = share

    def price(self, spec, *, capacity_type="on-demand", **place):
        on_demand = super().price(spec, **place)
        if capacity_type != "spot" or on_demand is None:
            return on_demand
        if self.share is None:
            return None
        amount = PRICES[spec.key] * self.share
        return msgspec.structs.replace(on_demand, amount_per_gpu_hour=amount, kind="spot")


def job(args=("--resume",), *, kind="Job", labels=KARPENTER, capacity="on-demand", hours=14 * 24,
        catalogue=None, thresholds=RARE, task=TaskClass.TRAINING, **fields):  # fmt: skip
    start = NOW - hours * HOUR
    one = pod(start=start)
    container = msgspec.structs.replace(one.containers[0], args=tuple(args))
    members = [msgspec.structs.replace(one, containers=(container,))]
    return judged(
        RULE, rows(start, NOW, kernel=0.9), members, workload(kind=kind, task=task, **fields),
        nodes=[node(capacity_type=capacity, labels=labels)],
        catalogue=catalogue or SpotCatalogue(), thresholds=thresholds,
    )  # fmt: skip


def test_a_job_that_resumes_would_pay_on_spot():
    answer = job()
    assert isinstance(answer, Finding)
    assert key(answer) == "spot.pays"
    tau = math.sqrt(2 * 60 * 24 * HOUR)
    longer = 1 + 60 / tau + (tau / 2 + 600) / (24 * HOUR)
    assert answer.message.params["tau"] == pytest.approx(tau)
    assert number(answer, "cost on spot").value == pytest.approx(0.4 * longer)
    assert answer.saving.money_per_month is not None
    assert answer.saving.money_per_month.amount == pytest.approx(730 * 4.0 * (1 - 0.4 * longer))
    assert answer.saving.gpu_hours_per_month == 0.0
    assert answer.slowdown is not None
    assert answer.slowdown.high == pytest.approx(longer)


def test_the_patch_selects_spot_nodes_by_the_label_of_this_cloud():
    gke = job(labels={"cloud.google.com/gke-nodepool": "gpu"}, kind="CronJob")
    karpenter, bare = job(), job(labels={})
    assert isinstance(gke, Finding)
    assert isinstance(karpenter, Finding)
    assert isinstance(bare, Finding)
    assert "cloud.google.com/gke-spot: 'true'" in gke.change.patch
    assert "karpenter.sh/capacity-type: spot" in karpenter.change.patch
    assert bare.change.patch == ""


def test_the_cost_ratio_is_exact():
    tau = math.sqrt(2 * 60 * 24 * HOUR)
    longer = time_factor(60, 600, 24 * HOUR, tau)
    at = job(catalogue=SpotCatalogue(0.7 / longer - 1e-9))
    above = job(catalogue=SpotCatalogue(0.7 / longer + 1e-9))
    assert isinstance(at, Finding)
    assert (above.kind, key(above)) == (SilenceKind.FINE, "spot.dear")


def test_without_a_spot_price_nothing_is_quantified():
    answer = job(catalogue=SpotCatalogue(None))
    assert isinstance(answer, Finding)
    assert key(answer) == "spot.try_no_price"
    assert (answer.confidence, answer.saving.money_per_month) == (Confidence.LOW, None)
    assert answer.saving.why is not None
    assert answer.saving.why.key == "spot.no_price"


def test_without_a_rate_of_interruptions_the_one_that_would_pay_is_named():
    answer = job(thresholds=None)
    assert isinstance(answer, Finding)
    assert key(answer) == "spot.try_no_rate"
    assert answer.saving.money_per_month is None
    least = answer.message.params["between"]
    assert isinstance(least, float)
    longer = time_factor(60, 600, least, best_interval(60, least))
    assert 0.4 * longer == pytest.approx(0.7)


def test_without_any_sign_of_checkpoints_it_is_told_to_add_them_first():
    answer = job(args=("--epochs", "90"))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "spot.no_checkpoints")
    annotated = job(args=(), annotations={"gputailor.io/checkpoints": "hourly"})
    assert isinstance(annotated, Finding)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"kind": "Pod"}, SilenceKind.NOT_APPLICABLE, "spot.bare_pod"),
        ({"kind": "Deployment"}, SilenceKind.NOT_APPLICABLE, "spot.bare_pod"),
        ({"task": TaskClass.INFERENCE}, SilenceKind.NOT_APPLICABLE, "spot.service"),
        ({"task": TaskClass.NOTEBOOK}, SilenceKind.NOT_APPLICABLE, "spot.service"),
        ({"capacity": "spot"}, SilenceKind.NOT_APPLICABLE, "spot.already"),
        ({"capacity": "reserved"}, SilenceKind.NOT_APPLICABLE, "spot.reserved"),
        ({"capacity": ""}, SilenceKind.UNKNOWN, "spot.unknown_capacity"),
    ],
)
def test_who_is_not_asked(options, kind, said):
    answer = job(**options)
    assert (answer.kind, key(answer)) == (kind, said)


@pytest.mark.parametrize(("seconds", "fires"), [(HOUR, True), (HOUR - 60, False)])
def test_less_than_a_gpu_hour_is_not_worth_it(seconds, fires):
    start = NOW - seconds
    one = pod(start=start)
    container = msgspec.structs.replace(one.containers[0], args=("--resume",))
    answer = judged(
        RULE, rows(NOW - HOUR, NOW, seconds=seconds, kernel=0.9),
        [msgspec.structs.replace(one, containers=(container,))],
        nodes=[node(capacity_type="on-demand")], catalogue=SpotCatalogue(), thresholds=RARE,
    )  # fmt: skip
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert key(answer) == "spot.small"


def test_what_only_fails_is_not_sent_where_it_is_interrupted_as_well():
    start = NOW - 6 * HOUR
    answer = judged(
        RULE, rows(start, NOW, kernel=0.9), [pod(start=start)],
        outcomes={"run-1": Outcome.FAILED}, nodes=[node(capacity_type="on-demand")],
    )  # fmt: skip
    assert key(answer) == "gate.only_failed"


@pytest.mark.parametrize(
    "args",
    [
        ["--resume"],
        ["--resume", "auto"],
        ["--resume_from_checkpoint=latest"],
        ["--checkpoint-dir", "/ckpt"],
        ["--ckpt-every", "500"],
        ["--save_steps", "500"],
        ["--save-interval=1000"],
        ["--trainer.checkpoint_interval", "5"],
        ["--auto-resume"],
    ],
)
def test_arguments_that_say_that_state_is_saved(args):
    assert checkpoint_sign(ContainerSpec(name="c", args=tuple(args)), {}).startswith("argument")


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--gradient_checkpointing"],
        ["--activation-checkpoint-interval", "2"],
        ["--load-checkpoint-dir", "/model"],
        ["--init-checkpoint-path", "/model"],
        ["--resume=false"],
        ["--resume_from_checkpoint", "none"],
        ["--save_strategy", "no"],
        ["--presumed", "1"],
        ["checkpoint-dir"],
    ],
)
def test_arguments_that_do_not(args):
    assert checkpoint_sign(ContainerSpec(name="c", args=tuple(args)), {}) == ""


def test_variables_and_the_annotation_say_so_too():
    told = ContainerSpec(name="c", env={"CHECKPOINT_DIR": "/ckpt", "TOKEN": "x"})
    assert checkpoint_sign(told, {}) == "variable CHECKPOINT_DIR"
    assert checkpoint_sign(told, {"gputailor.io/checkpoints": "no"}) == ""
    off = ContainerSpec(name="c", env={"RESUME": "0"})
    assert checkpoint_sign(off, {}) == ""


times = st.floats(1.0, 1e5)
none_or_some = st.one_of(st.just(0.0), st.floats(0.001, 1e4))


@given(checkpoint=times, restart=st.floats(0.0, 1e5), between=times, other=st.floats(0.1, 10.0))
def test_no_other_interval_is_better_than_the_best(checkpoint, restart, between, other):
    best = best_interval(checkpoint, between)
    least = time_factor(checkpoint, restart, between, best)
    tried = time_factor(checkpoint, restart, between, max(checkpoint, best * other))
    assert tried >= least - 1e-9 * least


@given(checkpoint=none_or_some, restart=none_or_some, ratio=st.floats(0.05, 0.69))
def test_interruptions_as_rare_as_named_cost_exactly_the_limit(checkpoint, restart, ratio):
    least = pays_from(checkpoint, restart, ratio, 0.7)
    assert least is not None
    if least > 0:
        factor = 1 + math.sqrt(2 * checkpoint / least) + restart / least
        assert ratio * factor == pytest.approx(0.7, rel=1e-6)


@given(scale=st.floats(0.01, 100.0))
def test_other_units_of_time_change_nothing(scale):
    tau = best_interval(60, DAY)
    assert best_interval(60 * scale, DAY * scale) == pytest.approx(tau * scale)
    assert time_factor(60 * scale, 600 * scale, DAY * scale, tau * scale) == pytest.approx(
        time_factor(60, 600, DAY, tau)
    )


def test_spot_that_is_as_dear_never_pays():
    assert pays_from(60, 600, 0.7, 0.7) is None
