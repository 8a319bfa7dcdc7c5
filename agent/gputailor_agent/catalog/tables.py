"""Schemas of the catalogue's tables, and the loader that checks a CSV against one.

The same schemas check our own data files (in a test) and a user's. Every fault says which file,
line and column, what was expected and what was found; all faults of a file are told at once.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from gputailor_agent.model.nearest import meant_or_known

_SHOWN: Final = 60


class CatalogueError(Exception):
    """A file of prices or hardware cannot be used; the text says where, why and what to do."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at one place. ``column`` is '' where the whole line is meant."""

    place: str
    line: int
    column: str
    told: str

    def __str__(self) -> str:
        """As compilers write it: ``FILE:LINE: COLUMN what was expected``."""
        return f"{self.place}:{self.line}: {self.column} {self.told}".replace(":  ", ": ")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, what a cell may hold, and whether it may be left out or blank.

    ``expected`` returns '' for a good cell, else what was expected.
    """

    name: str
    meaning: str
    expected: Callable[[str], str]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """A table: its columns, and the columns by which it is recognised and one of which it needs."""

    name: str
    columns: tuple[Column, ...]
    marks: tuple[str, ...]
    one_of: tuple[str, ...] = ()

    @property
    def by_name(self) -> dict[str, Column]:
        """Columns by name."""
        return {column.name: column for column in self.columns}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table; a blank or absent cell reads ''."""

    place: str
    line: int
    cells: dict[str, str]

    def __getitem__(self, name: str) -> str:
        """The cell of a column."""
        return self.cells.get(name, "")

    def number(self, name: str) -> float | None:
        """The number of a cell that was checked; None for a blank one."""
        cell = self[name]
        return float(cell) if cell else None

    def fault(self, column: str, told: str) -> Fault:
        """A fault of this line."""
        return Fault(self.place, self.line, column, told)


@dataclass(frozen=True, slots=True)
class Checked:
    """Rows that passed and what is wrong with the others."""

    rows: tuple[Row, ...]
    faults: tuple[Fault, ...] = field(default=())


def text(cell: str) -> str:
    """Any text is good."""
    _ = cell
    return ""


def number(example: str, *, above: bool = False) -> Callable[[str], str]:
    """A finite number of 0 or more (``above``: more than 0), such as ``example``."""

    def expected(cell: str) -> str:
        try:
            value = float(cell)
        except ValueError:
            return f"must be a number such as {example}"
        if not math.isfinite(value) or value < 0 or (above and value == 0):
            return "must be more than 0" if above else "must be 0 or more"
        return ""

    return expected


def whole(example: str) -> Callable[[str], str]:
    """A whole number above 0."""
    return lambda cell: (
        "" if re.fullmatch(r"0*[1-9]\d*", cell) else f"must be a whole number such as {example}"
    )


def choice(*values: str) -> Callable[[str], str]:
    """One of the values."""
    told = f"must be {', '.join(values[:-1])} or {values[-1]}"
    return lambda cell: "" if cell in values else told


def day(cell: str) -> str:
    """A date."""
    try:
        date.fromisoformat(cell)
    except ValueError:
        return "must be a date such as 2026-11-30"
    return ""


def version(cell: str) -> str:
    """A compute capability."""
    return "" if re.fullmatch(r"\d+\.\d", cell) else "must be a compute capability such as 8.0"


def currency(cell: str) -> str:
    """A currency's code."""
    return "" if re.fullmatch(r"[A-Z]{3}", cell) else "must be a currency code such as EUR"


def header_of(content: str) -> list[str]:
    """Names in a CSV's first line, [] for an empty text and for one that is no CSV."""
    try:
        first = next(csv.reader(io.StringIO(content, newline=None)), [])
    except csv.Error:
        return []
    return [name.strip() for name in first]


def read_table(place: str, content: str, schema: Schema) -> Checked:
    """Rows of a CSV by a schema.

    ``place`` is what faults call the file. A line with a fault is no row; a header with one leaves
    no rows at all.
    """
    names = header_of(content)
    faults = tuple(_header_faults(place, names, schema))
    if faults:
        return Checked((), faults)
    rows: list[Row] = []
    found: list[Fault] = []
    reader = csv.reader(io.StringIO(content, newline=None))
    try:
        next(reader, None)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            texts = {name: cell.strip() for name, cell in zip(names, cells, strict=False)}
            row = Row(place, reader.line_num, texts)
            wrong = list(_row_faults(row, len(cells), names, schema))
            found += wrong
            if not wrong:
                rows.append(row)
    except csv.Error as error:
        found.append(Fault(place, reader.line_num, "", f"is no CSV: {error}; quote its texts"))
    return Checked(tuple(rows), tuple(found))


def _header_faults(place: str, names: list[str], schema: Schema) -> Iterator[Fault]:
    missing = [column.name for column in schema.columns if column.required]
    missing = [name for name in missing if name not in names]
    lacks_one = bool(schema.one_of) and not set(schema.one_of) & set(names)
    if missing or lacks_one:
        wanted = [*missing, *([" or ".join(schema.one_of)] if lacks_one else [])]
        yield Fault(
            place,
            1,
            "",
            f"expected a CSV header of {schema.name} with {' and '.join(wanted)}, "
            f"found: {', '.join(names) or 'nothing'}",
        )
        return
    known = schema.by_name
    for name in names:
        if name not in known:
            hint = meant_or_known(name, known)
            yield Fault(place, 1, name, f"is no column of {schema.name}{hint}")
        elif names.count(name) > 1:
            yield Fault(place, 1, name, "stands twice in the header; remove one")


def _row_faults(row: Row, width: int, names: list[str], schema: Schema) -> Iterator[Fault]:
    if width > len(names):
        yield row.fault("", f"has {width} cells, the header has {len(names)}; quote a cell with ,")
        return
    for name, cell in row.cells.items():
        told = schema.by_name[name].expected(cell) if cell else ""
        if told:
            yield row.fault(name, f"{told}, found {cell[:_SHOWN]!r}")
    for column in schema.columns:
        if column.required and not row[column.name]:
            yield row.fault(column.name, f"must not be blank: {column.meaning}")
    if schema.one_of and not any(row[name] for name in schema.one_of):
        yield row.fault("", f"name an {' or an '.join(schema.one_of)}")


def raise_faults(faults: tuple[Fault, ...]) -> None:
    """Raise ``CatalogueError`` with all faults, one a line, if there are any."""
    if faults:
        raise CatalogueError("\n".join(str(fault) for fault in faults))
