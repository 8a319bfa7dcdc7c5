"""Recommend: a plan from everything there is, and notices of what went idle."""

from collections.abc import Iterator
from functools import partial

from gputailor_agent.assessment import Assessment
from gputailor_agent.model.judgement import Plan
from gputailor_agent.schedule.due import Due
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import every
from gputailor_agent.store import Transaction
from gputailor_agent.store.periods import hour_name


def _due(parts: Parts, now: float) -> Iterator[Due]:
    hour = hour_name(now)
    pause = parts.judging.pause(now, parts.first_start)
    yield Due(hour, partial(make_plan, parts, now, hour), pause)


def make_plan(parts: Parts, now: float, period: str = "") -> Plan:
    """Write the open hours' rows, too, and make a plan of all of it."""
    parts.measuring.write(now)

    def keep(tx: Transaction, made: Assessment) -> None:
        parts.delivery.keep_notices(tx, made.plan)
        if period:
            parts.mark(tx, "recommend", period, now)

    return parts.judging.recommend(now, keep)


JOB = Job(
    name="recommend",
    meaning="makes the plan and puts notices of what went idle into the outbox",
    when="every recommend_seconds, but at most a twentieth of the time",
    trigger=lambda settings: every(settings.recommend_seconds),
    due=_due,
    after=("rollup",),
)
