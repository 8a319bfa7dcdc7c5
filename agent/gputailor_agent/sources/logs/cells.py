"""One cell of a log: a number with its unit, a time, an unknown value, or text.

nvidia-smi writes ``[N/A]``, ``[Not Supported]``, ``[GPU is lost]``, ``ERR!`` and others where it
has no value: all of these are unknown. Times come in its own form, as ISO 8601, as ``date``'s
output or as a spreadsheet left them; a time without a zone is read as UTC (the log states that).
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final, NamedTuple

_NUMBER: Final = re.compile(r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)\s*(%|[A-Za-z°/]{1,8})?")
_DECIMAL_COMMA: Final = re.compile(r"([-+]?\d+),(\d+)(\s*(?:%|[A-Za-z°/]{1,8})?)")
_UNKNOWN: Final = frozenset(
    (
        "",
        "-",
        "--",
        "n/a",
        "na",
        "nan",
        "none",
        "null",
        "unknown",
        "err",
        "err!",
        "error",
        "inf",
        "not supported",
        "gpu is lost",
        "unknown error",
        "not available",
    )
)
_CLOCK: Final = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?"
_ZONE: Final = r"\s*(Z|UTC|GMT|[-+]\d{2}:?\d{2})?"
_YEAR_FIRST: Final = re.compile(
    rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}})(?:[T ,]\s*{_CLOCK}{_ZONE})?"
)
_COMPACT: Final = re.compile(rf"(20\d{{2}})()(\d{{2}})(\d{{2}})[T ]\s*{_CLOCK}{_ZONE}")
_YEAR_LAST: Final = re.compile(
    rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}),?\s+{_CLOCK}\s*([AaPp][Mm])?"
)
_CTIME: Final = re.compile(
    rf"[A-Z][a-z]{{2}},? ([A-Z][a-z]{{2}})\s+(\d{{1,2}}) {_CLOCK}"
    r"(?: (UTC|GMT|[A-Z]{3,4}))? (\d{4})"
)
_CLOCK_ONLY: Final = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?")
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_CACHED: Final = 50_000


class Kind(IntEnum):
    """What a cell holds. For ``TEXT`` the number is that of the text in ``CellReader.texts``."""

    UNKNOWN = 0
    TEXT = 1
    TIME = 2  # Unix seconds
    DATE = 3  # Unix seconds of midnight
    CLOCK = 4  # seconds since midnight
    NUMBER = 16  # and above: 16 + number of the unit


class Cell(NamedTuple):
    """``kind`` is a ``Kind``, or above ``NUMBER`` by the number of its unit."""

    kind: int
    number: float


class CellReader:
    """Reads cells; what it saw of times is kept: zones, and which of day and month comes first."""

    def __init__(self, *, decimal_comma: bool = False, day_first: bool = False) -> None:
        self.units: list[str] = [""]  # lower case, by number
        self.texts: list[str] = []
        self.zoned = 0
        self.unzoned = 0
        self.year_last = 0
        self.must_be_day_first = False  # some first number was above 12
        self.unknown_texts: list[str] = []  # a few of the different ones
        self._decimal_comma = decimal_comma
        self._day_first = day_first
        self._cache: dict[str, Cell] = {}
        self._text_numbers: dict[str, int] = {}
        self._midnights: dict[tuple[int, int, int], float] = {}

    def read(self, text: str) -> Cell:
        """Read one cell; never raises."""
        cell = self._cache.get(text)
        if cell is None:
            cell = self._read(text.strip().strip('"').strip())
            if cell.kind not in _VARYING and len(self._cache) < _CACHED:
                self._cache[text] = cell
        return cell

    def unit_of(self, kind: int) -> str:
        """Unit of a number's kind, lower case; '' when it has none."""
        return self.units[kind - Kind.NUMBER]

    def _read(self, text: str) -> Cell:
        if self._decimal_comma and (match := _DECIMAL_COMMA.fullmatch(text)):
            text = f"{match[1]}.{match[2]}{match[3]}"
        if match := _NUMBER.fullmatch(text):
            return self._number(float(match[1]), (match[2] or "").lower())
        if (text.startswith("[") and text.endswith("]")) or text.lower() in _UNKNOWN:
            self._remember_unknown(text)
            return Cell(Kind.UNKNOWN, 0.0)
        return self._time(text) or self._text(text)

    def _number(self, value: float, unit: str) -> Cell:
        if not math.isfinite(value):
            return Cell(Kind.UNKNOWN, 0.0)
        if unit not in self.units:
            if len(self.units) > _UNITS:
                return Cell(Kind.UNKNOWN, 0.0)
            self.units.append(unit)
        return Cell(Kind.NUMBER + self.units.index(unit), value)

    def _remember_unknown(self, text: str) -> None:
        if text not in {"", "-", *self.unknown_texts} and len(self.unknown_texts) < _SEEN:
            self.unknown_texts.append(text)

    def _text(self, text: str) -> Cell:
        number = self._text_numbers.get(text)
        if number is None:
            if len(self.texts) >= _CACHED:
                return Cell(Kind.UNKNOWN, 0.0)
            number = self._text_numbers[text] = len(self.texts)
            self.texts.append(text)
        return Cell(Kind.TEXT, float(number))

    def _time(self, text: str) -> Cell | None:
        if not text[-1:].isalnum() or not any(character.isdigit() for character in text):
            return None
        try:
            return self._matched_time(text)
        except (ValueError, KeyError, OverflowError):
            return None  # a month of 13 and the like: no time

    def _matched_time(self, text: str) -> Cell | None:
        if match := _YEAR_FIRST.fullmatch(text) or _COMPACT.fullmatch(text):
            year, _, month, day, *clock, zone = match.groups()
            return self._moment(int(year), int(month), int(day), clock, zone)
        if match := _YEAR_LAST.fullmatch(text):
            return self._spreadsheet(*match.groups())
        if match := _CTIME.fullmatch(text):
            month, day, *clock, zone, year = match.groups()
            return self._moment(int(year), _MONTHS[month], int(day), clock, zone)
        if match := _CLOCK_ONLY.fullmatch(text):
            return Cell(Kind.CLOCK, _clock_seconds(match.groups()))
        return None

    def _spreadsheet(self, first: str, separator: str, second: str, year: str, *rest: str) -> Cell:
        clock: list[str | None] = list(rest[:-1])
        half = rest[-1]
        if half:
            hour = int(rest[0]) % 12 + (12 if half.lower() == "pm" else 0)
            clock[0] = str(hour)
        day_first = int(first) > _MONTHS["Dec"]
        if day_first and separator != ".":
            self.must_be_day_first = True
        dotted = separator == "."  # nobody writes month.day.year
        self.year_last += not dotted
        day_first = day_first or dotted or self._day_first
        day, month = (first, second) if day_first else (second, first)
        return self._moment(int(year), int(month), int(day), clock, None)

    def _moment(
        self, year: int, month: int, day: int, clock: Sequence[str | None], zone: str | None
    ) -> Cell:
        midnight = self._midnights.get((year, month, day))
        if midnight is None:
            midnight = datetime(year, month, day, tzinfo=UTC).timestamp()
            if len(self._midnights) < _CACHED:
                self._midnights[year, month, day] = midnight
        if midnight <= 0:
            raise ValueError(year)
        if clock[0] is None:
            return Cell(Kind.DATE, midnight)
        offset = _zone_seconds(zone)
        if offset is None:
            self.unzoned += 1
        else:
            self.zoned += 1
        return Cell(Kind.TIME, midnight + _clock_seconds(clock) - (offset or 0.0))


_VARYING: Final = frozenset({Kind.TIME, Kind.CLOCK})
_UNITS: Final = 200
_SEEN: Final = 8


def _clock_seconds(clock: Sequence[str | None]) -> float:
    hour, minute, second, fraction = (*clock, None)[:4]
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 60:  # noqa: PLR2004 - a clock's limits
        raise ValueError(clock)
    return hours * 3600.0 + minutes * 60 + seconds + (float("0." + fraction) if fraction else 0.0)


def _zone_seconds(zone: str | None) -> float | None:
    """Offset of a zone; None when there is none, or one that we don't know (CET and the like)."""
    if zone in {"Z", "UTC", "GMT"}:
        return 0.0
    if not zone or zone[0] not in "+-":
        return None
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600.0 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds
