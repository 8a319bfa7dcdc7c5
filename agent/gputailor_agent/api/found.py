"""Findings as the API lists them: one per workload, flat, for tools that filter and count."""

from typing import Final

import msgspec

from gputailor_agent.model.judgement import Finding, Money, Plan, Verdict
from gputailor_agent.reports import overview
from gputailor_agent.reports.wording import say

SCHEMA_VERSION: Final = "1.0"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What to change about one workload first; None is unknown."""

    workload: str  # its id
    namespace: str
    kind: str
    name: str
    container: str
    rule: str
    severity: str
    confidence: str
    message: str
    change: str  # a patch, or a kubectl line that applies it, or ''
    saving_gpu_hours_per_month: float | None
    saving_money_per_month: Money | None


class FindingsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A plan's findings, what saves most first."""

    findings: tuple[Found, ...]
    made_at: float  # Unix seconds
    schema_version: str = SCHEMA_VERSION


def findings(plan: Plan) -> FindingsDocument:
    """The plan's first findings in the report's order."""
    verdicts = [line.verdict for line in overview.lines(plan)]
    return FindingsDocument(
        findings=tuple(_found(one, one.primary) for one in verdicts if one.primary is not None),
        made_at=plan.made_at,
    )


def encode(listed: FindingsDocument) -> str:
    """As indented JSON, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(listed), indent=2).decode() + "\n"


def _found(verdict: Verdict, finding: Finding) -> Found:
    workload, saving = verdict.workload, finding.saving
    return Found(
        workload=workload.id,
        namespace=workload.namespace,
        kind=workload.kind,
        name=workload.name,
        container=workload.container,
        rule=finding.rule,
        severity=finding.severity.value,
        confidence=finding.confidence.value,
        message=say(finding.message),
        change=finding.change.command or finding.change.patch,
        saving_gpu_hours_per_month=saving.gpu_hours_per_month,
        saving_money_per_month=saving.money_per_month,
    )
