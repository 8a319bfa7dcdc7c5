"""Many notices to one receiver at a time as one message: their subjects, and all their documents.

A night of quiet hours, or a cluster that stops at once, must not fill anybody's mailbox. The words
are those the notices were made with, so a digest speaks their language.
"""

from collections.abc import Sequence

import msgspec

from gputailor_agent.reports import console, html, markdown
from gputailor_agent.reports.delivery.content import MAIL_LOOK, Content
from gputailor_agent.reports.document import Document, Heading, Paragraph


def digest(notices: Sequence[Content], *, public_url: str = "") -> Content:
    """One content of several notices, in their order; of a single one that itself."""
    first, rest = notices[0], len(notices) - 1
    if not rest:
        return first
    title = f"{first.subject} (+{rest})"
    told = (Paragraph(text=one.subject) for one in notices)
    page = Document(title=title, blocks=(Heading(text=title, level=1), *told))
    documents = b"[" + b",".join(one.document.encode() for one in notices) + b"]"
    return msgspec.structs.replace(
        first,
        made_at=max(one.made_at for one in notices),
        subject=title,
        text=markdown.draw(page),
        plain=console.draw(page, MAIL_LOOK),
        html=html.draw(page, public_url=public_url),
        document=documents.decode(),
    )
