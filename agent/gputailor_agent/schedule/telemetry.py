"""The agent's own metrics, in a registry of their own; names come from ``metrics``."""

import logging
import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics

from gputailor_agent import metrics
from gputailor_agent.model.addresses import without_secrets
from gputailor_agent.model.judgement import Finding, Plan, Verdict
from gputailor_agent.model.ledger import RuleRecord
from gputailor_agent.schedule.saying import Saying
from gputailor_agent.schedule.settings import Failure
from gputailor_agent.schedule.tasks import Tasks
from gputailor_agent.schedule.troubles import STORE_REASONS, Troubles, reason_of
from gputailor_agent.store import StoreError
from gputailor_agent.store.tasks import Task
from gputailor_exporter.metrics import Family

#: Findings shown one by one; each is a series in somebody's Prometheus.
SHOWN_FINDINGS: Final = 1000
#: What a trouble of the store alone is called, before any job could begin.
STORE: Final = "store"
_OUTCOMES: Final = ("done", "failed", "missed", "skipped")

# without it each counter has a second series, which nobody reads
disable_created_metrics()  # type: ignore[no-untyped-call]  # untyped in the library

log = logging.getLogger(__name__)


class Run:
    """How a job's body ended."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    @property
    def went_well(self) -> bool:
        """Whether nothing was raised."""
        return self.error is None


class Looked:
    """What a look found wrong; '' for nothing."""

    def __init__(self) -> None:
        self.trouble = ""


class Telemetry:
    """Counters and gauges of one agent; ``tasks`` and ``troubles`` are the same for people."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self.tasks = Tasks()
        self.troubles = Troubles()
        self.saying = Saying()
        self._runs = self._counter(metrics.RUNS)
        self._errors = self._counter(metrics.JOB_ERRORS)
        self._last_success = self._gauge(metrics.LAST_SUCCESS)
        self._duration = self._gauge(metrics.JOB_DURATION)
        self._scrapes = self._counter(metrics.SCRAPES)
        self._scrape_failures = self._counter(metrics.SCRAPE_FAILURES)
        self._rows = self._counter(metrics.ROLLUP_ROWS)
        self._problems = self._counter(metrics.ROLLUP_PROBLEMS)
        self._usage_end = self._absent_gauge(metrics.USAGE_END)
        self._plan = PlanGauges(self.registry)
        self._ledger = LedgerGauges(self.registry)
        self._store_runs = self._counter(metrics.STORE_TRANSACTIONS)
        self._store_seconds = self._counter(metrics.STORE_SECONDS)
        self._store_errors = self._counter(metrics.STORE_ERRORS)
        self._store_bytes = self._absent_gauge(metrics.STORE_BYTES)
        self._compacted = self._counter(metrics.COMPACTED)
        self._letters = self._gauge(metrics.LETTERS)
        self._reloaded = self._absent_gauge(metrics.RELOADED)
        self._reload_well = self._absent_gauge(metrics.RELOAD_WELL)
        self._known_problems: Tally[str] = Tally()
        self._failing: dict[str, str] = {}  # target -> reason, in the last round
        for outcome in ("done", "failed"):
            self._store_runs.labels(outcome)
        for reason in STORE_REASONS:
            self._store_errors.labels(reason)

    def _counter(self, family: Family) -> Counter:
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def _gauge(self, family: Family) -> Gauge:
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    @staticmethod
    def _absent_gauge(family: Family) -> Gauge:
        """A gauge that is not there until it is known: unknown is not 0."""
        return Gauge(family.name, family.help, family.labels, registry=None)

    def _show(self, gauge: Gauge, value: float) -> None:
        gauge.set(value)
        show_once(self.registry, gauge)

    def expect(self, names: Iterable[str]) -> None:
        """Show these jobs' counters at 0 from the start: a rate sees the first failure, too."""
        for job in names:
            for outcome in _OUTCOMES:
                self._runs.labels(job, outcome)
            self.tasks.know([Task(job=job)])

    def ran(self, job: str, outcome: str) -> None:
        """Count a run of a job."""
        self._runs.labels(job, outcome).inc()
        if outcome in {"missed", "skipped"}:
            self.tasks.missed(job, outcome)

    @contextmanager
    def run(self, job: str, at: float) -> Iterator[Run]:
        """Run a job's body at ``at`` (Unix seconds): errors are counted and logged, not raised."""
        run = Run()
        began = time.perf_counter()
        self.tasks.began(job, at)
        try:
            yield run
        except Exception as error:  # noqa: BLE001 - it is told, and the other jobs go on
            run.error = error
            self.ran(job, "failed")
            self._errors.labels(job, reason_of(error)).inc()
            told = without_secrets(f"{type(error).__name__}: {error}")
            self.tasks.ended(job, at, time.perf_counter() - began, told)
            self.failed(job, at, error)
        else:
            self.ran(job, "done")
            seconds = time.perf_counter() - began
            self._last_success.labels(job).set(at)
            self._duration.labels(job).set(seconds)
            self.tasks.ended(job, at, seconds)
            self.well(job, at)

    def failed(self, what: str, at: float, error: Exception) -> None:
        """Tell of a failure: in the log once until it changes, and as a trouble of a job's."""
        self.saying.failed(what, at, error)
        if self.tasks.knows(what) or what == STORE:  # other work has no next time that could end it
            store = isinstance(error, StoreError)
            self.troubles.begin(what, at, str(error), store=store)

    def well(self, what: str, at: float) -> None:
        """Tell that it works (again)."""
        self.saying.well(what, at)
        self.troubles.end(what)

    @contextmanager
    def looking(self, job: str, at: float) -> Iterator[Looked]:
        """A look of a job that counts its runs by itself; the look's ``trouble`` is shown."""
        looked, began = Looked(), time.perf_counter()
        self.tasks.began(job, at)
        yield looked
        seconds = time.perf_counter() - began
        self.tasks.ended(job, at, seconds, without_secrets(looked.trouble))
        self._duration.labels(job).set(seconds)
        if looked.trouble:
            self.troubles.begin(job, at, looked.trouble)
        else:
            self._last_success.labels(job).set(at)
            self.troubles.end(job)

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Within a writing transaction of the store: what it took and how it went."""
        began = time.perf_counter()
        outcome = "failed"
        try:
            yield
            outcome = "done"
        except StoreError as error:
            self._store_errors.labels(reason_of(error)).inc()
            raise
        finally:
            self._store_runs.labels(outcome).inc()
            self._store_seconds.inc(time.perf_counter() - began)

    def store_size(self, path: Path | None) -> None:
        """Show the size of the store's file and its log; ``path`` None: a server keeps it."""
        if path is None or not path.exists():
            return
        log_file = path.with_name(f"{path.name}-wal")
        size = path.stat().st_size + (log_file.stat().st_size if log_file.exists() else 0)
        self._show(self._store_bytes, size)

    def scraped(self, answered: Iterable[str], failures: Iterable[Failure]) -> None:
        """Count a round of scrapes; a failure is logged when it begins, changes and ends."""
        failing = {}
        for failure in failures:
            failing[failure.target] = str(failure.reason)
            self._scrapes.labels(failure.target, "failed").inc()
            self._scrape_failures.labels(failure.target, failure.reason).inc()
            if self._failing.get(failure.target) != str(failure.reason):
                log.warning("%s: %s", failure.target, failure.text)
        for target in answered:
            self._scrapes.labels(target, "read").inc()
            if target in self._failing:
                log.info("%s: answers again", target)
        self._failing = failing

    def measured_up_to(self, at: float) -> None:
        """Show up to when (Unix seconds) usage was read."""
        self._show(self._usage_end, at)

    def wrote_rows(self, count: int) -> None:
        """Count hourly rows written."""
        self._rows.inc(count)

    def compacted(self, hours: int, dropped: int) -> None:
        """Count rows that compaction took away."""
        self._compacted.labels("hourly").inc(hours)
        self._compacted.labels("old").inc(dropped)

    def rollup_problems(self, totals: Mapping[str, int]) -> None:
        """Show the rollup's problems, given as totals so far."""
        for problem, total in totals.items():
            rise = total - self._known_problems[problem]
            if rise > 0:
                self._problems.labels(problem).inc(rise)
            self._known_problems[problem] = total

    def planned(self, plan: Plan) -> None:
        """Show what the newest plan says; rules and states it no longer has vanish."""
        self._plan.show(plan)

    def ledger(self, found: Iterable[RuleRecord]) -> None:
        """Show how rules fared."""
        self._ledger.show(found)

    def letters(self, by_state: Mapping[str, int]) -> None:
        """Show the outbox."""
        for state in ("waiting", "sending", "sent", "given_up"):
            self._letters.labels(state).set(by_state.get(state, 0))

    def reloaded(self, at: float, *, well: bool) -> None:
        """Show how the last reading of the settings went."""
        if well:
            self._show(self._reloaded, at)
        self._show(self._reload_well, float(well))


def show_once(registry: CollectorRegistry, gauge: Gauge) -> None:
    """Register a gauge that was absent so far."""
    if gauge not in registry._collector_to_names:  # noqa: SLF001 - the library has no other way
        registry.register(gauge)


class PlanGauges:
    """What the newest plan says."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(family: Family, *, at_once: bool = True) -> Gauge:
            where = registry if at_once else None
            return Gauge(family.name, family.help, family.labels, registry=where)

        self._registry = registry
        self._findings = gauge(metrics.FINDINGS)
        self._finding = gauge(metrics.FINDING)
        self._finding_saving = gauge(metrics.FINDING_SAVING)
        self._workloads = gauge(metrics.WORKLOADS)
        self._gpu_hours = gauge(metrics.SAVING_GPU_HOURS, at_once=False)
        self._money = gauge(metrics.SAVING_MONEY)
        self._plan_time = gauge(metrics.PLAN_TIME, at_once=False)
        self._coverage = gauge(metrics.COVERAGE, at_once=False)

    def show(self, plan: Plan) -> None:
        """Set every gauge."""
        findings = Tally(v.primary.rule for v in plan.verdicts if v.primary is not None)
        self._findings.clear()
        for rule, number in findings.items():
            self._findings.labels(rule).set(number)
        self._show_findings(plan)
        self._workloads.clear()
        for state, number in Tally(verdict.state for verdict in plan.verdicts).items():
            self._workloads.labels(state).set(number)
        self._gpu_hours.set(plan.saving_gpu_hours_per_month)
        self._money.clear()
        if plan.saving_money_per_month is not None:
            money = plan.saving_money_per_month
            self._money.labels(money.currency).set(money.amount)
        for other in plan.other_money:
            self._money.labels(other.currency).set(other.saving_per_month)
        self._plan_time.set(plan.made_at)
        for shown in (self._gpu_hours, self._plan_time):
            show_once(self._registry, shown)
        covered = coverage(plan)
        if covered is not None:
            self._coverage.set(covered)
            show_once(self._registry, self._coverage)

    def _show_findings(self, plan: Plan) -> None:
        """One series for each workload's first finding; what is resolved vanishes.

        Containers of one workload share a series, which sums their savings.
        """
        found = [(one, one.primary) for one in plan.verdicts if one.primary is not None]
        found.sort(key=lambda pair: -(pair[1].saving.gpu_hours_per_month or 0.0))
        self._finding.clear()
        self._finding_saving.clear()
        for verdict, finding in found[:SHOWN_FINDINGS]:
            labels = _labels(verdict, finding)
            self._finding.labels(*labels).set(1)
            if finding.saving.gpu_hours_per_month is not None:
                self._finding_saving.labels(*labels).inc(finding.saving.gpu_hours_per_month)


class LedgerGauges:
    """How rules fared."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(family: Family) -> Gauge:
            return Gauge(family.name, family.help, family.labels, registry=registry)

        self._entries = gauge(metrics.LEDGER)
        self._saving = gauge(metrics.LEDGER_SAVING)
        self._money = gauge(metrics.LEDGER_MONEY)
        self._precision = gauge(metrics.LEDGER_PRECISION)

    def show(self, found: Iterable[RuleRecord]) -> None:
        """Set every gauge; what is not known is absent."""
        for gauge in (self._entries, self._saving, self._money, self._precision):
            gauge.clear()
        for one in found:
            for state, number in one.states.items():
                self._entries.labels(one.rule, state).set(number)
            if one.precision is None:
                continue
            self._precision.labels(one.rule).set(one.precision)
            self._saving.labels(one.rule, "predicted").set(one.predicted_gpu_hours_per_month)
            self._saving.labels(one.rule, "realised").set(one.realised_gpu_hours_per_month)
            for money in one.realised_money_per_month:
                self._money.labels(one.rule, money.currency).set(money.amount)


def coverage(plan: Plan) -> float | None:
    """Mean coverage of a plan's workloads, by GPU hours; None where nothing was held."""
    known = [(one.coverage, one.gpu_hours) for one in plan.verdicts if one.coverage is not None]
    hours = sum(held for _, held in known)
    return sum(share * held for share, held in known) / hours if hours > 0 else None


def _labels(verdict: Verdict, finding: Finding) -> tuple[str, ...]:
    workload = verdict.workload
    return (workload.namespace, workload.kind, workload.name, finding.rule, finding.severity.value)
