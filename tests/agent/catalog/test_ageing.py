"""A stale price says its age; one without a date says that."""

import dataclasses
from datetime import date

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.catalog import age_days, is_stale, load_catalogue, told_age
from gputailor_agent.catalog.amortising import BareMetal, amortised

PRICE = next(price for price in load_catalogue().prices if price.as_of == "2026-07-20")
BOUGHT = BareMetal(purchase_price=35064, years=4, power_price_per_kwh=0.1, watts=700, pue=1.5)


def test_a_fresh_price_shows_its_date_and_an_old_one_its_age_too():
    assert told_age(PRICE, date(2026, 8, 1)) == "2026-07-20"
    assert told_age(PRICE, date(2027, 7, 20)) == "2026-07-20, 365 days old"


def test_the_threshold_is_a_setting_and_is_not_exceeded_by_its_own_day():
    day = date(2026, 8, 19)
    assert age_days(PRICE, day) == 30
    assert not is_stale(PRICE, day, 30)
    assert is_stale(PRICE, day, 29)


def test_a_price_of_unknown_date_is_neither_fresh_nor_stale():
    unknown = msgspec.structs.replace(PRICE, as_of="")
    assert age_days(unknown, date(2026, 8, 1)) is None
    assert not is_stale(unknown, date(2040, 1, 1))
    assert told_age(unknown, date(2026, 8, 1)) == "date unknown"


def test_a_price_dated_tomorrow_has_no_negative_age():
    assert age_days(PRICE, date(2026, 7, 19)) == 0


def test_parts_of_an_amortised_price_add_up():
    cost = amortised(BOUGHT)
    assert (cost.capital, cost.power, cost.upkeep) == (1.0, pytest.approx(0.105), 0.0)
    assert cost.total == pytest.approx(1.105)


def test_a_residual_upkeep_and_the_servers_power_count():
    more = BareMetal(
        purchase_price=35064 + 8766,
        years=4,
        power_price_per_kwh=0.1,
        watts=700,
        pue=1.0,
        server_watts=300,
        residual_price=8766,
        upkeep_per_year=876.6,
    )
    assert amortised(more).total == pytest.approx(1.0 + 0.1 + 0.1)


@given(st.floats(0.5, 20), st.floats(1.0, 3.0))
def test_longer_use_is_never_dearer_and_a_worse_room_never_cheaper(years, pue):
    now = amortised(
        BareMetal(purchase_price=9e3, years=years, power_price_per_kwh=0.2, watts=300, pue=pue)
    )
    later = amortised(
        BareMetal(purchase_price=9e3, years=years + 1, power_price_per_kwh=0.2, watts=300, pue=pue)
    )
    worse = amortised(
        BareMetal(
            purchase_price=9e3, years=years, power_price_per_kwh=0.2, watts=300, pue=pue + 0.1
        )
    )
    assert later.total < now.total < worse.total


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"years": 0}, "years"), ({"pue": 0.5}, "pue"), ({"residual_price": 1e6}, "residual_price")],
)
def test_what_makes_no_sense_is_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        amortised(dataclasses.replace(BOUGHT, **wrong))
