"""Tables on a terminal of any width, with nothing cut off.

Wide enough: one table. Else the last column goes on lines of its own below each row. Else each row
becomes a card of labelled cells.
"""

from functools import cache
from typing import Final, Literal

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from gputailor_agent.reports.catalogues import _, spoken
from gputailor_agent.reports.document import Column, Table

_GAP: Final = 3  # between columns of a table
_CLOSE_GAP: Final = 2  # between columns where a row's last cell stands below it


@cache
def _looks(_language: str) -> dict[str, str]:
    """Words of ours that have a colour, in the language spoken."""
    return {
        _("to change"): "bold yellow",
        _("fine"): "green",
        _("watching"): "cyan",
        _("unknown"): "magenta",
        _("not measured yet"): "blue",
        _("no"): "yellow",
        _("problem"): "bold red",
        _("ok"): "green",
    }


def styled(cell: str) -> Text:
    """A cell's text, in the colour of what it says."""
    return Text(cell, style=_looks(spoken().name).get(cell, ""))


def draw_table(block: Table, width: int) -> list[RenderableType]:
    """The table in the widest shape that fits ``width`` characters."""
    least = [_least(block, place) for place in range(len(block.columns))]
    if sum(least) + _GAP * len(least) <= width:
        parts = _whole(block, least, width - _GAP * len(least))
    elif not block.columns[-1].numeric and sum(least[:-1]) + _CLOSE_GAP * len(least) <= width:
        parts = _two_storeys(block, least[:-1], width)
    else:
        parts = _cards(block)
    return [*parts, *([Text(block.caption, style="dim")] if block.caption else [])]


def _least(block: Table, place: int) -> int:
    """Characters a column needs: those of its longest cell, fewer where it may wrap."""
    column = block.columns[place]
    title = max(map(cell_len, column.title.split()), default=0)
    longest = max((cell_len(row[place]) for row in block.rows), default=0)
    return max(title, min(longest, column.least) if column.least else longest)


def _longest(block: Table, place: int) -> int:
    """Characters of a column that wraps nothing, its title included."""
    cells = (row[place] for row in block.rows)
    return max(map(cell_len, (block.columns[place].title, *cells)), default=0)


def _justify(column: Column) -> Literal["left", "right"]:
    return "right" if column.numeric else "left"


def _whole(block: Table, least: list[int], width: int) -> list[RenderableType]:
    """One table; its columns get what they need, and share what is left where they want more."""
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    wanted = [_longest(block, place) for place in range(len(block.columns))]
    widths = _widen(least, wanted, width)
    for column, own in zip(block.columns, widths, strict=True):
        table.add_column(column.title, justify=_justify(column), overflow="fold", width=own)
    for row in block.rows:
        table.add_row(*map(styled, row))
    return [table]


def _two_storeys(block: Table, least: list[int], width: int) -> list[RenderableType]:
    """Rows as in a table, each row's last cell below it; wrapping columns share what is left."""
    columns = block.columns[:-1]
    wanted = [_longest(block, place) if one.least else 0 for place, one in enumerate(columns)]
    widths = _widen(least, wanted, width - _CLOSE_GAP * len(least))
    titles = tuple(Text(column.title, style="bold") for column in columns)
    parts: list[RenderableType] = [Text(), _line(columns, widths, titles)]
    for row in block.rows:
        parts.append(_line(columns, widths, tuple(map(styled, row[:-1]))))
        parts.append(Padding(Text(row[-1], style="dim"), (0, 0, 0, 4)))
    return parts


def _widen(least: list[int], wanted: list[int], width: int) -> list[int]:
    """Widths of at least ``least``, up to ``wanted`` as far as ``width`` in all goes."""
    widths = list(least)
    for place, wish in enumerate(wanted):
        widths[place] += max(0, min(wish - widths[place], width - sum(widths)))
    return widths


def _line(columns: tuple[Column, ...], widths: list[int], cells: tuple[Text, ...]) -> RichTable:
    line = RichTable.grid(padding=(0, _CLOSE_GAP, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        line.add_column(width=width, justify=_justify(column), overflow="fold")
    line.add_row(*cells)
    return line


def _cards(block: Table) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for row in block.rows:
        cells = zip(block.columns[1:], row[1:], strict=True)
        told = Text(", ").join(
            Text.assemble((f"{column.title} " if column.title else "", "dim"), styled(cell))
            for column, cell in cells
            if cell
        )
        parts += [Text(row[0], style="bold"), Padding(told, (0, 0, 0, 4))]
    return parts
