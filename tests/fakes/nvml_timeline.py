"""Values that vary in time, in the notation of the fake NVIDIA driver (tests/fakes/nvml_state.h)."""

import math
from dataclasses import dataclass
from typing import TypeAlias

Pattern: TypeAlias = str | float


def square(on_seconds: float, off_seconds: float, high: float = 100.0, low: float = 0.0) -> str:
    """``high`` for ``on_seconds``, then ``low`` for ``off_seconds``, from the origin on."""
    return f"square:{on_seconds!r}:{off_seconds!r}:{high!r}:{low!r}"


def ramp(period_seconds: float, low: float, high: float) -> str:
    """Climbs from ``low`` to ``high`` in each period."""
    return f"ramp:{period_seconds!r}:{low!r}:{high!r}"


def _pattern_integral(pattern: str, x: float) -> float:
    """Integral from phase 0 to ``x`` seconds."""
    kind, *numbers = pattern.split(":")
    if kind == "square":
        on, off, high, low = map(float, numbers)
        turns = math.floor(x / (on + off))
        rest = x - turns * (on + off)
        part = rest * high if rest < on else on * high + (rest - on) * low
        return turns * (on * high + off * low) + part
    if kind == "ramp":
        period, low, high = map(float, numbers)
        turns = math.floor(x / period)
        rest = x - turns * period
        climbed = low * rest + (high - low) * rest * rest / (2 * period)
        return turns * period * (low + high) / 2 + climbed
    return float(pattern) * x


@dataclass
class Timeline:
    """A pattern and what stood in its place before; times in Unix seconds."""

    segments: list[tuple[float, str]]  # (until, pattern); the last one has no end

    def change(self, pattern: str, at: float) -> None:
        """Let ``pattern`` hold from ``at`` on."""
        if self.segments[-1][1] != pattern:
            self.segments[-1] = (at, self.segments[-1][1])
            self.segments.append((math.inf, pattern))

    def text(self) -> str:
        """The library's notation."""
        return "; ".join(
            pattern if until == math.inf else f"{pattern} until {until!r}"
            for until, pattern in self.segments
        )

    def integral(self, start: float, end: float, origin: float) -> float:
        """Integral over Unix times, in value-seconds."""
        total, since = 0.0, -math.inf
        for until, pattern in self.segments:
            low, high = max(start, since), min(end, until)
            if high > low:
                total += _pattern_integral(pattern, high - origin)
                total -= _pattern_integral(pattern, low - origin)
            since = until
        return total
