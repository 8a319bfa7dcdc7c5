"""Risk against coverage of advice by a score: whom it calls safe, and how many of them are not."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputailor_agent.evaluation.pairs import Pair
from gputailor_agent.evaluation.statistics import Floats, fold, half, share, upper_bound
from gputailor_agent.rules.interference import SCORES

#: Relative speed below which a job slowed down by more than 10 %.
UNSAFE_SPEED: Final = 0.9
#: The slowdown that goes with it; the first of those that a sharer may tolerate.
LOST_A_TENTH: Final = 1 / UNSAFE_SPEED
TOLERATED: Final = (LOST_A_TENTH, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5)
_SPLITS: Final = 100
_FOLDS: Final = 8
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Scored:
    """Pairs by rising score. ``unsafe``: one of them slowed down by more than 10 %."""

    scores: Floats
    unsafe: NDArray[np.bool_]
    slowdowns: Floats

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.scores)

    def beyond(self, slowdown: float) -> "Scored":
        """Return the same, unsafe where the slower one took more than ``slowdown`` the time."""
        return replace(self, unsafe=self.slowdowns > slowdown * (1 + _ROUNDING))

    def called_safe(self, most: float) -> tuple[int, int]:
        """Pairs with a score up to ``most``, and how many of them are unsafe."""
        chosen = self.scores <= most
        return int(np.sum(chosen)), int(np.sum(self.unsafe & chosen))

    def recall(self, most: float) -> float | None:
        """Share of the safe pairs that are called safe."""
        safe = int(np.sum(~self.unsafe))
        count, wrong = self.called_safe(most)
        return (count - wrong) / safe if safe else None

    def at_recall(self, recall: float) -> float | None:
        """Smallest score at which the recall is reached; None without a safe pair."""
        safe = np.cumsum(~self.unsafe)
        if not len(self) or safe[-1] == 0:
            return None
        place = int(np.searchsorted(safe, recall * safe[-1]))
        return float(self.scores[min(place, len(self) - 1)])


def scored(pairs: Sequence[Pair], score: str) -> Scored:
    """Order pairs by one of the product's scores of utilisation."""
    values = np.array([SCORES[score]((p.first.busy, p.second.busy)) for p in pairs])
    order = np.argsort(values, kind="stable")
    return Scored(
        values[order],
        np.array([pair.worst_speed < UNSAFE_SPEED for pair in pairs], dtype=bool)[order],
        np.array([pair.slowdown for pair in pairs])[order],
    )


def largest_safe(found: Scored, risk_most: float) -> float | None:
    """Largest score up to which the risk's 95 % upper bound is ``risk_most``; None: there is none.

    Whole steps of equal score are taken or left.
    """
    last = np.append(np.diff(found.scores) > 0, [True]) if len(found) else np.array([], bool)
    wrong = np.cumsum(found.unsafe)
    for place in np.flatnonzero(last)[::-1]:
        failures, count = int(wrong[place]), int(place) + 1
        # the bound lies above the rate itself: most places need no bisection
        if failures <= risk_most * count and upper_bound(failures, count) <= risk_most:
            return float(found.scores[place])
    return None


def better_score(pairs: Sequence[Pair]) -> str:
    """The score whose risk, averaged over recalls of 0.1 to 0.9, is lowest."""
    return min(SCORES, key=lambda name: (_mean_risk(scored(pairs, name)), name))


def _mean_risk(found: Scored) -> float:
    risks = []
    for tenth in range(1, 10):
        most = found.at_recall(tenth / 10)
        if most is not None:
            count, wrong = found.called_safe(most)
            risks.append(wrong / count)
    return float(np.mean(risks)) if risks else 1.0


def halves(
    pairs: Sequence[Pair], inside: Callable[[str], bool] = half
) -> tuple[list[Pair], list[Pair]]:
    """Pairs of which both configurations are on the one side, and those of the other.

    Mixed pairs are left out: a job that was seen while choosing must not be reported on.
    """
    sides = [(inside(pair.names[0]), inside(pair.names[1])) for pair in pairs]
    return (
        [pair for pair, side in zip(pairs, sides, strict=True) if side == (True, True)],
        [pair for pair, side in zip(pairs, sides, strict=True) if side == (False, False)],
    )


def crossed(pairs: Sequence[Pair]) -> Iterator[tuple[list[Pair], list[Pair]]]:
    """Every pair once on the right, with all pairs on the left that share no configuration with it.

    Configurations fall into ``_FOLDS`` parts by a hash of their names; the right side is of one or
    two parts, the left side of none of these.
    """
    parts = [tuple(sorted({fold(name, _FOLDS) for name in pair.names})) for pair in pairs]
    for chosen in sorted(set(parts)):
        fitted = [
            pair for pair, part in zip(pairs, parts, strict=True) if not set(part) & set(chosen)
        ]
        rest = [pair for pair, part in zip(pairs, parts, strict=True) if part == chosen]
        yield fitted, rest


@dataclass(frozen=True, slots=True)
class Reached:
    """What advice with limits of other configurations came to, every pair judged once."""

    slowdown: float
    called_safe: int
    exceeded: int
    safe: int  # how many there were to find

    @property
    def recall(self) -> float | None:
        """Share of the safe pairs that were called safe."""
        return share(self.called_safe - self.exceeded, self.safe)

    @property
    def risk_most(self) -> float | None:
        """95 % upper bound of the share that exceeded it; None where none was called safe."""
        return upper_bound(self.exceeded, self.called_safe) if self.called_safe else None


def reached(pairs: Sequence[Pair], slowdown: float, risk_most: float) -> Reached:
    """Choose score and limit on other configurations, and count."""
    called = exceeded = safe = 0
    for fitted, rest in crossed(pairs):
        if not fitted:
            continue
        score = better_score(fitted)
        most = largest_safe(scored(fitted, score).beyond(slowdown), risk_most)
        later = scored(rest, score).beyond(slowdown)
        safe += int(np.sum(~later.unsafe))
        if most is not None:
            count, wrong = later.called_safe(most)
            called, exceeded = called + count, exceeded + wrong
    return Reached(slowdown, called, exceeded, safe)


@dataclass(frozen=True, slots=True)
class Splits:
    """Many divisions by configuration: what choosing on one side does on the other."""

    made: int
    advised: int  # divisions in which any threshold was good enough
    called_safe: int  # over all divisions, on the side of the report
    unsafe: int
    safe: int  # how many there were to find


def many_splits(pairs: Sequence[Pair], risk_most: float) -> Splits:
    """Divide the configurations ``_SPLITS`` times, choose on one side, count on the other."""
    names = sorted({name for pair in pairs for name in pair.names})
    generator = np.random.default_rng(7)
    advised = called = unsafe = safe = 0
    for _ in range(_SPLITS):
        chosen = {name for name, one in zip(names, generator.random(len(names)), strict=True)
                  if one < 0.5}  # fmt: skip # noqa: PLR2004 - half of them
        fitted, rest = halves(pairs, chosen.__contains__)
        if not fitted or not rest:
            continue
        score = better_score(fitted)
        most = largest_safe(scored(fitted, score), risk_most)
        later = scored(rest, score)
        safe += int(np.sum(~later.unsafe))
        if most is not None:
            advised += 1
            count, wrong = later.called_safe(most)
            called += count
            unsafe += wrong
    return Splits(_SPLITS, advised, called, unsafe, safe)
