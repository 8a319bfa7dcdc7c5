"""Recording rules and alerts as values, and the documents that Prometheus reads."""

from dataclasses import dataclass
from typing import Any


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
    """One alert; ``hold`` is its ``for``, ``runbook`` the steps for the docs."""

    name: str
    expr: str
    hold: str
    severity: str
    summary: str
    description: str
    runbook: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return what Prometheus reads."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.hold,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook": f"docs/dashboards.md#{self.name.lower()}",
            },
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together."""

    name: str
    interval: str
    rules: tuple[Recording | Alert, ...]

    def document(self) -> dict[str, Any]:
        """Return what Prometheus reads."""
        return {
            "name": self.name,
            "interval": self.interval,
            "rules": [rule.document() for rule in self.rules],
        }
