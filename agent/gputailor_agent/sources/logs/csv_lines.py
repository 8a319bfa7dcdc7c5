"""Lines of a CSV log into sections: delimiter, headers (repeated or changed), rows."""

import csv
from collections.abc import Sequence
from typing import Final

from gputailor_agent.sources.lines import LONGEST
from gputailor_agent.sources.logs.cells import CellReader, Kind
from gputailor_agent.sources.logs.names import Header, header_row
from gputailor_agent.sources.logs.table import Table
from gputailor_agent.sources.logs.values import Skips

_DELIMITERS: Final = (",", ";", "\t", "|")
_TRIED: Final = 100  # lines that decide on the delimiter
MOST_ROWS: Final = 3_000_000  # some 0.45 KiB each while reading; 34 days of one GPU at 1 s


def split(line: str, delimiter: str) -> Sequence[str]:
    """Cells of a line; quotes are honoured where there are any."""
    if '"' in line:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    return line.split(delimiter)


def without_zeros(line: str) -> str:
    """The line without zero bytes around it, or between all its letters (UTF-16 was appended)."""
    if not line[0::2].strip("\0") or not line[1::2].strip("\0"):
        return line.replace("\0", "")
    return line.strip("\0")


def delimiter_of(lines: Sequence[str]) -> str | None:
    """The delimiter that makes headers or timed rows of most lines; None when none does."""
    cells = CellReader()
    best, most = None, 0
    for delimiter in _DELIMITERS:
        score = 0
        for line in lines[:_TRIED]:
            row = split(line, delimiter)
            if len(row) > 1 or delimiter == ",":
                headed = not line[:1].isdigit() and header_row(list(row)) is not None
                timed = len(row) > 1 and any(_is_time(cells, cell) for cell in row)
                score += len(row) if headed or timed else 0
        if score > most:
            best, most = delimiter, score
    return best


def _is_time(cells: CellReader, text: str) -> bool:
    cell = cells.read(text)
    epoch = cell.kind >= Kind.NUMBER and cell.number > 1e9  # noqa: PLR2004 - Unix seconds since 2001
    return cell.kind in {Kind.TIME, Kind.CLOCK} or epoch


class CsvLines:
    """Takes lines one by one and sorts them into ``sections``."""

    def __init__(self, delimiter: str, skips: Skips, *, day_first: bool = False) -> None:
        self.sections: list[Table] = []
        self.headers = 0
        self.rows = 0
        self.nul_lines = 0
        self.cells = CellReader(decimal_comma=delimiter != ",", day_first=day_first)
        self._delimiter = delimiter
        self._skips = skips
        self._header_text = ""
        self._table: Table | None = None

    def take(self, number: int, line: str) -> None:
        """Take one line: blank, header, or row."""
        if "\0" in line or "\ufeff" in line:
            self.nul_lines += "\0" in line
            line = without_zeros(line).strip("\ufeff")
        if not line or line.isspace():
            return
        if line == self._header_text:
            self.headers += 1
            return
        if len(line) <= LONGEST and not line[:1].isdigit():
            headers = header_row(list(split(line, self._delimiter)))
            if headers is not None:
                self._begin(headers, line)
                return
        self.rows += 1
        if len(line) > LONGEST:
            self._skips.add(number, line, f"more than {LONGEST:,} characters; expected one row")
        elif self.rows > MOST_ROWS:
            self._skips.add(number, line, f"row beyond the first {MOST_ROWS:,}")
        else:
            if self._table is None:
                self._table = Table(None, self.cells, self._skips)
                self.sections.append(self._table)
            self._table.add(number, line, split(line, self._delimiter))

    def _begin(self, headers: tuple[Header, ...], line: str) -> None:
        self.headers += 1
        known, self._header_text = self._table, line
        if known is not None and known.headers == headers:
            return
        if known is not None:
            known.finish()
        if known is not None and known.headers is None and len(known.columns) == len(headers):
            known.headers = headers  # the log began below its header, e.g. after a rotation
            known.notes.append("Rows before the first header were read by that header.")
            return
        self._table = Table(headers, self.cells, self._skips)
        self.sections.append(self._table)

    def finish(self) -> None:
        """No more lines will come."""
        for table in self.sections:
            table.finish()
