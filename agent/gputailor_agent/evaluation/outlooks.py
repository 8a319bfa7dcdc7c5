"""What spells tell of those that have lasted for some time: the rows that the product states."""

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from gputailor_agent.evaluation.flags import HOUR_MINUTES, curve_of
from gputailor_agent.evaluation.levels import Spells
from gputailor_agent.rules.calibrated import IdleStep

OUTLOOK_MINUTES: Final = (30.0, 60.0, 120.0, 240.0, 360.0, 480.0, 720.0, 960.0, 1440.0, 2880.0)
#: A month with fewer spells of that age says nothing.
LEAST_SPELLS: Final = 30
_DAY_HOURS: Final = 24.0
_MONTH_SECONDS: Final = 30 * 86_400


def outlook(spells: Spells, minutes: float) -> IdleStep:
    """Return what spells of one kind tell of those that have lasted ``minutes``."""
    stays, mean, median = _of(spells, minutes)
    months = [_of(one, minutes) for one in _months(spells) if _many(one, minutes)]
    means = [one[1] for one in months if one[1] is not None]
    return IdleStep(
        idle_minutes=minutes,
        stays_an_hour=stays,
        stays_an_hour_least=min((one[0] for one in months if one[0] is not None), default=None),
        median_hours=median,
        mean_hours=mean,
        mean_hours_least=min(means, default=None),
        mean_hours_most=max(means, default=None),
    )


def outlooks(spells: Spells) -> list[dict[str, float | None]]:
    """Rows for the product, rounded; ages that no spell reached are left out."""
    rows = (outlook(spells, minutes) for minutes in OUTLOOK_MINUTES)
    return [
        {name: None if value is None else round(value, 3) for name, value in
         msgspec.structs.asdict(row).items()}
        for row in rows
        if row.stays_an_hour is not None
    ]  # fmt: skip


def _of(spells: Spells, minutes: float) -> tuple[float | None, float | None, float | None]:
    """Chance of another hour, mean idle hours of the next 24, median of them."""
    curve = curve_of(spells)
    at, hour = spells.steps(minutes), spells.step_seconds / 3600
    day = spells.steps(_DAY_HOURS * 60)
    mean, median = curve.mean_more(at, day), curve.median_more(at)
    if median is None and curve.stays(at, day) is not None:
        median = day
    return (
        curve.stays(at, spells.steps(HOUR_MINUTES)),
        None if mean is None else mean * hour,
        None if median is None else min(_DAY_HOURS, median * hour),
    )


def _months(spells: Spells) -> Iterator[Spells]:
    if len(spells):
        month = (spells.started - spells.started.min()) // _MONTH_SECONDS
        for one in np.unique(month):
            yield spells.where(month == one)


def _many(spells: Spells, minutes: float) -> bool:
    return int(np.sum(spells.ticks >= spells.steps(minutes))) >= LEAST_SPELLS
