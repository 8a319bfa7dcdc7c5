"""Serving: what a model server could answer with."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Interval, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.serving import RULE
from gputailor_agent.rules.serving_lines import formats_of, serving_lines, serving_table
from tests.agent.factories import (
    HOUR,
    FakeCatalogue,
    context,
    device,
    node,
    profile,
    spec,
    workload,
)
from tests.agent.rules.advice_parts import job, judged, key, number, without
from tests.agent.rules.service_parts import answered, engine, service, web

EMPTY = {"kernel": 0.8, "sm": 0.16, "tensor": 0.1, "dram": 0.2}  # a fifth of the SMs while it runs
DECODES = {"kernel": 1.0, "sm": 0.4, "tensor": 0.2, "dram": 0.7}
FP32 = {"kernel": 1.0, "sm": 0.6, "tensor": 0.0, "dram": 0.2}
TINY = {"kernel": 0.005, "sm": 0.004, "tensor": 0.002, "dram": 0.001, "memory_gib": 4}
CARD = {"devices": [device("G-web-0", "A100")]}


def of_card(model):
    return {"devices": [device("G-web-0", model)]}


def test_a_queue_before_empty_sms_asks_for_larger_batches():
    says = engine(requests=1e5, waiting=2.5, cache=0.3)
    answer = answered(RULE, *service(**EMPTY), web(framework="vllm"), says=says)
    assert isinstance(answer, Finding)
    assert key(answer) == "serving.batch"
    assert say(answer.message) == (
        "a queue of 2.5 requests on average, while 20 % of the card's SMs work: put more of them "
        "into one batch"
    )
    assert "--max-num-seqs" in answer.change.code
    assert answer.change.params["framework"] == "vllm"
    assert (answer.confidence, answer.saving.gpu_hours_per_month) == (Confidence.MEDIUM, None)
    assert answer.saving.why is not None
    assert answer.slowdown == Interval(low=pytest.approx(1 - 0.8 + 0.8 * 0.2), high=1.0)


@pytest.mark.parametrize(
    ("waiting", "sm", "fires"),
    [(1.0, 0.19, True), (0.99, 0.19, False), (1.0, 0.2, False)],
)
def test_queue_and_sm_thresholds_are_exact(waiting, sm, fires):
    levels = {**EMPTY, "sm": sm}
    answer = answered(RULE, *service(**levels), says=engine(requests=1e5, waiting=waiting))
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert answer.kind == SilenceKind.FINE


def test_a_full_cache_is_made_room_in_before_batches_can_grow():
    says = engine(requests=1e5, waiting=4.0, cache=0.9)
    answer = answered(RULE, *service(**EMPTY), web(framework="vllm"), says=says)
    assert key(answer) == "serving.cache"
    assert isinstance(answer, Finding)
    assert "--kv-cache-dtype fp8" in answer.change.code
    below = answered(RULE, *service(**EMPTY), says=engine(requests=1e5, waiting=4.0, cache=0.89))
    assert key(below) == "serving.batch"


def test_memory_as_the_wall_asks_for_eight_bits_as_the_card_has_them():
    ada = answered(RULE, *service(**DECODES), says=engine(waiting=0.0), **of_card("L4"))
    ampere = answered(RULE, *service(**DECODES), says=engine(waiting=0.0), **of_card("A100"))
    assert (key(ada), key(ampere)) == ("serving.decode", "serving.decode")
    assert (ada.message.params["format"], ampere.message.params["format"]) == ("FP8", "INT8")
    assert isinstance(ada, Finding)
    assert "Float8" in ada.change.code


@pytest.mark.parametrize(
    ("levels", "fires"),
    [
        ({"dram": 0.5}, True),
        ({"dram": 0.499}, False),
        ({"sm": 0.499}, True),
        ({"sm": 0.5}, False),
    ],
)
def test_the_thresholds_of_decoding_are_exact(levels, fires):
    answer = answered(RULE, *service(**{**DECODES, **levels}), says=engine(waiting=0.0), **CARD)
    assert (key(answer) == "serving.decode") is fires


def test_weights_that_are_small_already_are_left_alone():
    answer = answered(
        RULE, *service(**DECODES), web(precision="fp8"), says=engine(waiting=0.0), **CARD
    )
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "serving.asked")


@pytest.mark.parametrize(
    ("model", "told"),
    [("A100", "BF16 or, calibrated, INT8"), ("H100", "BF16 or, calibrated, FP8"),
     ("T4", "FP16 or, calibrated, INT8")],
)  # fmt: skip
def test_idle_tensor_cores_are_put_to_work_in_what_the_card_computes(model, told):
    answer = answered(RULE, *service(**FP32), says=engine(waiting=0.0), **of_card(model))
    assert (key(answer), answer.message.params["format"]) == ("serving.precision", told)


@pytest.mark.parametrize(("tensor", "fires"), [(0.049, True), (0.05, False)])
def test_the_tensor_threshold_is_exact(tensor, fires):
    answer = answered(
        RULE, *service(**{**FP32, "tensor": tensor}), says=engine(waiting=0.0), **CARD
    )
    assert isinstance(answer, Finding) is fires


def test_a_card_without_tensor_cores_or_a_precision_that_is_asked_for_ends_that_way():
    catalogue = FakeCatalogue()
    catalogue.devices = (spec("GTX", 16, tensor_cores=False, compute_capability="7.5"),)
    plain = answered(RULE, *service(**FP32), says=engine(waiting=0.0), catalogue=catalogue,
                     **of_card("GTX"))  # fmt: skip
    asked = answered(RULE, *service(**FP32), web(precision="bf16"), says=engine(waiting=0.0))
    assert (key(plain), key(asked)) == ("serving.fine", "serving.fine")


def test_replicas_that_are_mostly_empty_and_have_no_queue_could_be_fewer():
    names = ("web-0", "web-1", "web-2")
    answer = answered(
        RULE,
        *service(names, kernel=0.3, sm=0.06, tensor=0.05, dram=0.06),
        says=engine(waiting=0.0),
    )
    assert isinstance(answer, Finding)
    assert key(answer) == "serving.fewer"
    assert answer.change.params["replicas"] == 2
    assert answer.slowdown == Interval(low=1.0, high=1.5)
    assert (answer.confidence, answer.saving.gpu_hours_per_month) == (Confidence.LOW, None)


@pytest.mark.parametrize(("kernel", "fires"), [(0.25, True), (0.26, False)])
def test_the_replicas_left_must_carry_the_load(kernel, fires):
    """0.25 x 2 / 1 = 0.5."""
    levels = {"kernel": kernel, "sm": kernel * 0.1, "tensor": 0.0, "dram": 0.02}
    answer = answered(RULE, *service(("web-0", "web-1"), **levels), says=engine(waiting=0.0))
    assert (key(answer) == "serving.fewer") is fires


def test_one_replica_without_a_queue_is_left_to_the_rules_of_size():
    answer = answered(RULE, *service(**EMPTY), says=engine(requests=1e5, waiting=0.0))
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "serving.no_queue")


def test_a_queue_that_nobody_tells_of_is_unknown_and_not_empty():
    answer = answered(RULE, *service(**EMPTY))
    assert isinstance(answer, Finding)
    assert (key(answer), answer.confidence) == ("serving.unseen", Confidence.LOW)
    assert "serving.risk_unseen" in {risk.key for risk in answer.risks}


def test_a_tiny_load_may_move_to_a_cpu():
    answer = answered(RULE, *service(**TINY), says=engine(requests=14 * 24 * 60, waiting=0.0))
    assert isinstance(answer, Finding)
    assert key(answer) == "serving.tiny"
    assert "with 60 requests per hour" in say(answer.message)
    assert "CPUExecutionProvider" in answer.change.code
    assert any("tvm.apache.org" in link for link in answer.change.links)
    assert (answer.slowdown, answer.confidence) == (None, Confidence.LOW)


@pytest.mark.parametrize(
    ("levels", "per_hour"),
    [
        ({"kernel": 0.0101}, 60),
        ({}, 361),
        ({"memory_gib": 8.1}, 60),
        ({}, 0),
    ],
)
def test_a_load_just_above_tiny_is_none(levels, per_hour):
    says = engine(requests=14 * 24 * per_hour, waiting=0.0)
    assert key(answered(RULE, *service(**{**TINY, **levels}), says=says)) != "serving.tiny"


@pytest.mark.parametrize(
    ("levels", "per_hour"), [({"kernel": 0.01}, 60), ({}, 360), ({"memory_gib": 8.0}, 60)]
)
def test_a_load_at_the_threshold_is_tiny(levels, per_hour):
    says = engine(requests=14 * 24 * per_hour, waiting=0.0)
    assert key(answered(RULE, *service(**{**TINY, **levels}), says=says)) == "serving.tiny"


def test_case_24_memory_taken_in_advance_says_nothing_of_the_model():
    """Unless the engine tells what it uses itself."""
    work = web(framework="vllm", preallocates=True)
    says = engine(requests=14 * 24 * 60, waiting=0.0)
    assert key(answered(RULE, *service(**TINY), work, says=says)) != "serving.tiny"
    told = engine(requests=14 * 24 * 60, waiting=0.0, memory_peak_bytes=4.0 * 1024**3)
    assert key(answered(RULE, *service(**TINY), work, says=told)) == "serving.tiny"


@pytest.mark.parametrize("signal", ["sm", "tensor", "dram"])
def test_a_signal_that_cannot_be_read_is_named(signal):
    levels = {"kernel": 1.0, "sm": 0.9, "tensor": 0.5, "dram": 0.2}
    del levels[signal]
    answer = answered(RULE, *service(**levels), says=engine(waiting=0.0))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "serving.no_signal")
    assert answer.missing_signals == (signal,)


def test_training_and_what_never_ran_are_not_its_business():
    assert key(judged(RULE, *job(6, **EMPTY))) == "serving.not_service"
    idle = answered(RULE, *service(kernel=0.0, sm=0.0, tensor=0.0, dram=0.0))
    assert key(idle) == "serving.nothing_ran"


def test_below_the_gate_it_watches_and_case_28_a_week_is_whole():
    young = answered(RULE, *service(days=5, **EMPTY), says=engine(waiting=3.0))
    assert (young.kind, key(young)) == (SilenceKind.WATCHING, "gate.service_days")
    unseen = answered(RULE, *service(**EMPTY, observed=0.8 * HOUR), says=engine(waiting=3.0))
    assert key(unseen) == "gate.coverage"


def test_what_holds_as_well_stands_beside_and_is_not_said_twice():
    levels = {"kernel": 1.0, "sm": 0.2, "tensor": 0.0, "dram": 0.8}
    answer = answered(RULE, *service(**levels), says=engine(requests=1e5, waiting=3.0), **CARD)
    assert isinstance(answer, Finding)
    assert key(answer) == "serving.batch"
    assert "as well: 8-bit weights" in [say(other) for other in answer.not_chosen]


def test_numbers_name_the_formats_by_compute_capability():
    answer = answered(RULE, *service(**FP32), says=engine(waiting=0.0), **of_card("H100"))
    assert number(answer, "number formats of the card").value == "FP8, BF16, INT8, FP16"


@pytest.mark.parametrize(
    ("capability", "formats"),
    [
        (None, ""),
        ((6, 9), ""),
        ((7, 0), "FP16"),
        ((7, 4), "FP16"),
        ((7, 5), "INT8 FP16"),
        ((7, 9), "INT8 FP16"),
        ((8, 0), "BF16 INT8 FP16"),
        ((8, 8), "BF16 INT8 FP16"),
        ((8, 9), "FP8 BF16 INT8 FP16"),
        ((9, 0), "FP8 BF16 INT8 FP16"),
    ],
)
def test_number_formats_begin_at_a_compute_capability(capability, formats):
    """NVIDIA, support matrix of TensorRT-LLM."""
    assert " ".join(formats_of(capability)) == formats


@pytest.mark.parametrize("topic", sorted(serving_table()))
def test_every_topic_has_lines_for_those_that_are_not_known(topic):
    for framework in ("", "vllm", "triton", "pytorch", "tensorflow", "mindspore", "jax"):
        made = serving_lines(topic, workload(framework=framework), dtype="bfloat16")
        assert made.code
        assert "{{" not in made.code
        assert all(link.startswith("https://") for link in made.links)


LEVELS = st.fixed_dictionaries(
    {
        "sm": st.sampled_from([0.1, 0.24, 0.4, 0.7]),
        "tensor": st.sampled_from([0.0, 0.2]),
        "dram": st.sampled_from([0.1, 0.8]),
    }
)


@given(
    kernel=st.sampled_from([0.005, 0.3, 1.0]),
    levels=LEVELS,
    waiting=st.sampled_from([None, 0.0, 3.0]),
    lost=st.sampled_from(["kernel", "sm", "tensor", "dram"]),
)
@example(kernel=1.0, levels={"sm": 0.1, "tensor": 0.0, "dram": 0.1}, waiting=0.0, lost="kernel")
@settings(max_examples=60, deadline=None)
def test_a_signal_that_is_lost_never_makes_a_finding(kernel, levels, waiting, lost):
    told = {"kernel": kernel, **{name: level * kernel for name, level in levels.items()}}
    made, world = profile(*service(days=8, **told), web(), nodes=[node()])
    made = msgspec.structs.replace(made, engine=engine(requests=1e5, waiting=waiting))
    if isinstance(RULE.evaluate(without(made, lost), context(world)), Finding):
        assert isinstance(RULE.evaluate(made, context(world)), Finding)


@given(
    kernel=st.sampled_from([0.1, 0.25, 0.4]),
    more=st.sampled_from([1.0, 1.3, 2.0]),
    replicas=st.integers(2, 4),
)
@settings(max_examples=30, deadline=None)
def test_more_use_never_takes_a_replica_away(kernel, more, replicas):
    names = [f"web-{place}" for place in range(replicas)]

    def fewer(times):
        levels = {"kernel": kernel * times, "sm": kernel * times * 0.2, "tensor": 0.0, "dram": 0.0}
        return key(answered(RULE, *service(names, days=8, **levels), says=engine(waiting=0.0)))

    if fewer(1.0) != "serving.fewer":
        assert fewer(more) != "serving.fewer"


def test_a_notebook_is_no_service():
    work = workload("nb", "Notebook", TaskClass.NOTEBOOK)
    assert key(answered(RULE, *service(**EMPTY), work)) == "serving.not_service"
