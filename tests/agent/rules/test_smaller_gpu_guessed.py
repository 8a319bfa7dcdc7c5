"""Smaller GPU where less is known: no activity at all, or a model that only its arguments tell."""

import msgspec
import pytest

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Interval, Silence
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.margins import smaller_gpu_margins, widened, widened_work
from tests.agent.factories import (
    DAY,
    GIB,
    HOUR,
    NOW,
    FakeCatalogue,
    node,
    pod,
    row,
    rows,
    use,
    workload,
)
from tests.agent.rules.card_parts import LIGHT, WITHOUT_T4, evidence, judge


def kernels_alone(nodes=WITHOUT_T4, catalogue=None, **more):
    """A job of which only the time with a kernel is known: a tenth of it."""
    start = NOW - 6 * HOUR
    told = {"kernel": use(0.1), **{name: use(value) for name, value in more.items()}}
    usage = [row(hour, signals=told, memory_gib=10) for hour in range(start, NOW, HOUR)]
    return judge(usage, [pod(start=start)], nodes=nodes, catalogue=catalogue)


def test_without_any_activity_it_is_one_run_to_try_however_cheap_the_card():
    answer = kernels_alone(catalogue=FakeCatalogue({"A100": 4.0, "L4": 0.01}))
    assert isinstance(answer, Finding)
    assert answer.message.key == "smaller_gpu.try_activity"
    assert answer.confidence == Confidence.LOW
    assert answer.saving.money_per_month is None
    assert answer.saving.gpu_hours_per_month is None
    assert say(answer.message, strict=True).endswith(
        "how full its kernels make the card is not known, so the work may take 0.26x to 4.30x the "
        "time"
    )


@pytest.mark.parametrize("known", ["sm", "tensor", "dram"])
def test_one_known_activity_is_enough_for_arithmetic_and_a_saving(known):
    answer = kernels_alone(**{known: 0.02})
    assert isinstance(answer, Finding)
    assert answer.message.key == "smaller_gpu.fits"
    assert answer.slowdown == Interval(low=1.0, high=pytest.approx(0.9 + 0.1 * 2.0 / 0.3))
    assert answer.confidence != Confidence.HIGH


def test_without_any_activity_the_interval_has_the_margins_of_measured_jobs_where_it_works():
    answer = kernels_alone()
    margins = smaller_gpu_margins()
    assert answer.slowdown.low == pytest.approx(1 / margins.low)
    assert answer.slowdown.high == pytest.approx(0.9 + 0.1 * 2.0 / 0.3 * margins.high)
    assert margins.source in evidence(answer, "slowdown at most").formula
    cost = evidence(answer, "least cost of the present one")
    assert cost.value == pytest.approx(0.8 / 4.0)  # nobody counts on its being faster


def test_work_that_never_pauses_is_widened_as_a_whole():
    plain, margins = Interval(low=1.0, high=4.0), smaller_gpu_margins()
    assert widened_work(plain, margins, 1.0, 4.0) == widened(plain, margins)
    assert widened_work(Interval(low=1.0, high=1.0), margins, 0.0, 4.0).high == 1.0


def other_kind(capability):
    """The five cards, the L4 of another architecture."""
    catalogue = FakeCatalogue()
    catalogue.devices = tuple(
        msgspec.structs.replace(card, compute_capability=capability) if card.key == "L4" else card
        for card in catalogue.devices
    )
    return catalogue


def test_a_card_of_another_architecture_strays_and_one_of_the_same_does_not():
    other, same = (
        kernels_alone(catalogue=other_kind(capability)).slowdown for capability in ("8.9", "8.0")
    )
    assert same == Interval(low=1.0, high=pytest.approx(0.9 + 0.1 * 2.0 / 0.3))
    assert other.high > same.high


def test_without_any_activity_a_card_on_which_it_might_cost_more_than_today_is_not_tried():
    plain = 0.9 + 0.1 * 2.0 / 0.3 * smaller_gpu_margins().high
    just, over = (
        kernels_alone(catalogue=FakeCatalogue({"A100": 4.0, "L4": 4.0 / plain * times}))
        for times in (0.999, 1.001)
    )
    assert just.message.key == "smaller_gpu.try_activity"
    assert isinstance(over, Silence)


def test_a_margin_never_makes_a_dearer_card_worth_a_try():
    dear = FakeCatalogue({"A100": 4.0, "L4": 4.0, "H100": 8.0})
    answer = kernels_alone(catalogue=dear)
    assert isinstance(answer, Silence)
    assert answer.message.key == "smaller_gpu.none_here"


def serving_pod(start, model="meta-llama/Llama-3.1-8B-Instruct"):
    one = pod(start=start)
    container = msgspec.structs.replace(
        one.containers[0], image="vllm/vllm-openai:v0.6", args=("--model", model)
    )
    return msgspec.structs.replace(one, containers=(container,))


def test_the_need_of_the_model_that_the_arguments_name_stands_beside_the_peak():
    start = NOW - 8 * DAY
    work = workload("web", "Deployment", TaskClass.INFERENCE)
    levels = {"kernel": 0.05, "sm": 0.02, "tensor": 0.0, "dram": 0.05}
    answer = judge(rows(start, NOW, **levels, memory_gib=20), [serving_pod(start)], work,
                   nodes=[node("node-a"), node("node-4", model="A40")])  # fmt: skip
    assert isinstance(answer, Finding)
    name = "meta-llama/Llama-3.1-8B-Instruct by arithmetic"
    low, expected, high = (
        evidence(answer, f"{name}{end}").value for end in (", least", "", ", most")
    )
    assert 14 * GIB < low <= expected <= high
    assert "--model" in evidence(answer, name).formula
    assert answer.confidence == Confidence.HIGH


def test_a_peak_below_what_the_model_needs_by_arithmetic_makes_it_less_sure():
    start = NOW - 8 * DAY
    work = workload("web", "Deployment", TaskClass.INFERENCE)
    levels = {"kernel": 0.05, "sm": 0.02, "tensor": 0.0, "dram": 0.02}
    answer = judge(rows(start, NOW, **levels, memory_gib=2), [serving_pod(start)], work,
                   nodes=[node("node-a"), node("node-t", model="T4")])  # fmt: skip
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.MEDIUM
    (risk,) = [one for one in answer.risks if one.key == "smaller_gpu.risk_stated"]
    assert say(risk, strict=True).startswith("by arithmetic meta-llama/Llama-3.1-8B-Instruct needs")


def test_case_24_of_memory_taken_in_advance_the_arithmetic_tells_what_the_peak_cannot():
    start = NOW - 8 * DAY
    work = workload("web", "Deployment", TaskClass.INFERENCE, preallocates=True)
    answer = judge(rows(start, NOW, **LIGHT, memory_gib=72), [serving_pod(start)], work)
    assert answer.message.key == "smaller_gpu.preallocates"
    assert evidence(answer, "meta-llama/Llama-3.1-8B-Instruct by arithmetic").value < 40 * GIB


def test_a_model_of_unknown_size_adds_nothing():
    start = NOW - 8 * DAY
    work = workload("web", "Deployment", TaskClass.INFERENCE, preallocates=True)
    answer = judge(
        rows(start, NOW, **LIGHT, memory_gib=72), [serving_pod(start, "/models/mine")], work
    )
    assert not any("by arithmetic" in item.name for item in answer.evidence)
