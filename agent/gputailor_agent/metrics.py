"""Names of what the agent itself exports, declared once; dashboards and alerts import them.

Only names live here (no library is needed to read them); ``schedule.telemetry`` fills them.
"""

from typing import Final

from gputailor_exporter.metrics import Family, Kind

PREFIX: Final = "gputailor_agent_"


def _agent(name: str, kind: Kind, text: str, *labels: str, unit: str = "") -> Family:
    return Family(PREFIX + name, kind, text, labels, unit)


RUNS: Final = _agent(
    "job_runs_total",
    Kind.COUNTER,
    "Runs of the agent's jobs by outcome: done, failed, missed (too late), skipped (still busy).",
    "job",
    "outcome",
)
LAST_SUCCESS: Final = _agent(
    "job_last_success_timestamp_seconds",
    Kind.GAUGE,
    "When the job last went well, in Unix time.",
    "job",
    unit="seconds",
)
JOB_DURATION: Final = _agent(
    "job_duration_seconds", Kind.GAUGE, "Duration of the job's last run.", "job", unit="seconds"
)
SCRAPES: Final = _agent(
    "scrapes_total", Kind.COUNTER, "Exporter pages read or failed, by target.", "target", "outcome"
)
SCRAPE_FAILURES: Final = _agent(
    "scrape_failures_total",
    Kind.COUNTER,
    "Exporter pages that could not be read, by target and reason.",
    "target",
    "reason",
)
ROLLUP_ROWS: Final = _agent("rollup_rows_total", Kind.COUNTER, "Hourly rows written to the store.")
ROLLUP_PROBLEMS: Final = _agent(
    "rollup_problems_total",
    Kind.COUNTER,
    "Counters that could not be believed as they were, by what was wrong.",
    "problem",
)
FINDINGS: Final = _agent(
    "findings",
    Kind.GAUGE,
    "Findings of the newest plan that come first for their workload.",
    "rule",
)
FINDING: Final = _agent(
    "finding",
    Kind.GAUGE,
    "1 for each workload that the newest plan has something to say of first; what saves most, up "
    "to 1000.",
    "namespace",
    "kind",
    "workload",
    "rule",
    "severity",
)
FINDING_SAVING: Final = _agent(
    "finding_saving_gpu_hours_per_month",
    Kind.GAUGE,
    "GPU hours a month that the finding saves; absent where that is not known.",
    "namespace",
    "kind",
    "workload",
    "rule",
    "severity",
)
WORKLOADS: Final = _agent(
    "workloads", Kind.GAUGE, "Workloads of the newest plan by state.", "state"
)
SAVING_GPU_HOURS: Final = _agent(
    "saving_gpu_hours_per_month",
    Kind.GAUGE,
    "GPU hours a month that the newest plan saves.",
)
SAVING_MONEY: Final = _agent(
    "saving_money_per_month",
    Kind.GAUGE,
    "Money a month that the newest plan saves; absent where no price is known.",
    "currency",
)
PLAN_TIME: Final = _agent(
    "plan_timestamp_seconds",
    Kind.GAUGE,
    "When the newest plan was made, in Unix time.",
    unit="seconds",
)

FAMILIES: Final[tuple[Family, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Family)
)
