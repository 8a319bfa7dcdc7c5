"""Rollup: the hour that ended, written in full."""

from collections.abc import Iterator
from functools import partial

from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.schedule.due import Due
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import hourly
from gputailor_agent.store.periods import hour_name


def _due(parts: Parts, now: float) -> Iterator[Due]:
    ended = hour_name(now - HOUR_SECONDS)
    yield Due(ended, partial(_roll_up, parts, now, ended))


def _roll_up(parts: Parts, now: float, period: str) -> None:
    parts.measuring.write(now, lambda tx: parts.mark(tx, "rollup", period, now))


JOB = Job(
    name="rollup",
    meaning="writes the rows of the hour that ended",
    when="every hour",
    trigger=lambda _settings: hourly(1),
    due=_due,
    after=("history",),
)
