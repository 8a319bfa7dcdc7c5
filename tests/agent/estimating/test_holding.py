"""A model that arguments name, held against the card or slice that a container asks for."""

import pytest

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.estimating.holding import WHY, holding
from gputailor_agent.model.inventory import ContainerSpec, Distribution, GpuRequest

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue()


def held(catalogue, *more, request=None, names=("NVIDIA-L4",), spread=None, model=MODEL):
    asked = request or GpuRequest(resource="nvidia.com/gpu", count=1, vendor="nvidia")
    args = ("--model", model, "--max-model-len", "8192", *more)
    container = ContainerSpec(name="main", image="vllm/vllm-openai", args=args, gpus=(asked,))
    return holding(container, spread, names, catalogue)


def test_an_engine_may_take_no_more_than_its_share_of_the_card(catalogue):
    usable = catalogue.find("L4").usable_memory_bytes
    (whole,) = held(catalogue, "--gpu-memory-utilization", "0.95").held
    (half,) = held(catalogue, "--gpu-memory-utilization", "0.5").held
    assert whole.usable_bytes == int(usable * 0.95)
    assert half.usable_bytes == int(usable * 0.5)
    assert (whole.verdict, half.verdict) == ("tight", "no")


def test_it_does_not_fit_only_where_no_card_that_may_be_meant_holds_it(catalogue):
    assert held(catalogue, names=("Tesla T4",)).fits is False
    assert held(catalogue, names=("Tesla T4", "NVIDIA H100 80GB HBM3")).fits is True
    assert held(catalogue, names=()).fits is None


def test_a_slice_of_a_named_card_is_that_cards(catalogue):
    asked = GpuRequest(
        resource="nvidia.com/mig-1g.10gb",
        count=1,
        kind="mig",
        vendor="nvidia",
        mig_profile="1g.10gb",
    )
    named = held(catalogue, request=asked, names=("NVIDIA-A100-SXM4-80GB",))
    assert [one.name for one in named.held] == ["A100 SXM4 80GB 1g.10gb"]
    assert named.fits is False


@pytest.mark.parametrize(
    ("why", "more"),
    [
        ("no_model", {"model": "/models/ours"}),
        ("divided", {"spread": Distribution(pipeline=2)}),
        ("divided", {"spread": Distribution(sharding="zero-3")}),
        ("part", {"request": GpuRequest(resource="x/vgpu", count=1, kind="fractional")}),
        ("no_card", {"names": ("a card of tomorrow",)}),
    ],
)
def test_what_is_not_known_is_said_with_its_reason(catalogue, why, more):
    found = held(catalogue, **more)
    assert (found.why, found.fits) == (why, None)
    assert why in WHY


def test_weights_kept_outside_the_card_are_not_calculated(catalogue):
    found = held(catalogue, "--cpu-offload-gb", "10")
    assert (found.why, found.total) == ("offloaded", None)


def test_a_shared_card_is_told_to_be_shared(catalogue):
    asked = GpuRequest(resource="nvidia.com/gpu.shared", count=1, kind="shared", vendor="nvidia")
    assert held(catalogue, request=asked).shared is True
    assert held(catalogue).shared is False


def test_cards_of_another_vendor_are_not_meant(catalogue):
    assert held(catalogue, names=("AMD Instinct MI300X",)).why == "no_card"
