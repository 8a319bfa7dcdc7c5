"""One candidate held against a need, at the edge of each condition."""

from dataclasses import replace

import msgspec
import pytest

from gputailor_agent.rules import smaller_gpu
from gputailor_agent.rules.base import Limits, RuleSettings
from gputailor_agent.rules.calibrated import calibrated
from gputailor_agent.rules.candidates import candidate
from gputailor_agent.rules.fitting import Need, Resource, fit, may_fit, unconfirmed
from tests.agent.factories import (
    A100,
    GIB,
    MIG_1G,
    spec,
    use,
)
from tests.agent.rules.card_parts import LIMITS

NOW_CARD = spec("NOW", 80, interconnect_bytes_per_second=600e9)


def card(name="THEN", memory=40, price=1.0, *, currency="USD", **figures):
    """A candidate of this cluster; figures that are not given are those of the present card."""
    made = candidate(spec(name, memory, **figures), "", None)
    return replace(made, price=price, currency=currency)


def resource(figure="fp32_flops", now=20e12, level=0.4, p99=0.5):
    known = None if level is None else use(level, with_histogram=False)
    return Resource("compute", "sm", known, p99, now, figure)


def needs(*resources, **fields):
    values = {
        "present": candidate(NOW_CARD, "", None),
        "memory_bytes": 10 * GIB,
        "resources": resources,
        "active_share": 0.5,
        "raised_share": 0.5,
        "gpus_per_pod": 1.0,
        "latency": False,
        "links": False,
        "price": 4.0,
        "currency": "USD",
    }
    return Need(**{**values, **fields})


HALF = 10e12  # half of the present card's FP32


def verdict(need, one, **limits):
    found = fit(need, one, Limits(smaller_gpu.RULE, RuleSettings({"smaller_gpu": limits})))
    return found.verdict, (
        found.why.key.partition(".")[2] if found.why is not None else found.doubt
    )


def test_a_card_of_half_the_speed_costs_its_price_and_the_time():
    """rho = 2, G = 0.5: from 1 (0.4 x 2 < 1) to 1.5 times as long, at a quarter of the price."""
    found = fit(needs(resource()), card(fp32_flops=HALF), LIMITS)
    assert (found.slowdown.low, found.slowdown.high) == (1.0, 1.5)
    assert (found.cost_low, found.cost_high) == (0.25, 0.375)
    assert found.rhos == (("compute", 2.0),)
    assert found.load == 1.0
    assert (found.verdict, found.margins) == ("recommend", None)


@pytest.mark.parametrize(
    ("need", "one", "why"),
    [
        ({}, card(price=None), "no_price"),
        ({}, card(currency="EUR"), "currency"),
        ({"memory_bytes": int(40 * GIB * 0.98)}, card(), ""),
        ({"memory_bytes": int(40 * GIB * 0.98) + 1}, card(), "memory"),
        ({}, replace(card(), usable_memory_bytes=None), "no_memory"),
        ({"gpus_per_pod": 1.5}, replace(card(), mig="1g.10gb"), "peers"),
        ({"gpus_per_pod": 1.0}, replace(card(), mig="1g.10gb"), ""),
        ({"gpus_per_pod": 8.0}, card(), ""),
        ({"joint": False}, replace(card(), mig="1g.10gb"), "no_joint"),
        ({"joint": False}, card(), ""),
    ],
)
def test_what_rules_a_candidate_out(need, one, why):
    assert verdict(needs(**need), one) == (("no", why) if why else ("recommend", ""))


def test_another_vendor_is_no_candidate():
    other = replace(card(), spec=msgspec.structs.replace(NOW_CARD, key="X", vendor="AMD"))
    assert verdict(needs(), other) == ("no", "vendor")
    before = replace(card(), spec=msgspec.structs.replace(NOW_CARD, key="X", vendor="Zed"))
    assert verdict(needs(), before) == ("no", "vendor")


@pytest.mark.parametrize(
    ("now", "then", "tensor_cores", "why"),
    [
        (None, 10e12, True, "no_figure"),
        (20e12, None, True, "no_figure"),
        (20e12, 0.0, True, "no_figure"),
        (20e12, 0.0, False, "no_tensor_cores"),
        (20e12, 20e12, False, ""),
    ],
)
def test_a_figure_that_is_not_known_is_not_guessed(now, then, tensor_cores, why):
    one = card(fp16_tensor_flops=then, tensor_cores=tensor_cores)
    found = verdict(needs(resource("tensor_flops", now)), one)
    assert found == (("no", why) if why else ("recommend", ""))


@pytest.mark.parametrize(
    ("price", "active", "answer"),
    [
        (1.7, 1.0, ("recommend", "")),  # 1.7 x 2 = 0.85 x 4
        (1.8, 1.0, ("try", "price")),
        (3.4, 1.0, ("try", "price")),  # the low end of 1: 3.4 = 0.85 x 4
        (3.5, 1.0, ("no", "price")),
        (3.4, 0.0, ("recommend", "")),
    ],
)
def test_the_price_with_the_slowdown_decides(price, active, answer):
    need = needs(resource(level=0.1), raised_share=active)
    assert verdict(need, card(price=price, fp32_flops=HALF)) == answer


@pytest.mark.parametrize(
    ("most", "answer"),
    [(2.0, ("recommend", "")), (1.99, ("try", "slow")), (1.6, ("try", "slow")),
     (1.59, ("no", "slow"))],
)  # fmt: skip
def test_nobody_is_asked_to_wait_longer_than_the_most(most, answer):
    """From 1.6 (0.8 x 2) to 2 times as long."""
    need = needs(resource(level=0.8), raised_share=1.0)
    assert verdict(need, card(price=0.1, fp32_flops=HALF), slowdown_most=most) == answer


@pytest.mark.parametrize(
    ("latency", "p99", "answer"),
    [
        (True, 0.4, ("recommend", "")),  # 0.4 x 2 = 0.8
        (True, 0.41, ("no", "latency")),
        (True, None, ("no", "no_latency")),
        (False, 0.9, ("recommend", "")),
        (False, None, ("recommend", "")),
    ],
)
def test_a_service_s_busiest_resource_decides(latency, p99, answer):
    need = needs(resource(p99=p99), latency=latency)
    assert verdict(need, card(price=0.1, fp32_flops=HALF)) == answer


def test_the_signal_whose_quantile_lacks_is_named():
    told = [resource(), Resource("memory", "dram", None, None, 2e12, "bandwidth")]
    found = fit(needs(*told, latency=True), card(price=0.1), LIMITS)
    assert found.why is not None
    assert found.why.params == {"model": "THEN", "signal": "dram"}
    assert found.load is None


@pytest.mark.parametrize(
    ("now", "then", "figure", "doubt"),
    [
        ("8.0", "7.5", "tensor_flops", "bfloat16"),
        ("8.0", "8.0", "tensor_flops", ""),
        ("9.0", "7.9", "tensor_flops", "bfloat16"),
        ("7.5", "7.0", "tensor_flops", ""),
        ("8.0", "7.5", "fp32_flops", ""),
        ("", "7.5", "tensor_flops", "bfloat16"),
        ("8.0", "", "tensor_flops", "bfloat16"),
        ("8.0", "", "fp32_flops", ""),
    ],
)
def test_bfloat16_may_lack_on_an_older_card(now, then, figure, doubt):
    before = candidate(msgspec.structs.replace(NOW_CARD, compute_capability=now), "", None)
    need = needs(resource(figure, getattr(before, figure)), present=before)
    found = verdict(need, card(compute_capability=then))
    assert found == (("try", doubt) if doubt else ("recommend", ""))


@pytest.mark.parametrize(
    ("links", "speed", "doubt"),
    [(True, 600e9, ""), (True, 599e9, "links"), (True, None, "links"), (False, 0.0, "")],
)
def test_gpus_that_talk_need_links_as_fast(links, speed, doubt):
    found = verdict(needs(links=links), card(interconnect_bytes_per_second=speed))
    assert found == (("try", doubt) if doubt else ("recommend", ""))


def test_a_slice_has_no_links():
    assert verdict(needs(links=True), replace(card(), mig="1g.10gb")) == ("try", "links")


# --- where nothing is known of how full kernels make the card -----------------------------------


def guessed(**figures):
    return card(compute_capability="7.5", **figures)


def test_without_activity_another_card_is_a_trial_and_its_interval_is_widened():
    margins = calibrated().smaller_gpu
    need = needs(resource(level=None), activity=False)
    found = fit(need, guessed(price=0.1, fp32_flops=HALF), LIMITS)
    assert (found.verdict, found.doubt, found.margins) == ("try", "activity", margins)
    assert found.slowdown.low == pytest.approx(1.0 / margins.low)
    assert found.slowdown.high == pytest.approx(1.5 + 0.5 * 2 * (margins.high - 1))
    same = fit(need, card("NOW", price=0.1, fp32_flops=HALF), LIMITS)  # the same architecture
    assert (same.verdict, same.margins) == ("recommend", None)
    assert fit(replace(need, activity=True), guessed(fp32_flops=HALF), LIMITS).margins is None


def test_a_guess_that_may_cost_more_than_now_is_not_worth_a_run():
    need = needs(resource(level=None), activity=False, raised_share=1.0)
    high = 2 + 2 * (calibrated().smaller_gpu.high - 1)
    cheap = guessed(price=4.0 / high, fp32_flops=HALF)
    assert verdict(need, cheap, slowdown_most=99) == ("try", "activity")
    dear = guessed(price=4.0 / high * 1.01, fp32_flops=HALF)
    assert verdict(need, dear, slowdown_most=99) == ("no", "price")


@pytest.mark.parametrize(
    "one",
    [
        card(price=None),
        card(memory=10),
        replace(card(), usable_memory_bytes=None),
        card(fp32_flops=None),
        card(fp32_flops=0.0),
        card(price=2.28, fp32_flops=HALF),
        card(price=0.1, fp32_flops=3e12),
    ],
)
def test_what_cannot_be_recommended_is_left_out_quickly(one):
    """The next cheaper, roomier or faster one may be."""
    need = needs(resource(), raised_share=0.5)
    assert not may_fit(need, one, LIMITS)
    assert verdict(need, one)[0] != "recommend"


@pytest.mark.parametrize(
    "one", [card(price=2.26, fp32_flops=HALF), card(price=0.1, fp32_flops=4e12), card(price=3.4)]
)
def test_what_can_be_recommended_never_is(one):
    need = needs(resource(), raised_share=0.5)
    assert may_fit(need, one, LIMITS)
    assert verdict(need, one)[0] == "recommend"


def test_what_can_be_recommended_exactly_at_both_limits_is_kept():
    need = needs(resource(), raised_share=1.0)
    assert may_fit(need, card(price=0.85 * 4 / 3, fp32_flops=20e12 / 3), LIMITS)
    assert not may_fit(replace(need, resources=(resource(now=None),)), card(), LIMITS)


def test_a_figure_that_was_found_only_once_leaves_a_doubt():
    odd = msgspec.structs.replace(NOW_CARD, unconfirmed=("fp16",))
    tensor, plain = needs(resource("tensor_flops", 3e14)), needs(resource())
    other, odd_one = card("THEN"), replace(card("THEN"), spec=msgspec.structs.replace(odd, key="T"))
    assert not unconfirmed(tensor, other)
    assert unconfirmed(tensor, odd_one)
    assert not unconfirmed(plain, odd_one)
    assert unconfirmed(replace(tensor, present=candidate(odd, "", None)), other)
    assert not unconfirmed(tensor, replace(other, spec=msgspec.structs.replace(odd, key="NOW")))
    slices = msgspec.structs.replace(A100, mig=(msgspec.structs.replace(MIG_1G, unconfirmed=True),))
    assert unconfirmed(plain, candidate(slices, "1g.10gb", None))
    assert not unconfirmed(plain, candidate(A100, "1g.10gb", None))
