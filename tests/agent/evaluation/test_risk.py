"""Sharing: choosing on some configurations, judging on others, and a regression as a rival."""

import itertools

import numpy as np
import pytest

from gputailor_agent.evaluation.pairs import Alone, Pair
from gputailor_agent.evaluation.predicting import out_of_fold, predicted_figures, regressed
from gputailor_agent.evaluation.risk import LOST_A_TENTH, crossed, reached, scored


def jobs(count, busy):
    return [
        Alone((f"m{busy}-{number}", "d", "1", "0"), 1.0, busy, busy / 2, 0.0)
        for number in range(count)
    ]


def pairs_of(some, speed):
    return [Pair(one, other, speed, 1.0) for one, other in itertools.combinations(some, 2)]


CALM = pairs_of(jobs(30, 0.05), 0.95)
WILD = pairs_of(jobs(30, 0.6), 0.7)


def test_every_pair_is_judged_once_and_by_pairs_that_share_no_configuration():
    seen = []
    for fitted, rest in crossed([*CALM, *WILD]):
        names = {name for pair in fitted for name in pair.names}
        assert not names & {name for pair in rest for name in pair.names}
        seen += [pair.names for pair in rest]
    assert sorted(seen) == sorted(pair.names for pair in [*CALM, *WILD])


def test_what_is_calm_is_advised_and_what_is_wild_is_not():
    came = reached([*CALM, *WILD], LOST_A_TENTH, 0.03)
    assert came.exceeded == 0
    assert came.recall == pytest.approx(1.0)
    assert came.risk_most == pytest.approx(1 - 0.05 ** (1 / len(CALM)), abs=1e-6)


def test_who_tolerates_more_is_advised_at_least_as_often():
    few, many = (reached([*CALM, *WILD], slowdown, 0.03) for slowdown in (1.04, 1.5))
    assert few.called_safe == 0
    assert few.risk_most is None
    assert many.called_safe == len(CALM) + len(WILD)


def test_a_bound_counts_those_beyond_it_alone():
    found = scored([*CALM, *WILD], "sum")
    assert int(found.beyond(1.5).unsafe.sum()) == 0
    assert int(found.beyond(1.2).unsafe.sum()) == len(WILD)
    exactly = scored(pairs_of(jobs(3, 0.1), 0.8), "sum")
    assert not exactly.beyond(1.25).unsafe.any()


def test_a_regression_finds_the_side_on_which_the_unsafe_lie():
    rows = np.array([[-1.0], [-0.5], [0.5], [1.0]] * 20)
    wrong = (rows[:, 0] > 0).astype(float)
    constant, slope = regressed(rows, wrong)
    assert slope > 1
    assert abs(constant) < 0.1


def test_the_regression_tells_calm_from_wild_on_configurations_that_it_has_not_seen():
    found = out_of_fold([*CALM, *WILD])
    assert len(found) == len(CALM) + len(WILD)
    assert not found.unsafe[: len(CALM)].any()
    assert predicted_figures([*CALM, *WILD], 0.03)[0].value == pytest.approx(1.0)


def test_the_regression_of_nothing_is_unknown():
    assert predicted_figures([], 0.03)[0].value is None
