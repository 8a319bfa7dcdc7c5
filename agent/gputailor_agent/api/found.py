"""Findings as the API lists them: one per workload, flat, for tools that filter and count."""

from collections.abc import Iterable
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Finding, Money, Verdict
from gputailor_agent.reports.wording import say

SCHEMA_VERSION: Final = "1.1"


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


def found(verdicts: Iterable[Verdict]) -> tuple[Found, ...]:
    """The first findings of workloads, in their order."""
    return tuple(_found(one, one.primary) for one in verdicts if one.primary is not None)


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
