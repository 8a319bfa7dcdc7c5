"""What the pages need to know of the running agent, so that they need not know the agent."""

from typing import Protocol

from prometheus_client import CollectorRegistry

from gputailor_agent.model.judgement import Plan


class AgentState(Protocol):
    """The agent as the web pages see it. All calls are quick: they read what is already there."""

    @property
    def registry(self) -> CollectorRegistry:
        """The agent's own metrics."""
        ...

    def latest_plan(self) -> Plan | None:
        """The newest plan; None before the first one is made."""
        ...

    def not_ready(self) -> str:
        """Why the agent cannot serve a report yet; '' when it can."""
        ...
