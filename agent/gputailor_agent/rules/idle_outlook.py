"""How long a GPU that is idle will probably go on being idle, by how long it has been already.

The figures are those of one university cluster (see ``calibrated``): they are a prior for others,
and ``gputailor backtest`` tells what holds on one's own.
"""

import math
from typing import Final

from gputailor_agent.model.judgement import Evidence, Scalar
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import noted
from gputailor_agent.rules.calibrated import Calibrated, IdleStep, calibrated

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_NOT_ALL: Final = 99
FORMULA: Final = (
    "Kaplan-Meier estimate over spells at level 0 of a cluster's trace, given the idle time so far"
)


def _kind(*, from_start: bool) -> str:
    return "from_start" if from_start else "went_idle"


def idle_outlook(
    idle_seconds: float, *, from_start: bool, figures: Calibrated | None = None
) -> IdleStep | None:
    """Return what is known of GPUs idle for that long (the row at or below); None before the first.

    ``from_start``: nothing has run since the pod got it, which is another case than a pause. Rows
    of which no single month had enough spells are passed over: of those nobody knows the range.
    """
    rows = (figures or calibrated()).idle.outlook.get(_kind(from_start=from_start), ())
    below = [
        row
        for row in rows
        if row.idle_minutes * _MINUTE <= idle_seconds
        and row.stays_an_hour is not None
        and row.mean_hours_least is not None
        and row.mean_hours_most is not None
    ]
    return max(below, key=lambda row: row.idle_minutes, default=None)


def sure_after_seconds(*, from_start: bool, figures: Calibrated | None = None) -> float | None:
    """Idle time (seconds) after which another idle hour is as sure as the goal; None: never."""
    minutes = (figures or calibrated()).idle.act_minutes.get(_kind(from_start=from_start))
    return None if minutes is None else minutes * _MINUTE


def act_minutes(*, from_start: bool) -> float:
    """Idle minutes from which to act, infinite where no length of idleness is sure enough."""
    seconds = sure_after_seconds(from_start=from_start)
    return math.inf if seconds is None else seconds / _MINUTE


def outlook_words(step: IdleStep) -> dict[str, Scalar]:
    """Return what a sentence says: GPUs of 100 (``stay``), hours of the next 24 (``low, high``).

    Never all of 100, for the spells that were seen are few; hours are rounded away from the mean.
    """
    stays, low, high = step.stays_an_hour, step.mean_hours_least, step.mean_hours_most
    return {
        "stay": None if stays is None else min(_NOT_ALL, math.floor(100 * stays)),
        "low": None if low is None else math.floor(low),
        "high": None if high is None else math.ceil(high),
    }


def outlook_evidence(profile: Profile, step: IdleStep) -> tuple[Evidence, ...]:
    """Return the measured figures behind that sentence, with their source."""
    source = f"{FORMULA} ({step.idle_minutes:g} min or more); {calibrated().idle.source}"
    rows = (
        ("stay idle for another hour", step.stays_an_hour, "ratio", source),
        ("idle within the next 24 h, mean", step.mean_hours, "seconds", "likewise"),
        ("idle within the next 24 h, least month", step.mean_hours_least, "seconds", "likewise"),
        ("idle within the next 24 h, most month", step.mean_hours_most, "seconds", "likewise"),
    )
    return tuple(
        noted(name, value if unit == "ratio" or value is None else value * _HOUR, unit=unit,
              profile=profile, formula=formula)
        for name, value, unit, formula in rows
    )  # fmt: skip
