"""Usage out of a server that keeps history, in place of scraping: hour by hour, each hour once.

The last day is read first and a plan made of it; then days before it, as many as fit into one go
of two minutes, and the next go goes on from there. What is read is kept, so it can stop anywhere.
Only whole hours are kept, some time after their end; a plan therefore looks up to the last of them
and not up to now: what is not read yet would count as not observed.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.rollup.history import SETTLE_SECONDS
from gputailor_agent.store import Store

#: Puts the whole hours of [start, end) that the store lacks into it; returns what went wrong. As
#: ``rollup.history.fill_store`` with a source; may raise.
HistoryFiller = Callable[[float, float, Store], list[str]]

#: So long a report waits for its last hour before it is made without.
PATIENCE_SECONDS: Final = 6.0 * HOUR_SECONDS


#: No day more is begun after so long in one go: plans and reports wait meanwhile.
GO_SECONDS: Final = 120.0

_DAY_SECONDS: Final = 24 * HOUR_SECONDS


class Backfill:
    """Reads history into a store; remembers how far it came and what went wrong the last time.

    ``clock`` gives seconds that only rise; it bounds a go.
    """

    def __init__(
        self, fill: HistoryFiller, store: Store, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fill = fill
        self._store = store
        self._clock = clock
        self._filled: float | None = None
        self.problems: tuple[str, ...] = ()

    def run(self, start: float, now: float) -> None:
        """Fill the last day up to ``now``, then towards ``start`` (Unix seconds) as time allows.

        Raises what filling the last day raises; trouble with older days is told in ``problems``.
        """
        first, began = self._filled is None, self._clock()
        days = _days_back(start, now)
        reached = next(days)
        try:
            told = dict.fromkeys(self._fill(reached, now, self._store))
        except Exception as error:
            self.problems = (f"usage is as last known, since no more could be read: {error}",)
            raise
        self._filled = settled_end(now)
        for begin in days:
            if first or self._clock() - began >= GO_SECONDS:
                told[_so_far(reached)] = None
                break
            try:
                told |= dict.fromkeys(self._fill(begin, now, self._store))
            except Exception as error:  # noqa: BLE001 - whatever it is, the last day is there
                told[f"{_so_far(reached)}: {error}"] = None
                break
            reached = begin
        self.problems = tuple(told)

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


def _days_back(start: float, now: float) -> Iterator[float]:
    """Begins of ever longer windows up to ``now``, a day more each; the last is ``start``."""
    begin = settled_end(now) - _DAY_SECONDS
    while begin > start:
        yield begin
        begin -= _DAY_SECONDS
    yield start


def _so_far(reached: float) -> str:
    moment = datetime.fromtimestamp(reached, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"history is read back to {moment} so far, older hours follow"
