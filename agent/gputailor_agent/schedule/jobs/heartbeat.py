"""Heartbeat: this agent lives, and how its jobs went; both in one small transaction."""

from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.lease import BEATS_PER_LEASE
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import every
from gputailor_agent.store.tasks import put_tasks


def beat(parts: Parts, now: float) -> None:
    """Renew the lease and keep how jobs went since the last time."""
    with parts.telemetry.run("heartbeat", now):
        changed = parts.telemetry.tasks.changed()
        with parts.store.transaction() as tx:
            if parts.lease is not None:
                parts.lease.beat(tx)
            put_tasks(tx, parts.settings.cluster, changed)
        parts.telemetry.tasks.kept(changed)


JOB = Job(
    name="heartbeat",
    meaning="renews the agent's lease of the store, and keeps how jobs went",
    when="every quarter of lease_seconds",
    trigger=lambda settings: every(settings.lease_seconds / BEATS_PER_LEASE),
    tick=beat,
)
