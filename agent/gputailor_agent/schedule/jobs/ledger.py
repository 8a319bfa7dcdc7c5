"""Ledger: what became of findings, moved on by the newest plan."""

from collections.abc import Iterator
from functools import partial

from gputailor_agent.ledger import follow, records
from gputailor_agent.schedule.due import Due
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import hourly
from gputailor_agent.store.ledger import Ledger
from gputailor_agent.store.periods import hour_name


def _due(parts: Parts, now: float) -> Iterator[Due]:
    if parts.judging.newest is not None:  # a plan of this process: the profiles are there, too
        period = hour_name(now)
        yield Due(period, partial(keep, parts, now, period))


def keep(parts: Parts, now: float, period: str) -> None:
    """Move every entry on by the newest plan, and show how rules fared."""
    newest, cluster = parts.judging.newest, parts.settings.cluster
    if newest is None:
        return
    with parts.store.transaction() as tx:
        book = Ledger(tx)
        known = book.newest(cluster)
        decisions = book.decisions(cluster)
        book.put(follow(known, newest.plan, newest.profiles, decisions, newest.asked))
        book.drop_old(cluster, now)
        entries = book.entries(cluster)
        parts.mark(tx, "ledger", period, now)
    parts.telemetry.ledger(records(entries))


JOB = Job(
    name="ledger",
    meaning="follows each finding: was the change made, was the saving real",
    when="every hour, after a plan",
    trigger=lambda _settings: hourly(4),
    due=_due,
    after=("recommend",),
)
