"""A plan as somebody sees it who may see some workloads only.

What is of the whole cluster (capacity, cost of nodes, checks, problems, which name other people's
pods) is left out; sums are made anew from what is left.
"""

from collections.abc import Iterable

import msgspec

from gputailor_agent.api.doors import Scope
from gputailor_agent.model.judgement import Money, Plan, Verdict
from gputailor_agent.planner.choosing import counts


def restricted(plan: Plan, scope: Scope) -> Plan:
    """The plan with the workloads of ``scope`` only; itself where nothing is hidden."""
    if scope.everything:
        return plan
    verdicts = tuple(one for one in plan.verdicts if scope.holds(one.workload))
    hours, money = _saving(verdicts)
    return msgspec.structs.replace(
        plan,
        verdicts=verdicts,
        capacity=(),
        cost=None,
        checks=(),
        saving_gpu_hours_per_month=hours,
        saving_money_per_month=money,
        problems=(),
        cluster_findings=(),
        cluster_silences=(),
        free_pools=(),
        waiting=(),
    )


def _saving(verdicts: Iterable[Verdict]) -> tuple[float, Money | None]:
    """Primaries of counted confidence; money where all of it is of one currency."""
    hours, amounts = 0.0, dict[str, float]()
    for one in verdicts:
        if one.primary is None or not counts(one.primary):
            continue
        saving = one.primary.saving
        hours += saving.gpu_hours_per_month or 0.0
        if saving.money_per_month is not None:
            money = saving.money_per_month
            amounts[money.currency] = amounts.get(money.currency, 0.0) + money.amount
    if len(amounts) != 1:
        return hours, None
    ((currency, amount),) = amounts.items()
    return hours, Money(amount=amount, currency=currency)
