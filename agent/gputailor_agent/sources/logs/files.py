"""One log file from its bytes to a ``Log``, or to a ``LogError`` that says what to do.

The whole file passes through once, in pieces; what is kept of a row is some 10 bytes per column
and in the end one sample.
"""

import re
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gputailor_agent.model.usage import GaugeSample
from gputailor_agent.sources.lines import batches, chunks, head_of
from gputailor_agent.sources.logs.cells import CellReader
from gputailor_agent.sources.logs.csv_lines import CsvLines, delimiter_of
from gputailor_agent.sources.logs.foreign import complaint_in, encoding_of, refuse_foreign
from gputailor_agent.sources.logs.monitor import MonitorLines, monitor_header, monitor_samples
from gputailor_agent.sources.logs.names import Role, about_gpus
from gputailor_agent.sources.logs.reading import NoTime, Section
from gputailor_agent.sources.logs.table import Table
from gputailor_agent.sources.logs.values import COMMAND, Log, LogError, Skipped, Skips, with_text
from gputailor_agent.sources.problems import shown

_FIELDS: Final = (
    "kernel",
    "memcopy",
    "encoder",
    "decoder",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "power_limit_watts",
    "temperature_celsius",
    "model",
)
_GPU_NAME: Final = re.compile(
    r"(GPU|MIG)-[0-9a-f]|NVIDIA|Tesla |Quadro |GeForce |RTX ", re.IGNORECASE
)
_SHOWN_HEADERS: Final = 100  # characters
_JITTER: Final = 1.0  # seconds; rows of one poll may be out of order by less
Progress = Callable[[int], None]


def _silent(_count: int) -> None:
    """Nobody wants to know."""


def read_log(path: Path, *, ended: float | None = None, progress: Progress = _silent) -> Log:
    """Read a log; ``progress`` is told how many bytes of the file were just read.

    ``ended`` (Unix seconds) says when the recording ended; None: when the file was last written.
    It matters only for logs without dates. Raises ``LogError`` when nothing can be read.
    """
    try:
        head = head_of(path)
        stop = path.stat().st_mtime if ended is None else ended
        return _Reading(path, head, stop, progress).log()
    except OSError as error:
        raise LogError(
            path,
            f"cannot be opened ({error.strerror or error})",
            expected="a file that can be read",
            advice="Check the path and its permissions",
        ) from error


class _Reading:
    """One file being read."""

    def __init__(self, path: Path, head: bytes, ended: float, progress: Progress) -> None:
        self._path = path
        self._ended = ended
        self._progress = progress
        self._encoding = encoding_of(path, head)
        self._head = head.decode(self._encoding, errors="replace")
        self._notes: list[str] = []
        self._skips = Skips()
        self._last = ""

    def log(self) -> Log:
        """Read it all."""
        head = self._head
        lines = [line.strip("\0\ufeff") for line in head.splitlines()]
        lines = [line for line in lines if line and not line.isspace()]
        if not lines:
            raise LogError(self._path, "the file is empty")
        if any(monitor_header(line) for line in lines):
            return self._monitor()
        refuse_foreign(self._path, head)
        delimiter = delimiter_of(lines)
        if delimiter is None:
            raise LogError(
                self._path,
                complaint_in(head)
                or f"no header and no row with a time (first: {lines[0][:60]!r})",
                line=1,
            )
        return self._csv(delimiter)

    def _csv(self, delimiter: str) -> Log:
        csv = CsvLines(delimiter, self._skips)
        self._run(csv)
        if csv.cells.must_be_day_first:
            self._skips, self._notes = Skips(), []
            csv = CsvLines(delimiter, self._skips, day_first=True)
            self._run(csv)
        self._check_rows(csv.rows)
        self._check_columns(csv)
        self._drop_cut_row(csv.sections)
        samples, lines = self._sections(csv.sections)
        read = len(samples)
        samples, repeated = _in_order(samples, lines, self._skips, self._notes)
        self._say_cells(csv.cells, csv.nul_lines)
        for table in csv.sections:
            self._notes += [note for note in table.notes if note not in self._notes]
        return self._finish("nvidia-smi csv", samples, csv.rows, read - repeated, csv.headers)

    def _monitor(self) -> Log:
        lines = MonitorLines(self._skips)
        self._run(lines)
        self._check_rows(lines.rows)
        samples, numbers, read = monitor_samples(lines, self._skips, self._ended)
        kind = "nvidia-smi pmon" if lines.processes else "nvidia-smi dmon"
        if lines.processes:
            self._notes.append(
                "This is a log of processes: their shares were added up for each device, and what "
                "other processes did is not in it."
            )
            samples = sorted(samples, key=lambda sample: sample.at)
        else:
            samples, repeated = _in_order(samples, numbers, self._skips, self._notes)
            read -= repeated
        self._say_cells(lines.cells, lines.nul_lines)
        for _, table in lines.tables:
            self._notes += [note for note in table.notes if note not in self._notes]
        return self._finish(kind, samples, lines.rows, read, lines.headers)

    def _check_rows(self, rows: int) -> None:
        if not rows:
            raise LogError(
                self._path, "there is a header but no row", line=1, expected="rows below the header"
            )

    def _run(self, taker: CsvLines | MonitorLines) -> None:
        """Pass every line of the file on."""
        replaced = 0
        with self._path.open("rb") as raw:
            pieces = chunks(raw, self._progress)
            for batch in batches(pieces, self._encoding, any_line_end=True):
                for number, line in enumerate(batch.lines, batch.first):
                    if line.isascii():
                        taker.take(number, line)
                        continue
                    text = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                    replaced += "\ufffd" in text
                    taker.take(number, text)
                if batch.cut:
                    self._last = batch.lines[-1]
                if batch.damage:
                    self._notes.append(
                        f"The file is damaged ({batch.damage}): what stands before was read."
                    )
        taker.finish()
        if replaced:
            self._notes.append(f"{replaced} lines hold bytes that are no {self._encoding} text.")

    def _check_columns(self, csv: CsvLines) -> None:
        """Refuse logs of processes, whose columns would be taken for a device's, and of others."""
        named = any(_GPU_NAME.match(text) for text in csv.cells.texts)
        for table in csv.sections:
            if table.headers and not named and not about_gpus(table.headers):
                shown = ", ".join(header.text for header in table.headers)
                raise LogError(
                    self._path,
                    f"nothing says that this is about a GPU (columns: {shown[:_SHOWN_HEADERS]})",
                    line=1,
                    expected="columns named as by --query-gpu, or with gpu in their names",
                )
            if table.headers and any(header.role is Role.PID for header in table.headers):
                raise LogError(
                    self._path,
                    "this is a list of processes (--query-compute-apps), not of devices",
                    line=1,
                    expected="columns of --query-gpu",
                )

    def _drop_cut_row(self, sections: list[Table]) -> None:
        """Skip a last row without line end whose last cell lost its unit."""
        table = next((table for table in reversed(sections) if len(table.lines)), None)
        if table is None or not self._last or len(table.lines) < 2:  # noqa: PLR2004 - nothing to compare
            return
        kinds = table.columns[-1].kinds
        if kinds[-1] != kinds[-2] and kinds.count(kinds[-1]) == 1:
            table.drop_last(self._last, "the file ends within this row")

    def _sections(self, sections: list[Table]) -> "tuple[list[GaugeSample], array[int]]":
        samples: list[GaugeSample] = []
        lines = array("Q")
        for table in sections:
            if not len(table.lines):
                continue
            try:
                found, where = Section(table, self._skips, self._ended).samples()
            except NoTime as error:
                if len(sections) == 1:
                    raise LogError(
                        self._path,
                        "no column holds the time of its rows",
                        line=error.line,
                        expected="timestamp among the columns of --query-gpu",
                    ) from error
                for line in table.lines:
                    self._skips.add(line, "", "no time column in this part of the log")
                continue
            samples += found
            lines += where
            table.columns = []  # what is left of the section is its notes
        return samples, lines

    def _say_cells(self, cells: CellReader, nul_lines: int) -> None:
        notes = self._notes
        if cells.unzoned and not cells.zoned:
            notes.append("Times carry no zone: they were read as UTC.")
        elif cells.unzoned:
            notes.append(f"{cells.unzoned} times carry no zone: they were read as UTC.")
        if cells.year_last and not cells.must_be_day_first:
            notes.append("Dates were read as month/day/year: nothing in the log says otherwise.")
        if cells.unknown_texts:
            shown = ", ".join(cells.unknown_texts)
            notes.append(f"Cells without a value are unknown: {shown}.")
        if nul_lines:
            notes.append(f"{nul_lines} lines hold zero bytes (a crashed disk?).")

    def _finish(
        self, kind: str, samples: list[GaugeSample], present: int, read: int, headers: int
    ) -> Log:
        skips = self._skips
        if not samples:
            first = skips.first()
            why = f"; the first: {first[0].why}" if first else ""
            raise LogError(
                self._path,
                complaint_in(self._head) or f"none of {present} rows could be read{why}",
                line=first[0].line if first else 1,
                expected="rows that fit their header, with a time and numbers with a decimal point",
            )
        knows = tuple(name for name in _FIELDS if any(_known(s, name) for s in samples))
        if not headers and not set(knows) - {"model"}:
            raise LogError(
                self._path,
                complaint_in(self._head) or "no row holds a value of a GPU",
                line=1,
                expected="columns such as utilization.gpu, memory.used and power.draw",
            )
        if "kernel" not in knows:
            self._notes.append(
                "No utilisation is known: whether the devices worked or were idle cannot be said. "
                f"To know it, record: {COMMAND}"
            )
        if skips.count:
            self._notes.append(f"{skips.count} of {present} rows were skipped.")
        return Log(
            path=shown(self._path),
            kind=kind,
            samples=samples,
            rows_present=present,
            rows_read=read,
            rows_skipped=skips.count,
            headers=headers,
            skipped=self._with_texts(skips.first()),
            notes=tuple(self._notes),
            knows=knows,
        )

    def _with_texts(self, skipped: tuple[Skipped, ...]) -> tuple[Skipped, ...]:
        """Skipped rows with their text, which is read again where it was no longer at hand."""
        wanted = {row.line for row in skipped if not row.text}
        texts: dict[int, str] = {}
        if wanted:
            with self._path.open("rb") as raw:
                for batch in batches(chunks(raw), self._encoding, any_line_end=True):
                    for line in wanted:
                        if batch.first <= line < batch.first + len(batch.lines):
                            texts[line] = batch.lines[line - batch.first]
        return tuple(
            row if row.text else with_text(row, texts.get(row.line, "")) for row in skipped
        )


def _known(sample: GaugeSample, name: str) -> bool:
    value = getattr(sample, name)
    return value is not None and value != ""


def _in_order(
    samples: list[GaugeSample], lines: Sequence[int], skips: Skips, notes: list[str]
) -> tuple[list[GaugeSample], int]:
    """Samples by time without repeated ones, and how many were repeated."""
    back = next(
        (n for n in range(1, len(samples)) if samples[n].at < samples[n - 1].at - _JITTER), None
    )
    order: list[int] | range = range(len(samples))
    if any(samples[n].at < samples[n - 1].at for n in range(1, len(samples))):
        order = sorted(order, key=lambda n: samples[n].at)
    if back is not None:
        notes.append(f"Times go backwards at line {lines[back]}: rows were put in order of time.")
    kept: list[GaugeSample] = []
    latest: dict[str, GaugeSample] = {}
    for number in order:
        sample = samples[number]
        if latest.get(sample.gpu) == sample:
            skips.add(lines[number], "", "the same reading as an earlier row")
        else:
            latest[sample.gpu] = sample
            kept.append(sample)
    return kept, len(samples) - len(kept)
