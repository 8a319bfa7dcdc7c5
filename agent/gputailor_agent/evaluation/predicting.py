"""A regression as a rival of the plain scores: does more knowledge of both jobs predict better.

Logistic regression by Newton's method (iteratively reweighted least squares; McCullagh and Nelder,
Generalized Linear Models, 1989) with a ridge, on standardised features of two jobs when alone.
It is not part of the product: docs/accuracy.md tells what it reaches.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gputailor_agent.evaluation.base import Figure
from gputailor_agent.evaluation.pairs import Pair
from gputailor_agent.evaluation.risk import LOST_A_TENTH, Scored, crossed, largest_safe
from gputailor_agent.evaluation.statistics import Floats, upper_bound

_RIDGE: Final = 1.0
_ROUNDS: Final = 25
_RECALLS: Final = (0.2, 0.8)


def features(pairs: Sequence[Pair]) -> Floats:
    """One row per pair, the same for either order of its jobs: utilisation and bandwidth."""
    rows = []
    for pair in pairs:
        one, other = pair.first, pair.second
        rows.append((
            one.busy + other.busy, one.busy * other.busy, max(one.busy, other.busy),
            one.bandwidth + other.bandwidth, one.bandwidth * other.bandwidth,
            one.busy * other.bandwidth + other.busy * one.bandwidth,
        ))  # fmt: skip
    return np.array(rows, dtype=float)


def regressed(rows: Floats, wrong: Floats) -> Floats:
    """Coefficients (constant first) that make ``wrong`` (0 or 1) most likely, with a ridge."""
    known = np.column_stack([np.ones(len(rows)), rows])
    ridge = np.diag([0.0, *[_RIDGE] * rows.shape[1]])
    found = np.zeros(known.shape[1])
    for _ in range(_ROUNDS):
        chance = _chance(known, found)
        slope = known.T @ (wrong - chance) - ridge @ found
        bend = known.T @ (known * (chance * (1 - chance))[:, None]) + ridge
        step = np.linalg.solve(bend + 1e-9 * np.eye(len(found)), slope)
        found = found + step
        if float(np.max(np.abs(step))) < 1e-8:  # noqa: PLR2004 - far below what a figure shows
            break
    return np.asarray(found, dtype=float)


def _chance(known: Floats, coefficients: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(known @ coefficients, -30, 30))), dtype=float)


def predicted(fitted: Sequence[Pair], rest: Sequence[Pair]) -> Floats:
    """Chance (0..1) that one of a pair loses a tenth of its speed, learnt on other pairs."""
    rows = features(fitted)
    middle, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread == 0] = 1.0
    wrong = np.array([pair.slowdown > LOST_A_TENTH for pair in fitted], dtype=float)
    coefficients = regressed((rows - middle) / spread, wrong)
    later = (features(rest) - middle) / spread
    return _chance(np.column_stack([np.ones(len(later)), later]), coefficients)


def out_of_fold(pairs: Sequence[Pair]) -> Scored:
    """Every pair by the chance that pairs of other configurations gave it."""
    chances, ordered = [], []
    for fitted, rest in crossed(pairs):
        if fitted:
            chances.append(predicted(fitted, rest))
            ordered += rest
    scores = np.concatenate(chances) if chances else np.array([])
    slow = np.array([pair.slowdown for pair in ordered])
    order = np.argsort(scores, kind="stable")
    return Scored(scores[order], (slow > LOST_A_TENTH)[order], slow[order])


def predicted_figures(pairs: Sequence[Pair], risk_most: float) -> tuple[Figure, ...]:
    """What the regression reaches: recall at the risk allowed, and the risk at two recalls."""
    found = out_of_fold(pairs)
    most = largest_safe(found, risk_most)
    figures = [
        Figure(
            name="regression on both sides: recall at the risk allowed, other configurations",
            value=found.recall(most) if most is not None else 0.0 if len(found) else None,
            cases=len(found),
        )
    ]
    for recall in _RECALLS:
        at = found.at_recall(recall)
        if at is not None:
            count, wrong = found.called_safe(at)
            figures.append(
                Figure(
                    name=f"regression on both sides: risk at recall {recall:g}",
                    value=wrong / count, high=upper_bound(wrong, count), cases=count,
                )
            )  # fmt: skip
    return tuple(figures)
