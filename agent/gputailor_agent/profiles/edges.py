"""Edges of windows in old days: a day that is over for long is read as a whole.

For some days hours can be read one by one, so a window may begin and end at any of them. Older
edges move out to midnight, UTC: what was asked for is inside, and the plan says what was taken.
"""

from datetime import UTC, datetime
from typing import Final

from gputailor_agent.model.packed import DAY_SECONDS
from gputailor_agent.model.profile import Window

HOURLY_DAYS: Final = 8.0


def snapped(window: Window, now: float, hourly_days: float = HOURLY_DAYS) -> Window:
    """Return the window as it is read at ``now``; edges older than ``hourly_days`` move out."""
    oldest = now - hourly_days * DAY_SECONDS
    start, end = window.start, window.end
    if start < oldest:
        start = float(start // DAY_SECONDS * DAY_SECONDS)
    if end < oldest:
        end = float(-(-end // DAY_SECONDS) * DAY_SECONDS)
    return Window(start=start, end=end)


def moved(asked: Window, read: Window, hourly_days: float = HOURLY_DAYS) -> tuple[str, ...]:
    """Say which edges moved; nothing where none did."""
    edges = []
    if read.start != asked.start:
        edges.append(f"begins {_told(read.start)} instead of {_told(asked.start)}")
    if read.end != asked.end:
        edges.append(f"ends {_told(read.end)} instead of {_told(asked.end)}")
    if not edges:
        return ()
    days = f"{hourly_days:g} days"
    return (f"the window {' and '.join(edges)}: days older than {days} are read whole",)


def _told(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
