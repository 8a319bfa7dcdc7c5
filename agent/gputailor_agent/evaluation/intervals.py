"""Whether stated intervals hold what was measured, and the margins that they need for it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gputailor_agent.evaluation.base import Cell, Figure, at_least
from gputailor_agent.evaluation.statistics import Floats, rate_interval, student_quantile
from gputailor_agent.model.judgement import Interval
from gputailor_agent.rules.calibrated import Margins
from gputailor_agent.rules.margins import widened

GOAL: Final = 0.95
#: What the margins are chosen to hold on the jobs at hand, so that others still hold 95 %.
_CHOSEN_FOR: Final = 0.98


@dataclass(frozen=True, slots=True)
class Stated:
    """One measured slowdown beside the interval that was stated for it. ``job`` groups them."""

    job: str
    measured: float
    interval: Interval

    @property
    def held(self) -> bool:
        """Whether the measured value lies inside."""
        return self.interval.low <= self.measured <= self.interval.high

    def with_margins(self, margins: Margins) -> "Stated":
        """The same with the interval widened as the product does."""
        return Stated(self.job, self.measured, widened(self.interval, margins))


def margins_for(stated: Sequence[Stated], source: str = "") -> Margins:
    """Least margins that hold ``_CHOSEN_FOR``, half of what is left out at either end."""
    tail = (1 - _CHOSEN_FOR) / 2
    above = np.array([one.measured / one.interval.high for one in stated])
    below = np.array([one.interval.low / one.measured for one in stated])
    return Margins(
        source=source,
        low=_rounded(below, 1 - tail),
        high=_rounded(above, 1 - tail),
    )


def predicted_margins(stated: Sequence[Stated], level: float = GOAL, source: str = "") -> Margins:
    """Margins for a case of a job (a group) that was not seen, where few groups were.

    No quantile of few groups reaches 95 %, so the logarithms of what strayed are taken as normal:
    a prediction interval by Student's t with one degree less than there are groups, every group of
    one weight, the spread between groups and within them together (Hahn and Meeker, Statistical
    Intervals, 1991), for ``level``, half of what is left out at either end. One group alone tells
    nothing of others: there the margins are those of ``margins_for``.
    """
    groups = sorted({one.job for one in stated})
    if len(groups) < 2:  # noqa: PLR2004 - no spread between fewer
        return margins_for(stated, source)
    low = [np.log([s.interval.low / s.measured for s in stated if s.job == g]) for g in groups]
    high = [np.log([s.measured / s.interval.high for s in stated if s.job == g]) for g in groups]
    return Margins(source=source, low=_predicted(low, level), high=_predicted(high, level))


def _predicted(groups: Sequence[Floats], level: float) -> float:
    """Upper end of the prediction interval, 1 at least, up to the next hundredth."""
    count = len(groups)
    mean = float(np.mean([np.mean(group) for group in groups]))
    spread = float(np.mean([np.mean((group - mean) ** 2) for group in groups]))
    deviation = np.sqrt(spread * count / (count - 1) * (1 + 1 / count))
    rank = 1 - (1 - level) / 2
    most = float(np.exp(mean + student_quantile(rank, count - 1) * deviation))
    return max(1.0, float(np.ceil(most * 100 - 1e-9) / 100))


def same_margins(one: Margins, other: Margins) -> bool:
    """Whether both widen alike: then the one was chosen on the jobs of the other."""
    return (one.low, one.high) == (other.low, other.high)


def told_margins(margins: Margins) -> str:
    """Return the product's margins and where they were chosen."""
    return (
        f"the product's margins: low / {margins.low:g}, high x {margins.high:g}, chosen on "
        f"{margins.source}"
    )


def _rounded(values: Floats, q: float) -> float:
    """The quantile for values that were not seen, 1 at least, up to the next hundredth.

    One rank above that of the values at hand: of few, the largest.
    """
    if not len(values):
        return 1.0
    rank = min(len(values), int(np.ceil(q * (len(values) + 1))))
    return max(1.0, float(np.ceil(np.sort(values)[rank - 1] * 100 - 1e-9) / 100))


def left_out(
    stated: Sequence[Stated], choose: Callable[[Sequence[Stated]], Margins] = margins_for
) -> list[Stated]:
    """Each job with the margins chosen on all other jobs; nothing where there is one job only."""
    jobs = sorted({one.job for one in stated})
    found = []
    for job in jobs:
        others = [one for one in stated if one.job != job]
        if others:
            margins = choose(others)
            found += [one.with_margins(margins) for one in stated if one.job == job]
    return found


def held_share(stated: Sequence[Stated]) -> float | None:
    """Share of measured values inside their intervals."""
    return sum(one.held for one in stated) / len(stated) if stated else None


def median_width(stated: Sequence[Stated]) -> float | None:
    """Median of high / low: 1 says it exactly, 2 leaves it open by a factor of two."""
    widths = [one.interval.high / one.interval.low for one in stated]
    return float(np.median(widths)) if widths else None


def figures(
    name: str, stated: Sequence[Stated], *, goal: bool = True, seen: bool = False
) -> tuple[Figure, ...]:
    """Share inside with a bootstrap over jobs, share above the interval, and the median width.

    ``seen``: the margins were chosen on these very jobs, so that no goal can be met by them.
    """
    value = held_share(stated)
    groups = np.array([one.job for one in stated])
    inside = np.array([one.held for one in stated], dtype=float)
    low, high = rate_interval(groups, inside, np.ones(len(stated))) or (None, None)
    above = sum(one.measured > one.interval.high for one in stated)
    note = f"slower than stated: {above} of {len(stated)}"
    if seen:
        note += "; chosen on these jobs, so no proof"
    more = {"low": low, "high": high, "cases": len(stated), "note": note}
    title = f"{name}: measured slowdown inside the interval"
    if goal and not seen:
        first = at_least(title, value, GOAL, **more)
    else:
        first = Figure(name=title, value=value, **more)  # type: ignore[arg-type]
    width = Figure(
        name=f"{name}: median width (high / low)", value=median_width(stated), unit="factor",
        cases=len(stated),
    )  # fmt: skip
    return first, width


def by_group(
    stated: Iterable[Stated], key: Callable[[Stated], str] = lambda one: one.job
) -> tuple[tuple[Cell, ...], ...]:
    """Rows of group, cases, share inside, share above, median width."""
    groups: dict[str, list[Stated]] = {}
    for one in stated:
        groups.setdefault(key(one), []).append(one)
    return tuple(
        (name, len(members), held_share(members),
         sum(one.measured > one.interval.high for one in members) / len(members),
         median_width(members))
        for name, members in sorted(groups.items())
    )  # fmt: skip
