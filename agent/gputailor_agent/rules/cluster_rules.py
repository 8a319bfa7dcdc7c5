"""Rules about the cluster as a whole: what one workload's profile cannot show.

A module beside this one with a ``CLUSTER_RULE`` is such a rule. It is a pure function of what the
planner found of nodes and of pods that wait, and answers for each group of nodes with a finding or
a silence, like any other rule, but about no workload.
"""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from gputailor_agent.model.judgement import Finding, Silence, Waiting
from gputailor_agent.model.profile import Window
from gputailor_agent.rules.base import Context, Limits, RuleSettings, Threshold


@dataclass(frozen=True, slots=True)
class NodeHours:
    """Whole GPUs of one node that can be asked for, and how many of them nobody held.

    ``free``: means of the last whole hours of the window, the latest last; only hours of which the
    node's occupation is known, so none where only now is. ``resources``: devices by the names that
    pods ask for them. ``price`` per GPU-hour.
    """

    name: str
    model: str
    pool: str
    resources: Mapping[str, float]
    gpus: float
    free_now: float
    free: tuple[float, ...]
    price: float | None
    currency: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What rules about the cluster look at. ``complete``: every pod and node could be read."""

    window: Window
    nodes: tuple[NodeHours, ...]
    waiting: tuple[Waiting, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class ClusterRule:
    """One recommendation about the cluster; its parts are those of ``Rule``."""

    id: str
    title: str
    summary: str
    thresholds: tuple[Threshold, ...]
    messages: Mapping[str, str]
    evaluate: Callable[[ClusterView, Context], list[Finding | Silence]]

    def limits(self, settings: RuleSettings) -> Limits:
        """Thresholds in force."""
        return Limits(self, settings)


@cache
def cluster_registry() -> tuple[ClusterRule, ...]:
    """Every rule about the cluster, by id."""
    package = import_module("gputailor_agent.rules")
    found = []
    for module in pkgutil.iter_modules(package.__path__):
        rule = getattr(import_module(f"{package.__name__}.{module.name}"), "CLUSTER_RULE", None)
        if isinstance(rule, ClusterRule):
            found.append(rule)
    return tuple(sorted(found, key=lambda rule: rule.id))


def evaluate_cluster(view: ClusterView, context: Context) -> list[Finding | Silence]:
    """Return what every rule says about the cluster."""
    return [answer for rule in cluster_registry() for answer in rule.evaluate(view, context)]
