"""What a log hands on, and why a log cannot be read."""

from pathlib import Path
from typing import Final

import msgspec

from gputailor_agent.model.usage import GaugeSample

#: What we ask people to record; docs/logs.md explains it.
COMMAND: Final = (
    "nvidia-smi --query-gpu=timestamp,index,uuid,name,utilization.gpu,utilization.memory,"
    "memory.used,memory.total,power.draw,power.limit,temperature.gpu,utilization.encoder,"
    "utilization.decoder --format=csv -l 1 > gpu.csv"
)
_SHOWN: Final = 100


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A row that was not read: its line (from 1), the beginning of its text, the reason."""

    line: int
    text: str
    why: str


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """One log. ``rows_read + rows_skipped == rows_present``.

    A row is a line that is neither blank nor a header nor a comment of the recording tool.
    ``skipped`` shows the first ones only. ``notes`` state every assumption the reading rests on.
    ``knows`` names the fields of ``GaugeSample`` that some sample has. Samples are in the order of
    time; in a pmon log one sample stands for all rows (processes) of a device at one time.
    """

    path: str
    kind: str  # "nvidia-smi csv", "nvidia-smi dmon", "nvidia-smi pmon"
    samples: list[GaugeSample]
    rows_present: int
    rows_read: int
    rows_skipped: int
    headers: int = 0
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    knows: tuple[str, ...] = ()


class LogError(Exception):
    """A log that cannot be read at all: where, what was found, what was expected, what to run."""

    def __init__(
        self,
        path: Path,
        found: str,
        *,
        line: int | None = None,
        expected: str = "a CSV log of nvidia-smi, or the output of nvidia-smi dmon",
        advice: str = f"Record one with: {COMMAND}",
    ) -> None:
        """Keep the parts beside the text."""
        where = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {found}; expected {expected}. {advice}")
        self.path = path
        self.line = line
        self.found = found
        self.expected = expected
        self.advice = advice


def with_text(row: Skipped, text: str) -> Skipped:
    """The row with the printable beginning of its text."""
    shown = "".join(c if c.isprintable() else "�" for c in text[:_SHOWN])
    return Skipped(line=row.line, text=shown, why=row.why)


class Skips:
    """Rows that were not read, counted by reason; the first ones with their text."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[Skipped] = []

    def add(self, line: int, text: str, why: str) -> None:
        """Count a row; ``text`` may be '' where it is no longer at hand."""
        self.count += 1
        if len(self._first) < _SHOWN:
            self._first.append(with_text(Skipped(line=line, text="", why=why), text))

    def first(self) -> tuple[Skipped, ...]:
        """The rows that are shown, in the order of lines."""
        return tuple(sorted(self._first, key=lambda skipped: skipped.line))
