"""Panels as values: what is asked, how it is drawn, and where it stands.

A builder lists questions in rows; this module lays them out on Grafana's grid of 24 columns and
turns them into grafanalib's panels. A query of None (the dialect cannot answer) drops the panel, so
that no dashboard shows an empty one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from grafanalib.core import GridPos, RowPanel, Stat, Table, Target, TimeSeries

COLUMNS: Final = 24


class Look(StrEnum):
    """How a panel is drawn."""

    STAT = "stat"
    SERIES = "series"
    STACK = "stack"
    TABLE = "table"


_HEIGHTS: Final = {Look.STAT: 4, Look.SERIES: 8, Look.STACK: 8, Look.TABLE: 8}
#: What a stat or a cell writes where a number should be and is not.
UNKNOWN: Final = "unknown"
#: Labels in a table that lead to another board, and what is chosen there.
_CHOSEN: Final = {
    "node": "var-node=${__value.raw}",
    "gpu": "var-node=${__data.fields.node}&var-gpu=${__value.raw}",
    "namespace": "var-namespace=${__value.raw}",
    "workload": "var-namespace=${__data.fields.namespace}&var-workload=${__value.raw}",
}
_KEPT: Final = "${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query; ``name`` is its legend, or its column in a table."""

    expr: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: ``question`` is what it answers, shown as its description and in the docs."""

    title: str
    question: str
    queries: tuple[Query, ...]
    unit: str = "short"
    look: Look = Look.SERIES
    width: int = 12
    #: Unit by column, and labels that become columns, of a table.
    units: dict[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    #: What a stat writes where there is nothing to show.
    nothing: str = UNKNOWN
    #: From this value on a number is red: something is to be done.
    bad_from: float | None = None

    @property
    def height(self) -> int:
        """Rows of the grid."""
        return _HEIGHTS[self.look]


@dataclass(frozen=True, slots=True)
class Row:
    """Panels below one heading; a collapsed one is opened on demand."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


def panel(
    title: str,
    question: str,
    *queries: tuple[str | None, str],
    unit: str = "short",
    look: Look = Look.SERIES,
    width: int = 12,
    units: dict[str, str] | None = None,
    labels: tuple[str, ...] = (),
    nothing: str = UNKNOWN,
    bad_from: float | None = None,
) -> Panel | None:
    """Return a panel of the queries that the dialect can answer, None where there is none."""
    kept = tuple(Query(expr, name) for expr, name in queries if expr is not None)
    if not kept:
        return None
    return Panel(title, question, kept, unit, look, width, units or {}, labels, nothing, bad_from)


def row(title: str, *panels: Panel | None, collapsed: bool = False) -> Row | None:
    """Return a row of the panels that exist, None where there is none."""
    kept = tuple(one for one in panels if one is not None)
    return Row(title, kept, collapsed=collapsed) if kept else None


def rows(*found: Row | None) -> tuple[Row, ...]:
    """Return the rows that exist."""
    return tuple(one for one in found if one is not None)


def lay_out(found: Iterable[Row], leads: Mapping[str, str] | None = None) -> list[Any]:
    """Return grafanalib's panels, each at its place of the grid.

    ``leads``: uid of the board that a label in a table leads to, by the label.
    """
    drawing = _Drawing(leads or {})
    placed: list[Any] = []
    top = 0
    for one in found:
        heading = GridPos(h=1, w=COLUMNS, x=0, y=top)
        inside, bottom = drawing.place(one.panels, top + 1)
        if one.collapsed:
            placed.append(RowPanel(title=one.title, gridPos=heading, collapsed=True, panels=inside))
            top += 1
        else:
            placed.append(RowPanel(title=one.title, gridPos=heading))
            placed.extend(inside)
            top = bottom
    return placed


def _lines(panels: Sequence[Panel]) -> Iterator[list[Panel]]:
    line: list[Panel] = []
    for one in panels:
        full = sum(other.width for other in line) + one.width > COLUMNS
        if line and (full or line[-1].height != one.height):
            yield line
            line = []
        line.append(one)
    if line:
        yield line


class _Drawing:
    """Turns panels into grafanalib's."""

    def __init__(self, leads: Mapping[str, str]) -> None:
        self._leads = leads

    def place(self, panels: Sequence[Panel], top: int) -> tuple[list[Any], int]:
        """Fill lines from the left; the last panel of a line takes what is left of its width."""
        placed = []
        for line in _lines(panels):
            left = 0
            height = max(one.height for one in line)
            for number, one in enumerate(line, 1):
                width = COLUMNS - left if number == len(line) else one.width
                placed.append(self._drawn(one, GridPos(h=height, w=width, x=left, y=top)))
                left += width
            top += height
        return placed, top

    def _drawn(self, one: Panel, place: Any) -> Any:
        if one.look is Look.STAT:
            return _stat(one, place)
        if one.look is Look.TABLE:
            return self._table(one, place)
        return _series(one, place)

    def _table(self, one: Panel, place: Any) -> Any:
        """Rows by the labels, a column for each query; values of all queries merge by row."""
        names = {f"Value #{_letter(number)}": q.name for number, q in enumerate(one.queries)}
        if len(one.queries) == 1:
            names = {"Value": one.queries[0].name}
        columns = [*one.labels, *names]
        overrides: list[dict[str, Any]] = [
            {
                "matcher": {"id": "byName", "options": name},
                "properties": [{"id": "unit", "value": one.units.get(name, one.unit)}],
            }
            for name in names.values()
        ]
        overrides += [
            _link(label, self._leads[label])
            for label in one.labels
            if label in self._leads and _chosen_by(label, one.labels)
        ]
        return Table(
            title=one.title,
            description=one.question,
            targets=[
                Target(expr=q.expr, legendFormat="", instant=True, format="table")
                for q in one.queries
            ],
            unit=one.unit,
            filterable=True,
            overrides=overrides,
            thresholds=_thresholds(one),
            extraJson={"fieldConfig": {"defaults": {"mappings": _UNKNOWN_VALUES}}},
            transformations=[
                {"id": "merge", "options": {}},
                {"id": "filterFieldsByName", "options": {"include": {"names": columns}}},
                {
                    "id": "organize",
                    "options": {
                        "excludeByName": {},
                        "indexByName": {name: place for place, name in enumerate(columns)},
                        "renameByName": names,
                    },
                },
            ],
            gridPos=place,
        )


def _chosen_by(label: str, labels: Sequence[str]) -> bool:
    """Whether the row has all that the link needs."""
    return set(re.findall(r"__data[.]fields[.](\w+)", _CHOSEN[label])) <= set(labels)


def _link(label: str, uid: str) -> dict[str, Any]:
    """Lead from a label's value to the board ``uid``, with the same data source and time."""
    link = {"title": f"This {label}", "url": f"/d/{uid}?{_CHOSEN[label]}&{_KEPT}"}
    return {
        "matcher": {"id": "byName", "options": label},
        "properties": [{"id": "links", "value": [link]}],
    }


#: A number that is not there is written as a word: never as 0, never as an empty cell.
_UNKNOWN_VALUES: Final = [
    {
        "type": "special",
        "options": {"match": "null+nan", "result": {"text": UNKNOWN, "color": "text", "index": 0}},
    }
]


def _thresholds(one: Panel) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [{"color": "text" if one.bad_from else "green", "value": None}]
    if one.bad_from is not None:
        steps.append({"color": "red", "value": one.bad_from})
    return steps


def _stat(one: Panel, place: Any) -> Any:
    return Stat(
        title=one.title,
        description=one.question,
        targets=[Target(expr=q.expr, legendFormat=q.name, instant=True) for q in one.queries],
        format=one.unit,
        reduceCalc="lastNotNull",
        graphMode="none",
        noValue=one.nothing,
        thresholds=_thresholds(one),
        mappings=_UNKNOWN_VALUES if one.nothing == UNKNOWN else [],
        gridPos=place,
    )


def _series(one: Panel, place: Any) -> Any:
    stacked = one.look is Look.STACK
    return TimeSeries(
        title=one.title,
        description=one.question,
        targets=[Target(expr=q.expr, legendFormat=q.name) for q in one.queries],
        unit=one.unit,
        spanNulls=False,
        fillOpacity=30 if stacked else 5,
        stacking={"mode": "normal", "group": "A"} if stacked else {},
        showPoints="never",
        tooltipMode="multi",
        tooltipSort="desc",
        legendDisplayMode="table",
        legendCalcs=["mean", "max", "lastNotNull"],
        valueMin=0,
        valueMax=1 if one.unit == "percentunit" else None,
        thresholds=_thresholds(one),
        gridPos=place,
    )


def _letter(number: int) -> str:
    return chr(ord("A") + number)
