"""Compact: days that are over become one row a container and device; what is old goes."""

from collections.abc import Iterator
from functools import partial

from gputailor_agent.schedule.due import Due
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import hourly
from gputailor_agent.store.compacting import compact
from gputailor_agent.store.periods import hour_name


def _due(parts: Parts, now: float) -> Iterator[Due]:
    period = hour_name(now)
    yield Due(period, partial(_compact, parts, now, period))


def _compact(parts: Parts, now: float, period: str) -> None:
    settings = parts.settings
    made = compact(parts.store, settings.cluster, now, keep_days=settings.keep_days)
    with parts.store.transaction() as tx:
        parts.mark(tx, "compact", period, now)
    parts.telemetry.compacted(made.hours, made.dropped)


JOB = Job(
    name="compact",
    meaning="sums up days that are over and drops what is older than it is kept",
    when="every hour",
    trigger=lambda _settings: hourly(7),
    due=_due,
    after=("report", "ledger"),
)
