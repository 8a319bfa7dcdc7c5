"""The agent's service: what it does at each scrape and whenever something is due.

Every job catches its errors, counts them and lets the others go on. Rows and the checkpoint they
come from are written in one transaction, so a kill at any moment doubles nothing: after a restart
the exporters' counters tell what living pods used meanwhile.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from gputailor_agent.assessment import Assessment, assess_store
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.judgement import Plan
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS, UsageRow
from gputailor_agent.reports.formats import render
from gputailor_agent.rollup import encode_state
from gputailor_agent.rules.base import Catalogue, RuleSettings
from gputailor_agent.schedule.backfill import Backfill, HistoryFiller, settled_end
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.schedule.keeping import first_start, job_name, restored
from gputailor_agent.schedule.settings import (
    InventoryReader,
    PageSource,
    ServiceSettings,
)
from gputailor_agent.schedule.telemetry import Telemetry
from gputailor_agent.schedule.timing import build_scheduler, cron_trigger, last_fire
from gputailor_agent.store import KeptReport, Store
from gputailor_agent.store.periods import hour_name
from gputailor_agent.store.writing import Transaction

if TYPE_CHECKING:
    from apscheduler.schedulers.background import BackgroundScheduler

log = logging.getLogger(__name__)

_DAY_SECONDS: Final = 86400
_FIRST_RETRY_SECONDS: Final = 60.0
_LONGEST_RETRY_SECONDS: Final = 1800.0
#: A plan may cost a twentieth of the time, whatever the settings say.
_PAUSE_PER_PLAN: Final = 20.0


@dataclass(frozen=True, slots=True)
class ScrapeRound:
    """How the last round of scrapes went: its Unix time and how many targets did what."""

    at: float
    answered: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Due:
    """One job, the period it has to do, and after what time it is done again in that period."""

    job: str
    period: str
    work: Callable[[], None]
    again_seconds: float | None = None


class AgentService:
    """One cluster's agent. ``clock`` returns Unix seconds; nothing else here reads a clock.

    ``inventory_reader`` may raise: then the last known inventory is used and the plan says so.
    ``fill`` reads usage from a server that keeps it, instead of a ``source``.
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
        delivery: Delivery | None = None,
    ) -> None:
        self.settings = settings
        self.telemetry = Telemetry() if telemetry is None else telemetry
        self._store = store
        self._source = source
        self._backfill = None if fill is None else Backfill(fill, store)
        self._read_inventory = inventory_reader
        self._catalogue = catalogue
        self._clock = clock
        self._delivery = delivery or Delivery.nowhere(store, settings.cluster, clock)
        self._report = cron_trigger(settings.report_cron)
        self._rolling = threading.RLock()  # the rollup and what is written from it
        self._scraping = threading.Lock()  # rounds, so that pages come in order
        self._judging = threading.Lock()  # due work, one after another
        self._checkpointed = float("-inf")
        self._judged_seconds = 0.0  # what the last plan took
        self._last_round: ScrapeRound | None = None
        self._scheduler: BackgroundScheduler | None = None
        self._rollup = restored(store, settings, self.telemetry)
        self._plan = store.latest_plan(settings.cluster)
        if self._plan is not None:
            self.telemetry.planned(self._plan)
        self._first_start = first_start(store, settings, clock())

    @property
    def registry(self) -> CollectorRegistry:
        """The agent's own metrics."""
        return self.telemetry.registry

    def latest_plan(self) -> Plan | None:
        """Return the newest plan; None before the first one is made."""
        return self._plan

    @property
    def rules(self) -> RuleSettings:
        """Thresholds that plans are made with."""
        return self.settings.assessment.rules

    def not_ready(self) -> str:
        """Why there is no report yet; '' when there is one."""
        return "" if self._plan is not None else "the first plan is not made yet"

    def last_round(self) -> ScrapeRound | None:
        """How the last round of scrapes went; None before the first."""
        return self._last_round

    def reports(self) -> list[KeptReport]:
        """Return which weekly reports are kept, newest first."""
        return self._store.reports(self.settings.cluster)

    def report(self, period: str) -> tuple[str, str] | None:
        """Return a kept report as (JSON, Markdown); None when there is none of that period."""
        return self._store.report(self.settings.cluster, period)

    def start(self) -> None:
        """Begin in the background: at once one scrape and everything that is due."""
        work: dict[str, Callable[[], object]] = {
            "start": self._begin,
            "due": lambda: self.run_due(self._clock()),
            "hourly": lambda: self.run_due(self._clock()),
            "report": lambda: self.run_due(self._clock()),
            "deliver": lambda: self._delivery.run(self._clock()),
        }
        if self._source is not None:
            work["scrape"] = lambda: self.tick_scrape(self._clock())
        self._scheduler = build_scheduler(self.settings, work, self.telemetry.ran)
        self._scheduler.start()

    def mind_clock(self) -> None:
        """Wake jobs that wait for a time too far ahead, as they do after the clock was set back."""
        waits = {"scrape": self.settings.scrape_seconds, "due": self.settings.tick_seconds}
        now = self._clock()
        for job in self._scheduler.get_jobs() if self._scheduler is not None else ():
            ahead = job.next_run_time.timestamp() - now
            if ahead > 2 * waits.get(job.id, float("inf")):
                log.warning("the clock was set back; %s goes on from now", job.id)
                job.modify(next_run_time=datetime.fromtimestamp(now, UTC))

    def stop(self) -> None:
        """Let running work end, write what is there, and stop."""
        if self._scheduler is not None:
            self._delivery.stop()
            self.flush(self._clock())  # whatever a mail server makes us wait for
            self._scheduler.shutdown(wait=True)
            self._scheduler = None
        self.flush(self._clock())
        self._delivery.release()

    def _begin(self) -> None:
        now = self._clock()
        self.tick_scrape(now)
        self.run_due(now)

    def tick_scrape(self, now: float) -> bool:
        """Scrape every target once and keep what came of it; False when that failed."""
        if self._source is None:
            return False
        with self._scraping, self.telemetry.run("scrape", now) as run:
            result = self._source.scrape(now)
            with self._rolling:
                self._rollup.mind_clock(now)
                answered = []
                for page in result.pages:
                    self._rollup.add(page)
                    answered.append(page.exporter)
                self.telemetry.rollup_problems(self._rollup.problems)
                if not 0 <= now - self._checkpointed < self.settings.checkpoint_seconds:
                    self._write(self._rollup.take_rows(before=now), now)
            self._last_round = ScrapeRound(now, len(answered), len(result.failures))
            self.telemetry.scraped(answered, result.failures)
        return run.went_well

    def flush(self, now: float) -> bool:
        """Write every row, the open hours' too, and the checkpoint; False when that failed."""
        with self.telemetry.run("flush", now) as run, self._rolling:
            self._write(self._rollup.take_rows(), now)
        return run.went_well

    def run_due(self, now: float) -> list[str]:
        """Do what is due at ``now``, by the store's periods; returns the jobs that were tried."""
        with self._judging:
            tried = []
            for due in self._due(now):
                try:
                    wanted = self._wanted(due, now)
                except Exception:
                    log.exception("the store cannot tell whether %s is due", due.job)
                    self.telemetry.ran(due.job, "failed")
                    continue
                if wanted:
                    tried.append(due.job)
                    self._do(due, now)
            return tried

    def recommend(self, now: float) -> Plan:
        """Make a plan from everything there is at ``now``, keep it and return it."""
        return self._recommend(now, None)

    def _due(self, now: float) -> Iterator[_Due]:
        """Each job with the period that ``now`` asks for, in the order they build on each other."""
        if self._backfill is not None:
            pause = self.settings.recommend_seconds
            last = hour_name(settled_end(now))
            yield _Due("history", last, lambda: self._fill(now, last), pause)
        ended = hour_name(now - HOUR_SECONDS)
        yield _Due("rollup", ended, lambda: self._roll_up(now, ended))
        hour = hour_name(now)

        def recommend() -> None:
            self._recommend(now, hour)

        yield _Due("recommend", hour, recommend, self._plan_pause(now))
        fire = last_fire(self._report, now)
        if fire is not None and fire >= self._first_start and self._has_data(fire, now):
            period = f"{hour_name(fire)}:{int(fire) % HOUR_SECONDS // 60:02d}"
            yield _Due("report", period, lambda: self._make_report(fire, now, period))

    def _plan_pause(self, now: float) -> float:
        """How old a plan has to be before the next one is made.

        As the settings say; while the store is young half its age, so that what is measured first
        shows within a minute; but never so that plans take over the agent.
        """
        young = max(0.0, now - self._first_start) / 2
        pause = min(self.settings.recommend_seconds, young)
        return max(pause, _PAUSE_PER_PLAN * self._judged_seconds)

    def _wanted(self, due: _Due, now: float) -> bool:
        known = self._store.period(self._job(due.job), due.period)
        if known is None:
            return True
        wait = due.again_seconds
        if known.state != "done":
            retry = _FIRST_RETRY_SECONDS * 2 ** min(10, known.attempts - 1)
            wait = min(_LONGEST_RETRY_SECONDS, retry)
        if wait is None:
            return False
        return not 0 <= now - known.changed_at < wait  # a clock may have been set back

    def _do(self, due: _Due, now: float) -> None:
        with self.telemetry.run(due.job, now) as run:
            due.work()
        if run.error is not None:
            reason = f"{type(run.error).__name__}: {run.error}"
            with self.telemetry.run("bookkeeping", now), self._store.transaction() as tx:
                tx.mark_period(
                    self._job(due.job), due.period, at=now, state="failed", reason=reason
                )

    def _job(self, job: str) -> str:
        return job_name(self.settings, job)

    def _has_data(self, fire: float, now: float) -> bool:
        return self._backfill is None or self._backfill.ready(fire, now)

    def _fill(self, now: float, period: str) -> None:
        if self._backfill is not None:
            self._backfill.run(self._window(now).start, now)
            with self._store.transaction() as tx:
                self._marking("history", period, now)(tx)

    def _roll_up(self, now: float, period: str | None) -> None:
        with self._rolling:
            self._write(self._rollup.take_rows(), now, self._marking("rollup", period, now))

    def _recommend(self, now: float, period: str | None) -> Plan:
        began = time.perf_counter()
        self._roll_up(now, None)  # the open hours' rows, too
        inventory, problems = self._inventory(now)
        end = now if self._backfill is None else self._backfill.end(now)
        assessment = self._assess(inventory, end, now, problems)
        with self._store.transaction() as tx:
            tx.put_resolution(self.settings.cluster, assessment.resolution, now)
            tx.put_plan(assessment.plan)
            self._delivery.keep_notices(tx, assessment.plan)
            self._marking("recommend", period, now)(tx)
        self._judged_seconds = time.perf_counter() - began
        self._plan = assessment.plan
        self.telemetry.planned(assessment.plan)
        return assessment.plan

    def _make_report(self, fire: float, now: float, period: str) -> None:
        inventory, problems = self._inventory(now)
        end = fire // HOUR_SECONDS * HOUR_SECONDS  # whole hours: the same whenever it is made
        plan = self._assess(inventory, end, now, problems).plan
        document, markdown = render(plan, "json"), render(plan, "markdown")
        deliver = self._delivery.report(plan, period)
        with self._store.transaction() as tx:
            tx.put_report(
                plan.cluster,
                period,
                made_at=now,
                window=plan.window,
                document=document,
                markdown=markdown,
            )
            deliver(tx)
            self._marking("report", period, now)(tx)

    def _assess(
        self, inventory: Inventory, end: float, now: float, problems: Iterable[str]
    ) -> Assessment:
        return assess_store(
            self._store,
            self.settings.cluster,
            inventory,
            self._window(end),
            now=now,
            catalogue=self._catalogue,
            settings=self.settings.assessment,
            measured_since=self._first_start if self._source is not None else None,
            problems=(*problems, *self._backfill.problems) if self._backfill else tuple(problems),
            sources=self._sources(),
        )

    def _sources(self) -> tuple[str, ...]:
        if self._backfill is not None:
            return ("Prometheus",)
        return ("exporters scraped by the agent",) if self._source is not None else ()

    def _window(self, end: float) -> Window:
        start = end - self.settings.window_days * _DAY_SECONDS
        return Window(start=float(start // HOUR_SECONDS * HOUR_SECONDS), end=end)

    def _inventory(self, now: float) -> tuple[Inventory, tuple[str, ...]]:
        """Return what was asked for as last known, after trying to read it anew."""
        cluster, problems = self.settings.cluster, list[str]()
        try:
            seen = self._read_inventory(now)
            problems.extend(seen.problems)
            with self._store.transaction() as tx:
                tx.put_inventory(seen)
        except Exception as error:
            log.exception("the inventory could not be read")
            self.telemetry.ran("inventory", "failed")
            problems.append(
                f"the inventory could not be read ({error}); pods and nodes are as last known"
            )
        since = self._window(now).start
        return self._store.inventory(cluster, now, since=since), tuple(problems)

    def _marking(self, job: str, period: str | None, now: float) -> Callable[[Transaction], None]:
        def mark(tx: Transaction) -> None:
            if period is not None:
                tx.mark_period(self._job(job), period, at=now)

        return mark

    def _write(
        self,
        rows: list[UsageRow],
        now: float,
        more: Callable[[Transaction], None] | None = None,
    ) -> None:
        """Write rows, devices and the checkpoint as one; on failure the rows stay to be written."""
        try:
            body = encode_state(self._rollup.state())
            with self._store.transaction() as tx:
                tx.put_usage(rows)
                tx.put_devices(self._rollup.devices())
                tx.put_checkpoint(self._job("rollup"), body)
                if more is not None:
                    more(tx)
        except BaseException:
            self._rollup.give_back(rows)
            raise
        self._checkpointed = now
        self.telemetry.wrote_rows(len(rows))
