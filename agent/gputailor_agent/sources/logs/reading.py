"""Rows of a section into samples: when, which device, which values."""

import math
from array import array
from collections.abc import Sequence
from itertools import compress
from typing import Final

from gputailor_agent.model.usage import GaugeSample
from gputailor_agent.sources.logs import infer, polls, timing
from gputailor_agent.sources.logs.cells import Kind
from gputailor_agent.sources.logs.convert import ValueColumn, whole
from gputailor_agent.sources.logs.meaning import Meaning, by_headers
from gputailor_agent.sources.logs.names import Role
from gputailor_agent.sources.logs.table import Table
from gputailor_agent.sources.logs.values import Skips

_SHOWN_NAMES: Final = 6
_READ: Final = (
    Role.KERNEL,
    Role.MEMCOPY,
    Role.ENCODER,
    Role.DECODER,
    Role.MEMORY_USED,
    Role.MEMORY_TOTAL,
    Role.MEMORY_FREE,
    Role.POWER,
    Role.POWER_LIMIT,
    Role.TEMPERATURE,
)


class NoTime(Exception):  # noqa: N818 - told on as a LogError, with the path
    """A section whose rows have no time; ``line`` is its first row."""

    def __init__(self, line: int) -> None:
        """Keep the line."""
        super().__init__("no time column")
        self.line = line


class Section:
    """A section of a log being read: drops rows without a time, then names devices."""

    def __init__(self, table: Table, skips: Skips, ended: float) -> None:
        self.table = table
        self.skips = skips
        self._ended = ended

    def samples(self) -> "tuple[list[GaugeSample], array[int]]":
        """Samples in the order of rows, and each one's line.

        Raises ``NoTime`` when no column holds times.
        """
        table = self.table
        meaning = self._meaning_of_headers()
        columns = infer.time_columns(table) if meaning is None else meaning.times
        if not columns:
            raise NoTime(table.lines[0])
        unit = table.headers[columns[0]].unit if table.headers else ""
        times = timing.row_times(table, columns, self._ended, unit)
        times = self._keep_timed(times)
        if not times:
            return [], array("Q")
        starts = polls.poll_starts(times)
        size = polls.poll_size(starts, len(times))
        if meaning is None:
            meaning = infer.by_values(table, columns, size)
        gpus = self._gpus(meaning, times, starts, size)
        return build(table, meaning, times, gpus, self.skips)

    def _meaning_of_headers(self) -> Meaning | None:
        headers = self.table.headers
        return None if headers is None else by_headers(self.table, headers)

    def _keep_timed(self, times: "array[float]") -> "array[float]":
        """Skip rows whose time could not be read."""
        known = [not math.isnan(time) for time in times]
        if all(known):
            return times
        table = self.table
        for row, line in enumerate(table.lines):
            if not known[row]:
                self.skips.add(line, "", "no time; expected e.g. 2026/01/31 13:45:10.123")
        table.lines = array("Q", compress(table.lines, known))
        for column in table.columns:
            column.kinds = bytearray(compress(column.kinds, known))
            column.numbers = array("d", compress(column.numbers, known))
        return array("d", compress(times, known))

    def _gpus(
        self, meaning: Meaning, times: Sequence[float], starts: list[int], size: int
    ) -> list[str | None]:
        """Name of the device of each row; None where it is not known."""
        table = self.table
        named = _best_names(meaning, table)
        if named is not None:
            role, names, different = named
            if different > 1 or size == 1 or self._one_device(meaning, times, starts, size):
                self._say_odd_column(meaning, role)
                return names
        if size == 1 or self._one_device(meaning, times, starts, size):
            return ["0"] * len(times)
        table.notes.append(
            f"No column tells devices apart, but {size} rows share each time: they were taken as "
            f"{size} devices in the order of their rows, an assumption."
        )
        places = polls.positions(starts, len(times), size)
        return [str(place) if place >= 0 else None for place in places]

    def _one_device(
        self, meaning: Meaning, times: Sequence[float], starts: list[int], size: int
    ) -> bool:
        if size == 1:
            return True
        columns = [self.table.columns[n].numbers for n in meaning.values.values()]
        return polls.looks_like_one_device(times, starts, size, columns)

    def _say_odd_column(self, meaning: Meaning, role: Role) -> None:
        if role is Role.GPU and any(other is Role.INDEX for other, _ in meaning.ids):
            self.table.notes.append(
                "The column 'gpu' tells the devices apart; the column 'index' is the same for all."
            )


def _best_names(meaning: Meaning, table: Table) -> tuple[Role, list[str | None], int] | None:
    """The id column with the most different values; of equals the surest kind."""
    order = {Role.UUID: 3, Role.BUS: 2, Role.INDEX: 1, Role.GPU: 0}
    best: tuple[int, int, Role, list[str | None]] | None = None
    for role, number in meaning.ids:
        names = _names(table, number)
        different = len(set(names) - {None})
        rank = (different, order[role])
        if different and (best is None or rank > best[:2]):
            best = (*rank, role, names)
    return None if best is None else (best[2], best[3], best[0])


def _names(table: Table, number: int) -> list[str | None]:
    column, texts = table.columns[number], table.cells.texts
    cache: dict[tuple[int, float], str | None] = {}
    found: list[str | None] = []
    for pair in zip(column.kinds, column.numbers, strict=True):
        if pair not in cache:
            kind, value = pair
            name = texts[int(value)] if kind == Kind.TEXT else None
            cache[pair] = f"{value:g}" if kind >= Kind.NUMBER else name
        found.append(cache[pair])
    return found


def build(
    table: Table,
    meaning: Meaning,
    times: Sequence[float],
    gpus: Sequence[str | None],
    skips: Skips,
) -> "tuple[list[GaugeSample], array[int]]":
    """Samples of the rows that have a device and hold what their columns promise."""
    bad: dict[int, Role] = {}
    columns: dict[Role, ValueColumn] = {
        role: ValueColumn(role, meaning, table) for role in _READ if role in meaning.values
    }
    streams = [
        columns[role].values(bad) if role in columns else _nothing(len(times)) for role in _READ
    ]
    names = _names(table, meaning.name) if meaning.name is not None else [None] * len(times)
    samples: list[GaugeSample] = []
    lines = array("Q")
    contradictions = 0
    rows = zip(times, gpus, names, *streams, strict=True)
    for row, (at, gpu, name, kernel, copy, enc, dec, *sizes, power, limit, heat) in enumerate(rows):
        if row in bad or gpu is None:
            skips.add(table.lines[row], "", _why(bad.get(row)))
            continue
        used, total = _used_and_total(*sizes)
        contradictions += used is None and None not in sizes[:2]
        samples.append(
            GaugeSample(
                at=at,
                gpu=gpu,
                kernel=kernel,
                memcopy=copy,
                encoder=enc,
                decoder=dec,
                memory_used_bytes=whole(used),
                memory_total_bytes=whole(total),
                power_watts=power,
                power_limit_watts=limit,
                temperature_celsius=heat,
                model=name or "",
            )
        )
        lines.append(table.lines[row])
    _say(table, columns, contradictions)
    return samples, lines


def _nothing(rows: int) -> list[None]:
    return [None] * rows


def _used_and_total(
    used: float | None, total: float | None, free: float | None
) -> tuple[float | None, float | None]:
    """Both sizes, one made of the others where it is missing; none where they contradict."""
    if used is None and total is not None and free is not None and free <= total:
        return total - free, total
    if used is not None and total is None and free is not None:
        return used, used + free
    if used is not None and total is not None and used > total:
        return None, None
    return used, total


def _why(role: Role | None) -> str:
    if role is None:
        return "the device of this row is not known; expected one row per device at each time"
    return f"{role} holds no number with a fitting unit"


def _say(table: Table, columns: dict[Role, ValueColumn], contradictions: int) -> None:
    for role, column in columns.items():
        if column.dropped:
            table.notes.append(
                f"{role}: {column.dropped} values outside what is possible were taken as unknown."
            )
    if contradictions:
        table.notes.append(
            f"In {contradictions} rows more memory is used than there is (columns swapped?): both "
            "were taken as unknown."
        )
    if Role.MEMORY_FREE in columns and Role.MEMORY_USED not in columns:
        table.notes.append(
            "memory.used was taken as total - free, which counts what the driver keeps for itself."
        )
    if Role.MEMORY_FREE in columns and Role.MEMORY_TOTAL not in columns:
        table.notes.append(
            "memory.total was taken as used + free, without what the driver keeps for itself."
        )
