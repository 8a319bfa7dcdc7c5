"""The last good answer about who holds what, while its source is slow or gone.

Not thread-safe: the sampler holds its lock. Times are seconds of the sampler's clock.
"""

from gputailor_exporter.attribution.allocations import Allocation


class LastAllocations:
    """Kept for a bounded time, then given up."""

    def __init__(self, interval: float, keep: float) -> None:
        """``interval``: how often the source is asked; ``keep``: how long its answer stands."""
        self.allocations: tuple[Allocation, ...] = ()
        self._interval = interval
        self._keep = keep
        self._read_at: float | None = None  # None: nothing is kept

    def take(self, allocations: tuple[Allocation, ...], now: float) -> None:
        """Take a good answer."""
        self.allocations = allocations
        self._read_at = now

    def late(self, now: float) -> bool:
        """Whether an answer is kept and the next one is overdue."""
        return self._read_at is not None and now - self._read_at > 2 * self._interval

    def expire(self, now: float) -> bool:
        """Give the answer up where it is too old; whether that was so."""
        if self._read_at is None or now - self._read_at <= self._keep:
            return False
        self.allocations, self._read_at = (), None
        return True

    def pardon(self, seconds: float) -> None:
        """This process stood still for ``seconds``: the answer is that much younger."""
        if self._read_at is not None:
            self._read_at += seconds
