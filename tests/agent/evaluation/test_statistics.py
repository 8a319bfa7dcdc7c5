"""Bounds and intervals against values that are known from elsewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.evaluation.statistics import (
    half,
    rate_interval,
    ratio_interval,
    share,
    statistic_interval,
    upper_bound,
)


@pytest.mark.parametrize(
    ("failures", "trials", "bound"),
    # 1 - 0.05 ** (1 / n) without a failure; Clopper and Pearson's table otherwise
    [(0, 99, 0.0298), (0, 3000, 0.000998), (1, 20, 0.2161), (5, 100, 0.1023), (3, 3, 1.0)],
)
def test_the_upper_bound_is_that_of_clopper_and_pearson(failures, trials, bound):
    assert upper_bound(failures, trials) == pytest.approx(bound, abs=2e-4)


def test_without_trials_nothing_is_bounded():
    assert upper_bound(0, 0) == 1.0


@given(st.integers(0, 40), st.integers(1, 200))
def test_a_bound_lies_above_the_rate_and_falls_with_more_trials(failures, more):
    trials = failures + more
    bound = upper_bound(failures, trials)

    assert failures / trials < bound <= 1
    assert upper_bound(failures, trials * 2) < bound


def test_an_interval_holds_the_ratio_and_is_the_same_each_time():
    groups = np.repeat(np.arange(20), 5)
    hits = (np.arange(100) % 4 != 0).astype(float)
    first = ratio_interval(groups, hits, np.ones(100))

    assert first is not None
    assert first == ratio_interval(groups, hits, np.ones(100))
    assert first[0] < 0.75 < first[1]


def test_few_groups_make_a_wider_interval_than_many_of_the_same_rows():
    hits = np.repeat([1.0, 0.0], 50)
    wide = ratio_interval(np.repeat(np.arange(4), 25), hits, np.ones(100))
    narrow = ratio_interval(np.arange(100), hits, np.ones(100))

    assert wide is not None
    assert narrow is not None
    assert wide[1] - wide[0] > narrow[1] - narrow[0]


def test_a_rate_of_one_is_not_claimed_to_be_certain():
    interval = rate_interval(np.arange(10), np.ones(10), np.ones(10))

    assert interval is not None
    assert interval[0] == pytest.approx(1 - (1 - 0.025 ** (1 / 10)), abs=1e-6)
    assert interval[1] == 1.0


def test_of_nothing_there_is_no_interval_and_no_share():
    assert ratio_interval(np.array([]), np.array([]), np.array([])) is None
    assert statistic_interval([], lambda _: 1.0) is None
    assert share(0, 0) is None


def test_half_of_many_names_is_on_either_side_and_a_name_never_moves():
    sides = [half(f"job-{number}") for number in range(1000)]

    assert 400 < sum(sides) < 600
    assert sides == [half(f"job-{number}") for number in range(1000)]
