"""The agent's own metrics, in a registry of their own; names come from ``metrics``."""

from collections import Counter as Tally
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from gputailor_agent import metrics
from gputailor_agent.model.judgement import Plan
from gputailor_exporter.metrics import Family


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
        self._workloads = self._gauge(metrics.WORKLOADS)
        self._gpu_hours = self._gauge(metrics.SAVING_GPU_HOURS)
        self._money = self._gauge(metrics.SAVING_MONEY)
        self._plan_time = self._gauge(metrics.PLAN_TIME)
        self._known_problems: Tally[str] = Tally()

    def _counter(self, family: Family) -> Counter:
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def _gauge(self, family: Family) -> Gauge:
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    def ran(self, job: str, outcome: str) -> None:
        """Count a run of a job."""
        self._runs.labels(job, outcome).inc()

    def succeeded(self, job: str, at: float, duration_seconds: float) -> None:
        """Count a run that went well at ``at`` (Unix seconds)."""
        self.ran(job, "done")
        self._last_success.labels(job).set(at)
        self._duration.labels(job).set(duration_seconds)

    def scraped(self, target: str) -> None:
        """Count a page that was read."""
        self._scrapes.labels(target, "read").inc()

    def scrape_failed(self, target: str, reason: str) -> None:
        """Count a page that could not be read."""
        self._scrapes.labels(target, "failed").inc()
        self._scrape_failures.labels(target, reason).inc()

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
        self._workloads.clear()
        for state, number in Tally(verdict.state for verdict in plan.verdicts).items():
            self._workloads.labels(state).set(number)
        self._gpu_hours.set(plan.saving_gpu_hours_per_month)
        self._money.clear()
        if plan.saving_money_per_month is not None:
            money = plan.saving_money_per_month
            self._money.labels(money.currency).set(money.amount)
        self._plan_time.set(plan.made_at)
