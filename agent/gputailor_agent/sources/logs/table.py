"""Rows of one section of a log as columns of numbers: what is there, before what it means.

Every cell is read once, into 9 bytes. A section is what stands under one header, or a whole log
without one.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gputailor_agent.sources.logs.cells import CellReader, Kind
from gputailor_agent.sources.logs.names import Header
from gputailor_agent.sources.logs.values import Skips

_PENDING: Final = 200  # rows whose widths decide how wide the section's rows are


class Column:
    """One column. ``kinds`` and ``numbers`` are those of ``Cell``, row by row."""

    __slots__ = ("kinds", "numbers")

    def __init__(self) -> None:
        self.kinds = bytearray()
        self.numbers = array("d")

    def values(self) -> Iterator[float]:
        """Its numbers, without the rest."""
        return (
            number
            for kind, number in zip(self.kinds, self.numbers, strict=True)
            if kind >= Kind.NUMBER
        )

    def only(self, kind: Kind) -> bool:
        """Whether every known cell is of this kind, and there is one (``NUMBER``: of any unit)."""
        found = {min(k, Kind.NUMBER) for k in set(self.kinds)} - {Kind.UNKNOWN}
        return found == {kind}


class Table:
    """Rows under one header (None: no header). ``lines`` holds each row's line number."""

    def __init__(self, headers: tuple[Header, ...] | None, cells: CellReader, skips: Skips) -> None:
        self.headers = headers
        self.columns: list[Column] = []
        self.lines = array("Q")
        self.cells = cells
        self.notes: list[str] = []
        self._skips = skips
        self._pending: list[tuple[int, str, Sequence[str]]] = []
        self._shift = 0

    def add(self, line: int, text: str, row: Sequence[str]) -> None:
        """Take a row; one that does not fit the others is skipped and says so."""
        if self.columns:
            self._take(line, text, row)
            return
        self._pending.append((line, text, row))
        if len(self._pending) >= _PENDING:
            self.finish()

    def finish(self) -> None:
        """Decide how wide rows are, unless that was done, and take those that wait."""
        if self.columns or not self._pending:
            return
        widths = Counter(_width(row, self.headers) for _, _, row in self._pending)
        width = widths.most_common(1)[0][0]
        if self.headers is not None:
            width = self._fit(width, len(self.headers))
        self.columns = [Column() for _ in range(width)]
        waiting, self._pending = self._pending, []
        for line, text, row in waiting:
            self._take(line, text, row)

    def _fit(self, width: int, wanted: int) -> int:
        """Width of rows under a header of another width: only extra times in front are safe."""
        extra = width - wanted
        if extra <= 0:
            return wanted
        rows = [row for _, _, row in self._pending if len(row) >= width]
        timed = sum(
            all(self.cells.read(cell).kind == Kind.TIME for cell in row[: extra + 1])
            for row in rows
        )
        if timed * 2 <= len(rows):
            return wanted
        first = self.headers[0] if self.headers else None
        if first is not None and self.headers is not None:
            self.headers = (first,) * extra + self.headers
        self.notes.append(
            f"Rows have {width} cells under {wanted} headers because the time stands "
            f"{extra + 1} times in front; headers were moved to fit."
        )
        return width

    def _take(self, line: int, text: str, row: Sequence[str]) -> None:
        wanted = len(self.columns)
        if len(row) != wanted:
            row = _trimmed(row, wanted)
        if len(row) != wanted:
            hint = " (a decimal comma?)" if len(row) > wanted else " (cut off?)"
            self._skips.add(line, text, f"{len(row)} cells{hint}; expected {wanted}")
            return
        read = self.cells.read
        for column, cell_text in zip(self.columns, row, strict=True):
            kind, number = read(cell_text)
            column.kinds.append(kind)
            column.numbers.append(number)
        self.lines.append(line)

    def drop_last(self, text: str, why: str) -> None:
        """Take the last row back and skip it."""
        line = self.lines.pop()
        for column in self.columns:
            column.kinds.pop()
            column.numbers.pop()
        self._skips.add(line, text, why)


def _trimmed(row: Sequence[str], wanted: int) -> Sequence[str]:
    """The row without empty cells at its end that are too many (a delimiter at the line's end)."""
    if len(row) > wanted and not any(cell.strip() for cell in row[wanted:]):
        return row[:wanted]
    return row


def _width(row: Sequence[str], headers: tuple[Header, ...] | None) -> int:
    return len(_trimmed(row, len(headers)) if headers is not None else row)
