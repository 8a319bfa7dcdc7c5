"""Sharing by utilisation alone: what kernel time of several jobs says of how they disturb another.

The weak form of ``share``, for cards of which neither SM nor DRAM activity can be read. It knows
only how much of the time each job has a kernel running. Jobs that wait for the CPU look alike and
fight over it, which no GPU counter shows: that is why the risk of losing 10 % never falls to what
an advice needs (docs/accuracy.md has the curve), and why the answer is "try" with the slowdown to
expect. A larger slowdown can be ruled out: ``bound`` is the least that recorded pairs as busy
exceeded so seldom that the 95 % upper bound of the risk is at most 3 %. Who tolerates as much may
be advised.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Final

from gputailor_agent.rules.calibrated import Calibrated, SharingBin, SharingLimit, calibrated


def overlap(busy: Sequence[float]) -> float:
    """Share of time in which two or more want the card at once, were they independent (0..1)."""
    none = prod(1 - one for one in busy)
    alone = sum(
        own * prod(1 - other for place, other in enumerate(busy) if place != at)
        for at, own in enumerate(busy)
    )
    return min(1.0, max(0.0, 1 - none - alone))


def summed(busy: Sequence[float]) -> float:
    """Sum of the shares of time with a kernel: more than 1 cannot fit without waiting."""
    return sum(busy)


SCORES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = MappingProxyType(
    {"overlap": overlap, "sum": summed}
)


@dataclass(frozen=True, slots=True)
class SharingOutlook:
    """What to expect of jobs on one card; None: nothing, they are too busy."""

    score: float
    bound: SharingLimit | None  # the least slowdown that is as good as never exceeded
    expected: SharingBin | None  # pairs as busy

    def advised(self, tolerated: float) -> bool:
        """Whether a slowdown of at most ``tolerated`` (a factor) is sure enough; else a trial."""
        return self.bound is not None and self.bound.slowdown <= tolerated


def sharing_outlook(busy: Sequence[float], *, figures: Calibrated | None = None) -> SharingOutlook:
    """Return what pairs like these did. ``busy``: share of time (0..1) with a kernel, each job."""
    known = (figures or calibrated()).sharing
    score = SCORES[known.score](busy)
    inside = (one for one in known.bins if score <= one.score_most)
    sure = (one for one in known.limits if one.score_most is not None and score <= one.score_most)
    return SharingOutlook(
        score=score,
        bound=min(sure, key=lambda one: one.slowdown, default=None),
        expected=next(inside, None),
    )
