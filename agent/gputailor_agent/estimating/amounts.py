"""Amounts of memory that are not known exactly: low, expected and high, in bytes."""

from collections.abc import Iterable
from typing import Final

import msgspec

GIB: Final = 1024**3


class Amount(msgspec.Struct, frozen=True):
    """An interval in bytes: it should hold what is measured, and ``expected`` is the best guess."""

    low: float
    expected: float
    high: float

    def __add__(self, other: "Amount") -> "Amount":
        """Ends are added to ends: errors of parts are taken to go the same way."""
        return Amount(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def times(self, factor: float) -> "Amount":
        """All three, scaled."""
        return Amount(self.low * factor, self.expected * factor, self.high * factor)

    def spread(self, low: float, expected: float, high: float) -> "Amount":
        """Each end by its own factor."""
        return Amount(self.low * low, self.expected * expected, self.high * high)


NOTHING: Final = Amount(0.0, 0.0, 0.0)


def exactly(value: float) -> Amount:
    """An amount that is known."""
    return Amount(value, value, value)


class Part(msgspec.Struct, frozen=True):
    """One part of a GPU's memory, with the formula that gave it and where that is from."""

    name: str
    bytes: Amount
    formula: str


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that one GPU needs, by part. ``notes``: what was assumed."""

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> Amount:
        """The sum of all parts."""
        return total(part.bytes for part in self.parts)

    def part(self, name: str) -> Amount:
        """One part, nothing where there is none of that name."""
        return total(part.bytes for part in self.parts if part.name == name)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum of amounts."""
    result = NOTHING
    for amount in amounts:
        result += amount
    return result
