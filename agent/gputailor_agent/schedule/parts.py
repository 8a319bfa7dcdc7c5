"""What the agent's jobs work with; each job is a file of its own in ``schedule.jobs``."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gputailor_agent.schedule.backfill import Backfill
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.schedule.faulting import FaultWatch
from gputailor_agent.schedule.judging import Judging
from gputailor_agent.schedule.keeping import job_name
from gputailor_agent.schedule.lease import Lease
from gputailor_agent.schedule.live import Live
from gputailor_agent.schedule.measuring import Measuring
from gputailor_agent.schedule.settings import ServiceSettings
from gputailor_agent.schedule.telemetry import Telemetry
from gputailor_agent.schedule.telling import Telling
from gputailor_agent.store import Store, Transaction


@dataclass(slots=True)
class Parts:
    """One agent's parts. ``clock`` returns Unix seconds; nothing else reads a clock."""

    settings: ServiceSettings
    store: Store
    telemetry: Telemetry
    measuring: Measuring
    judging: Judging
    backfill: Backfill | None
    delivery: Delivery
    live: Live | None  # of the time since the last hour that is kept
    lease: Lease | None
    clock: Callable[[], float]
    first_start: float  # Unix seconds: nothing before it is owed
    telling: Telling | None = None  # of Events and annotations, where settings ask for them
    faults: FaultWatch = field(default_factory=FaultWatch)
    due: threading.Lock = field(default_factory=threading.Lock)  # due work, one after another

    def name(self, job: str) -> str:
        """A job's name in the store, which several clusters may share."""
        return job_name(self.settings, job)

    def mark(self, tx: Transaction, job: str, period: str, now: float, reason: str = "") -> None:
        """Note in the transaction that keeps the work that the job's period is done."""
        tx.mark_period(self.name(job), period, at=now, reason=reason)
