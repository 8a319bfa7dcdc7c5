"""Settings of the accounting, passed in once."""

from dataclasses import dataclass
from typing import Final

#: A missed cycle or two is bridged, three are a gap: times the interval. A default of ours.
GAP_INTERVALS: Final = 2.5

#: Two scrapes of 60 s plus 60 s, so that the last values of an ended pod are surely collected.
LINGER_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class AccountingSettings:
    """How readings become counters.

    ``interval_seconds``: the sampling interval. ``max_gap_seconds``: the longest time one reading
    without a stated span may stand for (None: 2.5 intervals). ``linger_seconds``: how long the
    counters of an ended container stay. ``histogram``: keep container histograms.
    """

    interval_seconds: float = 1.0
    max_gap_seconds: float | None = None
    linger_seconds: float = LINGER_SECONDS
    histogram: bool = True

    def __post_init__(self) -> None:
        """Refuse settings that could observe nothing; raises ``ValueError``."""
        if self.interval_seconds <= 0:
            raise ValueError(f"the interval must be above 0 s, not {self.interval_seconds}")
        if self.linger_seconds < 0:
            raise ValueError(f"the linger time must not be negative: {self.linger_seconds} s")
        if self.max_gap_seconds is not None and self.max_gap_seconds < self.interval_seconds:
            raise ValueError(
                f"the largest gap ({self.max_gap_seconds} s) must not be below the interval "
                f"({self.interval_seconds} s)"
            )

    @property
    def gap_seconds(self) -> float:
        """Longest time between two readings that still counts as observed."""
        if self.max_gap_seconds is not None:
            return self.max_gap_seconds
        return self.interval_seconds * GAP_INTERVALS
