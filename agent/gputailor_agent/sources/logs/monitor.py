"""Logs of ``nvidia-smi dmon`` (devices) and ``nvidia-smi pmon`` (processes).

Their header is two comment lines, names and units, repeated now and then; ``-`` is unknown.
dmon's ``sm`` is the utilisation that ``utilization.gpu`` shows (some kernel ran), not the activity
of the SMs; ``mem`` is the time memory was read or written; ``fb`` is memory in MiB.
"""

from collections.abc import Sequence
from typing import Final

from gputailor_agent.model.usage import GaugeSample
from gputailor_agent.sources.lines import LONGEST
from gputailor_agent.sources.logs import timing
from gputailor_agent.sources.logs.cells import CellReader
from gputailor_agent.sources.logs.csv_lines import MOST_ROWS, without_zeros
from gputailor_agent.sources.logs.meaning import Meaning
from gputailor_agent.sources.logs.names import Role
from gputailor_agent.sources.logs.reading import build
from gputailor_agent.sources.logs.table import Column, Table
from gputailor_agent.sources.logs.values import Skips

_ROLES: Final = {
    "sm": (Role.KERNEL, "%"),
    "mem": (Role.MEMCOPY, "%"),
    "enc": (Role.ENCODER, "%"),
    "dec": (Role.DECODER, "%"),
    "fb": (Role.MEMORY_USED, "mib"),
    "pwr": (Role.POWER, "w"),
    "gtemp": (Role.TEMPERATURE, "c"),
    "temp": (Role.TEMPERATURE, "c"),
}


#: Columns of dmon and pmon of any driver, as far as they are known to us.
_OTHERS: Final = (
    "mtemp mclk pclk jpg ofa ccpm bar1 pviol tviol sbecc dbecc pci rxpci txpci pid type command"
)
_COLUMNS: Final = frozenset((*_ROLES, *_OTHERS.split()))


def monitor_header(line: str) -> tuple[str, ...] | None:
    """Column names of a header of dmon or pmon, lower case; None for any other line.

    ``# gpu`` begins many a comment of other files: the words behind must be columns, most of them
    known ones, and before it only date and time may stand.
    """
    if not line.startswith("#"):
        return None
    words = tuple(line.lstrip("# ").lower().replace(",", " ").split())
    if "gpu" not in words[:3]:
        return None
    place = words.index("gpu")
    columns = words[place + 1 :]
    known = sum(word in _COLUMNS for word in columns)
    return words if {*words[:place]} <= {"date", "time"} and known * 2 > len(columns) else None


class MonitorLines:
    """Takes the lines of a dmon or pmon log one by one."""

    def __init__(self, skips: Skips) -> None:
        self.headers = 0
        self.rows = 0
        self.names: tuple[str, ...] = ()
        self.tables: list[tuple[tuple[str, ...], Table]] = []
        self.cells = CellReader()
        self.nul_lines = 0
        self._skips = skips

    @property
    def processes(self) -> bool:
        """Whether this is pmon's output."""
        return any("pid" in names for names, _ in self.tables)

    def take(self, number: int, line: str) -> None:
        """Take one line: blank, comment or header, or row."""
        if "\0" in line:
            self.nul_lines += 1
            line = without_zeros(line)
        line = line.strip("\ufeff ")
        if not line or line.isspace():
            return
        if line.startswith("#"):
            self._header(line)
            return
        self.rows += 1
        if len(line) > LONGEST:
            self._skips.add(number, line, f"more than {LONGEST:,} characters; expected one row")
        elif self.rows > MOST_ROWS:
            self._skips.add(number, line, f"row beyond the first {MOST_ROWS:,}")
        elif not self.tables:
            self._skips.add(number, line, "row before any header; expected '# gpu …' first")
        else:
            self._row(number, line)

    def finish(self) -> None:
        """No more lines will come; nothing waits here."""

    def _header(self, line: str) -> None:
        self.headers += 1
        names = monitor_header(line)
        if names is None or names == self.names:
            return
        self.names = names
        table = Table(None, self.cells, self._skips)
        table.columns = [Column() for _ in names]
        self.tables.append((names, table))

    def _row(self, number: int, line: str) -> None:
        names, table = self.tables[-1]
        text = line.replace(",", " ") if "," in line else line
        table.add(number, line, text.split(None, len(names) - 1))


def monitor_samples(
    lines: MonitorLines, skips: Skips, ended: float
) -> tuple[list[GaugeSample], list[int], int]:
    """Samples, the line of each, and how many rows they were made of."""
    samples: list[GaugeSample] = []
    numbers: list[int] = []
    rows = 0
    for names, table in lines.tables:
        if not len(table.lines):
            continue
        found, where, used = _section(names, table, skips, ended)
        samples += found
        numbers += where
        rows += used
    return samples, numbers, rows


def _section(
    names: tuple[str, ...], table: Table, skips: Skips, ended: float
) -> tuple[list[GaugeSample], list[int], int]:
    indices = table.columns[names.index("gpu")].numbers
    pids = table.columns[names.index("pid")] if "pid" in names else None
    polls = _polls(indices, None if pids is None else pids.numbers)
    times = _times(names, table, polls, ended)
    meaning = Meaning()
    for number, name in enumerate(names):
        if name in _ROLES:
            role, unit = _ROLES[name]
            meaning.put(role, number, unit)
    gpus = [f"{index:g}" for index in indices]
    known = [None if time != time else gpu for time, gpu in zip(times, gpus, strict=True)]  # noqa: PLR0124 - NaN: no time
    before = skips.count
    samples, lines = build(table, meaning, times, known, skips)
    used = len(table.lines) - (skips.count - before)
    if pids is not None:
        of_line = dict(zip(table.lines, polls, strict=True))
        return *_by_device(samples, lines, of_line), used
    return samples, list(lines), used


def _times(names: tuple[str, ...], table: Table, polls: list[int], ended: float) -> Sequence[float]:
    columns = [names.index(name) for name in ("date", "time") if name in names]
    if columns:
        return timing.row_times(table, columns, ended)
    table.notes.append(
        "The log has no times: its polls were taken as one second apart, which is the monitor's "
        "default, the last when the file was last written (record with -o DT to be sure)."
    )
    return timing.counted_times(polls, ended)


def _polls(indices: Sequence[float], pids: Sequence[float] | None) -> list[int]:
    """Number of the poll of each row: another begins where devices start over."""
    found: list[int] = []
    poll, before, seen = 0, -1.0, set[float]()
    for row, index in enumerate(indices):
        pid = -1.0 if pids is None else pids[row]
        again = index < before or (index == before and pid in seen)
        if again:
            poll += 1
        if again or index != before:
            seen = set()
        seen.add(pid)
        before = index
        found.append(poll)
    return found


def _by_device(
    samples: list[GaugeSample], lines: Sequence[int], polls: dict[int, int]
) -> tuple[list[GaugeSample], list[int]]:
    """Processes of a device at one time added up; a device without any reading stays unknown."""
    groups: dict[tuple[int, str], list[int]] = {}
    for number, sample in enumerate(samples):
        groups.setdefault((polls[lines[number]], sample.gpu), []).append(number)
    merged = [_sum([samples[number] for number in group]) for group in groups.values()]
    return merged, [lines[group[0]] for group in groups.values()]


def _sum(samples: Sequence[GaugeSample]) -> GaugeSample:
    memory = [s.memory_used_bytes for s in samples if s.memory_used_bytes is not None]
    return GaugeSample(
        at=samples[0].at,
        gpu=samples[0].gpu,
        kernel=_share([s.kernel for s in samples]),
        memcopy=_share([s.memcopy for s in samples]),
        encoder=_share([s.encoder for s in samples]),
        decoder=_share([s.decoder for s in samples]),
        memory_used_bytes=sum(memory) if memory else None,
    )


def _share(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(1.0, sum(known)) if known else None
