"""Which changes to make: fewest that reach a saving, and what if some rules were not to be used.

Of each workload one finding is chosen, never two: of those whose rules may be used and whose saving
is counted, the one that the order of changes puts first (``choosing.ranked``). Then what saves most
comes first, so that the fewest changes reach the target. What is held back, and what a finding of
low confidence might bring, is not in the sum.
"""

from collections import Counter
from typing import NamedTuple

from gputailor_agent.model.judgement import Finding, Plan, Verdict
from gputailor_agent.planner.choosing import counts, ranked


class Allowed(NamedTuple):
    """Rules that may be used: those of ``allow`` (empty: all) but for those of ``deny``."""

    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()

    def holds(self, rule: str) -> bool:
        """Whether the rule may be used."""
        return (not self.allow or rule in self.allow) and rule not in self.deny


class Step(NamedTuple):
    """One change; ``running``: what is saved per month up to it, itself included."""

    verdict: Verdict
    finding: Finding
    running: float


class Course(NamedTuple):
    """Changes in their order, and how far they go. Amounts are per month, in ``currency``.

    ``target``: None where none was set; then every step is taken. ``left``: further changes, with
    money, that the target does not need. ``unpriced``: findings whose money is not known.
    """

    steps: tuple[Step, ...]
    left: tuple[Step, ...]
    target: float | None
    currency: str
    present: float  # saved by the plan's own primaries, all rules allowed
    unpriced: int

    @property
    def saved(self) -> float:
        """What the steps save together."""
        return self.steps[-1].running if self.steps else 0.0

    @property
    def reached(self) -> bool:
        """Whether they save the target; true where there is none."""
        return self.target is None or self.saved >= self.target


def course(plan: Plan, allowed: Allowed, target: float | None) -> Course:
    """Choose changes of the plan's workloads up to ``target`` (money per month)."""
    currency = _currency(plan)
    chosen = [_choice(verdict, allowed) for verdict in plan.verdicts]
    pairs = [(verdict, one) for verdict, one in zip(plan.verdicts, chosen, strict=True) if one]
    priced = [(verdict, one) for verdict, one in pairs if _money(one, currency) > 0]
    priced.sort(key=lambda pair: (-_money(pair[1], currency), pair[0].workload.id))
    steps: list[Step] = []
    left: list[Step] = []
    running = 0.0
    for verdict, one in priced:
        enough = target is not None and running >= target
        amount = _money(one, currency)
        if not enough:
            running += amount
        step = Step(verdict, one, running)
        (left if enough else steps).append(step)
    saved = plan.saving_money_per_month
    return Course(
        steps=tuple(steps),
        left=tuple(left),
        target=target,
        currency=currency,
        present=saved.amount if saved is not None else 0.0,
        unpriced=len(pairs) - len(priced),
    )


def _choice(verdict: Verdict, allowed: Allowed) -> Finding | None:
    """The workload's first finding that may be used and is counted."""
    found = [verdict.primary, *verdict.alternatives]
    usable = [one for one in found if one is not None and allowed.holds(one.rule) and counts(one)]
    saving = [one for one in usable if _saves(one)]
    return ranked(saving)[0] if saving else None


def _saves(finding: Finding) -> bool:
    money = finding.saving.money_per_month
    return (money.amount if money is not None else finding.saving.gpu_hours_per_month or 0.0) > 0


def _currency(plan: Plan) -> str:
    """The plan's; where it has none, that of most findings."""
    if plan.saving_money_per_month is not None:
        return plan.saving_money_per_month.currency
    told = Counter(
        one.saving.money_per_month.currency
        for verdict in plan.verdicts
        for one in (verdict.primary, *verdict.alternatives)
        if one is not None and one.saving.money_per_month is not None
    )
    return max(sorted(told), key=lambda name: told[name], default="USD")


def _money(finding: Finding, currency: str) -> float:
    money = finding.saving.money_per_month
    return money.amount if money is not None and money.currency == currency else 0.0
