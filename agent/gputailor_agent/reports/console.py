"""Format ``table``: for a terminal, drawn by rich.

Colour and width are the caller's: the command line passes the terminal's, ``NO_COLOR`` and pipes
get plain text. Nothing is cut off: cells wrap instead of ending in an ellipsis.
"""

import io
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.console_tables import draw_table, styled
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Code,
    Document,
    Facts,
    Heading,
    Item,
    Listing,
    Paragraph,
    Table,
    sparkline,
)
from gputailor_agent.reports.formats import Look, drawn
from gputailor_agent.reports.safe_text import harmless

_TONES: Final = {"good": "green", "warn": "yellow", "muted": "dim", "": ""}
_HEADINGS: Final = {1: "bold underline", 2: "bold", 3: "italic"}


def draw(document: Document, look: Look) -> str:
    """A document as terminal text, with ANSI colours only when ``look.color``."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=look.width,
        force_terminal=look.color,
        no_color=not look.color,
        color_system="standard" if look.color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for block in harmless(document).blocks:
        parts = (
            draw_table(block, look.width)
            if isinstance(block, Table)
            else _DRAWERS[type(block)](block)
        )
        for part in parts:
            console.print(part)
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "\n".join(lines).strip("\n") + "\n"


def _heading(block: Heading) -> list[RenderableType]:
    return ["", Text(block.text, style=_HEADINGS.get(block.level, ""))]


def _paragraph(block: Paragraph) -> list[RenderableType]:
    return [Text(block.text, style=_TONES[block.tone])]


def _facts(block: Facts) -> list[RenderableType]:
    table = RichTable.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for label, text in block.pairs:
        table.add_row(label, styled(text))
    return [Padding(table, (0, 0, 0, 2))]


def _listing(block: Listing) -> list[RenderableType]:
    table = RichTable.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for number, item in enumerate(block.items, 1):
        title = Text.assemble((item.name, "bold"), "  ", (item.figure, "bold green"))
        lines = [title, Text(item.text), *_details(item)]
        table.add_row(f"{number}.", Text("\n").join(lines))
    return [Padding(table, (0, 0, 0, 2))]


def _details(item: Item) -> list[Text]:
    """What an entry has beside its sentence; nothing in the first screen of a report."""
    lines = [Text.assemble((f"{label}: ", "dim"), text) for label, text in item.facts]
    if item.course:
        label = _("use over the window")
        lines.append(Text.assemble((f"{label}: ", "dim"), (sparkline(item.course), "cyan")))
    return lines + [Text(f"  {line}") for line in item.code.rstrip().splitlines()]


def _bullets(block: Bullets) -> list[RenderableType]:
    table = RichTable.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in block.lines:
        table.add_row("-", Text(line, style=_TONES[block.tone]))
    return [Padding(table, (0, 0, 0, 2))]


def _code(block: Code) -> list[RenderableType]:
    return [Padding(Text(block.text.rstrip()), (0, 0, 0, 4))]


_DRAWERS: Final[dict[type[Block], Callable[[Any], list[RenderableType]]]] = {
    Heading: _heading,
    Paragraph: _paragraph,
    Facts: _facts,
    Listing: _listing,
    Bullets: _bullets,
    Code: _code,
}


FORMAT: Final = drawn(
    "table",
    "tables for a terminal",
    media_type="text/plain; charset=utf-8",
    draw=draw,
    details=False,
)
