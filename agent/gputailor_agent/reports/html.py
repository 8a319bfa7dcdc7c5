"""Formats ``html`` and ``mail``: one page without scripts, and nothing from elsewhere.

Both draw the same blocks. ``html`` is for a browser: a style sheet, light and dark by the reader's
own setting, and a layout for paper. ``mail`` is for mail programs, which drop style sheets: there
every element carries its look. Links lead to the agent only where its address is known. Names are
escaped, isolated from the direction of writing around them, and broken anywhere when long.
"""

from collections.abc import Callable
from html import escape
from typing import Any, Final
from urllib.parse import quote

import msgspec

from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _, spoken
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Code,
    Column,
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
from gputailor_agent.reports.html_looks import LOOKS, SHEET
from gputailor_agent.reports.safe_text import harmless

#: Rows of a table on one page: a page of every workload of a large cluster would be 10 MB.
ROWS: Final = 400
#: Width of a point and height of a course, in pixels.
_POINT: Final = 5
_HEIGHT: Final = 24
#: Columns from which on a table is wide, and what least width of one is long.
_WIDE: Final = 9
_LONG: Final = 20
_TONES: Final = frozenset({"good", "warn", "muted"})

_PAGE: Final = """<!doctype html>
<html lang="{lang}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\
<meta name="color-scheme" content="{schemes}"><title>{title}</title>{sheet}</head>
<body{look}>
<main>
{body}
</main>
</body>
</html>
"""


class Pen(msgspec.Struct, frozen=True, kw_only=True):
    """How elements get their look: ``inline`` for mails, else by class; ``url`` of the agent."""

    inline: bool
    url: str = ""

    def at(self, *looks: str) -> str:
        """The attribute that gives an element these looks of ``html_looks``."""
        named = [look for look in looks if look]
        if not named:
            return ""
        if self.inline:
            return f' style="{";".join(LOOKS[look] for look in named)}"'
        return f' class="{" ".join(named)}"'


Draw = Callable[[Any, Pen], str]


def draw(document: Document, *, public_url: str = "") -> str:
    """A page for mail programs; workloads are links to the agent's pages at ``public_url``."""
    return _page(document, Pen(inline=True, url=public_url))


def page(document: Document, *, public_url: str = "") -> str:
    """A page for browsers and paper; links as in ``draw``."""
    return _page(document, Pen(inline=False, url=public_url))


def _page(document: Document, pen: Pen) -> str:
    document = harmless(document)
    return _PAGE.format(
        lang=spoken().tag,
        title=escape(document.title),
        schemes="light" if pen.inline else "light dark",
        sheet="" if pen.inline else f"<style>{SHEET}</style>",
        look=pen.at("body") if pen.inline else "",
        body="\n".join(_DRAWERS[type(block)](block, pen) for block in document.blocks),
    )


def _heading(block: Heading, pen: Pen) -> str:
    look = f"h{min(block.level, 3)}" if pen.inline else ""
    return f"<h{block.level}{pen.at(look)}>{escape(block.text)}</h{block.level}>"


def _tone(tone: str) -> str:
    return tone if tone in _TONES else ""


def _paragraph(block: Paragraph, pen: Pen) -> str:
    return f"<p{pen.at('p' if pen.inline else '', _tone(block.tone))}>{escape(block.text)}</p>"


def _facts(block: Facts, pen: Pen) -> str:
    rows = "\n".join(
        f"<tr><th{pen.at('label')} scope=row>{escape(label)}</th>"
        f"<td{pen.at('fact')}><b>{_value(text, pen)}</b></td></tr>"
        for label, text in block.pairs
    )
    return f"<table{pen.at('facts')}>\n{rows}\n</table>"


def _listing(block: Listing, pen: Pen) -> str:
    items = "\n".join(_item(item, pen) for item in block.items)
    return f"<ol{pen.at('list')}>\n{items}\n</ol>"


def _item(item: Item, pen: Pen) -> str:
    name, figure = _link(item.name, item.link, pen), escape(item.figure)
    parts = [f"{name} <b{pen.at('figure')}>{figure}</b><br>{escape(item.text)}"]
    parts += [f"<br><small>{escape(label)}: {escape(text)}</small>" for label, text in item.facts]
    if item.course:
        parts.append(f"<br><small>{escape(_('use over the window'))}</small> {_course(item, pen)}")
    if item.code:
        parts.append(_code(Code(text=item.code, language=item.language), pen))
    return f"<li{pen.at('item')}>{''.join(parts)}</li>"


def _course(item: Item, pen: Pen) -> str:
    """Bars in a browser; mail programs get characters, since they show no drawing."""
    if pen.inline:
        return f"<span{pen.at('course')}>{escape(sparkline(item.course))}</span>"
    bars = "".join(
        f'<rect x="{place * _POINT}" y="{_HEIGHT - height}" '
        f'width="{_POINT - 1}" height="{height}"/>'
        for place, share in enumerate(item.course)
        if share is not None
        for height in (max(1, round(share * _HEIGHT)),)
    )
    unseen = "".join(
        f'<circle class="unseen" cx="{place * _POINT + 2}" cy="{_HEIGHT - 2}" r="1"/>'
        for place, share in enumerate(item.course)
        if share is None
    )
    width = len(item.course) * _POINT
    return (
        f'<svg class="course" role="img" aria-label="{escape(sparkline(item.course))}" '
        f'width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}">{bars}{unseen}</svg>'
    )


def _bullets(block: Bullets, pen: Pen) -> str:
    items = "\n".join(f"<li>{escape(line)}</li>" for line in block.lines)
    return f"<ul{pen.at('list', _tone(block.tone))}>\n{items}\n</ul>"


def _table(block: Table, pen: Pen) -> str:
    """A table; the last column of a wide one stands below each row, where it has room."""
    columns = block.columns[: _beside(block)]
    head = "".join(
        f"<th{pen.at(*_cell(pen, column), _width(column), 'head' if pen.inline else '')} scope=col>"
        f"{escape(column.title)}</th>"
        for column in columns
    )
    links = block.links or ("",) * len(block.rows)
    rows = "\n".join(
        _row(block, row, link, pen) for row, link in zip(block.rows, links, strict=True)
    )
    caption = f"<p{pen.at('muted')}>{escape(block.caption)}</p>" if block.caption else ""
    return (
        f"<div{pen.at('wide')}><table{pen.at('table')}>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody>\n</table></div>{caption}"
    )


def _beside(block: Table) -> int:
    """How many of the columns stand beside each other."""
    count, last = len(block.columns), block.columns[-1]
    return count - 1 if count >= _WIDE and last.least >= _LONG else count


def _cell(pen: Pen, column: Column, *, said: bool = False) -> tuple[str, str]:
    """Looks of a column's cells; ``said``: what is said of the row stands below it.

    In a mail a look counts, some programs cut what is longer than 100 KB: no look is given twice.
    """
    look = "said" if said else "cell" if pen.inline else ""
    return look, "n" if column.numeric else ""


def _width(column: Column) -> str:
    """The look of a text column's head that keeps it wide: its words would break anywhere."""
    if column.numeric:
        return ""
    return "long" if column.least >= _LONG else "middle" if column.least else "short"


def _row(block: Table, row: tuple[str, ...], link: str, pen: Pen) -> str:
    beside, cells = _beside(block), []
    below = row[beside:]
    for place, (column, text) in enumerate(zip(block.columns[:beside], row, strict=False)):
        shown = _link(text, link, pen) if place == 0 and link else _value(text, pen)
        looks = _cell(pen, column, said=bool(below))
        cells.append(f"<td{pen.at(*looks)}>{shown}</td>")
    drawn_row = f"<tr>{''.join(cells)}</tr>"
    for text in below:
        look = pen.at("cell" if pen.inline else "", "below")
        drawn_row += f"\n<tr><td{look} colspan={beside}>{_value(text, pen)}</td></tr>"
    return drawn_row


def _code(block: Code, pen: Pen) -> str:
    return f"<pre{pen.at('code')}>{escape(block.text.rstrip())}</pre>"


def _value(text: str, pen: Pen) -> str:
    """Text of a cell; what is not known, or not yet, looks unlike any figure."""
    if text == units.unknown():
        return f"<i{pen.at('unknown')}>{escape(text)}</i>"
    if text == _("not measured yet"):
        return f"<em{pen.at('notyet')}>{escape(text)}</em>"
    return escape(text)


def _link(text: str, identity: str, pen: Pen) -> str:
    name = f"<bdi>{escape(text).replace('/', '/<wbr>')}</bdi>"
    if not (identity and pen.url):
        return f"<b>{name}</b>"
    target = f"{pen.url.rstrip('/')}/workloads/{quote(identity)}"
    return f'<a href="{escape(target)}"{pen.at("link" if pen.inline else "")}>{name}</a>'


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
    "one page without scripts, for a browser or paper",
    media_type="text/html; charset=utf-8",
    draw=lambda document, _look: page(document),
    rows=ROWS,
)
