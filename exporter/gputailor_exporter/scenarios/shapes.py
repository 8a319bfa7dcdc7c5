"""Shapes of activity: how hard a workload drives its device over time, as pure functions.

A shape is an intensity in 0..1 of time. Each knows its exact integral over any interval, so that
the mean over a second and over an hour agree and integrals of neighbouring intervals add up. Times
are seconds of the simulated run (``origin`` is the moment its pod began) or Unix time for shapes
that follow the calendar (UTC). Overlaps are computed piece by piece, never as a difference of two
large antiderivatives: while nothing runs the integral is exactly 0.
"""

import math
from dataclasses import dataclass
from typing import Final, Protocol

HOUR: Final = 3600.0
DAY: Final = 86400.0
WEEK: Final = 7 * DAY
#: 1970-01-05 was the first Monday of Unix time.
_FIRST_MONDAY: Final = 4 * DAY
_MASK: Final = (1 << 64) - 1


def unit_hash(seed: int, index: int) -> float:
    """Return a number in [0, 1) that depends on both arguments only (SplitMix64)."""
    value = (seed * 0x9E3779B97F4A7C15 + index * 0xD1B54A32D192ED03 + 0x632BE59BD9B4E019) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((value ^ (value >> 31)) >> 11) / (1 << 53)


class Shape(Protocol):
    """An intensity over time."""

    def integral(self, start: float, end: float, origin: float) -> float:
        """Integral of the intensity over [start, end] Unix time, in seconds of full intensity."""


def _overlap(start: float, end: float, low: float, high: float) -> float:
    return max(0.0, min(end, high) - max(start, low))


@dataclass(frozen=True, slots=True)
class Constant:
    """The same intensity all the time."""

    level: float = 1.0

    def integral(self, start: float, end: float, origin: float) -> float:  # noqa: ARG002 one signature for all shapes
        """See ``Shape``."""
        return self.level * (end - start)


@dataclass(frozen=True, slots=True)
class OnOff:
    """``on`` for ``duty`` of each period, ``off`` for the rest; the first period starts on."""

    period: float
    duty: float
    on: float = 1.0
    off: float = 0.0

    def integral(self, start: float, end: float, origin: float) -> float:
        """See ``Shape``."""
        low, high, length = start - origin, end - origin, self.duty * self.period
        first, last = math.floor(low / self.period), math.floor(high / self.period)
        if first == last:
            base = first * self.period
            seconds = _overlap(low, high, base, base + length)
        else:
            head, tail = first * self.period, last * self.period
            seconds = (
                _overlap(low, head + self.period, head, head + length)
                + (last - first - 1) * length
                + _overlap(tail, high, tail, tail + length)
            )
        return self.on * seconds + self.off * (end - start - seconds)


@dataclass(frozen=True, slots=True)
class Ramp:
    """From ``start_level`` to ``end_level`` over ``duration`` of the run, then steady."""

    duration: float
    start_level: float = 0.0
    end_level: float = 1.0

    def _level(self, at: float) -> float:
        part = min(max(at / self.duration, 0.0), 1.0)
        return self.start_level + (self.end_level - self.start_level) * part

    def integral(self, start: float, end: float, origin: float) -> float:
        """See ``Shape``: trapezoids on both sides of the ramp's end are exact."""
        low, high = start - origin, end - origin
        total, previous = 0.0, low
        for knot in (0.0, self.duration):
            if previous < knot < high:
                total += (self._level(previous) + self._level(knot)) / 2 * (knot - previous)
                previous = knot
        return total + (self._level(previous) + self._level(high)) / 2 * (high - previous)


@dataclass(frozen=True, slots=True)
class Warmup:
    """``level`` for the first ``duration`` of the run (start-up, compiling), then ``then``."""

    duration: float
    level: float
    then: Shape

    def integral(self, start: float, end: float, origin: float) -> float:
        """See ``Shape``."""
        edge = origin + self.duration
        total = self.level * _overlap(start, end, -math.inf, edge)
        return total + (self.then.integral(max(start, edge), end, origin) if end > edge else 0.0)


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst of ``length`` somewhere in each interval of ``every``, at a place by ``seed``."""

    every: float
    length: float
    level: float = 1.0
    base: float = 0.0
    seed: int = 0

    def _seconds(self, index: int, low: float, high: float) -> float:
        begin = index * self.every + unit_hash(self.seed, index) * (self.every - self.length)
        return _overlap(low, high, begin, begin + self.length)

    def integral(self, start: float, end: float, origin: float) -> float:
        """See ``Shape``."""
        low, high = start - origin, end - origin
        first, last = math.floor(low / self.every), math.floor(high / self.every)
        seconds = self._seconds(first, low, high)
        if last > first:
            seconds += (last - first - 1) * self.length + self._seconds(last, low, high)
        return self.level * seconds + self.base * (end - start - seconds)


@dataclass(frozen=True, slots=True)
class Weekly:
    """Hourly knots of one week from Monday 00:00 UTC, joined by straight lines."""

    levels: tuple[float, ...]  # 168

    def integral(self, start: float, end: float, origin: float) -> float:  # noqa: ARG002 follows the calendar
        """See ``Shape``."""
        low, high = (start - _FIRST_MONDAY) / HOUR, (end - _FIRST_MONDAY) / HOUR
        total, at = 0.0, low
        weeks = math.floor((high - low) / len(self.levels))
        if weeks > 0:
            total, at = weeks * math.fsum(self.levels), low + weeks * len(self.levels)
        while at < high:
            hour = math.floor(at)
            edge = min(hour + 1.0, high)
            left = self.levels[hour % len(self.levels)]
            slope = self.levels[(hour + 1) % len(self.levels)] - left
            total += (edge - at) * (left + slope * ((at + edge) / 2 - hour))
            at = edge
        return total * HOUR


def diurnal(day: float, night: float, weekend: float, peak_hour: float) -> Weekly:
    """Return a daily wave between ``night`` and ``day`` with its top at ``peak_hour`` UTC.

    On Saturday and Sunday the top of the wave is ``weekend``.
    """
    levels = []
    for hour in range(7 * 24):
        top = day if hour < 5 * 24 else weekend
        wave = (1 + math.cos((hour % 24 - peak_hour) / 24 * 2 * math.pi)) / 2
        levels.append(min(1.0, max(0.0, night + (top - night) * wave)))
    return Weekly(tuple(levels))


@dataclass(frozen=True, slots=True)
class Hours:
    """``inside`` between two hours of the given weekdays (0 = Monday, UTC), else ``outside``."""

    days: frozenset[int]
    begin_hour: float
    end_hour: float
    inside: Shape
    outside: Shape

    def integral(self, start: float, end: float, origin: float) -> float:
        """See ``Shape``: the interval is cut where the hours begin and end."""
        total, at = 0.0, start
        while at < end:
            day = math.floor(at / DAY)
            opens, closes = day * DAY + self.begin_hour * HOUR, day * DAY + self.end_hour * HOUR
            open_day = (day - 4) % 7 in self.days
            if open_day and at < opens:
                edge, shape = opens, self.outside
            elif open_day and at < closes:
                edge, shape = closes, self.inside
            else:
                edge, shape = (day + 1) * DAY, self.outside
            edge = min(edge, end)
            total += shape.integral(at, edge, origin)
            at = edge
        return total


@dataclass(frozen=True, slots=True)
class Noisy:
    """``shape`` times 1 - amplitude .. 1; the factor is constant per cell and set by ``seed``."""

    shape: Shape
    amplitude: float
    cell: float
    seed: int

    def _factor(self, index: int) -> float:
        return 1.0 - self.amplitude * unit_hash(self.seed, index)

    def integral(self, start: float, end: float, origin: float) -> float:
        """See ``Shape``."""
        index, last = math.floor(start / self.cell), math.floor(end / self.cell)
        if index == last:
            return self._factor(index) * self.shape.integral(start, end, origin)
        total, at = 0.0, start
        while index <= last and at < end:
            edge = min((index + 1) * self.cell, end)
            total += self._factor(index) * self.shape.integral(at, edge, origin)
            index, at = index + 1, edge
        return total
