"""Format ``markdown``: GitHub-flavoured, for issues, chats and wikis. Cells are escaped."""

from collections.abc import Callable
from typing import Any, Final

from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Code,
    Document,
    Facts,
    Heading,
    Listing,
    Paragraph,
    Table,
)
from gputailor_agent.reports.formats import drawn

_SPECIAL: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>#|~"} | {"\n": " "})


def escape(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return text.translate(_SPECIAL)


def draw(document: Document) -> str:
    """A document as Markdown."""
    return "\n\n".join(_DRAWERS[type(block)](block) for block in document.blocks) + "\n"


def _heading(block: Heading) -> str:
    return f"{'#' * block.level} {escape(block.text)}"


def _paragraph(block: Paragraph) -> str:
    return f"_{escape(block.text)}_" if block.tone == "muted" else escape(block.text)


def _facts(block: Facts) -> str:
    return "\n".join(f"- {escape(label)}: **{escape(text)}**" for label, text in block.pairs)


def _listing(block: Listing) -> str:
    return "\n".join(
        f"{number}. **{escape(item.name)}** ({escape(item.figure)}): {escape(item.text)}"
        for number, item in enumerate(block.items, 1)
    )


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
    fence = "````" if "```" in block.text else "```"
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
)
