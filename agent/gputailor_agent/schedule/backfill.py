"""Usage out of a server that keeps history, in place of scraping: hour by hour, each hour once.

Only whole hours are kept, some time after their end; a plan therefore looks up to the last of them
and not up to now: what is not read yet would count as not observed.
"""

from collections.abc import Callable
from typing import Final

from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.rollup.history import SETTLE_SECONDS
from gputailor_agent.store import Store

#: Puts the whole hours of [start, end) that the store lacks into it; returns what went wrong. As
#: ``rollup.history.fill_store`` with a source; may raise.
HistoryFiller = Callable[[float, float, Store], list[str]]

#: So long a report waits for its last hour before it is made without.
PATIENCE_SECONDS: Final = 6.0 * HOUR_SECONDS


class Backfill:
    """Reads history into a store; remembers how far it came and what went wrong the last time."""

    def __init__(self, fill: HistoryFiller, store: Store) -> None:
        self._fill = fill
        self._store = store
        self._filled: float | None = None
        self.problems: tuple[str, ...] = ()

    def run(self, start: float, now: float) -> None:
        """Fill from ``start`` up to ``now`` (Unix seconds); raises what the filling raises."""
        try:
            self.problems = tuple(self._fill(start, now, self._store))
        except Exception as error:
            self.problems = (f"usage is as last known, since no more could be read: {error}",)
            raise
        self._filled = settled_end(now)

    def end(self, now: float) -> float:
        """Up to when usage is there; where nothing was read yet, up to when it could be."""
        return settled_end(now) if self._filled is None else self._filled

    def ready(self, fire: float, now: float) -> bool:
        """Whether a report that was due at ``fire`` has its last whole hour, or waits no longer."""
        last = fire // HOUR_SECONDS * HOUR_SECONDS
        return (self._filled or 0.0) >= last or now - fire > PATIENCE_SECONDS


def settled_end(now: float) -> float:
    """End of the last hour that is kept as of ``now``."""
    return (now - SETTLE_SECONDS) // HOUR_SECONDS * HOUR_SECONDS
