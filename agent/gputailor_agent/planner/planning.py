"""Put verdicts, capacity, cost and their checks together."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gputailor_agent.model.judgement import (
    CapacityLine,
    Check,
    CostLine,
    Plan,
    Verdict,
)
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.planner.capacity import (
    NodeBook,
    Sighting,
    capacity_lines,
    node_books,
    sightings,
)
from gputailor_agent.planner.choosing import counts, verdict
from gputailor_agent.planner.clusterwide import Survey
from gputailor_agent.planner.costs import OVERLAP, Accounts, Taken, cost_line
from gputailor_agent.planner.currencies import other_money, savings
from gputailor_agent.rules import Context, check_settings
from gputailor_agent.rules.pricing import MONEY_MESSAGES

#: Why a cost is not known (the planner's own messages are those of prices).
MESSAGES: Final = dict(MONEY_MESSAGES)
_HOUR: Final = 3600.0


def make_plan(
    profiles: Iterable[Profile],
    context: Context,
    *,
    window: Window,
    made_at: float,
    problems: Sequence[str] = (),
    sources: Sequence[str] = (),
) -> Plan:
    """Return the plan for ``profiles``, which were built over ``window``.

    ``made_at`` in Unix seconds. Verdicts are ordered by saving, then by GPU-hours. Checks that do
    not hold are in the plan. Where ``context.measured_since`` is given ``profiles`` may be a
    stream: each is judged and let go of; their order changes nothing. Raises ``SettingsError`` for
    thresholds no rule has.
    """
    check_settings(context.settings)
    if context.measured_since is None:
        profiles = list(profiles)
        context = replace(context, measured_since=first_measured(profiles))
    judged = _judged(profiles, context, window)
    verdicts, span, accounts = judged.verdicts, judged.span, judged.accounts
    verdicts.sort(key=_importance)
    books = node_books(context, judged.seen, span.end)
    currency = accounts.main_currency(books)
    taken = accounts.taken(currency)
    lines = capacity_lines(books)
    around = judged.survey.clusterwide(books, span)
    line = None
    if currency:
        line = cost_line(books, taken, span, context.measured_since, currency)
    saved_hours, saved_money = savings(verdicts, currency)
    checks = (
        *_capacity_checks(lines),
        *_cost_checks(line, accounts.cost(currency)),
        *_hours_checks(verdicts, taken, books, span),
    )
    return Plan(
        cluster=context.inventory.cluster,
        window=window,
        made_at=made_at,
        verdicts=tuple(verdicts),
        capacity=lines,
        cost=line,
        checks=checks,
        saving_gpu_hours_per_month=saved_hours,
        saving_money_per_month=saved_money,
        other_money=other_money(verdicts, currency, books, span.seconds / _HOUR),
        problems=(*problems, *_strangers(context, taken)),
        sources=tuple(sources),
        cluster_findings=around.findings,
        cluster_silences=around.silences,
        free_pools=around.free_pools,
        waiting=around.waiting,
    )


class _Judged(NamedTuple):
    """What is kept of profiles once they are judged; ``span``: the window they were built over."""

    verdicts: list[Verdict]
    accounts: Accounts
    seen: dict[str, Sighting]
    span: Window
    survey: Survey


def _judged(profiles: Iterable[Profile], context: Context, window: Window) -> _Judged:
    verdicts: list[Verdict] = []
    accounts, seen, span = Accounts(context), dict[str, Sighting](), window
    survey = Survey(context)
    for profile in profiles:
        span = profile.window
        verdicts.append(verdict(profile, context))
        accounts.add(profile)
        survey.add(profile, verdicts[-1])
        for name, found in sightings(context, profile):
            if name not in seen or found.workload_id < seen[name].workload_id:
                seen[name] = found
    return _Judged(verdicts, accounts, seen, span, survey)


def _importance(item: Verdict) -> tuple[float, float, float, str]:
    primary = item.primary
    money = hours = 0.0
    if primary is not None and counts(primary):
        saving = primary.saving
        money = saving.money_per_month.amount if saving.money_per_month is not None else 0.0
        hours = saving.gpu_hours_per_month or 0.0
    return (-money, -hours, -item.gpu_hours, item.workload.id)


def first_measured(profiles: Iterable[Profile]) -> float | None:
    """Start of the first hour (Unix seconds) in which any device was measured; None for none."""
    hours = (use.first_hour for profile in profiles for use in profile.gpus if use.hours)
    return min((float(hour) for hour in hours if hour), default=None)


def _agree(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)


def _check(name: str, left: float, right: float) -> Check:
    return Check(name=name, left=left, right=right, holds=_agree(left, right))


def _capacity_checks(lines: Iterable[CapacityLine]) -> Iterable[Check]:
    for line in lines:
        yield _check(
            f"{line.model}: allocated + free + unavailable + unknown = capacity",
            line.allocated + line.free + line.unavailable + line.unknown,
            line.capacity,
        )


def _cost_checks(line: CostLine | None, workloads_cost: float) -> Iterable[Check]:
    if line is None:
        return
    yield _check(
        "cost: workloads + free + unavailable + unknown = nodes",
        line.workloads + line.free + line.unavailable + line.unknown,
        line.nodes,
    )
    yield _check(
        "cost: sum over workloads = workloads' cost on nodes", workloads_cost, line.workloads
    )


def _hours_checks(
    verdicts: Iterable[Verdict],
    taken: dict[str, Taken],
    books: Iterable[NodeBook],
    window: Window,
) -> Iterable[Check]:
    yield _check(
        "GPU-hours: sum over workloads = sum over nodes",
        sum(item.gpu_hours for item in verdicts),
        sum(part.gpu_hours for part in taken.values()),
    )
    hours = window.seconds / _HOUR
    for book in books:
        used = taken.get(book.node.name, Taken(0.0, 0.0)).gpu_hours
        whole = book.gpus * hours
        if used > whole * (1 + OVERLAP):
            name = f"GPU-hours held on node {book.node.name} <= its GPUs x hours"
            yield Check(name=name, left=used, right=whole, holds=False)


def _strangers(context: Context, taken: dict[str, Taken]) -> Iterable[str]:
    if taken.get("", Taken(0.0, 0.0)).gpu_hours > 0 and context.inventory.nodes:
        hours = taken[""].gpu_hours
        yield (
            f"{hours:.1f} GPU-hours were used on nodes that are not in the inventory; they are "
            "counted at the list price of their model"
        )
