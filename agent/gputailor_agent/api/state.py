"""What the pages need to know of the running agent, so that they need not know the agent."""

from collections.abc import Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry

from gputailor_agent.model.judgement import Plan
from gputailor_agent.model.ledger import Entry, RuleRecord
from gputailor_agent.model.profile import Window
from gputailor_agent.rules.base import RuleSettings
from gputailor_agent.store.tasks import Task


class ScrapeRound(Protocol):
    """How a round of scrapes went."""

    @property
    def at(self) -> float:
        """When it was, in Unix seconds."""
        ...

    @property
    def answered(self) -> int:
        """Exporters that gave a page."""
        ...

    @property
    def failed(self) -> int:
        """The others."""
        ...


class KeptReport(Protocol):
    """A report that was made and is kept."""

    @property
    def period(self) -> str:
        """When it was due, in UTC, e.g. ``2026-01-05T07:00``; its name."""
        ...

    @property
    def made_at(self) -> float:
        """When it was made, in Unix seconds."""
        ...

    @property
    def window(self) -> Window:
        """The time it is about."""
        ...


class AgentState(Protocol):
    """The agent as the web pages see it. All calls are quick: they read what is already there."""

    @property
    def registry(self) -> CollectorRegistry:
        """The agent's own metrics."""
        ...

    def latest_plan(self) -> Plan | None:
        """The newest plan; None before the first one is made."""
        ...

    @property
    def rules(self) -> RuleSettings:
        """Thresholds that the plan was made with."""
        ...

    def not_ready(self) -> str:
        """Why the agent cannot serve a report yet; '' when it can."""
        ...

    def troubles(self) -> Sequence[str]:
        """What is wrong just now, as lines; a report can be served all the same."""
        ...

    def tasks(self) -> Sequence[Task]:
        """How each of the agent's jobs went."""
        ...

    def ledger(self) -> tuple[Sequence[Entry], Sequence[RuleRecord]]:
        """What became of findings: every entry, and how each rule fared."""
        ...

    def last_round(self) -> ScrapeRound | None:
        """The last round of scrapes; None before the first."""
        ...

    def reports(self) -> Sequence[KeptReport]:
        """Weekly reports that are kept, newest first."""
        ...

    def report(self, period: str) -> tuple[str, str] | None:
        """A kept report as (JSON, Markdown); None when there is none of that period."""
        ...
