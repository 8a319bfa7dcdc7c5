"""Format ``html``: one page that mail programs show, too. No script, nothing from elsewhere.

The agent's own pages have a template of their own; mail programs drop style sheets and scripts, so
here every element carries its look, and links lead to the agent only where its address is known.
"""

from collections.abc import Callable
from html import escape
from typing import Any, Final
from urllib.parse import quote

from gputailor_agent.reports import units
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

_FONT: Final = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif"
_LINE: Final = "border-bottom:1px solid #d0d7de"
_CELL: Final = f"padding:5px 8px;vertical-align:top;text-align:left;{_LINE}"
_TONES: Final = {"good": "color:#116329", "warn": "color:#8a4600", "muted": "color:#57606a"}
_SIZES: Final = {1: "22px", 2: "17px"}

_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body style="margin:0;padding:16px;background:#ffffff;color:#1b1f24;font-size:15px;\
line-height:1.45;{font}">
{body}
</body>
</html>
"""

Draw = Callable[[Any, str], str]


def draw(document: Document, *, public_url: str = "") -> str:
    """A whole HTML page; workloads are links to the agent's pages at ``public_url``, if given."""
    body = "\n".join(_DRAWERS[type(block)](block, public_url) for block in document.blocks)
    return _PAGE.format(title=escape(document.title), font=_FONT, body=body)


def _heading(block: Heading, _url: str) -> str:
    size = _SIZES.get(block.level, "15px")
    look = f"font-size:{size};margin:20px 0 6px"
    return f'<h{block.level} style="{look}">{escape(block.text)}</h{block.level}>'


def _paragraph(block: Paragraph, _url: str) -> str:
    return f'<p style="margin:8px 0;{_TONES.get(block.tone, "")}">{escape(block.text)}</p>'


def _facts(block: Facts, _url: str) -> str:
    rows = "\n".join(
        f'<tr><td style="padding:2px 16px 2px 0;color:#57606a">{escape(label)}</td>'
        f'<td style="padding:2px 0"><b>{_value(text)}</b></td></tr>'
        for label, text in block.pairs
    )
    return f'<table style="border-collapse:collapse;margin:8px 0">\n{rows}\n</table>'


def _listing(block: Listing, url: str) -> str:
    items = "\n".join(
        f'<li style="margin:8px 0">{_link(item.name, item.link, url)} '
        f'<b style="color:#116329">{escape(item.figure)}</b><br>{escape(item.text)}</li>'
        for item in block.items
    )
    return f'<ol style="padding-left:24px">\n{items}\n</ol>'


def _bullets(block: Bullets, _url: str) -> str:
    items = "\n".join(f"<li>{escape(line)}</li>" for line in block.lines)
    return f'<ul style="padding-left:24px;{_TONES.get(block.tone, "")}">\n{items}\n</ul>'


def _table(block: Table, url: str) -> str:
    head = "".join(
        f'<th style="{_CELL};background:#f6f8fa{_side(column.numeric)}">{escape(column.title)}</th>'
        for column in block.columns
    )
    links = block.links or ("",) * len(block.rows)
    rows = "\n".join(
        f"<tr>{_cells(block, row, link, url)}</tr>"
        for row, link in zip(block.rows, links, strict=True)
    )
    caption = f'<p style="margin:4px 0;{_TONES["muted"]}">{escape(block.caption)}</p>'
    return (
        f'<table style="border-collapse:collapse;font-size:13px">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>" + (caption if block.caption else "")
    )


def _cells(block: Table, row: tuple[str, ...], link: str, url: str) -> str:
    cells = []
    for place, (column, text) in enumerate(zip(block.columns, row, strict=True)):
        shown = _link(text, link, url) if place == 0 else _value(text)
        cells.append(f'<td style="{_CELL}{_side(column.numeric)}">{shown}</td>')
    return "".join(cells)


def _side(numeric: bool) -> str:
    return ";text-align:right;white-space:nowrap" if numeric else ""


def _code(block: Code, _url: str) -> str:
    look = "background:#f6f8fa;border:1px solid #d0d7de;padding:10px;overflow:auto"
    return f'<pre style="{look}">{escape(block.text.rstrip())}</pre>'


def _value(text: str) -> str:
    """Text of a cell; what is not known looks unlike any figure."""
    return f'<i style="color:#8250df">{text}</i>' if text == units.UNKNOWN else escape(text)


def _link(text: str, identity: str, url: str) -> str:
    if not (identity and url):
        return f"<b>{escape(text)}</b>"
    target = f"{url.rstrip('/')}/workloads/{quote(identity)}"
    return f'<a href="{escape(target)}" style="color:#0550ae">{escape(text)}</a>'


_DRAWERS: Final[dict[type[Block], Draw]] = {
    Heading: _heading,
    Paragraph: _paragraph,
    Facts: _facts,
    Listing: _listing,
    Bullets: _bullets,
    Table: _table,
    Code: _code,
}


FORMAT: Final = drawn(
    "html",
    "one page without scripts, for a browser or a mail",
    media_type="text/html; charset=utf-8",
    draw=lambda document, _look: draw(document),
)
