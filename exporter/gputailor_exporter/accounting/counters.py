"""Rises of raw driver counters: wrap, reset and link capacity.

A raw counter's first value is a baseline and rises nothing. Energy comes from the driver's counter
where there is one, else from power by the trapezoid rule.
"""

from typing import Final

#: A rise this much above the link's capacity is no wrap but a reset (clocks jitter).
_CAPACITY_TOLERANCE: Final = 1.1

DRIVER: Final = "driver"
INTEGRAL: Final = "integral"


class RawCounter:
    """The rise of one raw byte counter since the exporter started."""

    __slots__ = ("_raw", "rise", "total")

    def __init__(self) -> None:
        self._raw: int | None = None
        self.total = 0.0
        self.rise = 0.0  # of the last cycle

    def advance(self, raw: int, modulus: int | None, most: float | None) -> None:
        """Take a raw value.

        ``modulus``: the counter wraps there (None: it does not). ``most``: the highest rise the
        link allows since the last value (None: unknown; 0: it may have wrapped unseen, so only
        a new baseline is taken). A lower value is a wrap where the wrapped rise is possible,
        otherwise a reset, which rises by the new value.
        """
        before, self._raw = self._raw, raw
        self.rise = 0.0
        if before is None or (modulus is not None and most == 0):
            return
        rise = raw - before
        if rise < 0 and modulus is not None:
            wrapped = rise + modulus
            possible = most is None or wrapped <= most * _CAPACITY_TOLERANCE
            rise = wrapped if possible else raw
        elif rise < 0:
            rise = raw
        self.rise = float(rise)
        self.total += self.rise


class EnergyCounter:
    """Energy in joules since the exporter started, and where it comes from."""

    __slots__ = ("_power", "_raw", "rise", "source", "total")

    def __init__(self) -> None:
        self._raw: float | None = None
        self._power: float | None = None
        self.total = 0.0
        self.rise = 0.0  # of the last cycle
        self.source: str | None = None

    def advance(self, joules: float | None, watts: float | None, span: float) -> None:
        """Take the driver's counter, or power; ``span`` is the observed time since the last cycle.

        The driver's counter rises across gaps too, for that energy was drawn. Where it fell (the
        driver was loaded again) the trapezoid of power over ``span`` fills the cycle. Power alone
        is integrated by the trapezoid rule, which takes power to be linear between two readings.
        """
        self.rise = 0.0
        integral = 0.0
        if watts is not None:
            before = self._power
            integral = 0.0 if before is None else 0.5 * (before + watts) * span
        self._power = watts
        if joules is not None:
            last, self._raw = self._raw, joules
            if last is not None:
                self.rise = joules - last if joules >= last else integral
            self.source = DRIVER
        elif watts is not None and self.source != DRIVER:
            self.rise = integral
            self.source = INTEGRAL
        self.total += self.rise
