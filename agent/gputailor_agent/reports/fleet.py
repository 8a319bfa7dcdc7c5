"""Several clusters in one store: each in a line, and all of them together.

Every cluster has an agent and a plan of its own; nothing is judged across clusters. A cluster
without a plan is named and left out of the sums. A sum of which a part is not known is not known.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Money, Plan
from gputailor_agent.model.profile import Window
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import (
    Block,
    Column,
    Document,
    Facts,
    Heading,
    Paragraph,
    Table,
    headed,
)
from gputailor_agent.reports.groups_page import sum_of_money

#: Agents plan several times a day; a plan older than this tells that one does not.
STALE_SECONDS: Final = 86_400.0


class ClusterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster's newest plan in figures; None is unknown. Hours and money are per month."""

    cluster: str
    made_at: float
    window: Window
    workloads: int
    states: dict[str, int]
    gpus: float | None
    allocated: float | None
    free: float | None
    gpu_hours: float  # held in the window
    mean_kernel_of_observed: float | None
    observed_share: float | None
    window_cost: Money | None
    saving: Money | None
    saving_gpu_hours_per_month: float


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds of all clusters at ``at`` (Unix seconds)."""

    at: float
    clusters: tuple[ClusterFigures, ...]
    without_plan: tuple[str, ...] = ()

    @property
    def stale(self) -> tuple[ClusterFigures, ...]:
        """Clusters whose newest plan is old."""
        return tuple(one for one in self.clusters if self.at - one.made_at > STALE_SECONDS)

    @property
    def saving(self) -> Money | None:
        """What all could save in a month; None where one cluster's saving has no price."""
        return sum_of_money([one.saving for one in self.clusters if _finds(one)])

    @property
    def gpus(self) -> float | None:
        """GPUs of all clusters."""
        return _sum([one.gpus for one in self.clusters])

    @property
    def allocated(self) -> float | None:
        """GPUs that are held now."""
        return _sum([one.allocated for one in self.clusters])

    @property
    def free(self) -> float | None:
        """GPUs that are free now."""
        return _sum([one.free for one in self.clusters])

    @property
    def saving_gpu_hours_per_month(self) -> float:
        """GPU-hours that all could save in a month."""
        return sum(one.saving_gpu_hours_per_month for one in self.clusters)

    @property
    def mean_kernel_of_observed(self) -> float | None:
        """Mean of the clusters', each by the GPU time that was observed there."""
        known = [
            (one.gpu_hours * (one.observed_share or 0.0), one.mean_kernel_of_observed)
            for one in self.clusters
            if one.mean_kernel_of_observed is not None
        ]
        hours = sum(weight for weight, _mean in known)
        return sum(weight * mean for weight, mean in known) / hours if hours > 0 else None

    def states(self, state: str) -> int:
        """Workloads of a state in all clusters."""
        return sum(one.states[state] for one in self.clusters)


def figures_of(plan: Plan) -> ClusterFigures:
    """A cluster's plan in figures."""
    totals = overview.totals(plan)
    return ClusterFigures(
        cluster=plan.cluster,
        made_at=plan.made_at,
        window=plan.window,
        workloads=len(plan.verdicts),
        states=totals.states,
        gpus=totals.gpus,
        allocated=totals.allocated,
        free=totals.free,
        gpu_hours=sum(one.gpu_hours for one in plan.verdicts),
        mean_kernel_of_observed=totals.mean_kernel_of_observed,
        observed_share=totals.observed_share,
        window_cost=totals.window_cost,
        saving=totals.saving,
        saving_gpu_hours_per_month=totals.saving_gpu_hours_per_month,
    )


def fleet_of(plans: Iterable[tuple[str, Plan | None]], at: float) -> Fleet:
    """All clusters by name with their newest plans, read one after another."""
    found: list[ClusterFigures] = []
    without: list[str] = []
    for cluster, plan in plans:
        if plan is None:
            without.append(cluster)
        else:
            found.append(figures_of(plan))
    found.sort(key=lambda one: (-one.saving_gpu_hours_per_month, one.cluster))
    return Fleet(at=at, clusters=tuple(found), without_plan=tuple(sorted(without)))


def values(fleet: Fleet) -> dict[str, object]:
    """All figures for programs; ``null`` is unknown."""
    return {
        "schema_version": "1.0",
        "at": fleet.at,
        "clusters": fleet.clusters,
        "without_plan": fleet.without_plan,
        "total": {
            "workloads": sum(one.workloads for one in fleet.clusters),
            "states": {state: fleet.states(state) for state in overview.STATES},
            "gpus": fleet.gpus,
            "allocated": fleet.allocated,
            "free": fleet.free,
            "mean_kernel_of_observed": fleet.mean_kernel_of_observed,
            "saving": fleet.saving,
            "saving_gpu_hours_per_month": fleet.saving_gpu_hours_per_month,
        },
    }


def page(fleet: Fleet) -> Document:
    """The fleet for people: all together, what is wrong, a line for each cluster."""
    title = _("GPU Tailor: all clusters")
    blocks: list[Block] = [Heading(text=title, level=1), *_warnings(fleet)]
    if fleet.clusters:
        blocks += [Facts(pairs=_together(fleet)), _table(fleet.clusters)]
    return Document(title=title, blocks=tuple(blocks))


def _warnings(fleet: Fleet) -> list[Block]:
    told = [
        _(
            "The newest plan of {cluster} is {age} old: is its agent running?",
            cluster=one.cluster,
            age=units.duration(fleet.at - one.made_at),
        )
        for one in fleet.stale
    ]
    told += [
        _("There is no plan of {cluster} yet; it is left out.", cluster=name)
        for name in fleet.without_plan
    ]
    return [Paragraph(text=text, tone="warn") for text in told]


def _together(fleet: Fleet) -> tuple[tuple[str, str], ...]:
    return (
        (_("GPUs"), units.count(fleet.gpus)),
        (_("allocated now"), units.count(fleet.allocated)),
        (_("free"), units.count(fleet.free)),
        (_("mean kernel activity"), units.ratio(fleet.mean_kernel_of_observed)),
        (_("workloads to change"), units.count(fleet.states("finding"))),
        (_("can be saved per month"), _saving(fleet.saving, fleet.saving_gpu_hours_per_month)),
    )


def _table(clusters: Sequence[ClusterFigures]) -> Table:
    columns = (
        Column(title="cluster", least=12),
        Column(title="as of", least=14),
        Column(title="GPUs", numeric=True),
        Column(title="allocated now", numeric=True),
        Column(title="mean kernel activity", numeric=True),
        Column(title="observed", numeric=True),
        Column(title="workloads", numeric=True),
        Column(title="to change", numeric=True),
        Column(title="unknown", numeric=True),
        Column(title="cost of the window", numeric=True),
        Column(title="can be saved per month", numeric=True),
    )
    return Table(columns=headed(columns), rows=tuple(map(_row, clusters)))


def _row(one: ClusterFigures) -> tuple[str, ...]:
    return (
        one.cluster,
        units.utc(one.made_at),
        units.count(one.gpus),
        units.count(one.allocated),
        units.ratio(one.mean_kernel_of_observed),
        units.ratio(one.observed_share),
        units.count(one.workloads),
        units.count(one.states["finding"]),
        units.count(one.states["unknown"]),
        units.money(one.window_cost),
        _saving(one.saving, one.saving_gpu_hours_per_month),
    )


def _finds(one: ClusterFigures) -> bool:
    """Whether there is a saving that a price could be asked of."""
    return one.saving is not None or one.saving_gpu_hours_per_month > 0


def _saving(saving: Money | None, gpu_hours: float) -> str:
    hours = _("{number} GPU-hours", number=units.count(round(gpu_hours)))
    if saving is not None:
        return _("{money} ({hours})", money=units.money(saving), hours=hours)
    return hours if gpu_hours else _("nothing found")


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [one for one in parts if one is not None]
    return sum(known) if known and len(known) == len(parts) else None
