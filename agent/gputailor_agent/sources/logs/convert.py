"""Numbers of a column into the contract's units; what cannot be is unknown or spoils its row."""

import math
from collections.abc import Iterator
from typing import Final

from gputailor_agent.sources.logs.cells import CellReader, Kind
from gputailor_agent.sources.logs.meaning import Meaning
from gputailor_agent.sources.logs.names import Role
from gputailor_agent.sources.logs.table import Column, Table

_MIB: Final = 1024.0**2
#: By what a number is divided to be in bytes, 0..1, watts or degrees (41 / 100 is 0.41, where
#: 41 * 0.01 is a little more; divisors of sizes are powers of two, so nothing is lost).
_SIZES: Final[dict[str, float]] = {
    "b": 1.0,
    "byte": 1.0,
    "bytes": 1.0,
    "kb": 1 / 1024,
    "kib": 1 / 1024,
    "k": 1 / 1024,
    "": 1 / _MIB,
    "mb": 1 / _MIB,
    "mib": 1 / _MIB,
    "m": 1 / _MIB,
    "gb": 1 / 1024**3,
    "gib": 1 / 1024**3,
    "g": 1 / 1024**3,
}
_SHARES: Final = {"": 100.0, "%": 100.0, "percent": 100.0, "pct": 100.0, "ratio": 1.0}
_WATTS: Final = {"": 1.0, "w": 1.0, "watt": 1.0, "watts": 1.0, "mw": 1000.0, "kw": 0.001}
_DEGREES: Final = {"": 1.0, "c": 1.0, "°c": 1.0, "celsius": 1.0}

_DIVISORS: Final[dict[Role, dict[str, float]]] = {
    Role.KERNEL: _SHARES,
    Role.MEMCOPY: _SHARES,
    Role.ENCODER: _SHARES,
    Role.DECODER: _SHARES,
    Role.MEMORY_USED: _SIZES,
    Role.MEMORY_TOTAL: _SIZES,
    Role.MEMORY_FREE: _SIZES,
    Role.POWER: _WATTS,
    Role.POWER_LIMIT: _WATTS,
    Role.TEMPERATURE: _DEGREES,
}
_RANGES: Final[dict[Role, tuple[float, float]]] = {
    Role.MEMORY_USED: (0.0, 4.0 * 1024**4),
    Role.MEMORY_TOTAL: (1.0, 4.0 * 1024**4),
    Role.MEMORY_FREE: (0.0, 4.0 * 1024**4),
    Role.POWER: (0.0, 5000.0),
    Role.POWER_LIMIT: (1.0, 5000.0),
    Role.TEMPERATURE: (-40.0, 150.0),
}
_RATIO: Final = (0.0, 1.0)
_BAD: Final = -1.0
_MOST_MIB: Final = 4 * 1024**2
_CACHED: Final = 100_000


def _divisors(role: Role, default_unit: str, cells: CellReader) -> list[float]:
    """Divisor by cell kind: NaN for unknown, ``_BAD`` where the cell cannot belong here."""
    table = _DIVISORS[role]
    default = default_unit if default_unit in table else ""
    divisors = [_BAD] * Kind.NUMBER
    divisors[Kind.UNKNOWN] = math.nan
    divisors += [table.get(unit or default, _BAD) for unit in cells.units]
    return divisors


def value_unit(role: Role, column: Column, stated: str, table: Table) -> str:
    """Unit of numbers that carry none; where nothing says it, the size of the values does."""
    bare = [
        number
        for kind, number in zip(column.kinds, column.numbers, strict=True)
        if kind == Kind.NUMBER
    ]
    if stated or not bare:
        return stated
    if _DIVISORS[role] is _SHARES and max(bare) <= 1 and any(value % 1 for value in bare):
        table.notes.append(f"{role} was taken as a ratio of 0 to 1, for no value is above 1.")
        return "ratio"
    if _DIVISORS[role] is _SIZES and max(bare) > _MOST_MIB:
        table.notes.append(f"{role} was taken as bytes, for its values are too large for MiB.")
        return "bytes"
    return ""


class ValueColumn:
    """A value column being converted; ``dropped`` counts values outside what is possible."""

    def __init__(self, role: Role, meaning: Meaning, table: Table) -> None:
        number = meaning.values[role]
        self.role = role
        self.column = table.columns[number]
        self.dropped = 0
        self.known = 0
        unit = value_unit(role, self.column, meaning.units.get(role, ""), table)
        self._divisors = _divisors(role, unit, table.cells)
        self._range = _RANGES.get(role, _RATIO)

    def values(self, bad: dict[int, Role]) -> Iterator[float | None]:
        """Value of each row, None for unknown; rows that hold no number here go to ``bad``."""
        low, high = self._range
        divisors, cache = self._divisors, dict[tuple[int, float], float | None]()
        pairs = zip(self.column.kinds, self.column.numbers, strict=True)
        for row, pair in enumerate(pairs):
            if pair in cache:
                value = cache[pair]
            else:
                divisor = divisors[pair[0]]
                if divisor == _BAD:
                    bad[row] = self.role
                    yield None
                    continue
                value = pair[1] / divisor
                if not low <= value <= high:
                    self.dropped += not math.isnan(value)
                    yield None
                    continue
                if len(cache) < _CACHED:
                    cache[pair] = value
            self.known += value is not None
            yield value


def whole(value: float | None) -> int | None:
    """Bytes as a whole number."""
    return None if value is None else round(value)
