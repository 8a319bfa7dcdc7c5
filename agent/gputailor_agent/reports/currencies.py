"""Amounts in several currencies, which nothing adds up: each is told."""

from collections.abc import Iterable

from gputailor_agent.model.judgement import Money, OtherMoney
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _


def together(amounts: Iterable[Money], *, per: str = "") -> str:
    """The amounts in words; "unknown" where there are none."""
    told = _(" and ").join(units.money(one, per=per) for one in amounts)
    return told or units.unknown()


def spent(main: Money | None, others: Iterable[OtherMoney]) -> list[Money]:
    """What the window cost in each currency: nodes, or else what workloads took; ``main`` first."""
    apart = [(one.nodes or one.workloads, one.currency) for one in others]
    return _listed(main, apart)


def saved(main: Money | None, others: Iterable[OtherMoney]) -> list[Money]:
    """What can be saved per month in each currency, ``main`` first."""
    return _listed(main, [(one.saving_per_month, one.currency) for one in others])


def _listed(main: Money | None, apart: Iterable[tuple[float, str]]) -> list[Money]:
    found = [Money(amount=amount, currency=currency) for amount, currency in apart if amount]
    return found if main is None else [main, *found]
