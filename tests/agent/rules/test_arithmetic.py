"""The rules' pure arithmetic, number by number; expected values were worked out by hand.

Each table goes to an edge and to both sides of it.
"""

import math

import msgspec
import pytest

from gputailor_agent.model.judgement import Interval
from gputailor_agent.model.usage import SignalUse
from gputailor_agent.rules.calibrated import Margins, SharingBin, SharingLimit, calibrated
from gputailor_agent.rules.idle_outlook import (
    act_minutes,
    idle_outlook,
    outlook_words,
    sure_after_seconds,
)
from gputailor_agent.rules.interference import overlap, sharing_outlook
from gputailor_agent.rules.interruptions import best_interval, pays_from, time_factor
from gputailor_agent.rules.margins import margin_words, widened, widened_work
from gputailor_agent.rules.slowdown import (
    at_least,
    fewer_gpus,
    fitted,
    least_mean,
    on_card,
    raised,
    smaller_gpu,
)
from tests.agent.factories import (
    histogram,
    use,
)

NOTHING = SignalUse(observed_seconds=0.0, active_seconds=0.0)


def ends(interval):
    return (pytest.approx(interval.low), pytest.approx(interval.high))


@pytest.mark.parametrize(
    ("now", "then", "mean", "low", "high"),
    [
        (8, 2, 0.5, 2.0, 4.0),
        (8, 2, 0.25, 1.0, 4.0),
        (8, 2, 0.26, 1.04, 4.0),
        (8, 2, 1.5, 4.0, 4.0),  # a share of time is never above 1
        (2, 4, 1.0, 1.0, 1.0),  # more GPUs make nothing slower
    ],
)
def test_fewer_gpus_take_between_packing_and_perfect_scaling(now, then, mean, low, high):
    assert ends(fewer_gpus(now, then, mean)) == (low, high)


def test_a_fit_needs_three_runs_of_two_sizes():
    assert fitted([(1, 10.0), (2, 6.0)], 2, 1) is None
    assert fitted([(2, 10.0), (2, 6.0), (2, 7.0)], 2, 1) is None
    assert fitted([(1, 10.0), (2, 6.0), (2, 6.0)], 2, 1) is not None


def test_a_fit_is_widened_by_the_largest_share_that_a_run_is_off():
    """10 and 14 s on one GPU, 6 and 6 on two: a = 0, b = 12; the runs are 1/6 off at most."""
    interval = fitted([(1, 10.0), (1, 14.0), (2, 6.0), (2, 6.0)], 2, 1)
    assert ends(interval) == (2 * (1 - 1 / 6), 2 * (1 + 1 / 6))


def test_a_fit_never_lets_more_gpus_or_no_gpus_slow_a_job():
    """Runs that got longer with more GPUs: b = 0, so all sizes take the mean of 20 s."""
    interval = fitted([(1, 10.0), (2, 20.0), (4, 30.0)], 4, 1)
    assert ends(interval) == (1.0, 1.5)
    # Steeper than perfect scaling: a = 0, b = mean of T / mean of 1/n = 25.5 / 0.75 = 34.
    steep = fitted([(1, 50.0), (2, 1.0)] * 2, 2, 1)
    assert ends(steep) == (1.0, pytest.approx(2 * (1 + 16 / 17)))


@pytest.mark.parametrize(
    ("told", "mean"),
    [
        (NOTHING, 0.0),
        (use(0.5, with_histogram=False), 0.0),
        (SignalUse(observed_seconds=0.0, active_seconds=0.0, histogram=histogram({})), 0.0),
        # a quarter of the time in the bucket up to 0.4, half of it is not in the histogram
        (SignalUse(observed_seconds=200.0, active_seconds=0.0,
                   histogram=histogram({0.4: 50, 0.0: 50})), 0.25 * 0.35),
        # and where the histogram tells of more than was observed, of that
        (SignalUse(observed_seconds=50.0, active_seconds=0.0,
                   histogram=histogram({0.4: 50, 0.0: 50})), 0.5 * 0.35),
    ],
)  # fmt: skip
def test_the_least_mean_of_a_histogram_is_that_of_its_lower_edges(told, mean):
    assert least_mean(told) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("told", "rho", "least"),
    [
        (use(1.0), 1.0, 1.0),
        (use(1.0), 0.5, 1.0),
        (NOTHING, 4.0, 1.0),
        (use(1.0, 0.5, with_histogram=False), 4.0, 4.0),  # half a second is a measurement
        (use(1.0, with_histogram=False), 3.0, 3.0),
        (use(0.5, with_histogram=False), 3.0, 1.5),
        (use(0.2, with_histogram=False), 3.0, 1.0),
        (SignalUse(observed_seconds=10.0, active_seconds=20.0), 3.0, 3.0),  # 1 is the most
        # half of the time at 0.95..1: 1 + 0.5 (0.95 x 2 - 1); the mean alone says 1
        (SignalUse(observed_seconds=100.0, active_seconds=50.0,
                   histogram=histogram({1.0: 50, 0.0: 50})), 2.0, 1.45),
        # of twice the time that the histogram tells of
        (SignalUse(observed_seconds=200.0, active_seconds=50.0,
                   histogram=histogram({1.0: 50, 0.0: 50})), 2.0, 1.225),
        # lower edge x rho of exactly 1 slows nothing down
        (SignalUse(observed_seconds=100.0, active_seconds=10.0,
                   histogram=histogram({0.55: 100})), 2.0, 1.0),
    ],
)  # fmt: skip
def test_what_a_resource_slows_down_at_least(told, rho, least):
    assert at_least(told, rho) == pytest.approx(least)


def test_time_active_is_at_least_what_any_resource_was():
    assert raised(0.2, [use(0.5, with_histogram=False)]) == 0.5
    assert raised(0.7, [use(0.5)]) == 0.7
    assert raised(1.2, [NOTHING]) == 1.0
    only = SignalUse(observed_seconds=100.0, active_seconds=0.0, histogram=histogram({1.0: 100}))
    assert raised(0.2, [only]) == pytest.approx(0.95)


def test_a_card_of_half_a_resource_slows_the_time_it_is_used():
    pairs = [(use(0.4, with_histogram=False), 2.0), (use(0.4, with_histogram=False), 4.0)]
    assert ends(on_card(pairs, 0.5)) == (1.6, 0.5 + 0.5 * 4.0)
    assert ends(on_card([], 0.5)) == (1.0, 1.0)
    assert ends(on_card([(use(0.4), 0.5)], 1.0)) == (1.0, 1.0)  # twice as fast is no slower
    assert ends(smaller_gpu([(use(0.4, with_histogram=False), 4.0)], 0.1)) == (1.6, 0.6 + 0.4 * 4)


MARGINS = Margins(source="a test", low=1.25, high=1.5)


def test_an_interval_is_widened_at_both_ends():
    assert ends(widened(Interval(low=2.0, high=4.0), MARGINS)) == (1.6, 6.0)


@pytest.mark.parametrize(
    ("active", "worst", "high"),
    [(1.0, 2.0, 4.0 + 2.0 * 0.5), (0.5, 2.0, 4.0 + 0.5), (0.5, 0.5, 4.0 + 0.25), (0.0, 9.0, 4.0)],
)
def test_what_is_not_the_card_s_work_strays_no_further(active, worst, high):
    assert ends(widened_work(Interval(low=2.0, high=4.0), MARGINS, active, worst)) == (1.6, high)


def test_margins_are_said_with_their_source():
    assert margin_words(MARGINS) == "low end / 1.25, high end x 1.5 (a test)"
    assert margin_words(MARGINS, "G worst") == "low end / 1.25, G worst x 1.5 (a test)"


@pytest.mark.parametrize(
    ("busy", "share"),
    [
        ([], 0.0),
        ([0.7], 0.0),
        ([0.5, 0.5], 0.25),
        ([0.2, 0.5], 0.1),
        ([1.0, 1.0], 1.0),
        ([0.5, 0.5, 0.5], 0.5),  # 1 - 1/8 - 3/8
        ([0.0, 0.9], 0.0),
    ],
)
def test_two_or_more_want_the_card_at_once_for_so_much_of_the_time(busy, share):
    assert overlap(busy) == pytest.approx(share)


def test_a_share_that_rounding_takes_below_zero_is_zero():
    assert 1 - (1 - 0.1) - 0.1 < 0
    assert overlap([0.1]) == 0.0


def outlook_of(score_name, busy, limits=(), bins=()):
    figures = msgspec.structs.replace(
        calibrated(),
        sharing=msgspec.structs.replace(
            calibrated().sharing,
            score=score_name,
            limits=tuple(SharingLimit(slowdown=slow, score_most=most, pairs=9, exceeded=0,
                                      risk_most=0.01) for slow, most in limits),
            bins=tuple(SharingBin(score_most=most, risk=0.0, risk_most=0.1, slowdown_median=median,
                                  slowdown_most=2.0) for most, median in bins),
        ),
    )  # fmt: skip
    return sharing_outlook(busy, figures=figures)


LIMITS = ((1.5, 0.25), (1.2, 0.1), (1.05, None))
BINS = ((0.1, 1.01), (0.25, 1.1))


@pytest.mark.parametrize(
    ("busy", "bound", "median"),
    [
        ([0.2, 0.5], 1.2, 1.01),  # an overlap of 0.1: just within
        ([0.21, 0.5], 1.5, 1.1),
        ([0.5, 0.5], 1.5, 1.1),
        ([0.51, 0.5], None, None),
    ],
)
def test_the_outlook_of_sharing_turns_at_the_scores_that_were_recorded(busy, bound, median):
    found = outlook_of("overlap", busy, LIMITS, BINS)
    assert (None if found.bound is None else found.bound.slowdown) == bound
    assert (None if found.expected is None else found.expected.slowdown_median) == median


def test_sharing_is_advised_where_what_is_tolerated_reaches_the_bound():
    found = outlook_of("sum", [0.1, 0.1], ((1.5, 0.25),))
    assert found.score == pytest.approx(0.2)
    assert found.advised(1.5)
    assert not found.advised(1.49)
    assert not outlook_of("sum", [0.1, 0.2], ((1.5, 0.25),)).advised(9.0)


def test_an_interrupted_run_takes_its_checkpoints_half_an_interval_and_a_restart_longer():
    assert time_factor(60, 600, 36_000, 1200) == pytest.approx(1 + 0.05 + 1200 / 36_000)
    assert time_factor(60, 600, 36_000, 0) == pytest.approx(1 + 600 / 36_000)
    assert time_factor(60, 600, 36_000, 0.5) == pytest.approx(1 + 120 + 600.25 / 36_000)


def test_the_best_interval_is_young_s_and_never_shorter_than_a_checkpoint():
    assert best_interval(50, 10_000) == 1000
    assert best_interval(50, 1) == 50


def test_spot_pays_from_the_time_at_which_both_cost_the_same():
    between = pays_from(60, 600, 0.4, 0.7)
    assert between is not None
    assert 0.4 * (1 + math.sqrt(2 * 60 / between) + 600 / between) == pytest.approx(0.7)
    assert pays_from(60, 600, 0.0, 0.7) == 0.0
    assert pays_from(60, 600, 0.7, 0.7) is None
    assert pays_from(60, 600, 0.71, 0.7) is None
    assert pays_from(0, 350, 0.35, 0.7) == pytest.approx(350)


def test_the_outlook_is_the_row_at_or_below_and_none_before_the_first():
    rows_of = {
        True: calibrated().idle.outlook["from_start"], False: calibrated().idle.outlook["went_idle"]
    }  # fmt: skip
    for from_start, told in rows_of.items():
        whole = [one for one in told if None not in {one.stays_an_hour, one.mean_hours_least}]
        first, second = whole[:2]
        assert idle_outlook(first.idle_minutes * 60 - 1, from_start=from_start) is None
        assert idle_outlook(first.idle_minutes * 60, from_start=from_start) == first
        assert idle_outlook(second.idle_minutes * 60 - 1, from_start=from_start) == first
        assert idle_outlook(second.idle_minutes * 60, from_start=from_start) == second


def figures_with(**fields):
    idle = msgspec.structs.replace(calibrated().idle, **fields)
    return msgspec.structs.replace(calibrated(), idle=idle)


@pytest.mark.parametrize("lost", ["stays_an_hour", "mean_hours_least", "mean_hours_most"])
def test_a_row_whose_range_nobody_knows_is_passed_over(lost):
    known = calibrated().idle.outlook["from_start"][-1]
    later = msgspec.structs.replace(known, idle_minutes=known.idle_minutes + 1, **{lost: None})
    figures = figures_with(outlook={"from_start": (known, later)})
    assert idle_outlook(9e9, from_start=True, figures=figures) == known
    assert idle_outlook(9e9, from_start=False, figures=figures) is None


def test_where_no_length_is_sure_enough_nobody_acts():
    figures = figures_with(act_minutes={"from_start": 6.0, "went_idle": None})
    assert sure_after_seconds(from_start=True, figures=figures) == 360
    assert sure_after_seconds(from_start=False, figures=figures) is None
    assert act_minutes(from_start=True) == calibrated().idle.act_minutes["from_start"]


@pytest.mark.parametrize(
    ("stays", "low", "high", "words"),
    [
        (1.0, 3.9, 4.1, (99, 3, 5)),
        (0.999, 3.0, 4.0, (99, 3, 4)),
        (0.989, 0.5, 0.5, (98, 0, 1)),
        (None, None, None, (None, None, None)),
    ],
)
def test_the_words_are_rounded_away_from_certainty(stays, low, high, words):
    step = msgspec.structs.replace(
        calibrated().idle.outlook["from_start"][0],
        stays_an_hour=stays, mean_hours_least=low, mean_hours_most=high,
    )  # fmt: skip
    assert tuple(outlook_words(step).values()) == words
