"""The agent's service: its jobs, woken by a scheduler, and what pages show of it.

Every job catches its errors, counts them and lets the others go on. What is due is decided from the
store at the start and at each tick; jobs are files of their own in ``schedule.jobs``.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apscheduler.jobstores.base import JobLookupError
from prometheus_client import CollectorRegistry

from gputailor_agent.ledger import records
from gputailor_agent.model.judgement import Plan
from gputailor_agent.model.ledger import Entry, RuleRecord
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.remembering import of_store
from gputailor_agent.rules.base import Catalogue, RuleSettings
from gputailor_agent.schedule.backfill import Backfill, HistoryFiller
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.schedule.due import Due, wanted
from gputailor_agent.schedule.jobs import Job, before, jobs
from gputailor_agent.schedule.jobs.heartbeat import beat
from gputailor_agent.schedule.jobs.recommend import make_plan
from gputailor_agent.schedule.judging import Judging
from gputailor_agent.schedule.keeping import first_start
from gputailor_agent.schedule.lease import Lease
from gputailor_agent.schedule.live import Live
from gputailor_agent.schedule.measuring import Measuring, ScrapeRound
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.settings import (
    InventoryReader,
    PageSource,
    ServiceSettings,
)
from gputailor_agent.schedule.telemetry import STORE, Telemetry
from gputailor_agent.schedule.telling import Telling, lane
from gputailor_agent.schedule.timing import Wake, at_once, build_scheduler, every, too_far_ahead
from gputailor_agent.store import KeptReport, Store, StoreError
from gputailor_agent.store.ledger import Ledger
from gputailor_agent.store.tasks import Task, kept_tasks, letters_by_state

if TYPE_CHECKING:
    from apscheduler.schedulers.background import BackgroundScheduler

__all__ = ["AgentService", "ScrapeRound"]

log = logging.getLogger(__name__)

_TICK_GRACE_SECONDS: Final = 3600.0


class AgentService:
    """One cluster's agent. ``clock`` returns Unix seconds; nothing else here reads a clock.

    ``inventory_reader`` may raise: then the last known inventory is used and the plan says so.
    ``fill`` reads usage from a server that keeps it, instead of a ``source``, and ``live`` what is
    too young to be kept. ``lease``: taken already; without one nothing keeps a second agent away.
    """

    def __init__(  # noqa: PLR0917 - the six parts it is made of, in the order of the data's way
        self,
        settings: ServiceSettings,
        store: Store,
        source: PageSource | None,
        inventory_reader: InventoryReader,
        catalogue: Catalogue,
        clock: Callable[[], float] = time.time,
        *,
        telemetry: Telemetry | None = None,
        fill: HistoryFiller | None = None,
        live: Live | None = None,
        delivery: Delivery | None = None,
        telling: Telling | None = None,
        lease: Lease | None = None,
        store_file: Path | None = None,
    ) -> None:
        self.telemetry = Telemetry() if telemetry is None else telemetry
        store.watched = self.telemetry.storing
        began = first_start(store, settings, clock())
        backfill = None if fill is None else Backfill(fill, store)
        measuring = Measuring(settings, store, source, self.telemetry)
        judging = Judging(
            settings,
            store,
            inventory_reader,
            catalogue,
            self.telemetry,
            backfill=backfill,
            measured_since=None if source is None else began,
        )
        self.parts = Parts(
            settings=settings,
            store=store,
            telemetry=self.telemetry,
            measuring=measuring,
            judging=judging,
            backfill=backfill,
            live=live,
            delivery=delivery or Delivery.nowhere(store, settings.cluster, clock),
            lease=lease,
            clock=clock,
            first_start=began,
            telling=telling,
        )
        self._store_file = store_file
        self._scheduler: BackgroundScheduler | None = None
        self._jobs = tuple(job for job in jobs() if job.used(self.parts))
        self._know()

    def _know(self) -> None:
        """Begin with what an agent before us left of jobs and findings."""
        names = {job.name for job in self._jobs}
        with self.parts.store.transaction() as tx:
            kept = kept_tasks(tx, self.settings.cluster)
            entries = Ledger(tx).entries(self.settings.cluster)
        self.telemetry.tasks.know(task for task in kept if task.job in names)
        self.telemetry.expect(sorted(names))
        self.telemetry.ledger(records(entries))

    @property
    def settings(self) -> ServiceSettings:
        """Settings in force."""
        return self.parts.settings

    @property
    def registry(self) -> CollectorRegistry:
        """The agent's own metrics."""
        return self.telemetry.registry

    @property
    def rules(self) -> RuleSettings:
        """Thresholds that plans are made with."""
        return self.settings.assessment.rules

    def latest_plan(self) -> Plan | None:
        """Return the newest plan; None before the first one is made."""
        return self.parts.judging.plan

    def not_ready(self) -> str:
        """Why no report can be served; '' when one can."""
        if self.overtaken:
            return "another agent has taken over this store"
        return "" if self.latest_plan() is not None else "the first plan is not made yet"

    def troubles(self) -> list[str]:
        """What is wrong just now, as lines; a report can be served all the same."""
        return self.telemetry.troubles.told()

    def last_round(self) -> ScrapeRound | None:
        """How the last round of scrapes went; None before the first."""
        return self.parts.measuring.last_round

    def reports(self) -> list[KeptReport]:
        """Return which weekly reports are kept, newest first."""
        return self.parts.store.reports(self.settings.cluster)

    def report(self, period: str) -> tuple[str, str] | None:
        """Return a kept report as (JSON, Markdown); None when there is none of that period."""
        return self.parts.store.report(self.settings.cluster, period)

    def tasks(self) -> list[Task]:
        """How each job went, by name."""
        return self.telemetry.tasks.all()

    def ledger(self) -> tuple[list[Entry], list[RuleRecord]]:
        """What became of findings: every entry, and how each rule fared."""
        with self.parts.store.transaction() as tx:
            entries = Ledger(tx).entries(self.settings.cluster)
        return entries, records(entries)

    def start(self) -> None:
        """Begin in the background: at once one scrape and everything that is due.

        Whoever breaks into it (a signal) finds nothing running afterwards.
        """
        self._scheduler = build_scheduler(self._wakes(), self.telemetry.ran)
        try:
            self._scheduler.start()
        except BaseException:
            self.stop()
            raise

    def _wakes(self) -> Iterator[Wake]:
        settings = self.settings
        yield "start", at_once(), _TICK_GRACE_SECONDS, self._begin
        tick = every(settings.tick_seconds)
        yield "tick", tick, _TICK_GRACE_SECONDS, lambda: self._tick(self.parts.clock())
        for job in self._jobs:
            trigger, grace = job.trigger(settings), job.grace(settings)
            yield job.name, trigger, grace, self._waking(job)

    def _waking(self, job: Job) -> Callable[[], object]:
        if job.tick is not None:
            tick = job.tick
            return lambda: tick(self.parts, self.parts.clock())
        return lambda: self.run_due(self.parts.clock(), upto=job.name)

    def mind_clock(self) -> None:
        """Wake jobs that wait for a time too far ahead, as they do after the clock was set back.

        Likewise those that the store made fail: it may answer again long before their own time.

        To be called by the thread that stops the service, never by a job: the scheduler holds its
        lock while it waits for jobs to end.
        """
        now = self.parts.clock()
        soon = now + self.settings.tick_seconds
        failed = self.telemetry.troubles.of_store()
        for job in self._scheduler.get_jobs() if self._scheduler is not None else ():
            set_back = too_far_ahead(job, now)
            if set_back:
                log.warning("the clock was set back; %s goes on from now", job.id)
            later = job.next_run_time is not None and job.next_run_time.timestamp() > soon
            if set_back or (later and job.id in failed):
                with suppress(JobLookupError):  # it ran meanwhile, and does not come again
                    job.modify(next_run_time=datetime.fromtimestamp(now, UTC))
            if job.next_run_time is not None and job.id in {one.name for one in self._jobs}:
                self.telemetry.tasks.next(job.id, job.next_run_time.timestamp())

    @property
    def overtaken(self) -> bool:
        """Whether another agent has taken over: this one can only stop."""
        return self.parts.lease is not None and self.parts.lease.lost

    def change(
        self,
        settings: ServiceSettings,
        *,
        source: PageSource | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        """Go on by other settings, whose cluster is the same; ``source``: in place of the former.

        Running work ends by the settings it began with.
        """
        with self.parts.due:
            self.parts.settings = settings
            self.parts.judging.change(settings, catalogue)
            self.parts.measuring.change(settings, source)
        for name, trigger, grace, _ in self._wakes():
            job = None if self._scheduler is None else self._scheduler.get_job(name)
            if job is not None and name != "start" and str(job.trigger) != str(trigger):
                job.modify(misfire_grace_time=max(1, int(grace)))
                job.reschedule(trigger)

    def stop(self) -> None:
        """Let running work end, write what is there, and stop."""
        delivery, telling = self.parts.delivery, self.parts.telling
        if self._scheduler is not None:
            delivery.stop()
            if telling is not None:
                telling.stop()
            if not self.overtaken:
                self.flush(self.parts.clock())  # whatever a mail server makes us wait for
            if self._scheduler.running:
                self._scheduler.shutdown(wait=True)
            self._scheduler = None
        if self.overtaken:
            return
        self.flush(self.parts.clock())
        beat(self.parts, self.parts.clock())
        delivery.release()

    def _begin(self) -> None:
        now = self.parts.clock()
        self.tick_scrape(now)
        self._tick(now)

    def _tick(self, now: float) -> None:
        self.run_due(now)
        self.telemetry.store_size(self._store_file)
        with self.telemetry.run("tick", now), self.parts.store.transaction() as tx:
            cluster = self.settings.cluster
            self.telemetry.letters(letters_by_state(tx, cluster, lane(cluster)))

    def tick_scrape(self, now: float) -> bool:
        """Scrape every target once and keep what came of it; False when that failed."""
        return self.parts.measuring.scrape(now)

    def flush(self, now: float) -> bool:
        """Write every row, the open hours' too, and the checkpoint; False when that failed."""
        return self.parts.measuring.flush(now)

    def recommend(self, now: float) -> Plan:
        """Make a plan from everything there is at ``now``, keep it and return it."""
        with self.parts.due:
            return make_plan(self.parts, now)

    def beside(self) -> Beside:
        """What a weekly report of the newest plan would tell beside it: courses of use and more."""
        newest = self.parts.judging.newest
        if newest is None:
            return NOTHING
        rules = self.settings.assessment.rules
        return of_store(self.parts.store, newest.plan, newest.resolution, rules)

    def run_due(self, now: float, *, upto: str = "") -> list[str]:
        """Do what is due at ``now``, by the store's periods; returns the jobs that were tried.

        ``upto``: only this job and those it builds on.
        """
        chosen = before(upto) if upto else None
        tried = []
        with self.parts.due:
            for job in self._jobs:
                if job.due is None or (chosen is not None and job.name not in chosen):
                    continue
                for due in self._asked(job, now):
                    tried.append(job.name)
                    self._do(job.name, due, now)
        return tried

    def _asked(self, job: Job, now: float) -> list[Due]:
        """What of a job is due; nothing where the store cannot tell."""
        asked = self.parts.name(job.name)
        try:
            found = job.due(self.parts, now) if job.due is not None else ()
            due_now = [
                due for due in found if wanted(due, self.parts.store.period(asked, due.period), now)
            ]
        except Exception as error:  # noqa: BLE001 - it is told, and the other jobs go on
            self.telemetry.ran(job.name, "failed")
            # a store that does not answer is no job's trouble: none of them may be due
            of_store = isinstance(error, StoreError)
            self.telemetry.failed(STORE if of_store else job.name, now, error)
            return []
        self.telemetry.well(STORE, now)
        return due_now

    def _do(self, job: str, due: Due, now: float) -> None:
        with self.telemetry.run(job, now) as run:
            due.work()
        # what the store could not take is due again at the next tick, not after a while
        if run.error is not None and not isinstance(run.error, StoreError):
            reason = f"{type(run.error).__name__}: {run.error}"
            with self.telemetry.run("bookkeeping", now), self.parts.store.transaction() as tx:
                tx.mark_period(
                    self.parts.name(job), due.period, at=now, state="failed", reason=reason
                )
