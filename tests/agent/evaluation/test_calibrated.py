"""What the product takes from the data: how long idleness lasts, sharing, margins."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.evaluation.intervals import (
    Stated,
    held_share,
    left_out,
    margins_for,
    predicted_margins,
)
from gputailor_agent.evaluation.pairs import Alone, Pair
from gputailor_agent.evaluation.risk import halves, largest_safe, many_splits, scored
from gputailor_agent.evaluation.statistics import student_quantile
from gputailor_agent.model.judgement import Interval
from gputailor_agent.rules.calibrated import Margins, calibrated
from gputailor_agent.rules.idle_outlook import idle_outlook, sure_after_seconds
from gputailor_agent.rules.interference import overlap, sharing_outlook
from gputailor_agent.rules.margins import fewer_gpus_margins, smaller_gpu_margins, widened

HOUR = 3600


def test_an_idle_gpu_is_told_of_by_the_row_at_or_below_its_idle_time():
    early, later = (idle_outlook(hours * HOUR, from_start=True) for hours in (1.5, 7))

    assert early is not None
    assert later is not None
    assert early.idle_minutes == 60
    assert later.idle_minutes == 360
    assert later.stays_an_hour > early.stays_an_hour


def test_of_a_gpu_that_has_just_paused_nothing_is_told():
    assert idle_outlook(60, from_start=False) is None


def test_a_pause_must_last_longer_than_idleness_from_the_start_to_be_as_sure():
    start, went = (sure_after_seconds(from_start=begun) for begun in (True, False))

    assert start is not None
    assert went is None or went > start


def test_where_no_threshold_is_good_enough_nothing_is_sure():
    own = calibrated()
    never = msgspec.structs.replace(own.idle, act_minutes={"from_start": None, "went_idle": None})
    figures = msgspec.structs.replace(own, idle=never)

    assert sure_after_seconds(from_start=True, figures=figures) is None


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_overlap_is_a_share_of_time_and_grows_with_another_job(busy):
    assert 0 <= overlap(busy) <= 1
    assert overlap([*busy, 0.5]) >= overlap(busy) - 1e-9


def test_two_jobs_overlap_when_both_run():
    assert overlap((0.5, 0.4)) == pytest.approx(0.2)


def test_sharing_by_utilisation_alone_says_what_to_expect_and_advises_nothing_unsafe():
    figures = calibrated()
    quiet, busy = (sharing_outlook(pair) for pair in ((0.05, 0.05), (0.9, 0.9)))

    assert quiet.expected is not None
    assert busy.expected is not None
    assert quiet.expected.slowdown_most < busy.expected.slowdown_most
    tenth = figures.sharing.limits[0].slowdown
    assert not busy.advised(tenth)
    assert busy.bound is None
    assert quiet.advised(tenth) == (figures.sharing.limits[0].score_most is not None)


def test_a_larger_slowdown_is_ruled_out_for_busier_jobs_and_never_below_what_a_smaller_one_is():
    limits = [one for one in calibrated().sharing.limits if one.score_most is not None]

    assert limits
    assert all(one.risk_most <= calibrated().sharing.risk_goal for one in limits)
    for one in limits:
        busy = one.score_most**0.5
        assert sharing_outlook((busy - 1e-4, busy - 1e-4)).advised(one.slowdown)
        assert not sharing_outlook((busy - 1e-4, busy - 1e-4)).advised(one.slowdown - 0.01)
        past = sharing_outlook((busy + 1e-4, busy + 1e-4))
        assert not past.advised(one.slowdown)


def test_margins_open_an_interval_at_both_ends():
    wide = widened(Interval(low=1.0, high=2.0), Margins(source="", low=1.25, high=1.5))

    assert (wide.low, wide.high) == (0.8, 3.0)
    assert fewer_gpus_margins().high >= 1
    assert smaller_gpu_margins().low >= 1


def stated(job, measured):
    return Stated(job, measured, Interval(low=1.0, high=2.0))


def test_margins_hold_what_strayed_and_are_one_where_nothing_did():
    inside = margins_for([stated("a", 1.5)] * 50)
    above = margins_for([stated("a", 1.5)] * 50 + [stated("a", 3.0)] * 50)

    assert (inside.low, inside.high) == (1.0, 1.0)
    assert above.high == 1.5


def test_a_job_is_reported_on_with_margins_that_have_not_seen_it():
    jobs = [stated("calm", 1.5)] * 50 + [stated("wild", 4.0)] * 50
    reported = left_out(jobs)

    assert held_share([one for one in reported if one.job == "wild"]) == 0.0
    assert held_share([one for one in reported if one.job == "calm"]) == 1.0


def pair(number, busy, speed):
    job = [Alone((f"m{number}{side}", "d", "1", "0"), 1.0, busy, 0.0, 0.0) for side in "ab"]
    return Pair(job[0], job[1], speed, 1.0)


def test_advice_needs_a_hundred_pairs_without_a_failure_to_be_three_percent_sure():
    enough = scored([pair(number, 0.1, 1.0) for number in range(99)], "sum")
    few = scored([pair(number, 0.1, 1.0) for number in range(98)], "sum")

    assert largest_safe(enough, 0.03) == pytest.approx(0.2)
    assert largest_safe(few, 0.03) is None


def test_advice_stops_where_pairs_begin_to_slow_down():
    calm = [pair(number, 0.1, 1.0) for number in range(150)]
    wild = [pair(number, 0.4, 0.7) for number in range(150, 300)]

    assert largest_safe(scored([*calm, *wild], "sum"), 0.03) == pytest.approx(0.2)


def test_no_configuration_is_chosen_and_reported_on():
    pairs = [pair(number, 0.1, 1.0) for number in range(60)]
    fitted, rest = halves(pairs)
    names = {name for one in fitted for name in one.names}

    assert fitted
    assert rest
    assert not names & {name for one in rest for name in one.names}


def test_divisions_of_pairs_that_never_disturb_advise_and_do_no_harm():
    jobs = [Alone((f"m{number}", "d", "1", "0"), 1.0, 0.05, 0.0, 0.0) for number in range(40)]
    pairs = [Pair(a, b, 1.0, 1.0) for at, a in enumerate(jobs) for b in jobs[at:]]
    splits = many_splits(pairs, 0.03)

    assert splits.advised > 90
    assert splits.unsafe == 0
    assert splits.called_safe > 0.9 * splits.safe * splits.advised / splits.made


def strayed(families, *, above=0.2):
    """Four cases of each family, whose measured slowdowns stray from 2 by the family's own."""
    return [
        Stated(f"f{number}", 2.0 * float(np.exp(stray + step)), Interval(low=1.0, high=2.0))
        for number, stray in enumerate(families)
        for step in (-above, 0.0, 0.0, above)
    ]


def test_few_families_make_wide_margins_and_more_of_them_narrower_ones():
    few = predicted_margins(strayed([-0.3, 0.3]))
    many = predicted_margins(strayed([-0.3, 0.3] * 10))

    assert few.high > 3 * many.high
    assert many.high > np.exp(0.5)


def test_predicted_margins_hold_a_family_that_was_not_seen_as_often_as_they_say():
    generator = np.random.default_rng(3)
    held = []
    for _ in range(300):
        strays = generator.normal(0.0, 0.3, 8)
        margins = predicted_margins(strayed(strays[:-1], above=0.0))
        new = strayed(strays[-1:], above=0.0)[0].with_margins(margins)
        held.append(new.measured <= new.interval.high)

    assert np.mean(held) >= 0.95


def test_one_family_alone_says_nothing_of_others():
    assert predicted_margins(strayed([0.4])) == margins_for(strayed([0.4]))


@pytest.mark.parametrize(
    ("rank", "freedom", "value"),
    [(0.975, 5, 2.570582), (0.99, 25, 2.485107), (0.95, 1, 6.313752), (0.5, 3, 0.0)],
)
def test_quantiles_of_student_are_those_of_the_tables(rank, freedom, value):
    assert student_quantile(rank, freedom) == pytest.approx(value, abs=1e-4)
