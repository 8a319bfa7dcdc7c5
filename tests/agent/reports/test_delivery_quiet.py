"""Quiet hours end when the clock on the wall says so, also when clocks change."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.quiet import QuietHours

BERLIN = QuietHours.read("22:00-07:00", "Europe/Berlin")


def at(text, zone="Europe/Berlin"):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-01-10T21:59", None),
        ("2026-01-10T22:00", "2026-01-11T07:00"),
        ("2026-01-11T03:00", "2026-01-11T07:00"),
        ("2026-01-11T07:00", None),
        ("2026-03-28T23:00", "2026-03-29T07:00"),  # the clocks go forward in this night
        ("2026-10-24T23:00", "2026-10-25T07:00"),  # and back in this one
    ],
)
def test_a_night_is_quiet_until_its_morning(now, until):
    assert BERLIN.held_until(at(now)) == (None if until is None else at(until))


def test_hours_within_a_day_end_on_that_day():
    noon = QuietHours.read("12:00-13:30", "Asia/Shanghai")
    now = at("2026-01-10T12:15", "Asia/Shanghai")
    assert noon.held_until(now) == at("2026-01-10T13:30", "Asia/Shanghai")
    assert noon.held_until(now - 3600) is None


@given(st.floats(1.6e9, 2.0e9))
def test_the_end_of_quiet_lies_ahead_within_a_day_and_is_not_quiet(now):
    until = BERLIN.held_until(now)
    if until is not None:
        assert now < until <= now + 10 * 3600
        assert BERLIN.held_until(until) is None
        assert datetime.fromtimestamp(until, UTC).minute == 0


@pytest.mark.parametrize("bad", ["", "22-7", "24:00-07:00", "22:00-22:00", "7:00-8:00", "x"])
def test_what_are_no_hours_is_told(bad):
    with pytest.raises(DeliveryError, match="quiet_hours: expected hours such as 22:00-07:00"):
        QuietHours.read(bad, "UTC")
