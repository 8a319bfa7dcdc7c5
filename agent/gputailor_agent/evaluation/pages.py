"""What studies found, as blocks of a document (drawn by ``reports``) and as JSON."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from gputailor_agent.evaluation.base import Cell, Figure, Outcome, Table
from gputailor_agent.reports import markdown
from gputailor_agent.reports.document import Block, Bullets, Column, Document, Heading, Paragraph
from gputailor_agent.reports.document import Table as Drawn

TITLE: Final = "Accuracy"
#: Folder beside the page with its plots.
PLOTS: Final = "plots"
_MARK: Final = '<!-- Generated: make evaluate ARGS="--write docs/accuracy.md". Do not edit. -->\n\n'
_INTRODUCTION: Final = (
    "How right GPU Tailor is, measured on real data. make evaluate makes this page, make "
    "evaluate DATA=FOLDER runs the same studies on other data of the same layout, and gputailor "
    "backtest tells of your own history. Intervals are 95 %, by bootstrap unless said otherwise. "
    "A goal that is missed is said to be missed; what the data cannot tell is listed as not "
    "evaluable here."
)


def _ratio(value: float) -> str:
    return f"{value * 100:.1f} %"


def _plain(value: float) -> str:
    return f"{value:.3g}"


def _count(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else _plain(value)  # noqa: PLR2004 - three figures say enough


_UNITS: Final[Mapping[str, Callable[[float], str]]] = MappingProxyType(
    {
        "ratio": _ratio,
        "factor": lambda value: f"{value:.2f}x",
        "hours": lambda value: f"{value:,.1f} h",
        "minutes": lambda value: f"{value:g} min",
        "count": _count,
    }
)


def written(value: Cell, unit: str) -> str:
    """Return a value as a page shows it; what is not known is "unknown", never 0."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "unknown"
    if isinstance(value, str):
        return value
    return _UNITS.get(unit, _plain)(float(value))


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Every figure and table, in full precision."""
    return msgspec.json.format(msgspec.json.encode(list(outcomes)), indent=2).decode() + "\n"


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the whole page of the studies."""
    blocks = [Heading(text=TITLE, level=1), Paragraph(text=_INTRODUCTION), *_goals(outcomes)]
    for outcome in outcomes:
        blocks += section(outcome)
    drawn = markdown.draw(Document(title=TITLE, blocks=tuple(blocks)))
    return _MARK + _with_plots(drawn, outcomes)


def _with_plots(page: str, outcomes: Sequence[Outcome]) -> str:
    """Put each study's plots, as files of ``PLOTS`` beside the page, before its first table."""
    parts = page.split("\n## ")
    for place, part in enumerate(parts):
        for outcome in outcomes:
            if outcome.plots and part.startswith(markdown.escape(outcome.title) + "\n"):
                images = "\n\n".join(f"![{one.title}]({PLOTS}/{one.name}.svg)"
                                     for one in outcome.plots)  # fmt: skip
                head, mark, rest = part.partition("\n### ")
                parts[place] = f"{head.rstrip()}\n\n{images}\n{mark}{rest}"
    return "\n## ".join(parts)


def _goals(outcomes: Sequence[Outcome]) -> list[Block]:
    rows = [
        (outcome.title, figure.name, written(figure.value, figure.unit), figure.goal,
         _verdict(figure))
        for outcome in outcomes
        for figure in outcome.figures
        if figure.goal
    ]  # fmt: skip
    columns = ("study", "figure", "reached", "goal", "verdict")
    return [Heading(text="Goals"), _drawn(columns, rows)] if rows else []


def _verdict(figure: Figure) -> str:
    if not figure.goal:
        return ""
    if figure.met is None:
        return "not evaluable"
    return "met" if figure.met else "missed"


def section(outcome: Outcome, level: int = 2) -> Iterator[Block]:
    """Blocks of one outcome: data, method, figures, tables, and what cannot be told."""
    yield Heading(text=outcome.title, level=level)
    if outcome.sources:
        yield Bullets(
            lines=tuple(
                f"data: {one.file}: {one.origin}; licence: {one.licence}" for one in outcome.sources
            )
        )
    for text in outcome.method:
        yield Paragraph(text=text)
    if outcome.figures:
        yield _figures(outcome.figures)
    for table in outcome.tables:
        if table.rows:
            yield Heading(text=table.title, level=level + 1)
            yield _table(table)
    if outcome.notes:
        yield Bullets(lines=tuple(f"note: {text}" for text in outcome.notes))
    if outcome.not_evaluable:
        yield Heading(text="Not evaluable here", level=level + 1)
        yield Bullets(lines=outcome.not_evaluable)


def _figures(figures: Iterable[Figure]) -> Drawn:
    rows = [
        (one.name, written(one.value, one.unit), _interval(one),
         "" if one.cases is None else f"{one.cases:,}", one.goal, _verdict(one), one.note)
        for one in figures
    ]  # fmt: skip
    columns = ("figure", "value", "95 %", "cases", "goal", "verdict", "note")
    return _drawn(columns, rows)


def _interval(figure: Figure) -> str:
    low, high = figure.low, figure.high
    if low is None:
        return "" if high is None else f"up to {written(high, figure.unit)}"
    return f"{written(low, figure.unit)} to {written(high, figure.unit)}"


def _table(table: Table) -> Drawn:
    rows = [
        tuple(written(cell, unit) for cell, unit in zip(row, table.units, strict=True))
        for row in table.rows
    ]
    return _drawn(table.columns, rows, table.units)


def _drawn(
    columns: Sequence[str], rows: Sequence[tuple[str, ...]], units: Sequence[str] = ()
) -> Drawn:
    numeric = [bool(unit) for unit in units] or [False] * len(columns)
    heads = (
        Column(title=title, numeric=number, least=0 if number else 24)
        for title, number in zip(columns, numeric, strict=True)
    )
    return Drawn(columns=tuple(heads), rows=tuple(rows))
