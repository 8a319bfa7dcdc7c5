"""Cards and slices that hold a need, by price, and what would make the next smaller one do."""

import pytest

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.estimating import (
    Amount,
    Serving,
    Training,
    estimate_serving,
    estimate_training,
)
from gputailor_agent.estimating.cards import cards_of, currencies, fits, next_smaller, verdict_of
from gputailor_agent.estimating.known import known_shape
from gputailor_agent.estimating.levers import serving_changes, training_changes

GIB = 2**30
CATALOGUE = load_catalogue()
LLAMA = known_shape("llama-3.1-8b")
CARDS = cards_of(CATALOGUE, vendor="nvidia")


def card(name):
    return next(one for one in CARDS if one.name == name)


@pytest.mark.parametrize(
    ("usable", "verdict"),
    [(30, "fits"), (29.9, "tight"), (20, "tight"), (19, "unlikely"), (9.9, "no")],
)
def test_a_card_fits_only_if_the_high_end_does(usable, verdict):
    assert verdict_of(Amount(10.0, 20.0, 30.0), usable) == verdict


def test_slices_cost_their_share_and_the_cheapest_comes_first():
    slice_ = card("A100 SXM4 40GB 1g.10gb")
    whole = card("A100 SXM4 40GB")
    assert (
        slice_.share == 0.25
    )  # two of eight memory slices keep more from others than one of seven
    assert slice_.hourly() == pytest.approx(whole.hourly() / 4)
    found = fits(Amount(1 * GIB, 2 * GIB, 3 * GIB), CARDS)
    known = [fit.price_per_hour for fit in found if fit.price_per_hour is not None]
    assert known == sorted(known)
    assert found[len(known)].price_per_hour is None
    assert currencies(found) == ("USD",)


def test_several_gpus_are_paid_for_and_are_no_slices():
    found = fits(Amount(GIB, GIB, GIB), CARDS, gpus=4)
    assert not any(fit.card.mig for fit in found)
    l4 = next(fit for fit in found if fit.card.name == "L4")
    assert l4.price_per_hour == pytest.approx(4 * card("L4").hourly())


def test_16_bit_work_is_not_offered_a_card_before_volta():
    assert all(one.device.key != "P100 PCIe 16GB" for one in CARDS)
    assert any(one.device.key == "P100 PCIe 16GB" for one in cards_of(CATALOGUE, half=False))


def test_the_aim_is_smaller_than_any_card_that_fits_and_cheaper_than_the_cheapest():
    found = fits(Amount(20 * GIB, 30 * GIB, 38 * GIB), CARDS)
    aim = next_smaller(found)
    fitting = [fit for fit in found if fit.verdict == "fits"]
    assert aim.card.usable_bytes < min(fit.card.usable_bytes for fit in fitting)
    assert aim.price_per_hour < min(f.price_per_hour for f in fitting if f.price_per_hour)


def test_where_everything_fits_there_is_no_aim():
    assert next_smaller(fits(Amount(1.0, 1.0, 1.0), CARDS)) is None


def test_each_change_makes_it_fit_by_itself():
    settings = Training(precision="bf16", sequence=4096)
    usable = 100 * GIB
    assert estimate_training(LLAMA, settings).total.high > usable
    changes = training_changes(LLAMA, settings, usable)
    assert changes
    assert all(change.estimate.total.high <= usable for change in changes)
    assert all(len(change.names) == 1 for change in changes)


def test_where_no_single_change_is_enough_several_are_combined():
    settings = Training(batch=8, sequence=8192)
    changes = training_changes(LLAMA, settings, 23 * GIB)
    assert len(changes) == 1
    (change,) = changes
    assert len(change.names) > 2
    assert "checkpointing of all layers" in change.names
    assert change.estimate.total.high <= 23 * GIB


def test_serving_is_shortened_no_more_than_needed():
    settings = Serving(batch=16, sequence=8192)
    changes = serving_changes(LLAMA, settings, 31 * GIB)
    names = [change.names[0] for change in changes]
    assert "8 sequences at once" in names
    assert "1 sequence at once" not in names
    assert estimate_serving(LLAMA, settings).total.high > 31 * GIB


def test_what_nothing_helps_has_no_change():
    assert serving_changes(LLAMA, Serving(), 0.1 * GIB) == ()
