"""The agent: it is silent, behind, failing, or cannot deliver. On what it exports of itself."""

from typing import Final

from gputailor_agent import metrics as agent
from gputailor_dashboards.rules import Alert, Severity

_BOARD: Final = "gputailor-self"
_BEHIND_SECONDS: Final = 3 * 3600
_ABSENT: Final = "Where the agent says nothing, this rests; GpuTailorAgentSilent tells of that."


def _silent() -> str:
    was = f"last_over_time({agent.ROLLUP_ROWS.name}[1d])"
    return f"(max_over_time(up[15m]) == 0) and on (job, instance) {was}"


def _runs(outcome: str) -> str:
    """Runs within six hours by job; Prometheus renames the label ``job`` without honorLabels."""
    rise = f'increase({agent.RUNS.name}{{outcome="{outcome}"}}[6h])'
    return f'sum by (cluster, job) (label_replace({rise}, "job", "$1", "exported_job", "(.+)"))'


def _given_up() -> str:
    letters = f'max by (cluster) ({agent.LETTERS.name}{{state="given_up"}})'
    before = f'max by (cluster) ({agent.LETTERS.name}{{state="given_up"}} offset 1d)'
    return f"({letters} > 0) unless ({letters} <= {before})"


AGENT_SILENT: Final = Alert(
    name="GpuTailorAgentSilent",
    expr=_silent(),
    hold="5m",
    severity=Severity.WARNING,
    summary="The agent of GPU Tailor does not answer",
    description="{{ $labels.instance }} has not answered a scrape for a quarter of an hour.",
    impact="No new findings, no report, no notice of idle GPUs. Nothing is lost: it catches up.",
    runbook=(
        "`kubectl get pods` in its namespace; `kubectl describe pod` says why it does not start.",
        "Out of memory: raise `agent.resources.limits.memory` of the chart.",
        "It runs: does a NetworkPolicy keep Prometheus away?",
    ),
    missing="Missing data is its matter. An agent that was taken away with its target rests.",
    board=_BOARD,
)
USAGE_STALE: Final = Alert(
    name="GpuTailorUsageStale",
    expr=f"time() - max by (cluster) ({agent.USAGE_END.name}) > {_BEHIND_SECONDS}",
    hold="10m",
    severity=Severity.WARNING,
    summary="The agent is {{ $value | humanizeDuration }} behind with reading usage",
    description="No usage was read for more than three hours.",
    impact="Findings and reports say what was, not what is; idle GPUs are found late.",
    runbook=(
        "The agent's log, and *Failed runs by reason* on the dashboard Exporters and agent.",
        "`gputailor doctor` asks the metric store what the agent asks, and says what is missing.",
        "The store is slow: see docs/prometheus.md on concurrency and samples.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)
JOB_FAILING: Final = Alert(
    name="GpuTailorJobFailing",
    expr=f"({_runs('failed')} >= 2) unless ({_runs('done')} > 0)",
    hold="0s",
    severity=Severity.WARNING,
    summary="The agent's job {{ $labels.job }} fails",
    description="It failed at least twice within six hours and never went well.",
    impact="What the job makes gets old: rollup (usage), recommend (findings), report (mail).",
    runbook=(
        "The agent's log names the job and the error; `gputailor_agent_job_errors_total` counts.",
        "Reason of the store (full, locked, read_only): see GpuTailorStoreFailing.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)
STORE_FAILING: Final = Alert(
    name="GpuTailorStoreFailing",
    expr=f"sum by (cluster, reason) (increase({agent.STORE_ERRORS.name}[30m])) > 0",
    hold="15m",
    severity=Severity.WARNING,
    summary="The agent's store fails: {{ $labels.reason }}",
    description="Writing to the store failed within the last half hour ({{ $labels.reason }}).",
    impact="Usage is not kept and is read again later; reports may be late.",
    runbook=(
        "full: enlarge the volume, or shorten what is kept (docs/store.md).",
        "locked: a second agent or a shell holds the file; one agent per store.",
        "unreachable: the PostgreSQL server. read_only, damaged: docs/store.md.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)
UNDELIVERED: Final = Alert(
    name="GpuTailorReportUndelivered",
    expr=_given_up(),
    hold="0s",
    severity=Severity.WARNING,
    summary="{{ $value }} message(s) of the agent could not be delivered",
    description="More messages than a day ago were given up after their last attempt.",
    impact="Somebody did not get the weekly report or a notice of idle GPUs.",
    runbook=(
        "The agent's log has the server's last answer to each attempt.",
        "Mend address, password or channel (docs/delivery.md); the next report goes the new way.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)
SETTINGS_REFUSED: Final = Alert(
    name="GpuTailorSettingsRefused",
    expr=f"max by (cluster) ({agent.RELOAD_WELL.name}) == 0",
    hold="5m",
    severity=Severity.WARNING,
    summary="The agent refused its changed settings",
    description="The settings were changed and are wrong; the former ones are in force.",
    impact="What was changed has no effect, and the agent would not start again with it.",
    runbook=(
        "The agent's log says which setting is wrong and what was expected.",
        "Mend the ConfigMap or the file; it is read again by itself.",
    ),
    missing=_ABSENT,
    board=_BOARD,
)

AGENT: Final = (
    AGENT_SILENT,
    USAGE_STALE,
    JOB_FAILING,
    STORE_FAILING,
    UNDELIVERED,
    SETTINGS_REFUSED,
)
