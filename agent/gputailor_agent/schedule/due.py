"""What is due, by comparing periods with the store: never by what a scheduler remembers.

A period that was done is not done again; one that failed is tried again after 1, 2, 4, … at most 30
minutes. Nothing here knows what the work is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gputailor_agent.store import Period

FIRST_RETRY_SECONDS: Final = 60.0
LONGEST_RETRY_SECONDS: Final = 1800.0


@dataclass(frozen=True, slots=True)
class Due:
    """A period that a job has to do, and after what time it is done again within that period."""

    period: str
    work: Callable[[], object]
    again_seconds: float | None = None


def wanted(due: Due, known: Period | None, now: float) -> bool:
    """Whether the work is to be done at ``now`` (Unix seconds), given how its period stands."""
    if known is None:
        return True
    wait = due.again_seconds
    if known.state == "failed":
        retry = FIRST_RETRY_SECONDS * 2 ** min(10, known.attempts - 1)
        wait = min(LONGEST_RETRY_SECONDS, retry)
    if wait is None:
        return False
    return not 0 <= now - known.changed_at < wait  # a clock may have been set back
