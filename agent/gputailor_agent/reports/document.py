"""A text as blocks: what console, Markdown and the web page all lay out in their own way.

Reports are composed once (``plan_page``, ``explain_page``, ``log_page``) and drawn three times, so
that no figure can differ between them. Cells are finished text; unknown already reads ``unknown``.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from gputailor_agent.reports.catalogues import _


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A table's column. One with ``least`` > 0 may wrap, but gets that many characters."""

    title: str
    numeric: bool = False
    least: int = 0


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """A heading; level 1 is the document's title."""

    text: str
    level: int = 2


class Paragraph(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence or a few. ``tone``: '', "good", "warn" or "muted"."""

    text: str
    tone: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Labels with their values."""

    pairs: tuple[tuple[str, str], ...]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a list: its name, what stands out (money), a sentence, a link target id.

    ``course``: shares 0..1 over the window, None where nothing was observed; ``facts``: what else
    is to be known, by label; ``code``: what to copy, in ``language``.
    """

    name: str
    figure: str
    text: str
    link: str = ""
    course: tuple[float | None, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    code: str = ""
    language: str = "yaml"


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Entries in order of weight."""

    items: tuple[Item, ...]


class Bullets(msgspec.Struct, frozen=True, kw_only=True):
    """Plain lines, e.g. problems. ``tone`` as in ``Paragraph``."""

    lines: tuple[str, ...]
    tone: str = ""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of text; ``links`` names the id behind each row's first cell, or ''."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    links: tuple[str, ...] = ()
    caption: str = ""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """Something to copy, e.g. a patch."""

    text: str
    language: str = "yaml"


Block = Heading | Paragraph | Facts | Listing | Bullets | Table | Code


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A whole page."""

    title: str
    blocks: tuple[Block, ...]


#: Bars of a course, from nothing to all; a hair stands for zero, a dot for what nobody saw.
_BARS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_UNSEEN: Final = "\u00b7"


def sparkline(course: tuple[float | None, ...]) -> str:
    """A course as a line of characters: ``_`` is zero, a dot is unknown, bars are shares."""
    return "".join(_bar(share) for share in course)


def _bar(share: float | None) -> str:
    if share is None:
        return _UNSEEN
    if share <= 0:
        return "_"
    return _BARS[min(len(_BARS) - 1, int(share * len(_BARS)))]


def shortened(page: Document, rows: int, more: Callable[[int], str]) -> Document:
    """The page with tables of at most ``rows`` rows; ``more`` says how many are left out."""
    blocks = (_short(one, rows, more) if isinstance(one, Table) else one for one in page.blocks)
    return msgspec.structs.replace(page, blocks=tuple(blocks))


def _short(block: Table, rows: int, more: Callable[[int], str]) -> Table:
    left = len(block.rows) - rows
    if left <= 0:
        return block
    caption = f"{more(left)} {block.caption}".strip()
    return msgspec.structs.replace(
        block, rows=block.rows[:rows], links=block.links[:rows], caption=caption
    )


def headed(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns that a module declares once, their titles in the language spoken."""
    return tuple(msgspec.structs.replace(one, title=_(one.title)) for one in columns)


def block_kind(block: Block) -> str:
    """The block's kind in lower case, for templates: ``heading``, ``table`` and so on."""
    return type(block).__name__.lower()
