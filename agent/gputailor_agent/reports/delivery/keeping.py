"""Where kept reports lie: CLUSTER/PERIOD/report.html and its fellows, below a folder or a prefix.

The names are made of the period alone, so that a report that is put again takes its own place and
earlier ones stay. Clusters are named by people: nothing of a name can lead elsewhere.
"""

import re

from gputailor_agent.reports.delivery.content import Content


def place_of(content: Content) -> tuple[str, str]:
    """The two folders that a report is kept in, e.g. ``("prod", "2026-01-05T07-00")``."""
    return plain(content.cluster), plain(content.period)


def plain(text: str) -> str:
    """A name that is one folder everywhere: no separators, no colons, not hidden, not empty."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text).lstrip(".")[:200] or "-"
