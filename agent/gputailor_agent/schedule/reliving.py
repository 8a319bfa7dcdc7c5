"""Hours that are lived through twice, because the agent's clock was set back.

A row tells of one hour by the clock, so of an hour that came twice only one life can be kept: the
one that saw more of it. Otherwise the few minutes after a step back would replace the whole hour
that was there.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from gputailor_agent.model.usage import HOUR_SECONDS, UsageRow
from gputailor_agent.store import Store

_NEVER: Final = float("-inf")


class Reliving:
    """Minds the times at which an agent looks (Unix seconds), and which of its rows may be kept."""

    def __init__(self, step_seconds: float) -> None:
        """``step_seconds``: a step back by no more is none; the rollup waits it out."""
        self._step = step_seconds
        self._latest = _NEVER
        self._until = _NEVER  # hours that began before it were lived through already

    def look(self, now: float) -> None:
        """Note that the agent looks at ``now``."""
        if self._latest - now > self._step:
            self._until = max(self._until, self._latest)
        self._latest = now

    def kept(self, rows: Iterable[UsageRow], store: Store, cluster: str) -> Iterator[UsageRow]:
        """Yield rows, but none that tells of less than the store has of its hour already."""
        again = []
        for row in rows:
            if row.key.hour < self._until:
                again.append(row)
            else:
                yield row
        if not again:
            return
        first = min(row.key.hour for row in again)
        last = max(row.key.hour for row in again) + HOUR_SECONDS
        known = {row.key: _seconds(row) for row in store.usage(cluster, first, last)}
        for row in again:
            if _seconds(row) >= known.get(row.key, (0.0, 0.0)):
                yield row


def _seconds(row: UsageRow) -> tuple[float, float]:
    """How much of its hour a row tells of."""
    observed = max((use.observed_seconds for use in row.signals.values()), default=0.0)
    return (row.allocated_seconds, observed)
