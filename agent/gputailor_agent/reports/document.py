"""A text as blocks: what console, Markdown and the web page all lay out in their own way.

Reports are composed once (``plan_page``, ``explain_page``, ``log_page``) and drawn three times, so
that no figure can differ between them. Cells are finished text; unknown already reads ``unknown``.
"""

import msgspec


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
    """One entry of a list: its name, what stands out (money), a sentence, a link target id."""

    name: str
    figure: str
    text: str
    link: str = ""


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


def block_kind(block: Block) -> str:
    """The block's kind in lower case, for templates: ``heading``, ``table`` and so on."""
    return type(block).__name__.lower()
