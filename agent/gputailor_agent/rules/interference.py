"""Sharing by utilisation alone: what kernel time of several jobs says of how they disturb another.

The weak form of ``share``, for cards of which neither SM nor DRAM activity can be read. It knows
only how much of the time each job has a kernel running. Jobs that wait for the CPU look alike and
fight over it, which no GPU counter shows: that is why the risk never falls to what an advice needs
(docs/accuracy.md has the curve), and why the answer is "try" with the slowdown to expect.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Final

from gputailor_agent.rules.calibrated import Calibrated, SharingBin, calibrated


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
    """What to expect of jobs on one card. ``advised``: the risk is small enough; else a trial."""

    score: float
    advised: bool
    expected: SharingBin | None  # None: busier than any pair that was measured


def sharing_outlook(busy: Sequence[float], *, figures: Calibrated | None = None) -> SharingOutlook:
    """Return what pairs like these did. ``busy``: share of time (0..1) with a kernel, each job."""
    known = (figures or calibrated()).sharing
    score = SCORES[known.score](busy)
    most = known.advise_score_most
    inside = (one for one in known.bins if score <= one.score_most)
    return SharingOutlook(
        score=score,
        advised=most is not None and score <= most,
        expected=next(inside, None),
    )
