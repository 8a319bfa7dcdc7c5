"""Numbers as people read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Money
from gputailor_agent.reports import units

WRITERS = (
    units.ratio,
    units.size,
    units.count,
    units.duration,
    units.utc,
    units.energy,
    units.factor,
)


@pytest.mark.parametrize("write", WRITERS)
def test_unknown_and_zero_look_different(write):
    assert write(None) == "unknown"
    assert write(0.0) != "unknown"
    assert "0" in write(0.0)


@pytest.mark.parametrize("write", WRITERS)
def test_what_is_no_number_is_unknown(write):
    assert write(math.nan) == "unknown"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 %"),
        (0.0004, "<0.1 %"),
        (0.034, "3.4 %"),
        (0.37, "37 %"),
        (0.9951, "99.5 %"),
        (0.99999, "99.9 %"),
        (1.0, "100 %"),
    ],
)
def test_a_ratio_is_written_as_percent(value, text):
    assert units.ratio(value) == text


@given(st.floats(min_value=1e-12, max_value=1 - 1e-12))
def test_only_nothing_reads_0_percent_and_only_everything_reads_100_percent(value):
    assert units.ratio(value) not in {"0 %", "100 %"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (512, "512 B"), (754 * 1024**2, "754 MiB"), (81559 * 1024**2, "79.6 GiB")],
)
def test_bytes_are_written_in_binary_units(value, text):
    assert units.size(value) == text


def test_money_carries_its_currency_and_cents_only_where_they_matter():
    assert units.money(Money(amount=1234.5), per="month") == "USD 1,234/month"
    assert units.money(Money(amount=0.526, currency="EUR")) == "EUR 0.53"
    assert units.money(Money(amount=0.0)) == "USD 0"
    assert units.money(None) == "unknown"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (45, "45 s"),
        (60, "1 min"),
        (3 * 3600 + 20 * 60, "3 h 20 min"),
        (14 * 86400, "14 d"),
        (14 * 86400 + 5 * 3600, "14 d 5 h"),
    ],
)
def test_a_duration_is_written_in_its_two_largest_units(seconds, text):
    assert units.duration(seconds) == text


def test_times_are_utc_and_say_so():
    assert units.utc(1_764_547_200.0) == "2025-12-01 00:00 UTC"
    assert units.iso(1_764_547_200.0) == "2025-12-01T00:00:00Z"
    assert units.iso(None) is None


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.5, "ratio", "50 %"),
        (1024**3, "bytes", "1.0 GiB"),
        (7200, "seconds", "2 h"),
        (3.0, "usd_per_hour", "USD 3.00/hour"),
        (3, "runs", "3 runs"),
        (None, "ratio", "unknown"),
        (True, "", "yes"),
        ("inventory", "", "inventory"),
    ],
)
def test_a_quantity_is_written_in_its_unit(value, unit, text):
    assert units.quantity(value, unit) == text
