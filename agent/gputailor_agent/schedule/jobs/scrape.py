"""Scrape: every exporter once, and what came of it into the store."""

from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.timing import every

JOB = Job(
    name="scrape",
    meaning="reads every exporter and keeps rows and checkpoint",
    when="every scrape_seconds; not with prometheus_url",
    trigger=lambda settings: every(settings.scrape_seconds),
    tick=lambda parts, now: parts.measuring.scrape(now),
    grace=lambda settings: settings.scrape_seconds,
    used=lambda parts: parts.measuring.source is not None,
)
