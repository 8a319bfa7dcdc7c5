"""Format ``text``: plain text of a fixed width, for mails and files.

The terminal's ``table`` is as wide as the terminal and leaves details to ``explain``; this one is
the same wherever it is made.
"""

from typing import Final

from gputailor_agent.reports import console
from gputailor_agent.reports.document import Document
from gputailor_agent.reports.formats import Look, drawn

#: Mails break lines at 78 characters (RFC 5322).
WIDTH: Final = 76
#: Rows of a table: beyond them nobody reads on, and JSON and CSV have all.
ROWS: Final = 400


def draw(document: Document) -> str:
    """A document as plain text."""
    return console.draw(document, Look(width=WIDTH))


FORMAT: Final = drawn(
    "text",
    "plain text, 76 characters wide, for mails and files",
    media_type="text/plain; charset=utf-8",
    draw=lambda document, _look: draw(document),
    rows=ROWS,
)
