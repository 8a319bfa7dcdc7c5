"""What a study is and what it answers with: figures with intervals, tables, what is not evaluable.

A study is a pure function of a folder of data. It never fails for missing data: it says which file
is not there, and the page says "not evaluable here".
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

Cell = str | float | int | None


class EvaluationError(ValueError):
    """The data cannot be read; the text says where, what was expected and what to do."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file of data, whose it is, and its licence. Restricted data are quoted as figures only."""

    file: str  # a pattern below the folder of data
    origin: str
    licence: str

    def files(self, folder: Path) -> tuple[Path, ...]:
        """Files of the folder, in the order of their names."""
        return tuple(sorted(folder.glob(self.file)))


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number with its 95 % interval. ``met``: None where there is no goal to hold it against.

    ``unit`` as in ``Evidence``: "ratio", "factor", "hours", "minutes", "count".
    """

    name: str
    value: float | None
    unit: str = "ratio"
    low: float | None = None
    high: float | None = None
    cases: int | None = None
    goal: str = ""
    met: bool | None = None
    note: str = ""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of numbers; ``units`` has one unit per column ('' for text)."""

    title: str
    columns: tuple[str, ...]
    units: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a line, with its 95 % interval where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a plot."""

    name: str
    points: tuple[Point, ...]


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """A chart. ``name``: its file's, without suffix; units as in ``Figure``.

    ``goal``: a level of y to draw; ``diagonal``: where what was stated is what was seen.
    """

    name: str
    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    x_unit: str = ""
    y_unit: str = ""
    goal: float | None = None
    diagonal: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one study found. ``not_evaluable``: what these data cannot tell, with the reason."""

    study: str
    title: str
    sources: tuple[Source, ...]
    method: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    not_evaluable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Study:
    """One study. ``run`` gets the folder of data; ``order`` is its place on the page.

    ``calibrate`` returns what the product takes from it: the keys of ``calibrated.yaml``.
    ``partial``: it runs with some of its files, too.
    """

    id: str
    title: str
    sources: tuple[Source, ...]
    run: Callable[[Path], Outcome]
    order: int = 100
    calibrate: Callable[[Path], dict[str, object]] | None = None
    partial: bool = False

    def missing(self, folder: Path) -> tuple[str, ...]:
        """Patterns of the study's files that nothing in the folder matches."""
        return tuple(one.file for one in self.sources if not one.files(folder))

    def can_run(self, folder: Path) -> bool:
        """Whether enough of its files are there."""
        missing = self.missing(folder)
        return len(missing) < len(self.sources) if self.partial else not missing


def at_least(name: str, value: float | None, goal: float, **more: object) -> Figure:
    """Return a figure that ought to be ``goal`` or more."""
    met = None if value is None else value >= goal
    return Figure(name=name, value=value, goal=f"at least {goal:g}", met=met, **more)  # type: ignore[arg-type]


def at_most(name: str, value: float | None, goal: float, **more: object) -> Figure:
    """Return a figure that ought to be ``goal`` or less."""
    met = None if value is None else value <= goal
    return Figure(name=name, value=value, goal=f"at most {goal:g}", met=met, **more)  # type: ignore[arg-type]
