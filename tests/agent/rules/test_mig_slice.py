"""MIG slices that the cluster has: one advice with smaller_gpu, never two."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Silence, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import mig_slice, share, smaller_gpu
from tests.agent.factories import (
    DAY,
    GIB,
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    device,
    node,
    pod,
    profile,
    rows,
    use,
    workload,
)
from tests.agent.rules.test_share import small

SMALL = {"kernel": 0.05, "sm": 0.02, "tensor": 0.01, "dram": 0.02}


def sliced(mig="1g.10gb", count=7, name="node-m"):
    return node(name, model="A100", gpus=1, capacity={f"nvidia.com/mig-{mig}": float(count)})


def both(usage, pods, work=None, *, nodes=None, catalogue=None, **options):
    """What mig_slice and smaller_gpu say of the same job."""
    there = [node(model="A100"), sliced()] if nodes is None else nodes
    made, world = profile(usage, pods, work, nodes=there, **options)
    around = context(world, catalogue)
    answers = mig_slice.RULE.evaluate(made, around), smaller_gpu.RULE.evaluate(made, around)
    for answer in answers:
        for said in (answer.message, *answer.not_chosen, *getattr(answer, "risks", ())):
            assert say(said, strict=True)
    return answers


def seconds(**levels):
    """An hour in which every second was alike, with the width that joint values tell."""
    told = {name: use(level) for name, level in levels.items()}
    width = min(1.0, levels["sm"] / levels["kernel"]) if levels["kernel"] else 0.0
    return {**told, "width": use(width)}


def job(hours=6, *, gpus=1, memory_gib=5, blind=False, **levels):
    """``blind``: means alone are known, nothing second by second."""
    start = NOW - hours * HOUR
    shape = {**SMALL, **levels}
    shown = shape if blind else {"signals": seconds(**shape)}
    usage = [
        one
        for place in range(gpus)
        for one in rows(start, NOW, gpu=f"G{place}", memory_gib=memory_gib, **shown)
    ]
    return usage, [pod(gpus=gpus, start=start)]


def number(answer, name):
    return next(item for item in answer.evidence if item.name == name)


def test_a_slice_that_the_cluster_has_would_do():
    answer, other = both(*job())
    assert isinstance(answer, Finding)
    assert answer.message.key == "mig_slice.fits"
    assert answer.message.params["candidate"] == "A100 1g.10gb"
    assert "nvidia.com/mig-1g.10gb: 1" in answer.change.patch
    assert answer.change.links
    assert answer.change.undo
    # 6 hours of 14 days; the slice is a seventh of the card and takes up to 1.35 times as long
    month = 6 * 730 / (14 * 24)
    longer = 1 - 0.05 + 0.05 * 8
    assert answer.saving.gpu_hours_per_month == pytest.approx(month * (1 - longer / 7))
    assert isinstance(other, Silence)
    assert (other.kind, other.message.key) == (SilenceKind.FINE, "smaller_gpu.see_other")
    assert "mig_slice" in say(other.message)


def test_its_saving_is_the_price_of_the_rest_of_the_card():
    answer, _ = both(*job(14 * 24), workload("nb", "Notebook", TaskClass.NOTEBOOK))
    assert isinstance(answer, Finding)
    assert answer.saving.gpu_hours_per_month == pytest.approx(730 * 6 / 7)
    assert answer.saving.money_per_month is not None
    assert answer.saving.money_per_month.amount == pytest.approx(730 * 4.0 * 6 / 7)


def test_where_a_whole_card_is_better_smaller_gpu_speaks_and_the_slice_is_named():
    answer, other = both(
        *job(), nodes=[node(model="A100"), sliced("3g.40gb", 2), node("l", model="L4")]
    )
    assert isinstance(other, Finding)
    assert other.message.params["candidate"] == "L4"
    assert isinstance(answer, Silence)
    assert answer.message.key == "mig_slice.see_other"
    named = {said.params.get("model") for said in other.not_chosen}
    assert "A100 3g.40gb" in named


@given(
    memory_gib=st.floats(1.0, 70.0), level=st.floats(0.0, 1.0), kernel=st.floats(0.05, 1.0),
    cards=st.sets(st.sampled_from(["L4", "T4", "A40"])), mig=st.sampled_from(["1g.10gb", "3g.40gb"]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_the_two_rules_never_both_speak(memory_gib, level, kernel, cards, mig):
    there = [node(model="A100"), sliced(mig), *(node(f"n-{card}", model=card) for card in cards)]
    answers = both(
        *job(memory_gib=memory_gib, kernel=kernel, sm=kernel * level, dram=kernel * level),
        nodes=there,
    )  # fmt: skip
    assert sum(isinstance(answer, Finding) for answer in answers) <= 1


@pytest.mark.parametrize(("peak_gib", "fires"), [(8.26, True), (8.27, False)])
def test_the_usable_memory_is_exact(peak_gib, fires):
    """9.5 GiB can be used of a 1g.10gb slice: a peak of 8.26 x 1.15 fits."""
    answer, _ = both(*job(memory_gib=peak_gib))
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, answer.message.key) == (SilenceKind.FINE, "mig_slice.none_here")
        assert any(said.key == "fitting.memory" for said in answer.not_chosen)


def test_after_an_oom_kill_the_need_is_a_quarter_more():
    usage, pods = job(memory_gib=7)
    dead = pod("dead", start=NOW - 2 * DAY, finished=NOW - DAY, oom=True, phase="Failed")
    usage += rows(NOW - 2 * DAY, NOW - DAY, pod="dead", memory_gib=7, **SMALL)
    answer, _ = both(usage, [*pods, dead], runs={"ok": pods, "dead": [dead]})
    assert isinstance(answer, Finding)
    assert number(answer, "out of memory seen").value is True
    assert answer.message.params["need"] == pytest.approx(7 * 1.25 * GIB)


def test_where_the_slowdown_eats_the_saving_nothing_is_advised():
    answer, _ = both(*job(kernel=1.0, sm=0.95, tensor=0.5, dram=0.8))
    assert isinstance(answer, Silence)
    assert answer.message.key == "mig_slice.none_here"


def test_where_only_the_lower_end_pays_one_run_is_tried_and_no_saving_counted():
    answer, _ = both(*job(kernel=1.0, sm=0.1, tensor=0.05, dram=0.1))
    assert isinstance(answer, Finding)
    assert answer.message.key in {"mig_slice.try_price", "mig_slice.try_slow"}
    assert answer.confidence == Confidence.LOW
    assert answer.saving.money_per_month is None


def test_one_second_values_make_it_sure():
    usage, pods = small(kernel=0.05, width=0.1, dram=0.05)
    usage = [
        msgspec.structs.replace(one, signals={**one.signals, "tensor": use(0.01)}) for one in usage
    ]
    told, _ = both(usage, pods)
    assert isinstance(told, Finding)
    assert number(told, "p98 of width").passed
    assert told.confidence == Confidence.HIGH


def test_without_one_second_values_a_slice_that_would_pay_is_not_advised():
    answer, other = both(*job(blind=True))
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.UNKNOWN, "mig_slice.no_joint")
    assert set(answer.missing_signals) == {"width", "dram"}
    assert isinstance(other, Silence)
    assert other.message.key == "smaller_gpu.no_other"


def test_without_one_second_values_a_whole_card_that_would_do_is_not_hidden_by_a_slice():
    there = [node(model="A100"), sliced(), node("l", model="L4")]
    answer, other = both(*job(blind=True), nodes=there)
    assert isinstance(other, Finding)
    assert other.message.params["candidate"] == "L4"
    assert isinstance(answer, Silence)
    assert answer.message.key == "mig_slice.see_other"


def test_without_one_second_values_a_slice_that_would_not_do_anyway_is_no_unknown():
    answer, _ = both(*job(memory_gib=60, blind=True))
    assert (answer.kind, answer.message.key) == (SilenceKind.FINE, "mig_slice.none_here")


def test_bursts_that_fill_the_slice_make_it_less_sure():
    answer, _ = both(*small(kernel=0.05, width=0.1, dram=0.05, bursts=0.05))
    assert isinstance(answer, Finding)
    assert not number(answer, "p98 of width").passed
    assert answer.confidence == Confidence.MEDIUM


def test_gpus_of_one_pod_are_not_spread_over_slices():
    answer, _ = both(*job(gpus=2))
    assert isinstance(answer, Silence)
    assert any(said.key == "fitting.peers" for said in answer.not_chosen)


def test_a_cluster_without_slices_is_left_to_share():
    answer, _ = both(*job(), nodes=[node(model="A100")])
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (
        SilenceKind.NOT_APPLICABLE, "mig_slice.no_other",
    )  # fmt: skip


def test_share_and_mig_slice_never_both_speak():
    for there in ([node()], [node(), sliced()]):
        made, world = profile(*small(), nodes=there)
        around = context(world)
        answers = [rule.RULE.evaluate(made, around) for rule in (share, mig_slice)]
        assert sum(isinstance(answer, Finding) for answer in answers) == 1


@pytest.mark.parametrize(
    ("work", "kind", "said"),
    [
        (workload(preallocates=True), SilenceKind.UNKNOWN, "mig_slice.preallocates"),
        (workload("web", "Deployment", TaskClass.INFERENCE), SilenceKind.WATCHING,
         "gate.service_days"),
    ],
)  # fmt: skip
def test_below_the_gates_nothing_is_said(work, kind, said):
    answer, _ = both(*job(), work)
    assert (answer.kind, answer.message.key) == (kind, said)


def test_without_memory_price_or_model_it_is_unknown():
    assert both(*job(memory_gib=None))[0].message.key == "mig_slice.no_memory"
    priceless = both(*job(), catalogue=FakeCatalogue(prices={"L4": 0.8}))[0]
    assert priceless.message.key == "money.no_price"
    strange = both(
        *job(), devices=[device("G0", model="Mystery")], nodes=[node(model="Mystery"), sliced()]
    )[0]
    assert strange.message.key == "mig_slice.no_model"


def test_a_service_that_answers_must_have_room_for_its_peaks():
    web = workload("web", "Deployment", TaskClass.INFERENCE)
    light, _ = both(*job(8 * 24, kernel=0.05, sm=0.05, dram=0.05, tensor=0.05), web)
    assert isinstance(light, Finding)
    heavy, _ = both(*job(8 * 24, kernel=0.2, sm=0.2, dram=0.02), web)
    assert isinstance(heavy, Silence)
    assert any(said.key == "fitting.latency" for said in heavy.not_chosen)


def test_a_slice_whose_figures_were_not_confirmed_is_advised_less_surely():
    usage, pods = small(kernel=0.05, width=0.1, dram=0.05)
    usage = [
        msgspec.structs.replace(one, signals={**one.signals, "tensor": use(0.01)}) for one in usage
    ]
    doubtful = FakeCatalogue()
    doubtful.devices = tuple(
        msgspec.structs.replace(
            card,
            mig=tuple(msgspec.structs.replace(one, unconfirmed=True) for one in card.mig),
        )
        for card in doubtful.devices
    )
    sure, unsure = (both(usage, pods, catalogue=one)[0] for one in (FakeCatalogue(), doubtful))
    assert (sure.confidence, unsure.confidence) == (Confidence.HIGH, Confidence.MEDIUM)
    assert any("not confirmed" in item.formula for item in unsure.evidence)
