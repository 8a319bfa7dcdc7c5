"""Teams, namespaces and queues: who holds what, how it is used, and what each could save."""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import Money, Plan, Verdict
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import Block, Column, Heading, Table, headed

_SHOWN: Final = 12


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Workloads of one team, namespace or queue. Money is None where any of it is not known."""

    name: str  # '' for workloads that have none
    workloads: int
    gpus_now: float
    gpu_hours: float
    mean_kernel: float | None  # of the observed time
    cost: Money | None
    saving: Money | None  # per month, of the findings that are counted
    saving_gpu_hours_per_month: float


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Groups by each thing that workloads are grouped by, what costs most first."""

    teams: tuple[Group, ...] = ()
    namespaces: tuple[Group, ...] = ()
    queues: tuple[Group, ...] = ()


def groups(plan: Plan) -> Groups:
    """The plan's workloads by team, namespace and queue."""
    return Groups(
        teams=_grouped(plan, lambda one: one.team),
        namespaces=_grouped(plan, lambda one: one.namespace),
        queues=_grouped(plan, lambda one: one.queue),
    )


def _grouped(plan: Plan, name_of: Callable[[Workload], str]) -> tuple[Group, ...]:
    members: dict[str, list[Verdict]] = defaultdict(list)
    for one in plan.verdicts:
        members[name_of(one.workload)].append(one)
    found = [_group(name, own) for name, own in members.items()]
    return tuple(sorted(found, key=lambda one: (-one.gpu_hours, one.name)))


def _group(name: str, members: list[Verdict]) -> Group:
    counted = overview.counted_among(members)
    found = [one.primary for one in counted if one.primary is not None]
    return Group(
        name=name,
        workloads=len(members),
        gpus_now=sum(one.gpus_now for one in members),
        gpu_hours=sum(one.gpu_hours for one in members),
        mean_kernel=overview.use_of_observed(members)[0],
        cost=sum_of_money([one.cost for one in members]),
        saving=sum_of_money([one.saving.money_per_month for one in found]) if found else None,
        saving_gpu_hours_per_month=sum(one.saving.gpu_hours_per_month or 0.0 for one in found),
    )


def sum_of_money(amounts: list[Money | None]) -> Money | None:
    """Sum; None where one of them is not known, or is in another currency."""
    known = [one for one in amounts if one is not None]
    if not known or len(known) < len(amounts) or len({one.currency for one in known}) > 1:
        return None  # the sum of a part would pass for the whole
    return Money(amount=sum(one.amount for one in known), currency=known[0].currency)


def groups_blocks(plan: Plan) -> tuple[Block, ...]:
    """A table for each way of grouping that tells more than one group apart."""
    found = groups(plan)
    blocks: list[Block] = []
    for title, first, own in (
        (_("By team"), _("team"), found.teams),
        (_("By namespace"), _("namespace"), found.namespaces),
        (_("By queue"), _("queue"), found.queues),
    ):
        if len(own) > 1:
            blocks += [Heading(text=title), _table(first, own)]
    return tuple(blocks)


def _table(first: str, found: tuple[Group, ...]) -> Table:
    columns = (
        Column(title="workloads", numeric=True),
        Column(title="GPUs now", numeric=True),
        Column(title="GPU-hours", numeric=True),
        Column(title="mean kernel activity", numeric=True),
        Column(title="cost of the window", numeric=True),
        Column(title="can be saved per month", numeric=True),
    )
    left = len(found) - _SHOWN
    caption = ""
    if left > 0:
        caption = _("{number} more are in the JSON report.", number=units.count(left))
    return Table(
        columns=(Column(title=first, least=16), *headed(columns)),
        rows=tuple(map(_row, found[:_SHOWN])),
        caption=caption,
    )


def _row(one: Group) -> tuple[str, ...]:
    return (
        one.name or _("none"),
        units.count(one.workloads),
        units.count(one.gpus_now),
        units.count(round(one.gpu_hours)),
        units.ratio(one.mean_kernel),
        units.money(one.cost),
        _saving(one),
    )


def _saving(one: Group) -> str:
    if one.saving is not None:
        return units.money(one.saving)
    if one.saving_gpu_hours_per_month:
        hours = units.count(round(one.saving_gpu_hours_per_month))
        return _("{number} GPU-hours", number=hours)
    return _("nothing found")
