"""Money in several currencies: nothing converts them, so each is summed for itself."""

from collections.abc import Iterable
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
    verdicts: Iterable[Verdict],
    currency: str,
    books: Iterable[NodeBook] = (),
    hours: float = 0.0,
) -> tuple[OtherMoney, ...]:
    """What is priced in other currencies than ``currency`` ('': none), by currency.

    ``books``: the nodes, which cost their price over ``hours``.
    """
    costs: dict[str, list[float]] = {}
    saved: dict[str, list[float]] = {}
    gpus: dict[str, list[float]] = {}
    nodes: dict[str, list[float]] = {}
    models: dict[str, set[str]] = {}
    for item in verdicts:
        if item.cost is not None:
            costs.setdefault(item.cost.currency, []).append(item.cost.amount)
        primary = item.primary
        if primary is not None and counts(primary) and primary.saving.money_per_month is not None:
            money = primary.saving.money_per_month
            saved.setdefault(money.currency, []).append(money.amount)
    for book in books:
        if book.currency:
            gpus.setdefault(book.currency, []).append(book.gpus)
            nodes.setdefault(book.currency, []).append(book.gpus * (book.price or 0.0) * hours)
            models.setdefault(book.currency, set()).add(book.model)
    return tuple(
        OtherMoney(
            currency=name,
            gpus=fsum(gpus.get(name, ())),
            models=tuple(sorted(models.get(name, ()))),
            nodes=fsum(nodes.get(name, ())),
            workloads=fsum(costs.get(name, ())),
            saving_per_month=fsum(saved.get(name, ())),
        )
        for name in sorted({*costs, *saved, *gpus} - {currency})
    )
