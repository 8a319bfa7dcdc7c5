"""Panels on what the agent found; the same whatever exporter it reads."""

from typing import Final

from gputailor_agent import metrics as agent
from gputailor_dashboards.expressions.base import RATE_INTERVAL
from gputailor_dashboards.panels import Look, Panel, panel

_HOUR: Final = 3600
_HOURS: Final = "GPU-hours a month"
_FOUND: Final = "found"
_SMALL: Final = 6


def findings() -> Panel | None:
    """Findings of the newest plan by rule."""
    return panel(
        "Findings by rule",
        "Which recommendations does the newest plan make, one for each workload?",
        (f"sum by (rule) ({agent.FINDINGS.name})", "{{rule}}"),
        look=Look.STACK,
        width=8,
    )


def finding_list() -> Panel | None:
    """Every workload that has something to change."""
    return panel(
        "Workloads to change",
        "What does the newest plan say of which workload, and how many GPU-hours a month does it "
        "save?",
        (_per_workload(agent.FINDING_SAVING.name), _HOURS),
        (_per_workload(agent.FINDING.name), _FOUND),
        look=Look.TABLE,
        width=24,
        labels=("namespace", "kind", "workload", "rule", "severity"),
    )


def _per_workload(name: str) -> str:
    """The agent's series by workload; Prometheus renames the namespace without honorLabels."""
    named = f'label_replace({name}, "namespace", "$1", "exported_namespace", "(.+)")'
    return f"sum by (namespace, kind, workload, rule, severity) ({named})"


def workloads() -> Panel | None:
    """Workloads by what the plan says of them."""
    return panel(
        "Workloads by state",
        "How many workloads can be judged, and how many have something to change?",
        (f"sum by (state) ({agent.WORKLOADS.name})", "{{state}}"),
        look=Look.STACK,
        width=8,
    )


def saving_hours() -> Panel | None:
    """GPU-hours a month that the plan saves."""
    return panel(
        "Saving: GPU-hours a month",
        "How many GPU-hours a month would the newest plan save, first choices only?",
        (f"sum({agent.SAVING_GPU_HOURS.name})", "GPU-hours"),
        look=Look.STAT,
        width=_SMALL,
    )


def saving_money() -> Panel | None:
    """Money a month that the plan saves."""
    return panel(
        "Saving: money a month",
        "How much money a month is that? Unknown where no price is known.",
        (f"sum by (currency) ({agent.SAVING_MONEY.name})", "{{currency}}"),
        look=Look.STAT,
        width=_SMALL,
    )


def plan_age() -> Panel | None:
    """Age of the plan."""
    return panel(
        "Age of the plan",
        "When was the cluster last judged? More than two hours means that the agent is stuck.",
        (f"time() - max({agent.PLAN_TIME.name})", "age"),
        unit="s",
        look=Look.STAT,
        width=_SMALL,
    )


def coverage() -> Panel | None:
    """Share of held time that the plan could see."""
    return panel(
        "Coverage of the plan",
        "Which part of the held GPU time of the plan's window was observed? The rest is unknown.",
        (f"min({agent.COVERAGE.name})", "coverage"),
        unit="percentunit",
        look=Look.STAT,
        width=_SMALL,
    )


def runs() -> Panel | None:
    """Runs of the agent's jobs by how they ended."""
    # Without honorLabels Prometheus renames the label ``job``, which is its own as well.
    rate = f"rate({agent.RUNS.name}[{RATE_INTERVAL}])"
    named = f'label_replace({rate}, "job", "$1", "exported_job", "(.+)")'
    return panel(
        "Agent's jobs per hour, by outcome",
        "Do the agent's jobs run, and do they go well?",
        (f"{_HOUR} * sum by (job, outcome) ({named})", "{{job}} {{outcome}}"),
        width=8,
    )


def ledger_states() -> Panel | None:
    """Findings by where in their life they are."""
    return panel(
        "Findings by state",
        "How much advice is open, applied, dismissed, expired?",
        (f"sum by (state) ({agent.LEDGER.name})", "{{state}}"),
        look=Look.STACK,
    )


def ledger_hours() -> Panel | None:
    """Predicted and realised GPU-hours of changes that were made."""
    return panel(
        "GPU-hours a month, predicted and realised",
        "Did changes that were made save what was said?",
        (f"sum by (rule, kind) ({agent.LEDGER_SAVING.name})", "{{rule}} {{kind}}"),
        unit="h",
    )


def ledger_money() -> Panel | None:
    """Money that changes really saved."""
    return panel(
        "Money a month that was really saved",
        "How much do changes that were made save, by rule?",
        (f"sum by (rule, currency) ({agent.LEDGER_MONEY.name})", "saved"),
        look=Look.TABLE,
        labels=("rule", "currency"),
        unit="none",
    )


def ledger_precision() -> Panel | None:
    """Share of judged changes that were right."""
    return panel(
        "How often advice was right",
        "Which part of judged changes saved something and made nothing worse? Unknown before the "
        "first one.",
        (f"max by (rule) ({agent.LEDGER_PRECISION.name})", "right"),
        look=Look.TABLE,
        labels=("rule",),
        unit="percentunit",
    )
