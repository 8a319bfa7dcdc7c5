"""A report of some workloads only: of a team, of a namespace, or of one person.

What is of the whole cluster (capacity, cost of nodes, checks, free GPUs, problems, which name other
people's pods) is left out, and sums are made anew, so that each person gets only theirs. A person
is known by who is to be notified of a workload, and by what platforms write down of who made it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import Plan, Verdict
from gputailor_agent.planner.currencies import other_money, savings
from gputailor_agent.reports.catalogues import _

#: Annotations and labels that name a person: ours first, then those of platforms.
PERSON_KEYS: Final = (
    "gputailor.io/owner",
    "gputailor.io/notify",
    "hub.jupyter.org/username",  # JupyterHub's KubeSpawner
    "notebooks.kubeflow.org/creator",
    "opendatahub.io/username",  # Open Data Hub's notebooks
    "pipelines.kubeflow.org/triggered-by",
    "workflows.argoproj.io/creator-email",
    "workflows.argoproj.io/creator",
    "toolkit.run.ai/created-by",  # Run:ai
    "run.ai/user",
    "owner",
    "user",
    "username",
)


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose workloads: all that are asked must hold. Namespaces may be patterns, also ``!not``."""

    teams: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.teams or self.namespaces or self.owners)

    def holds(self, workload: Workload) -> bool:
        """Whether a workload is meant."""
        if self.teams and workload.team not in self.teams:
            return False
        if self.namespaces and not _matches(workload.namespace, self.namespaces):
            return False
        return not self.owners or not persons(workload).isdisjoint(map(str.casefold, self.owners))

    def text(self) -> str:
        """What the report is of; '' for everything."""
        parts = []
        if self.teams:
            parts.append(_("team {names}", names=_(", ").join(self.teams)))
        if self.namespaces:
            parts.append(_("namespace {names}", names=_(", ").join(self.namespaces)))
        if self.owners:
            parts.append(_("owner {names}", names=_(", ").join(self.owners)))
        return _(", ").join(parts)


EVERYTHING: Final = Scope()


def _matches(namespace: str, patterns: Iterable[str]) -> bool:
    wanted = [one for one in patterns if not one.startswith("!")]
    unwanted = [one[1:] for one in patterns if one.startswith("!")]
    if any(fnmatchcase(namespace, one) for one in unwanted):
        return False
    return not wanted or any(fnmatchcase(namespace, one) for one in wanted)


def persons(workload: Workload) -> frozenset[str]:
    """Who a workload belongs to, as annotations and labels name them, in lower case."""
    said = (places.get(key, "") for places in _places(workload) for key in PERSON_KEYS)
    names = (name.strip().casefold() for one in said for name in one.split(","))
    return frozenset(name for name in names if name)


def _places(workload: Workload) -> tuple[dict[str, str], dict[str, str]]:
    return workload.annotations, workload.labels


def scoped(plan: Plan, scope: Scope) -> Plan:
    """The plan with the workloads of a scope only; itself where nothing is left out."""
    return plan if scope.everything else only(plan, scope.holds)


def only(plan: Plan, holds: Callable[[Workload], bool]) -> Plan:
    """The plan with the workloads for which ``holds`` is true, and nothing of anybody else."""
    verdicts = tuple(one for one in plan.verdicts if holds(one.workload))
    currency = _currency(plan, verdicts)
    hours, money = savings(verdicts, currency)
    return msgspec.structs.replace(
        plan,
        verdicts=verdicts,
        capacity=(),
        cost=None,
        checks=(),
        saving_gpu_hours_per_month=hours,
        saving_money_per_month=money,
        other_money=other_money(verdicts, currency),
        problems=(),
        cluster_findings=(),
        cluster_silences=(),
        free_pools=(),
        waiting=(),
    )


def _currency(plan: Plan, verdicts: Iterable[Verdict]) -> str:
    """The whole plan's where any of these costs some of it, else that of most; '' if none does."""
    own = Counter(one.cost.currency for one in verdicts if one.cost is not None)
    whole = plan.cost.currency if plan.cost is not None else ""
    return whole if own[whole] or not own else max(sorted(own), key=lambda name: own[name])
