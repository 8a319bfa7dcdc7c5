"""Windows as people write them."""

import pytest

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.windows import parse_time, window_of

NOW = 1_764_547_200.0  # 2025-12-01 00:00 UTC
DAY = 86400.0


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("14d", NOW - 14 * DAY),
        ("36h", NOW - 1.5 * DAY),
        ("30m", NOW - 1800),
        ("2w", NOW - 14 * DAY),
        ("1.5d", NOW - 1.5 * DAY),
        ("now", NOW),
        ("2025-11-30", NOW - DAY),
        ("2025-11-30T00:00:00Z", NOW - DAY),
        ("2025-11-30T02:00:00+02:00", NOW - DAY),
    ],
)
def test_a_time_is_a_length_back_or_a_moment_in_utc(text, at):
    assert parse_time("--since", text, relative_to=NOW) == at


@pytest.mark.parametrize("text", ["", "14", "14 days", "yesterday", "2025-13-01", "-3d"])
def test_anything_else_is_wrong_usage_and_says_what_was_expected(text):
    with pytest.raises(UsageError, match="--since: expected a length like 14d"):
        parse_time("--since", text, relative_to=NOW)


def window(since=None, until=None, first=NOW - 30 * DAY, last=NOW - DAY):
    return window_of(since, until, first_data=first, last_data=last, now=NOW)


def test_without_options_the_window_is_the_last_14_days_of_data():
    found = window()
    assert (found.start, found.end) == (NOW - 15 * DAY, NOW - DAY)


def test_without_since_the_window_begins_no_earlier_than_the_data():
    assert window(first=NOW - 3 * DAY).start == NOW - 3 * DAY


def test_a_since_that_was_asked_for_is_kept_though_data_begins_later():
    assert window(since="7d", first=NOW - 3 * DAY).start == NOW - 8 * DAY


def test_without_any_data_the_window_ends_now():
    found = window(first=None, last=None)
    assert (found.start, found.end) == (NOW - 14 * DAY, NOW)


def test_an_empty_window_is_wrong_usage():
    with pytest.raises(UsageError, match="--since must lie before --until"):
        window(since="2025-11-30", until="2025-11-20")
