"""What ``gputailor estimate`` shows: memory by part, cards that fit, what would make less do."""

from datetime import date
from typing import Final

import msgspec

from gputailor_agent.catalog import told_age
from gputailor_agent.estimating import Amount, Estimate, ModelShape
from gputailor_agent.estimating.cards import Fit, currencies
from gputailor_agent.estimating.levers import Change
from gputailor_agent.reports import document as shown_as
from gputailor_agent.reports import units

_VERDICTS: Final = {
    "fits": "fits",
    "tight": "probably fits: try one run",
    "unlikely": "probably not",
    "no": "does not fit",
}
_RIGHT: Final = ("low", "expected", "high")


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A smaller card and what would make the job fit it."""

    fit: Fit
    changes: tuple[Change, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the command says."""

    task: str
    model: ModelShape
    settings: dict[str, str | int | float | bool | None]
    estimate: Estimate
    total: Amount
    fits: tuple[Fit, ...]
    goal: Goal | None
    schema_version: str = "1.0"


def page(answer: Answer, today: date, max_age_days: float, shown: int) -> shown_as.Document:
    """The answer as a document; ``shown`` cards at most."""
    title = f"{answer.model.name}: memory for {answer.task}"
    blocks: list[shown_as.Block] = [
        shown_as.Heading(text=title, level=1),
        shown_as.Facts(pairs=_facts(answer)),
        shown_as.Heading(text="Per GPU"),
        _parts(answer),
        *_cards(answer, today, max_age_days, shown),
        *_goal(answer),
        shown_as.Heading(text="How sure this is"),
        shown_as.Bullets(lines=(*answer.estimate.notes, _SURE)),
    ]
    return shown_as.Document(title=title, blocks=tuple(blocks))


_SURE: Final = (
    "fits: even the high end does. Formulas: --output json; how far they are off from published "
    "measurements: docs/estimate.md."
)


def _facts(answer: Answer) -> tuple[tuple[str, str], ...]:
    model = answer.model
    told = f"{model.parameters / 1e9:,.4g} billion"
    if model.active_parameters is not None:
        told += f", {model.active_parameters / 1e9:,.4g} billion for one token"
    settings = (
        f"{name} {'yes' if value is True else value}"
        for name, value in answer.settings.items()
        if value not in (None, False, "")
    )
    return (("parameters", told), ("settings", ", ".join(settings)))


def _parts(answer: Answer) -> shown_as.Table:
    columns = (
        shown_as.Column(title="part"),
        *(shown_as.Column(title=name, numeric=True) for name in _RIGHT),
    )
    rows = [_row(part.name, part.bytes) for part in answer.estimate.parts]
    return shown_as.Table(columns=columns, rows=(*rows, _row("total", answer.total)))


def _row(name: str, amount: Amount) -> tuple[str, ...]:
    return (name, units.size(amount.low), units.size(amount.expected), units.size(amount.high))


def _cards(answer: Answer, today: date, max_age_days: float, shown: int) -> list[shown_as.Block]:
    good = [fit for fit in answer.fits if fit.verdict in {"fits", "tight"}]
    heading = shown_as.Heading(text="Cards that hold it")
    if not good:
        largest = max(answer.fits, key=lambda fit: fit.card.usable_bytes, default=None)
        told = "no card is known" if largest is None else f"not even {largest.card.name} does"
        return [heading, shown_as.Paragraph(text=f"None: {told}.", tone="warn")]
    columns = (
        shown_as.Column(title="card"),
        *(shown_as.Column(title=name, numeric=True) for name in ("usable", "GPUs", "per hour")),
        *(shown_as.Column(title="price of"), shown_as.Column(title="verdict")),
    )
    rows = tuple(_card_row(fit, today, max_age_days) for fit in good[:shown])
    blocks: list[shown_as.Block] = [heading, shown_as.Table(columns=columns, rows=rows)]
    if len(currencies(good)) > 1:
        told = f"Prices are in {' and '.join(currencies(good))}; nothing converts them."
        blocks.append(shown_as.Paragraph(text=told, tone="warn"))
    if len(good) > shown:
        blocks.append(
            shown_as.Paragraph(text=f"{len(good) - shown} more: --shown 99.", tone="muted")
        )
    return blocks


def _card_row(fit: Fit, today: date, max_age_days: float) -> tuple[str, ...]:
    price = fit.card.price
    told = units.UNKNOWN
    if price is not None and fit.price_per_hour is not None:
        sign = "~" if price.estimate else ""
        told = f"{sign}{units.amount(fit.price_per_hour, price.currency)}"
    return (
        fit.card.name,
        units.size(fit.card.usable_bytes),
        str(fit.gpus),
        told,
        "-" if price is None else told_age(price, today, max_age_days),
        _VERDICTS[fit.verdict],
    )


def _goal(answer: Answer) -> list[shown_as.Block]:
    goal = answer.goal
    if goal is None:
        return []
    card = goal.fit.card
    text = f"What would make it fit {card.name} ({units.size(card.usable_bytes)})"
    if not goal.changes:
        told = "Nothing that is known here, all of it together included."
        return [shown_as.Heading(text=text), shown_as.Paragraph(text=told, tone="warn")]
    columns = (
        *(
            shown_as.Column(title="change", least=30),
            shown_as.Column(title="high end", numeric=True),
        ),
        *(shown_as.Column(title="per hour", numeric=True), shown_as.Column(title="cost", least=30)),
    )
    return [shown_as.Heading(text=text), shown_as.Table(columns=columns, rows=_change_rows(goal))]


def _change_rows(goal: Goal) -> tuple[tuple[str, ...], ...]:
    price = goal.fit.card.price
    rows: list[tuple[str, ...]] = []
    for change in goal.changes:
        hourly = goal.fit.card.hourly(change.gpus)
        told = units.UNKNOWN
        if price is not None and hourly is not None:
            told = units.amount(hourly, price.currency)
        rows.append(
            (
                " + ".join(change.names),
                units.size(change.estimate.total.high),
                told,
                "; ".join(dict.fromkeys(change.costs)),
            )
        )
    return tuple(rows)


def settings_of(settings: msgspec.Struct) -> dict[str, str | int | float | bool | None]:
    """Settings by name, as they were used."""
    found: dict[str, str | int | float | bool | None] = msgspec.to_builtins(settings)
    if found.get("lora_rank") is None:
        found.pop("lora_targets", None)
    return {name.replace("_", " "): value for name, value in found.items()}
