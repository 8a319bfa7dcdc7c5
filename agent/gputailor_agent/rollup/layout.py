"""Which counter stands in which column of a container's vector.

A container publishes some sixty counters. Folding them one by one in Python is too slow for ten
thousand containers a page, so they are laid side by side in a vector of floats; everything the
rollup does to them (difference, split over hours, sum) is linear and works on whole vectors.
The limit: all containers with the same
signals share one ``Layout``, which therefore is built once and looked up by its signature.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from gputailor_agent.model.usage import HISTOGRAM_EDGES, ContainerCounters

Vector = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Column = tuple[str, ...]

ALLOCATED: Final[Column] = ("allocated",)
ENERGY: Final[Column] = ("energy",)

#: Counters that the device keeps: ECC errors, from its making on.
_LIFELONG: Final = "ecc/"

#: Rows are rounded to this many parts of a second or joule (``model.usage.quantise``) ...
_FINE_GRID: Final = 1024.0
#: ... and bytes to multiples of 1 KiB, so that sums stay exact up to 2**63 bytes.
_BYTE_GRID: Final = 1 / 1024.0


@dataclass(frozen=True, slots=True)
class BucketSpan:
    """The columns of one signal's histogram and the canonical bucket each one fills."""

    signal: str
    start: int
    stop: int
    buckets: tuple[int, ...]  # index into HISTOGRAM_EDGES
    resolution: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns in order, with what is looked up often computed once."""

    columns: tuple[Column, ...]
    index: dict[Column, int] = field(repr=False)
    grid: Vector = field(repr=False)
    timed: Places = field(repr=False)  # columns that cannot outrun the clock
    observed: Places = field(repr=False)
    upper_buckets: Places = field(repr=False)  # all but the lowest bucket of each histogram
    active: Places = field(repr=False)  # columns of active seconds, beside ...
    measured: Places = field(repr=False)  # ... the observed seconds of the same signals
    device: Places = field(repr=False)  # counters of the device, which go on from holder to holder
    lifelong: Places = field(
        repr=False
    )  # of these, what the device itself has counted all its life
    signals: tuple[tuple[str, int, int], ...] = ()  # (signal, active column, observed column)
    spans: tuple[BucketSpan, ...] = ()

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns)


def build_layout(columns: tuple[Column, ...]) -> Layout:
    """Lay out ``columns``; an active counter without its observed one is no signal."""
    index = {column: at for at, column in enumerate(columns)}
    observed = [at for column, at in index.items() if column[0] == "observed"]
    spans = tuple(_spans(columns))
    signals = tuple(
        (column[1], at, index["observed", column[1]])
        for column, at in index.items()
        if column[0] == "active" and ("observed", column[1]) in index
    )
    return Layout(
        columns=columns,
        index=index,
        grid=np.array([_BYTE_GRID if c[0] == "link" else _FINE_GRID for c in columns]),
        timed=np.array([index[ALLOCATED], *observed], dtype=np.intp),
        observed=np.array(observed, dtype=np.intp),
        upper_buckets=np.array(
            [at for span in spans for at in range(span.start + 1, span.stop)], dtype=np.intp
        ),
        active=np.array([active for _, active, _ in signals], dtype=np.intp),
        measured=np.array([observed for _, _, observed in signals], dtype=np.intp),
        device=np.array([at for c, at in index.items() if c[0] == "device"], dtype=np.intp),
        lifelong=np.array([at for c, at in index.items() if is_lifelong(c)], dtype=np.intp),
        signals=signals,
        spans=spans,
    )


def is_lifelong(column: Column) -> bool:
    """Whether a column is of a counter that no process began: it is never new at zero."""
    return column[0] == "device" and column[1].startswith(_LIFELONG)


def _spans(columns: tuple[Column, ...]) -> Iterable[BucketSpan]:
    starts = [
        at
        for at, column in enumerate(columns)
        if column[0] == "bucket" and (at == 0 or columns[at - 1][:2] != column[:2])
    ]
    for start in starts:
        signal = columns[start][1]
        stop = start
        while stop < len(columns) and columns[stop][:2] == ("bucket", signal):
            stop += 1
        uppers = [min(1.0, float(column[2])) for column in columns[start:stop]]
        lowers = [0.0, *uppers[:-1]]
        yield BucketSpan(
            signal=signal,
            start=start,
            stop=stop,
            buckets=tuple(canonical_bucket(upper) for upper in uppers),
            resolution=max(0.05, *(round(b - a, 6) for a, b in zip(lowers, uppers, strict=True))),
        )


def canonical_bucket(upper: float) -> int:
    """Index of the canonical bucket that holds ``upper``; a value on an edge belongs to it."""
    if upper <= 0:
        return 0
    return min(len(HISTOGRAM_EDGES) - 1, math.ceil(upper * 20 - 1e-9))


class LayoutTable:
    """All layouts seen so far, shared by every container that publishes the same counters."""

    def __init__(self) -> None:
        self._by_columns: dict[tuple[Column, ...], Layout] = {}
        self._by_signature: dict[object, Layout] = {}
        self._positions: dict[tuple[int, int], Places] = {}
        self._unions: dict[tuple[int, int], Layout] = {}

    def of_columns(self, columns: tuple[Column, ...]) -> Layout:
        """Return the one layout object of these columns."""
        found = self._by_columns.get(columns)
        if found is None:
            found = self._by_columns[columns] = build_layout(columns)
        return found

    def of_container(self, counters: ContainerCounters, bounds: tuple[float, ...]) -> Layout:
        """Return the layout of what the container publishes on this page."""
        signature = (
            tuple(counters.active),
            tuple(counters.observed),
            tuple(counters.conditions),
            tuple(counters.device),
            tuple(counters.link_bytes),
            tuple(counters.histogram),
            counters.energy_joules is None,
            bounds,
        )
        found = self._by_signature.get(signature)
        if found is None:
            found = self.of_columns(_columns(counters, bounds))
            self._by_signature[signature] = found
        return found

    def union(self, held: Layout, page: Layout) -> Layout:
        """Return a layout with the columns of both; ``held`` keeps its order."""
        key = (id(held), id(page))
        found = self._unions.get(key)
        if found is None:
            fresh = tuple(column for column in page.columns if column not in held.index)
            found = self.of_columns(_grouped((*held.columns, *fresh))) if fresh else held
            self._unions[key] = found
        return found

    def positions(self, part: Layout, whole: Layout) -> Places:
        """For each column of ``part`` its place in ``whole``."""
        key = (id(part), id(whole))
        found = self._positions.get(key)
        if found is None:
            places = [whole.index[column] for column in part.columns]
            found = self._positions[key] = np.array(places, dtype=np.intp)
        return found


def _grouped(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Keep each histogram's buckets together and rising, in order of first appearance."""
    first = {column[:2]: at for at, column in reversed(list(enumerate(columns)))}

    def place(column: Column) -> tuple[int, float]:
        return first[column[:2]], float(column[2]) if column[0] == "bucket" else 0.0

    return tuple(sorted(columns, key=place))


def _columns(counters: ContainerCounters, bounds: tuple[float, ...]) -> tuple[Column, ...]:
    uppers = [*(repr(float(bound)) for bound in bounds), "inf"]
    energy = [] if counters.energy_joules is None else [ENERGY]
    return (
        ALLOCATED,
        *energy,
        *(("active", name) for name in counters.active),
        *(("observed", name) for name in counters.observed),
        *(("condition", name) for name in counters.conditions),
        *(("device", name) for name in counters.device),
        *(("link", name) for name in counters.link_bytes),
        *(("bucket", name, upper) for name in counters.histogram for upper in uppers),
    )


def container_values(counters: ContainerCounters, allocated_seconds: float) -> list[float]:
    """Counter values in the order of ``LayoutTable.of_container``."""
    energy = counters.energy_joules
    return [
        allocated_seconds,
        *(() if energy is None else (energy,)),
        *counters.active.values(),
        *counters.observed.values(),
        *counters.conditions.values(),
        *counters.device.values(),
        *counters.link_bytes.values(),
        *chain.from_iterable(counters.histogram.values()),
    ]
