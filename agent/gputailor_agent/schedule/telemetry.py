"""The agent's own metrics, in a registry of their own; names come from ``metrics``."""

import logging
import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics

from gputailor_agent import metrics
from gputailor_agent.model.judgement import Finding, Plan, Verdict
from gputailor_agent.schedule.settings import Failure
from gputailor_exporter.metrics import Family

#: Counters that are there at 0 from the start: a rate sees the first failure, too.
_JOBS: Final = ("scrape", "rollup", "recommend", "report", "deliver")
#: Findings shown one by one; each is a series in somebody's Prometheus.
SHOWN_FINDINGS: Final = 1000
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


class Telemetry:
    """Counters and gauges of one agent."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self._runs = self._counter(metrics.RUNS)
        self._last_success = self._gauge(metrics.LAST_SUCCESS)
        self._duration = self._gauge(metrics.JOB_DURATION)
        self._scrapes = self._counter(metrics.SCRAPES)
        self._scrape_failures = self._counter(metrics.SCRAPE_FAILURES)
        self._rows = self._counter(metrics.ROLLUP_ROWS)
        self._problems = self._counter(metrics.ROLLUP_PROBLEMS)
        self._findings = self._gauge(metrics.FINDINGS)
        self._finding = self._gauge(metrics.FINDING)
        self._finding_saving = self._gauge(metrics.FINDING_SAVING)
        self._workloads = self._gauge(metrics.WORKLOADS)
        self._gpu_hours = self._plan_gauge(metrics.SAVING_GPU_HOURS)
        self._money = self._gauge(metrics.SAVING_MONEY)
        self._plan_time = self._plan_gauge(metrics.PLAN_TIME)
        self._planned = False
        self._known_problems: Tally[str] = Tally()
        for job in _JOBS:
            for outcome in _OUTCOMES:
                self._runs.labels(job, outcome)
        self._failing: dict[str, str] = {}  # target -> reason, in the last round

    def _counter(self, family: Family) -> Counter:
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def _gauge(self, family: Family) -> Gauge:
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    @staticmethod
    def _plan_gauge(family: Family) -> Gauge:
        """A gauge that is absent until there is a plan: unknown is not 0."""
        return Gauge(family.name, family.help, family.labels, registry=None)

    def ran(self, job: str, outcome: str) -> None:
        """Count a run of a job."""
        self._runs.labels(job, outcome).inc()

    @contextmanager
    def run(self, job: str, at: float) -> Iterator[Run]:
        """Run a job's body at ``at`` (Unix seconds): errors are counted and logged, not raised."""
        run = Run()
        began = time.perf_counter()
        try:
            yield run
        except Exception as error:
            run.error = error
            log.exception("%s failed", job)
            self.ran(job, "failed")
        else:
            self.ran(job, "done")
            self._last_success.labels(job).set(at)
            self._duration.labels(job).set(time.perf_counter() - began)

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

    def wrote_rows(self, count: int) -> None:
        """Count hourly rows written."""
        self._rows.inc(count)

    def rollup_problems(self, totals: Mapping[str, int]) -> None:
        """Show the rollup's problems, given as totals so far."""
        for problem, total in totals.items():
            rise = total - self._known_problems[problem]
            if rise > 0:
                self._problems.labels(problem).inc(rise)
            self._known_problems[problem] = total

    def planned(self, plan: Plan) -> None:
        """Show what the newest plan says; rules and states it no longer has vanish."""
        findings = Tally(v.primary.rule for v in plan.verdicts if v.primary is not None)
        self._findings.clear()
        for rule, number in findings.items():
            self._findings.labels(rule).set(number)
        self._show_findings(plan)
        self._workloads.clear()
        for state, number in Tally(verdict.state for verdict in plan.verdicts).items():
            self._workloads.labels(state).set(number)
        if not self._planned:
            self.registry.register(self._gpu_hours)
            self.registry.register(self._plan_time)
            self._planned = True
        self._gpu_hours.set(plan.saving_gpu_hours_per_month)
        self._money.clear()
        if plan.saving_money_per_month is not None:
            money = plan.saving_money_per_month
            self._money.labels(money.currency).set(money.amount)
        self._plan_time.set(plan.made_at)

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


def _labels(verdict: Verdict, finding: Finding) -> tuple[str, ...]:
    workload = verdict.workload
    return (workload.namespace, workload.kind, workload.name, finding.rule, finding.severity.value)
