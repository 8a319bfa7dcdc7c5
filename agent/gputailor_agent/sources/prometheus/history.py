"""When a container's counters ended or began anew, out of the raw samples of one of them."""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from gputailor_agent.dialects import Holder
from gputailor_agent.sources.prometheus.placing import Target

#: Containers that ended in the same so many seconds are read in one request; it touches at most so
#: much of their last samples.
SLOT_SECONDS: Final = 300.0

_NOISE: Final = 1e-6


class Life(NamedTuple):
    """One container and device on one target, inside one hour; times are those of samples."""

    target: Target
    node: str
    holder: Holder
    first: float
    last: float
    resets: tuple[float, ...]  # last samples before the counter fell: it began anew after them

    @property
    def slot(self) -> float:
        """End of the slot that holds the last sample; slots do not hold their begin."""
        return math.ceil(self.last / SLOT_SECONDS) * SLOT_SECONDS

    def of_both(self, other: "Life | None") -> "Life":
        """This life and what another copy of the same series tells of it.

        Each copy was scraped at times of its own: the one that saw more tells when it began anew.
        """
        if other is None:
            return self
        fuller = max(self, other, key=lambda one: (one.last - one.first, one.last))
        return fuller._replace(first=min(self.first, other.first), last=max(self.last, other.last))


def life_of(
    target: Target, node: str, holder: Holder, samples: Iterable[tuple[float, float]], after: float
) -> Life | None:
    """Return the life that samples of the allocated seconds tell; None without one in time.

    ``after`` (Unix seconds): samples up to then are of the hour before.
    """
    inside = [sample for sample in samples if sample[0] > after]
    if not inside:
        return None
    resets = tuple(before[0] for before, now in pairwise(inside) if now[1] < before[1] - _NOISE)
    return Life(target, node, holder, inside[0][0], inside[-1][0], resets)
