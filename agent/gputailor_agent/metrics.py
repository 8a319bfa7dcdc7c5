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

COVERAGE: Final = _agent(
    "coverage_ratio",
    Kind.GAUGE,
    "Share of the held GPU time of the newest plan's window that was observed; absent before it.",
    unit="ratio",
)
USAGE_END: Final = _agent(
    "usage_end_timestamp_seconds",
    Kind.GAUGE,
    "Up to when usage was read, in Unix time: its age is how far the agent lags behind.",
    unit="seconds",
)
JOB_ERRORS: Final = _agent(
    "job_errors_total",
    Kind.COUNTER,
    "Failed runs by reason: the kind of error, for the store what was wrong with it.",
    "job",
    "reason",
)
STORE_TRANSACTIONS: Final = _agent(
    "store_transactions_total",
    Kind.COUNTER,
    "Writing transactions of the store by outcome: done or failed.",
    "outcome",
)
STORE_SECONDS: Final = _agent(
    "store_transaction_seconds_total",
    Kind.COUNTER,
    "Seconds spent in writing transactions of the store, the waiting for it included.",
    unit="seconds",
)
STORE_ERRORS: Final = _agent(
    "store_errors_total",
    Kind.COUNTER,
    "Failures of the store by reason: full, locked, read_only, unreachable, damaged, overtaken, "
    "other.",
    "reason",
)
STORE_BYTES: Final = _agent(
    "store_bytes",
    Kind.GAUGE,
    "Size of the store's file with its log; absent where a database server keeps it.",
    unit="bytes",
)
COMPACTED: Final = _agent(
    "compacted_rows_total",
    Kind.COUNTER,
    "Rows that compaction took away: hourly ones that went into days, and old ones of all kinds.",
    "kind",
)
LETTERS: Final = _agent(
    "outbox_messages",
    Kind.GAUGE,
    "Messages of the outbox by state: waiting, sending, sent, given_up.",
    "state",
)
LEDGER: Final = _agent(
    "ledger_findings",
    Kind.GAUGE,
    "Findings by rule and where in their life they are: new, open, acknowledged, applied, "
    "expired, dismissed.",
    "rule",
    "state",
)
LEDGER_SAVING: Final = _agent(
    "ledger_saving_gpu_hours_per_month",
    Kind.GAUGE,
    "GPU hours a month of changes that were made and judged, by rule: predicted and realised.",
    "rule",
    "kind",
)
LEDGER_MONEY: Final = _agent(
    "ledger_realised_money_per_month",
    Kind.GAUGE,
    "Money a month that changes which were made really saved, by rule.",
    "rule",
    "currency",
)
LEDGER_PRECISION: Final = _agent(
    "ledger_precision_ratio",
    Kind.GAUGE,
    "Share of judged changes whose saving was real and that made nothing worse, by rule; absent "
    "before the first one.",
    "rule",
    unit="ratio",
)
RELOADED: Final = _agent(
    "settings_reload_timestamp_seconds",
    Kind.GAUGE,
    "When settings were last read, in Unix time.",
    unit="seconds",
)
RELOAD_WELL: Final = _agent(
    "settings_reload_successful",
    Kind.GAUGE,
    "1 when the last reading of the settings went well, else 0: then the former ones are in force.",
)

FAMILIES: Final[tuple[Family, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Family)
)
