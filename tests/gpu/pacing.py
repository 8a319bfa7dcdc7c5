"""Work of a known share of time: bursts of short kernels at an even beat.

A burst begins every period and lasts its ``duty`` share; the card's own marks before and after tell
how long it really was, and how many units the next one needs. 0.2 s is a period of which every
window of the driver's own sampling (1/6 to 1 s, NVML's documentation of
``nvmlUtilization_t``) sees about a whole one, and a 1 s window five. From a duty of 1 on the next
burst is enqueued before the one before has ended, so that the card never waits.

Marks tell a burst's length, not whose it was: of two processes that share a card without MPS each
counts the time in which the other had its turn.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.gpu.driver import Context

PERIOD_SECONDS: Final = 0.2
#: How long a unit should take: long beside the microseconds of a launch, short beside a burst.
UNIT_SECONDS: Final = 0.002
WARM_SECONDS: Final = 0.1
_MOST_TURNS: Final = 1 << 24


@dataclass(frozen=True)
class Clock:
    """Seconds that only go on, and how to let some pass."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Unit:
    """What one call of ``enqueue`` makes the card do."""

    enqueue: Callable[[], None]
    seconds: float
    operations: float = 0.0  # floating-point
    bytes_moved: int = 0  # in device memory, read and written
    bytes_to_device: int = 0  # over the link to the host
    bytes_to_host: int = 0


@dataclass
class Tally:
    """What was done in how long."""

    units: int = 0
    busy_seconds: float = 0.0  # by the card's clock
    wall_seconds: float = 0.0

    @property
    def held(self) -> float:
        """The duty that was held."""
        return self.busy_seconds / self.wall_seconds if self.wall_seconds else 0.0


class Stopwatch:
    """Times what is enqueued between two marks."""

    def __init__(self, card: Context) -> None:
        """Two marks are made on ``card``."""
        self._card = card
        self._first, self._last = card.event(), card.event()

    def enqueue(self, enqueue: Callable[[], None], count: int) -> None:
        """Enqueue ``count`` times, with a mark before and one behind."""
        self._card.record(self._first)
        for _ in range(count):
            enqueue()
        self._card.record(self._last)

    def wait(self) -> float:
        """Wait for the end: seconds it took."""
        self._card.wait(self._last)
        return self._card.seconds_between(self._first, self._last)


def calibrate(card: Context, enqueue: Callable[[int], None]) -> tuple[int, float]:
    """Turns that make a unit of ``UNIT_SECONDS``, and how long such a unit takes.

    ``enqueue`` takes a number of turns. The last trials give the card's clocks time to rise.
    """
    watch = Stopwatch(card)

    def trial(turns: int) -> float:
        watch.enqueue(lambda: enqueue(turns), 1)
        return watch.wait()

    turns = 1
    while (took := trial(turns)) < UNIT_SECONDS and turns < _MOST_TURNS:
        turns *= 4
    warm = 0.0
    while warm < WARM_SECONDS:
        took = trial(turns)
        warm += max(took, UNIT_SECONDS)  # a card that takes no time at all has an end, too
    fitting = max(1, round(turns * UNIT_SECONDS / took)) if took > 0.0 else turns
    return fitting, max(took, 1e-6) * fitting / turns


def hold(
    card: Context,
    unit: Unit,
    *,
    duty: float,
    seconds: float,
    period: float = PERIOD_SECONDS,
    clock: Clock | None = None,
) -> Tally:
    """Keep ``card`` busy for ``duty`` (0 to 1) of ``seconds``."""
    clock = clock or Clock()
    tally, begun = Tally(), clock.now()
    if duty <= 0.0:
        clock.sleep(seconds)
    else:
        _hold(card, unit, duty=duty, until=begun + seconds, period=period, clock=clock, tally=tally)
    tally.wall_seconds = clock.now() - begun
    return tally


def _hold(
    card: Context,
    unit: Unit,
    *,
    duty: float,
    until: float,
    period: float,
    clock: Clock,
    tally: Tally,
) -> None:
    ahead = 2 if duty >= 1.0 else 1
    idle = deque(Stopwatch(card) for _ in range(ahead))
    running: deque[tuple[Stopwatch, int]] = deque()
    each, due = unit.seconds, clock.now()
    while clock.now() < until:
        count = max(1, round(duty * period / each))
        watch: Any = idle.popleft()
        watch.enqueue(unit.enqueue, count)
        running.append((watch, count))
        due += period
        if len(running) < ahead:
            continue
        each = _finish(running, idle, tally)
        if duty < 1.0:
            clock.sleep(max(0.0, due - clock.now()))
    while running:
        _finish(running, idle, tally)


def _finish(running: deque[tuple[Stopwatch, int]], idle: deque[Stopwatch], tally: Tally) -> float:
    """Wait for the oldest burst and count it; seconds of one of its units."""
    watch, count = running.popleft()
    took = watch.wait()
    idle.append(watch)
    tally.units += count
    tally.busy_seconds += took
    return took / count
