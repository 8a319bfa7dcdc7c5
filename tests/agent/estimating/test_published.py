"""The arithmetic against memory that others measured."""

from statistics import median

import pytest

from gputailor_agent.estimating.published import published_cases

CASES = {case.name: case for case in published_cases()}


@pytest.mark.parametrize("name", CASES)
def test_the_interval_holds_what_was_measured(name):
    case = CASES[name]
    assert case.inside, (case.measured_bytes / 2**30, case.estimated)
    assert case.source


def test_the_expected_value_is_within_20_percent_and_a_tenth_in_the_middle():
    errors = [abs(case.relative_error) for case in CASES.values()]
    assert max(errors) < 0.2
    assert median(errors) < 0.1


def test_weights_and_caches_are_within_two_percent():
    parts = [case for case in CASES.values() if case.part]
    assert len(parts) >= 5
    assert all(abs(case.relative_error) < 0.02 for case in parts)
