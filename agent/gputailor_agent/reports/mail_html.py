"""Format ``mail``: the page that mail programs show, every element with its own look."""

from typing import Final

from gputailor_agent.reports import html
from gputailor_agent.reports.formats import drawn

#: Mail programs cut a message above about 100 KB.
ROWS: Final = 45

FORMAT: Final = drawn(
    "mail",
    "the page with inline styles, for mail programs",
    media_type="text/html; charset=utf-8",
    draw=lambda document, _look: html.draw(document),
    rows=ROWS,
)
