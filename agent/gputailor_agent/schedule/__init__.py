"""The agent as a process: scrape, roll up, recommend, report, each at its time.

What is due is decided by comparing periods with the store, at the start and at each tick; the
scheduler only wakes us up. A restart therefore repeats nothing and forgets nothing.
"""

from gputailor_agent.schedule.lease import Lease, LeaseError
from gputailor_agent.schedule.service import AgentService
from gputailor_agent.schedule.settings import PageSource, ServiceSettings
from gputailor_agent.schedule.telemetry import Telemetry
from gputailor_agent.schedule.timing import (
    CronError,
    build_scheduler,
    cron_trigger,
    fires,
    last_fire,
    next_fire,
)

__all__ = [
    "AgentService",
    "CronError",
    "Lease",
    "LeaseError",
    "PageSource",
    "ServiceSettings",
    "Telemetry",
    "build_scheduler",
    "cron_trigger",
    "fires",
    "last_fire",
    "next_fire",
]
