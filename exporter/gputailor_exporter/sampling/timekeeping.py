"""Clocks: which one the exporter goes by, and Unix times that survive a stepped wall clock.

Spans are measured on the clock since boot, which also counts the time a machine was suspended:
to the counters a suspension is a gap, and a gap is not observed. The wall clock may be set by an
hour at any moment. Times of past events are therefore kept on a steady scale, and the distance of
that scale from the wall clock is added when they are shown: after a step the past has moved with
the clock, and an age is never an hour off.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: A wall clock this far from where it should be was set; less is the usual slewing by NTP.
STEP_SECONDS: Final = 1.0


def since_boot() -> float:
    """Seconds since boot, suspended time included; no step of the wall clock moves it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time comes from: a clock that never jumps for spans, the wall clock for timestamps."""

    monotonic: Callable[[], float] = since_boot
    wall: Callable[[], float] = time.time


class SteadyWall:
    """A wall clock without steps, begun at the wall clock's own time."""

    def __init__(self, clock: Clock) -> None:
        """Take the wall clock's present time as the beginning."""
        self._clock = clock
        self._begun = self._offset = clock.wall() - clock.monotonic()

    def now(self) -> float:
        """Steady Unix time: what the wall clock would show had nobody set it."""
        return self._clock.monotonic() + self._begun

    def shift(self) -> float:
        """Seconds by which the wall clock was set since the beginning: add them to show a time.

        It changes by steps of ``STEP_SECONDS`` or more only, so that a time shown twice is the
        same time.
        """
        offset = self._clock.wall() - self._clock.monotonic()
        if abs(offset - self._offset) >= STEP_SECONDS:
            self._offset = offset
        return self._offset - self._begun

    def steady(self, wall: float) -> float:
        """Put a Unix time read from the wall clock just now on the steady scale."""
        return wall - self.shift()
