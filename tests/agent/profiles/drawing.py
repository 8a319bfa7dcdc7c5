"""Rows of use that are drawn: with a seed, so that the same seed draws the same."""

import random
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    Histogram,
    SignalUse,
    UsageRow,
    Warmup,
    quantise,
)
from tests.agent.factories import GIB, HOUR, row

_SIGNALS: Final = ("kernel", "sm", "tensor", "dram", "encoder")


class Drawn:
    """Draws rows and what is in them; the same seed draws the same."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)

    def number(self, low: float, high: float) -> float:
        """A number on the grid of all additive figures."""
        return quantise(self._chance.uniform(low, high))

    def signal(self, seconds: float) -> SignalUse:
        """A signal observed for some of the time, here and there without a histogram."""
        observed = quantise(seconds * self._chance.uniform(0.8, 1.0))
        parts = [self._chance.random() * self._chance.getrandbits(1) for _ in HISTOGRAM_EDGES]
        whole = sum(parts) or 1.0
        told = tuple(quantise(observed * part / whole) for part in parts)
        few = self._chance.random() < 0.2
        return SignalUse(
            observed_seconds=observed,
            active_seconds=quantise(observed * self._chance.random()),
            maximum=None if self._chance.random() < 0.2 else self.number(0, 1),
            histogram=None if few else Histogram(seconds=told, resolution=0.05),
        )

    def rows(
        self, start: float, end: float, *, skip: float = 0.1, **options: Any
    ) -> list[UsageRow]:
        """Rows of the hours of a time; some are missing, and no two are alike."""
        made = []
        for hour in range(int(start) // HOUR * HOUR, int(end), HOUR):
            if self._chance.random() < skip:
                continue
            seconds = quantise(min(end, hour + HOUR) - max(start, hour))
            one = row(hour, seconds=seconds, signals=self._signals(seconds), **options)
            made.append(msgspec.structs.replace(one, **self._more(hour, seconds)))
        return made

    def _signals(self, seconds: float) -> Mapping[str, SignalUse]:
        names = [name for name in _SIGNALS if name == "kernel" or self._chance.random() < 0.8]
        return {name: self.signal(seconds) for name in names}

    def _more(self, hour: int, seconds: float) -> dict[str, Any]:
        kind = self._chance.choice(["peak", "sampled", "mean"])
        peak = int(self.number(1, 70) * GIB)
        return {
            "conditions": {"amp_candidate": self.number(0, seconds), "xid/79": 1.0},
            "warmup": {"sm": Warmup(observed_seconds=self.number(0, 600), active_seconds=17.0)},
            "link_bytes": {"pcie/rx": 1024.0 * self._chance.randrange(10**6)},
            "memory_peak_bytes": peak if self._chance.random() < 0.9 else None,
            "memory_peak_kind": kind,
            "energy_joules": self.number(10**5, 10**6) if self._chance.random() < 0.9 else None,
            "last_active": hour + self.number(0, seconds) if self._chance.random() < 0.8 else None,
            "spread_seconds": self.number(0, 60),
            "filled": {"tensor": "dcgm"} if self._chance.random() < 0.3 else {},
            "dialect": self._chance.choice(["gputailor", "dcgm"]),
            "share": self._chance.choice([1.0, 0.5, 0.25]),
        }
