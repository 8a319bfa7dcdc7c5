"""Slowdown intervals: the lower end never passes the upper one, whatever was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.usage import HISTOGRAM_EDGES, Histogram, SignalUse
from gputailor_agent.rules.slowdown import at_least, fewer_gpus, fitted, least_mean, smaller_gpu
from tests.agent.factories import histogram, use

NOTHING = SignalUse(observed_seconds=0.0, active_seconds=0.0)


@st.composite
def any_use(draw):
    observed = draw(st.floats(0, 1e6))
    buckets = draw(
        st.none()
        | st.lists(st.floats(0, 1e5), min_size=len(HISTOGRAM_EDGES), max_size=len(HISTOGRAM_EDGES))
    )
    return SignalUse(
        observed_seconds=observed,
        active_seconds=observed * draw(st.floats(0, 1)),
        histogram=None
        if buckets is None
        else Histogram(seconds=tuple(buckets), resolution=draw(st.sampled_from([0.05, 0.25]))),
    )


@given(st.lists(st.tuples(any_use(), st.floats(0.01, 50)), max_size=4), st.floats(0, 1))
def test_the_lower_end_is_never_above_the_upper_one(resources, active):
    interval = smaller_gpu(resources, active)
    assert 1.0 <= interval.low <= interval.high


@given(st.lists(st.tuples(any_use(), st.floats(0.01, 50)), max_size=4), st.floats(0, 1))
def test_the_upper_end_alone_already_covers_the_lower_one(resources, active):
    """Without the guard that lifts the upper end: the formulas themselves agree."""
    share = max(
        [active, *(m for part, _ in resources for m in (part.mean or 0.0, least_mean(part)))]
    )
    worst = max([1.0, *(rho for _, rho in resources)])
    low = max([1.0, *(at_least(part, rho) for part, rho in resources)])
    assert low <= 1 - min(1.0, share) + min(1.0, share) * worst + 1e-6


@given(st.integers(1, 64), st.integers(1, 64), st.floats(0, 1))
def test_fewer_gpus_give_an_interval_too(one, other, mean):
    interval = fewer_gpus(max(one, other), min(one, other), mean)
    assert 1.0 <= interval.low <= interval.high


def test_fewer_gpus_are_bounded_by_packing_and_by_perfect_scaling():
    interval = fewer_gpus(8, 4, 0.75)
    assert (interval.low, interval.high) == (1.5, 2.0)
    assert fewer_gpus(8, 4, 0.25).low == 1.0


def test_a_full_card_on_one_of_half_the_speed_takes_twice_the_time():
    interval = smaller_gpu([(use(1.0), 2.0)], 1.0)
    assert interval.low == pytest.approx(2.0)
    assert interval.high == pytest.approx(2.0)


def test_half_used_evenly_may_fit_on_half_a_card_or_take_twice_as_long():
    interval = smaller_gpu([(use(0.5), 2.0)], 1.0)
    assert (interval.low, interval.high) == (1.0, 2.0)


def test_bursts_cost_more_than_their_mean_tells():
    """1 s full, 1 s nothing: the mean says it fits, the histogram knows better."""
    bursts = SignalUse(
        observed_seconds=3600.0,
        active_seconds=1800.0,
        histogram=histogram({0.0: 1800, 1.0: 1800}),
    )
    assert at_least(bursts, 2.0) == pytest.approx(1 + 0.5 * (0.95 * 2 - 1))


def test_a_coarse_histogram_is_read_at_its_lower_edges():
    coarse = SignalUse(
        observed_seconds=100.0,
        active_seconds=0.0,
        histogram=histogram({0.5: 100}, resolution=0.25),
    )
    assert at_least(coarse, 4.0) == pytest.approx(1.0)
    assert least_mean(coarse) == pytest.approx(0.25)


def test_time_without_activity_is_not_slowed_down():
    assert smaller_gpu([(use(0.0), 4.0)], 0.25).high == pytest.approx(1.75)


def test_what_is_not_measured_counts_only_in_the_upper_end():
    interval = smaller_gpu([(NOTHING, 3.0)], 0.5)
    assert (interval.low, interval.high) == (1.0, 2.0)


def test_runs_of_other_sizes_narrow_the_interval():
    """Amdahl with a tenth that cannot be shared: T(n) = 100 + 900 / n."""
    runs = [(n, 100 + 900 / n) for n in (1, 2, 4, 8)]
    interval = fitted(runs, 8, 4)
    assert interval is not None
    expected = (100 + 900 / 4) / (100 + 900 / 8)
    assert interval.low == pytest.approx(expected)
    assert interval.high == pytest.approx(expected)


def test_one_size_tells_nothing_about_scaling():
    assert fitted([(8, 10.0), (8, 11.0), (8, 9.0)], 8, 4) is None
    assert fitted([(8, 10.0), (4, 20.0)], 8, 4) is None


def test_a_signal_that_stood_at_zero_has_a_mean_of_zero_at_least():
    assert least_mean(use(0.0)) == 0.0
    assert least_mean(use(0.5)) == pytest.approx(0.45)
