"""Money in several currencies: nothing converts them, so each is summed for itself."""

from collections.abc import Iterable, Sequence
from math import fsum

from gputailor_agent.model.judgement import Money, OtherMoney, Verdict
from gputailor_agent.planner.capacity import NodeBook
from gputailor_agent.planner.choosing import counts


def savings(verdicts: Iterable[Verdict], currency: str) -> tuple[float, Money | None]:
    """GPU-hours and, in ``currency``, money per month of the primaries that are counted."""
    hours: list[float] = []
    money: list[float] = []
    for item in verdicts:
        if item.primary is None or not counts(item.primary):
            continue
        saving = item.primary.saving
        hours.append(saving.gpu_hours_per_month or 0.0)
        if saving.money_per_month is not None and saving.money_per_month.currency == currency:
            money.append(saving.money_per_month.amount)
    return fsum(hours), Money(amount=fsum(money), currency=currency) if money else None


def other_money(
    verdicts: Sequence[Verdict],
    currency: str,
    books: Sequence[NodeBook] = (),
    hours: float = 0.0,
) -> tuple[OtherMoney, ...]:
    """What is priced in other currencies than ``currency`` ('': none), by currency.

    ``books``: the nodes, which cost their price over ``hours``.
    """
    costs = [item.cost for item in verdicts if item.cost is not None]
    saved = [
        item.primary.saving.money_per_month
        for item in verdicts
        if item.primary is not None
        and counts(item.primary)
        and item.primary.saving.money_per_month is not None
    ]
    names = {money.currency for money in (*costs, *saved)} | {book.currency for book in books}
    found = []
    for name in sorted(names - {currency, ""}):
        own = [book for book in books if book.currency == name]
        found.append(
            OtherMoney(
                currency=name,
                gpus=fsum(book.gpus for book in own),
                models=tuple(sorted({book.model for book in own})),
                nodes=fsum(book.gpus * (book.price or 0.0) * hours for book in own),
                workloads=fsum(money.amount for money in costs if money.currency == name),
                saving_per_month=fsum(money.amount for money in saved if money.currency == name),
            )
        )
    return tuple(found)
