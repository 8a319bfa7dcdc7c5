"""Which cards and slices are candidates for a smaller GPU, and what holds for every finding."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Confidence, Finding, Silence, SilenceKind
from gputailor_agent.rules.candidates import present
from tests.agent.factories import (
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    device,
    inventory,
    node,
    pod,
    row,
    rows,
)
from tests.agent.rules.card_parts import LIGHT, evidence, job, judge


def test_only_cards_of_this_cluster_are_recommended_others_only_if_one_can_get_them():
    answer = judge(*job(**LIGHT, memory_gib=10), nodes=[node(model="A100")])
    assert isinstance(answer, Silence)
    assert answer.message.key == "smaller_gpu.no_other"
    far = [
        other.params["candidate"]
        for other in answer.not_chosen
        if other.key == "fitting.if_you_can_get_it"
    ]
    assert "L4" in far


def test_the_busiest_gpu_of_a_run_bounds_its_slowdown():
    usage = [
        one
        for i in range(4)
        for one in rows(NOW - 6 * HOUR, NOW, gpu=f"G{i}", kernel=1.0 if i == 0 else 0.1,
                        sm=0.05, tensor=0.01, dram=0.02, memory_gib=5)
    ]  # fmt: skip
    answer = judge(usage, [pod(gpus=4, start=NOW - 6 * HOUR)])
    assert evidence(answer, "share of time active").value == pytest.approx(1.0)


def test_a_shared_gpu_is_not_made_smaller():
    usage, pods = job(**LIGHT)
    usage = [msgspec.structs.replace(one, share=0.25) for one in usage]
    answer = judge(usage, pods)
    assert isinstance(answer, Silence)
    assert answer.message.key == "smaller_gpu.shared"


def test_a_card_that_no_catalogue_knows_is_unknown():
    answer = judge(
        *job(**LIGHT), devices=[device(model="Mystery 1")], nodes=[node(model="Mystery 1")]
    )
    assert isinstance(answer, Silence)
    assert answer.message.key == "smaller_gpu.no_model"


def test_without_a_price_nothing_is_recommended_and_the_reason_said():
    answer = judge(*job(**LIGHT), catalogue=FakeCatalogue(prices={"L4": 0.8}))
    assert isinstance(answer, Silence)
    assert (answer.kind, answer.message.key) == (SilenceKind.UNKNOWN, "money.no_price")


def test_what_was_not_chosen_is_listed_with_the_reason():
    answer = judge(*job(**LIGHT, memory_gib=10))
    assert isinstance(answer, Finding)
    keys = {other.key for other in answer.not_chosen}
    assert "fitting.price" in keys  # the H100
    assert "fitting.if_you_can_get_it" in keys or "fitting.chosen_is_better" in keys


@given(seen=st.floats(0.0, 1.0), level=st.sampled_from([0.01, 0.2, 0.9]))
@settings(max_examples=40, deadline=None)
def test_it_never_fires_below_its_coverage_gate(seen, level):
    start = NOW - 4 * HOUR
    usage = [
        row(hour, observed=HOUR * seen, kernel=level, sm=level / 2, dram=level / 4, memory_gib=5)
        for hour in range(start, NOW, HOUR)
    ]
    answer = judge(usage, [pod(start=start)])
    if seen < 0.899:
        assert isinstance(answer, Silence)
        assert answer.kind == SilenceKind.UNKNOWN


@given(
    kernel=st.floats(0.01, 1.0),
    sm=st.floats(0.0, 1.0),
    dram=st.floats(0.0, 1.0),
    memory=st.floats(0.1, 79.0),
)
@settings(max_examples=60, deadline=None)
def test_every_finding_has_an_ordered_slowdown_and_fits_the_memory(kernel, sm, dram, memory):
    answer = judge(*job(kernel=kernel, sm=kernel * sm, dram=kernel * dram, memory_gib=memory))
    if isinstance(answer, Finding):
        assert answer.slowdown is not None
        guessed = answer.message.key == "smaller_gpu.try_activity"
        assert guessed or answer.slowdown.low >= 1
        assert answer.slowdown.low <= answer.slowdown.high
        assert answer.message.params["need"] <= answer.message.params["usable"]
        if answer.confidence == Confidence.LOW:
            assert answer.saving.money_per_month is None


def test_where_nothing_does_the_candidates_and_what_speaks_against_them_are_named():
    busy = {"kernel": 1.0, "sm": 0.95, "tensor": 0.9, "dram": 0.9}
    answer = judge(*job(**busy, memory_gib=70))
    assert isinstance(answer, Silence)
    assert answer.not_chosen
    assert all("." in other.key for other in answer.not_chosen)
    assert not any("." in item.name for item in answer.evidence)


def test_a_node_of_slices_offers_no_whole_card_and_one_that_shares_neither():
    sliced = node("node-m", gpus=1, capacity={"nvidia.com/mig-1g.10gb": 7.0})
    shared = node("node-s", model="L4", sharing_replicas=4)
    whole = node("node-t", model="T4")
    found = present(context(inventory(nodes=[sliced, shared, whole])))
    assert {(one.spec.key, one.mig) for one in found} == {("A100", "1g.10gb"), ("T4", "")}
