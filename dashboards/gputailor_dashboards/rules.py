"""Recording rules and alerts as values, and the documents that Prometheus reads."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

#: Where the runbooks lie, unless another place is named.
RUNBOOKS: Final = "docs/alerts"


class Severity(StrEnum):
    """How soon somebody has to look: now, this day, when there is time."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording rule; ``meaning`` goes into the docs."""

    record: str
    expr: str
    meaning: str

    def document(self) -> dict[str, Any]:
        """Return what Prometheus reads."""
        return {"record": self.record, "expr": self.expr}


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert; ``hold`` is its ``for``.

    ``impact`` (what it means for those who work there), ``runbook`` (steps) and ``missing`` (what
    it does where data is missing) make up its page; ``board`` is the dashboard that shows it.
    """

    name: str
    expr: str
    hold: str
    severity: Severity
    summary: str
    description: str
    impact: str
    runbook: tuple[str, ...]
    missing: str
    board: str

    def document(self, runbooks: str = RUNBOOKS) -> dict[str, Any]:
        """Return what Prometheus reads; ``runbooks`` is the address of the folder of the pages."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.hold,
            "labels": {"severity": self.severity.value},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{runbooks.rstrip('/')}/{self.name}.md",
                "dashboard_uid": self.board,
            },
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together."""

    name: str
    interval: str
    rules: tuple[Recording | Alert, ...]

    def document(self, runbooks: str = RUNBOOKS) -> dict[str, Any]:
        """Return what Prometheus reads."""
        return {
            "name": self.name,
            "interval": self.interval,
            "rules": [
                rule.document(runbooks) if isinstance(rule, Alert) else rule.document()
                for rule in self.rules
            ],
        }
