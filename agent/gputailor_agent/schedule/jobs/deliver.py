"""Deliver: what is in the outbox goes out."""

from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import every


def _deliver(parts: Parts, now: float) -> None:
    """Send; the delivery counts rounds in which there was something to send by itself."""
    with parts.telemetry.looking("deliver", now) as looked:
        parts.delivery.run(now)
        looked.trouble = parts.delivery.trouble


JOB = Job(
    name="deliver",
    meaning="sends what is in the outbox",
    when="every 15 seconds",
    trigger=lambda settings: every(settings.deliver_seconds),
    tick=_deliver,
)
