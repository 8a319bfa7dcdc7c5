"""Intervals and bounds that the studies share. Randomness is seeded: the same data, same page.

The bootstrap draws whole groups (weeks, workloads, job configurations), since what lies in one
group is no independent evidence (Efron and Tibshirani, An Introduction to the Bootstrap, 1993).
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_SEED: Final = 20_250_101
_DRAWS: Final = 1_000
_STEPS: Final = 60  # bisections; the bound is then exact to 1e-18


def upper_bound(failures: int, trials: int, confidence: float = 0.95) -> float:
    """One-sided upper bound of a rate (Clopper and Pearson 1934); 1 without trials."""
    if trials <= 0 or failures >= trials:
        return 1.0
    low, high = failures / trials, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_most(failures, trials, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(failures: int, trials: int, rate: float) -> float:
    """Probability of at most ``failures`` in ``trials``."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return 0.0
    logs = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(rate)
        + (trials - k) * math.log1p(-rate)
        for k in range(failures + 1)
    ]
    most = max(logs)
    return min(1.0, math.exp(most) * sum(math.exp(one - most) for one in logs))


def draws(groups: int, seed: int = _SEED) -> Floats:
    """How often each group is drawn: ``_DRAWS`` rows, ``groups`` columns."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(groups, np.full(groups, 1 / groups), size=_DRAWS).astype(float)


def by_group(groups: NDArray[Any], *values: Floats) -> list[Floats]:
    """Sums of each of ``values`` by group, in the order of the groups' names."""
    _, index = np.unique(groups, return_inverse=True)
    return [np.bincount(index, weights=value).astype(float) for value in values]


def ratio_interval(
    groups: NDArray[Any], above: Floats, below: Floats, tails: float = 0.025
) -> tuple[float, float] | None:
    """95 % bootstrap interval of sum(above) / sum(below), groups drawn whole; None without any."""
    if len(groups) == 0 or float(np.sum(below)) <= 0:
        return None
    upper, lower = by_group(groups, above.astype(float), below.astype(float))
    drawn = draws(len(upper))
    totals = drawn @ lower
    ratios = (drawn @ upper)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(ratios, [tails, 1 - tails])
    return float(low), float(high)


def rate_interval(
    groups: NDArray[Any], hits: Floats, trials: Floats, tails: float = 0.025
) -> tuple[float, float] | None:
    """Like ``ratio_interval`` for a rate of 0..1; None without trials.

    Where everything hit (or nothing did) no bootstrap can vary; there the end is the exact bound.
    """
    interval = ratio_interval(groups, hits, trials, tails)
    if interval is None:
        return None
    low, high = interval
    count, hit = round(float(np.sum(trials))), round(float(np.sum(hits)))
    if hit == count:
        low = 1 - upper_bound(0, count, 1 - tails)
    if hit == 0:
        high = upper_bound(0, count, 1 - tails)
    return low, high


def statistic_interval(
    items: Sequence[Any], statistic: Callable[[Sequence[Any]], float | None], draws_made: int = 200
) -> tuple[float, float] | None:
    """95 % bootstrap interval of any statistic of independent items; None where it never exists."""
    if not items:
        return None
    generator = np.random.default_rng(_SEED)
    found = []
    for _ in range(draws_made):
        drawn = [items[place] for place in generator.integers(0, len(items), len(items))]
        value = statistic(drawn)
        if value is not None:
            found.append(value)
    if not found:
        return None
    low, high = np.quantile(np.array(found), [0.025, 0.975])
    return float(low), float(high)


def student_quantile(rank: float, freedom: int) -> float:
    """Quantile (0.5 to 1) of Student's t with ``freedom`` degrees, to six digits.

    By bisection of its distribution function, integrated by Simpson's rule.
    """
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    scale /= math.sqrt(freedom * math.pi)
    low, high = 0.0, 1.0

    def below(value: float) -> float:
        xs = np.linspace(0.0, value, 2001)
        ys = scale * (1 + xs**2 / freedom) ** (-(freedom + 1) / 2)
        step = value / 2000
        inner = 4 * float(np.sum(ys[1:-1:2])) + 2 * float(np.sum(ys[2:-1:2]))
        return 0.5 + step / 3 * (float(ys[0]) + inner + float(ys[-1]))

    while below(high) < rank:
        high *= 2
    for _ in range(_STEPS // 2):
        middle = (low + high) / 2
        if below(middle) < rank:
            low = middle
        else:
            high = middle
    return high


def half(name: str) -> bool:
    """Whether a named thing belongs to the half on which is chosen; by a hash of the name alone.

    So that more data of the same kind never moves a job from one half to the other.
    """
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def fold(name: str, folds: int) -> int:
    """Which of ``folds`` parts a named thing belongs to; by a hash of the name alone."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[1:5]) % folds


def share(part: int, whole: int) -> float | None:
    """Return ``part / whole``; None of nothing."""
    return part / whole if whole else None
