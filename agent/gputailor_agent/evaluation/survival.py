"""How long spells last when the ends of some were not seen (Kaplan and Meier 1958).

Spells are counted in ticks: one less than the samples at zero. ``surviving[k]`` is the estimated
probability that a spell lasts ``k`` ticks or more. A spell that was cut (its job ended, a gap, the
end of the data) tells of the ticks it was seen for and nothing of what came after.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gputailor_agent.evaluation.statistics import Floats


@dataclass(frozen=True, slots=True)
class Survival:
    """``surviving[k]``: share of spells that last ``k`` ticks or more; ``at_risk[k]``: seen so."""

    surviving: Floats
    at_risk: NDArray[np.int64]

    def stays(self, ticks: int, more: int) -> float | None:
        """Chance of ``more`` ticks after ``ticks``; None where nothing was seen for so long."""
        if not self._known(ticks + more):
            return None
        return float(self.surviving[ticks + more] / self.surviving[ticks])

    def median_more(self, ticks: int) -> int | None:
        """Ticks that half of those at ``ticks`` still last; None beyond what was seen."""
        if not self._known(ticks):
            return None
        left = self.surviving[ticks:] / self.surviving[ticks]
        below = np.flatnonzero(left < 0.5)  # noqa: PLR2004 - the median
        return int(below[0]) - 1 if len(below) else None

    def mean_more(self, ticks: int, horizon: int) -> float | None:
        """Mean of the ticks still to come, counted up to ``horizon``; None beyond what was seen."""
        if not self._known(ticks):
            return None
        left = self.surviving[ticks + 1 : ticks + 1 + horizon] / self.surviving[ticks]
        missing = horizon - len(left)
        tail = float(left[-1]) * missing if missing > 0 and len(left) else 0.0
        return float(np.sum(left)) + tail

    def _known(self, ticks: int) -> bool:
        return ticks < len(self.surviving) and self.at_risk[ticks] > 0


def survival(ticks: NDArray[np.int64], ended: NDArray[np.bool_]) -> Survival:
    """Estimate from spells' lengths in ticks and whether each was seen to end."""
    longest = int(ticks.max()) if len(ticks) else 0
    ends = np.bincount(ticks[ended], minlength=longest + 1)
    cuts = np.bincount(ticks[~ended], minlength=longest + 1)
    reached = np.cumsum((ends + cuts)[::-1])[::-1]
    seen_on = reached - cuts  # those whose next tick was looked at
    hazard = np.divide(ends, seen_on, out=np.zeros(longest + 1), where=seen_on > 0)
    surviving = np.concatenate([[1.0], np.cumprod(1 - hazard)[:-1]])
    return Survival(surviving=surviving, at_risk=reached.astype(np.int64))
