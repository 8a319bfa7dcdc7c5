"""How long to wait before asking again."""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

_LONGEST_ASKED_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Exponential back-off with jitter. ``attempts`` counts the first one too.

    A server nobody answers at is given up sooner: on a laptop the address is usually wrong.
    """

    attempts: int = 6
    attempts_unreachable: int = 3
    first_seconds: float = 0.5
    longest_seconds: float = 30.0

    def pause_seconds(self, failures: int, jitter: float, asked: float | None = None) -> float:
        """Seconds to wait after so many failures in a row (from 1); ``jitter`` is in 0..1.

        What the server asked for (Retry-After) is the least, up to two minutes; the jitter goes on
        top of it, so that many clients do not come back at the same moment.
        """
        grown = min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures - 1, 30))
        if asked is None:
            return grown * (0.5 + 0.5 * jitter)
        return min(_LONGEST_ASKED_SECONDS, max(0.0, asked)) + self.first_seconds * jitter


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """The Retry-After header: seconds, or a date; None when absent or unreadable."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None
