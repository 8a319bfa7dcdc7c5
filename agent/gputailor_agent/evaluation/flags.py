"""What a threshold on idle time flags in a trace, and what became of it.

One flag per spell, at the first sample at which the spell is old enough. Of those whose next hour
was seen, the share that stayed at level 0 is the precision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputailor_agent.evaluation.levels import Began, Ended, Spells
from gputailor_agent.evaluation.statistics import Floats, rate_interval
from gputailor_agent.evaluation.survival import Survival, survival

HOUR_MINUTES: Final = 60.0
GRID_MINUTES: Final = (
    30.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 720.0, 840.0, 960.0,
    1200.0, 1440.0, 2160.0, 2880.0,
)  # fmt: skip
#: Kinds of spells with a threshold of their own; one that began unclear waits as if it had paused.
KINDS: Final[Mapping[str, tuple[Began, ...]]] = {
    "from_start": (Began.FROM_START,),
    "went_idle": (Began.WENT_IDLE,),
}

Thresholds = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Flagged:
    """Flags of one policy; each array has one place per flagged spell."""

    stayed: NDArray[np.bool_]
    resumed: NDArray[np.bool_]  # neither: the spell was cut within the hour
    weeks: NDArray[np.int64]
    hours_left: Floats  # from the flag to the spell's end, as far as it was seen

    @property
    def judged(self) -> int:
        """Flags whose next hour was seen."""
        return int(np.sum(self.stayed | self.resumed))

    @property
    def precision(self) -> float | None:
        """Share of the judged that stayed idle for the hour; None of none."""
        return float(np.sum(self.stayed)) / self.judged if self.judged else None

    @property
    def least(self) -> float | None:
        """Precision if every spell that was cut had resumed."""
        return float(np.mean(self.stayed)) if len(self.stayed) else None

    @property
    def most(self) -> float | None:
        """Precision if every spell that was cut had stayed idle."""
        return 1 - float(np.mean(self.resumed)) if len(self.stayed) else None

    def interval(self, tails: float = 0.025) -> tuple[float, float] | None:
        """Bootstrap interval of the precision, whole weeks drawn."""
        judged = (self.stayed | self.resumed).astype(float)
        return rate_interval(self.weeks, self.stayed.astype(float), judged, tails)


def of_kind(spells: Spells, kind: str) -> Spells:
    """Spells of one kind of ``KINDS``."""
    return spells.where(np.isin(spells.began, [int(one) for one in KINDS[kind]]))


def flag(spells: Spells, minutes: float) -> Flagged:
    """Flag every spell that reaches ``minutes``."""
    return flag_each(spells, np.full(len(spells), spells.steps(minutes)))


def flag_policy(spells: Spells, thresholds: Thresholds) -> Flagged:
    """Flag by kind; None never. A spell that began unclear takes the longest of the thresholds."""
    return flag_each(spells, steps_of(spells, thresholds))


def steps_of(spells: Spells, thresholds: Thresholds) -> NDArray[np.int64]:
    """After how many steps each spell is flagged by ``flag_policy``."""
    never = 1 << 60
    steps = {
        kind: never if minutes is None else spells.steps(minutes)
        for kind, minutes in thresholds.items()
    }
    each = np.full(len(spells), max(steps.values(), default=never))
    for kind, begun in KINDS.items():
        each[np.isin(spells.began, [int(one) for one in begun])] = steps[kind]
    return each


def flag_each(spells: Spells, steps: NDArray[np.int64]) -> Flagged:
    """Flag each spell at its own number of steps."""
    reached = spells.ticks >= steps
    more = spells.steps(HOUR_MINUTES)
    ticks, needed = spells.ticks[reached], steps[reached]
    stayed = ticks >= needed + more
    resumed = ~stayed & (spells.ended[reached] == int(Ended.WORK))
    left = (ticks - needed).astype(float) * spells.step_seconds / 3600
    return Flagged(stayed, resumed, spells.weeks[reached], left)


def choose(spells: Spells, goal: float) -> dict[str, float | None]:
    """Thresholds (minutes) by kind that free the most idle hours and still reach ``goal``.

    Reached: each kind's precision is ``goal`` or more, and that of all flags is so with 95 %
    confidence (one-sided lower bound of a bootstrap over weeks). None for a kind: never flag it.
    """
    options = {kind: _good_enough(of_kind(spells, kind), goal) for kind in KINDS}
    best: dict[str, float | None] = dict.fromkeys(KINDS)
    most = 0.0
    for values in product(*options.values()):
        thresholds = dict(zip(options, values, strict=True))
        flagged = flag_policy(spells, thresholds)
        hours = float(np.sum(flagged.hours_left))
        interval = flagged.interval(tails=0.05) if hours > most else None
        if interval is not None and interval[0] >= goal:
            best, most = thresholds, hours
    return best


def _good_enough(spells: Spells, goal: float) -> list[float | None]:
    precisions = ((minutes, flag(spells, minutes).precision) for minutes in GRID_MINUTES)
    return [minutes for minutes, value in precisions if value is not None and value >= goal] + [
        None
    ]


def curve_of(spells: Spells) -> Survival:
    """How long these spells last."""
    return survival(spells.ticks, spells.ended == int(Ended.WORK))
