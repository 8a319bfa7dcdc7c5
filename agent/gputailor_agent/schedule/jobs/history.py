"""History: hours that the store lacks, out of a Prometheus."""

from collections.abc import Iterator
from functools import partial

from gputailor_agent.schedule.backfill import Backfill, settled_end
from gputailor_agent.schedule.due import Due
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import hourly, offset
from gputailor_agent.store.periods import hour_name


def _due(parts: Parts, now: float) -> Iterator[Due]:
    if parts.backfill is None:
        return
    last = settled_end(now - offset(parts.settings.cluster, parts.settings.jitter_seconds))
    period = hour_name(last)
    work = partial(_fill, parts, parts.backfill, now, period)
    yield Due(period, work, parts.settings.recommend_seconds)


def _fill(parts: Parts, backfill: Backfill, now: float, period: str) -> None:
    backfill.run(parts.judging.window(now).start, now)
    with parts.store.transaction() as tx:
        parts.mark(tx, "history", period, now)
    parts.telemetry.measured_up_to(backfill.end(now))


JOB = Job(
    name="history",
    meaning="reads the hours that the store lacks from the Prometheus, each hour once",
    when="every hour, some minutes past; only with prometheus_url",
    trigger=lambda _settings: hourly(3),
    due=_due,
    used=lambda parts: parts.backfill is not None,
)
