"""When the rows of a section were taken, in Unix seconds."""

import math
from array import array
from datetime import UTC, datetime
from statistics import median
from typing import Final

from gputailor_agent.sources.logs.cells import Kind
from gputailor_agent.sources.logs.table import Column, Table

_DAY: Final = 86_400.0
_SCALES: Final = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3), (1e8, 1.0))  # since 1973, by size
_LATEST: Final = 32_503_680_000.0  # the year 3000
UNKNOWN: Final = math.nan


def row_times(table: Table, columns: list[int], ended: float, unit: str = "") -> "array[float]":
    """Time of each row, NaN where it has none; states in the notes what it had to assume.

    ``columns`` is a time column, or a date and a clock column; ``ended`` (Unix seconds) is when
    the file was last written, for logs that know the clock or the running time only; ``unit`` of
    a running time is what its header says.
    """
    if len(columns) > 1:
        if not table.cells.unzoned and not table.cells.zoned:
            table.notes.append("Times carry no zone: they were read as UTC.")
        return _date_and_clock(table.columns[columns[0]], table.columns[columns[1]])
    column = table.columns[columns[0]]
    numbers = list(column.values())
    if len(numbers) * 2 > len(column.kinds):
        return _numeric(table, column, median(numbers), ended, unit)
    if column.kinds.count(Kind.CLOCK) > column.kinds.count(Kind.TIME):
        return _clock_only(table, column, ended)
    return array(
        "d",
        (
            number if kind == Kind.TIME else UNKNOWN
            for kind, number in zip(column.kinds, column.numbers, strict=True)
        ),
    )


def _date_and_clock(dates: Column, clocks: Column) -> "array[float]":
    found = array("d")
    for date_kind, date, clock_kind, clock in zip(
        dates.kinds, dates.numbers, clocks.kinds, clocks.numbers, strict=True
    ):
        midnight = date if date_kind == Kind.DATE else UNKNOWN
        if date_kind >= Kind.NUMBER:
            midnight = _compact_date(date)
        found.append(midnight + clock if clock_kind == Kind.CLOCK else UNKNOWN)
    return found


def _compact_date(number: float) -> float:
    """Midnight of a date written as 20260103."""
    year, rest = divmod(int(number), 10_000)
    try:
        return datetime(year, *divmod(rest, 100), tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return UNKNOWN


def _numeric(table: Table, column: Column, usual: float, ended: float, unit: str) -> "array[float]":
    scale = next((factor for size, factor in _SCALES if abs(usual) >= size), None)
    offset = 0.0
    if scale is None:
        scale = 0.001 if unit == "ms" else 1.0
        offset = ended - max(column.values()) * scale
        table.notes.append(
            "The time column counts from the start of the recording: the last row was placed at "
            "the time the file was last written."
        )
    found = array("d")
    for kind, number in zip(column.kinds, column.numbers, strict=True):
        time = number * scale + offset
        known = kind >= Kind.NUMBER and 0 < time < _LATEST
        found.append(time if known else UNKNOWN)
    return found


def _clock_only(table: Table, column: Column, ended: float) -> "array[float]":
    """Clock without a date: days are counted where the clock falls back by half a day or more."""
    days, before = 0.0, None
    found = array("d")
    for kind, clock in zip(column.kinds, column.numbers, strict=True):
        if kind != Kind.CLOCK:
            found.append(UNKNOWN)
            continue
        if before is not None and before - clock > _DAY / 2:
            days += _DAY
        before = clock
        found.append(days + clock)
    shift = ended // _DAY * _DAY - days
    table.notes.append(
        "The log has a clock but no date: its last row was placed on the day the file was last "
        "written (record with a full timestamp to be sure)."
    )
    return array("d", (time + shift for time in found))


def counted_times(polls: list[int], ended: float) -> "array[float]":
    """Times of rows whose log has none: polls one second apart, the last at ``ended``."""
    last = polls[-1] if polls else 0
    return array("d", (ended - (last - poll) for poll in polls))
