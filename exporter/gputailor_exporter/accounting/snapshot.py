"""What a renderer takes: all samples at one moment, as values that never change afterwards.

Label rows are kept apart from numbers because rows rarely change between two snapshots: the
renderer compares them and keeps its rendered prefixes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from gputailor_exporter.metrics import FAMILIES, HISTOGRAM_BOUNDS, Family

#: Values of one histogram row: a cumulative count per bound and +Inf, then the sum.
HISTOGRAM_WIDTH: Final = len(HISTOGRAM_BOUNDS) + 2

_ORDER: Final = {family.name: place for place, family in enumerate(FAMILIES)}


@dataclass(frozen=True, slots=True)
class FamilySamples:
    """Samples of one family.

    ``rows`` holds label values in the order of ``family.labels``. ``values`` holds one float per
    row; for a histogram ``HISTOGRAM_WIDTH`` floats per row (cumulative counts, then the sum).
    """

    family: Family
    rows: tuple[tuple[str, ...], ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All samples at Unix time ``wall``; families in the contract's order, none empty."""

    wall: float
    families: tuple[FamilySamples, ...]

    def with_families(self, extra: Iterable[FamilySamples]) -> "Snapshot":
        """Return a snapshot that also has ``extra``, in the contract's order."""
        joined = [*self.families, *(samples for samples in extra if samples.rows)]
        joined.sort(key=lambda samples: _ORDER[samples.family.name])
        return replace(self, families=tuple(joined))


class SampleTable:
    """Collects rows and values family by family; the only mutable stage of a snapshot."""

    __slots__ = ("_columns",)

    def __init__(self) -> None:
        self._columns: dict[str, tuple[Family, list[tuple[str, ...]], list[float]]] = {}

    def columns(self, family: Family) -> tuple[list[tuple[str, ...]], list[float]]:
        """Return the row list and the value list of ``family`` to append to."""
        found = self._columns.get(family.name)
        if found is None:
            found = self._columns[family.name] = (family, [], [])
        return found[1], found[2]

    def put(self, family: Family, row: tuple[str, ...], value: float) -> None:
        """Add one sample."""
        rows, values = self.columns(family)
        rows.append(row)
        values.append(float(value))

    def families(self) -> tuple[FamilySamples, ...]:
        """Return what was collected, in the contract's order, without empty families."""
        ordered = sorted(self._columns.values(), key=lambda column: _ORDER[column[0].name])
        return tuple(
            FamilySamples(family, tuple(rows), tuple(values))
            for family, rows, values in ordered
            if rows
        )
