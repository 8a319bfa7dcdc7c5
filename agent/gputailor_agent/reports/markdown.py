"""Format ``markdown``: GitHub-flavoured, for issues, chats and wikis. Cells are escaped."""

import re
from collections.abc import Callable
from typing import Any, Final

from gputailor_agent.reports.catalogues import _
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
from gputailor_agent.reports.formats import drawn
from gputailor_agent.reports.safe_text import harmless

#: Rows of a table: forges and chats cut longer pages, and JSON and CSV have all.
ROWS: Final = 1_000

_SPECIAL: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>#|~"} | {"\n": " "})


def escape(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return text.translate(_SPECIAL)


def draw(document: Document) -> str:
    """A document as Markdown."""
    blocks = harmless(document).blocks
    return "\n\n".join(_DRAWERS[type(block)](block) for block in blocks) + "\n"


def _heading(block: Heading) -> str:
    return f"{'#' * block.level} {escape(block.text)}"


def _paragraph(block: Paragraph) -> str:
    return f"_{escape(block.text)}_" if block.tone == "muted" else escape(block.text)


def _facts(block: Facts) -> str:
    return "\n".join(f"- {escape(label)}: **{escape(text)}**" for label, text in block.pairs)


def _listing(block: Listing) -> str:
    return "\n".join(_item(number, item) for number, item in enumerate(block.items, 1))


def _item(number: int, item: Item) -> str:
    lines = [f"{number}. **{escape(item.name)}** ({escape(item.figure)}): {escape(item.text)}"]
    lines += [f"   - {escape(label)}: {escape(text)}" for label, text in item.facts]
    if item.course:
        lines.append(f"   - {escape(_('use over the window'))}: `{sparkline(item.course)}`")
    if item.code:
        code = _code(Code(text=item.code, language=item.language))
        lines += ["", *(f"   {line}" for line in code.splitlines()), ""]
    return "\n".join(lines)


def _bullets(block: Bullets) -> str:
    mark = "⚠ " if block.tone == "warn" else ""
    return "\n".join(f"- {mark}{escape(line)}" for line in block.lines)


def _table(block: Table) -> str:
    lines = [
        _row(column.title for column in block.columns),
        "|" + "|".join(" ---: " if column.numeric else " --- " for column in block.columns) + "|",
        *(_row(row) for row in block.rows),
    ]
    if block.caption:
        lines += ["", f"_{escape(block.caption)}_"]
    return "\n".join(lines)


def _row(cells: Any) -> str:
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"


def _code(block: Code) -> str:
    longest = max(map(len, re.findall("`+", block.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{block.language}\n{block.text.rstrip()}\n{fence}"


_DRAWERS: Final[dict[type[Block], Callable[[Any], str]]] = {
    Heading: _heading,
    Paragraph: _paragraph,
    Facts: _facts,
    Listing: _listing,
    Bullets: _bullets,
    Table: _table,
    Code: _code,
}


FORMAT: Final = drawn(
    "markdown",
    "GitHub-flavoured Markdown",
    media_type="text/markdown; charset=utf-8",
    draw=lambda document, _look: draw(document),
    rows=ROWS,
)
