"""Reading tables of real data: any rows, any order of columns, more columns than are needed.

A missing column or a cell that is no number is told with file and line; what a table has beside the
columns that are asked for changes nothing.
"""

import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gputailor_agent.evaluation.base import EvaluationError

Row = dict[str, str]


@contextmanager
def text_of(path: Path) -> Iterator[IO[str]]:
    """Open a text file, gzipped or not; a byte order mark is skipped.

    Raises ``EvaluationError`` where it cannot be read.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        opener = gzip.open if packed else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as text:
            yield text
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise EvaluationError(f"{path}: cannot be read: {error}; give an intact file") from error


def records(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells of the ``needed`` columns, in their order.

    Raises ``EvaluationError`` for a table without one of them and for a row that is too short.
    """
    with text_of(path) as text:
        reader = csv.reader(text)
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in needed if name not in header]
        if missing:
            raise EvaluationError(
                f"{path}: line 1: expected the columns {', '.join(needed)}; missing: "
                f"{', '.join(missing)}; found: {', '.join(header) or 'nothing'}"
            )
        places = [header.index(name) for name in needed]
        longest = max(places)
        for number, cells in enumerate(reader, start=2):
            if not cells:
                continue
            if len(cells) <= longest:
                raise EvaluationError(
                    f"{path}: line {number}: expected {len(header)} cells as in line 1, found "
                    f"{len(cells)}"
                )
            yield number, [cells[place] for place in places]


def number(path: Path, line: int, name: str, cell: str) -> float:
    """Return a cell's finite number; raises ``EvaluationError`` for anything else."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise EvaluationError(f"{path}: line {line}: {name}: expected a number, found {cell!r}")
    return value


def numbers(path: Path, line: int, names: Sequence[str], cells: Sequence[str]) -> list[float]:
    """Return the numbers of several cells, likewise."""
    return [number(path, line, name, cell) for name, cell in zip(names, cells, strict=True)]
