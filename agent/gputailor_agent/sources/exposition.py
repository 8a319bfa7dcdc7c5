"""Pages of exporters out of text: the format 0.0.4 and OpenMetrics, with or without timestamps.

An archive is many pages one after another in time order, each sample with its timestamp
(milliseconds; OpenMetrics' seconds are told apart by their size). A page ends where the timestamp
changes, where a family is described a second time, or at ``# EOF``. Metrics of strangers are
passed over. prometheus_client's parser is right but slow; an archive has the same series in every
page, so here each series is taken apart once (``exposition_syntax``) and remembered by its text.
Tests hold both readers against each other.
"""

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from gputailor_agent.dialects import Field, Place, PlaceError, dialect_of
from gputailor_agent.model.usage import Page
from gputailor_agent.sources.assembly import assemble
from gputailor_agent.sources.exposition_syntax import (
    Series,
    SyntaxFault,
    parse_series,
    split_value,
)
from gputailor_agent.sources.lines import Batch, batches, chunks
from gputailor_agent.sources.problems import Problem, ProblemList, excerpt

_REMEMBERED: Final = 400_000  # series; pods come and go, so the memory is emptied when it is full
_MILLISECONDS_FROM: Final = 1e11  # as seconds that is the year 5138, as milliseconds 1973
_LATEST: Final = 32_503_680_000.0  # the year 3000; what lies beyond is no time
_STAMP_LENGTH: Final = 10  # digits of Unix seconds today; milliseconds have 13
_STRANGERS_SHOWN: Final = 3
_PASSED_OVER: Final = -1
_NUMBERS: Final = "a number and perhaps a timestamp behind the series"


def _seconds(stamp: str) -> float:
    """Unix seconds of a timestamp; raises ``ValueError`` when it is none."""
    value = float(stamp)
    seconds = value / 1000 if value >= _MILLISECONDS_FROM else value
    if not 0 < seconds < _LATEST:
        raise ValueError(stamp)
    return seconds


def _ends_with_stamp(line: str, stamp: str) -> bool:
    """Whether a line ends with the timestamp of the line before it, so has lost nothing."""
    try:
        return len(stamp) >= _STAMP_LENGTH and _seconds(stamp) > 0 and line.endswith(" " + stamp)
    except ValueError:
        return False


def _check_numbers(value: str, stamp: str) -> None:
    try:
        float(value)
        if stamp:
            _seconds(stamp)
    except ValueError as error:
        raise SyntaxFault(_NUMBERS) from error


class PageReader:
    """Reads pages of one exporter and remembers its series from page to page.

    ``ours`` counts samples of known exporters, ``strangers`` holds a few names of other metrics,
    ``ended`` tells whether an ``# EOF`` was seen, ``problems`` what could not be read.
    """

    def __init__(self, cluster: str, exporter: str, problems: ProblemList) -> None:
        self.ours = 0
        self.strangers: set[str] = set()
        self.ended = False
        self.problems = problems
        self._cluster = cluster
        self._exporter = exporter
        self._numbers: dict[str, int] = {}  # text of a series up to its brace -> number of place
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        self._places: list[Place] = []
        self._values: dict[int, float] = {}  # of the page being read: number of place -> value
        self._stamp = ""
        self._described: set[str] = set()
        self._latest = float("-inf")
        self._late = 0
        self._first_late = 0

    def read(
        self, source: Iterable[Batch], *, at: float | None = None, stamped: bool = True
    ) -> Iterator[Page]:
        """Pages in the order of the text.

        ``at`` (Unix seconds) is the time of a page without timestamps. With ``stamped`` False the
        whole text is one page at ``at``, whatever timestamps it carries. Broken lines, a cut end
        and pages older than the one before are left out and noted in ``problems``.
        """
        self._start()
        last_line = 0
        for batch in source:
            self._forget_when_full()
            lines = self._whole_lines(batch)
            numbers, values = self._numbers, self._values
            for line_number, line in enumerate(lines, batch.first):
                head, _, tail = line.rpartition("} ")
                number = numbers.get(head)
                if number is None:
                    if not head and self._is_comment(line):
                        if self._ends_page(line) and stamped and values:
                            yield from self._finished(at, line_number)
                            values = self._values
                        continue
                    number, tail = self._first_sight(line, head, tail, line_number)
                if number < 0:
                    continue
                value, _, mark = tail.partition(" ")
                try:
                    reading = float(value)
                    if mark != self._stamp and mark and stamped:
                        _seconds(mark)
                        if self._stamp and values:
                            yield from self._finished(at, line_number)
                            values = self._values
                        self._stamp = mark
                except ValueError:
                    self._broken(line, line_number, _NUMBERS)
                else:
                    values[number] = reading
            last_line = batch.first + len(lines) - 1
        yield from self._finished(at, last_line)
        self._say_late()

    def _start(self) -> None:
        self.ours, self.ended = 0, False
        self._latest, self._late = float("-inf"), 0
        self._values, self._stamp = {}, ""
        self._described.clear()

    def _forget_when_full(self) -> None:
        """Forget every series but those of the page being read, which get new numbers."""
        if len(self._known) > _REMEMBERED:
            self._numbers.clear()
            self._known.clear()
            self._places = [self._places[number] for number in self._values]
            self._values = dict(enumerate(self._values.values()))

    @staticmethod
    def _is_comment(line: str) -> bool:
        return line.startswith("#") or not line or line.isspace()

    def _ends_page(self, comment: str) -> bool:
        """Whether the comment begins another page, or ends this one."""
        words = comment.split(None, 3)
        if words[1:] == ["EOF"]:
            self.ended = True
            self._described.clear()
            return True
        if len(words) < 3 or words[1] not in {"HELP", "TYPE"}:  # noqa: PLR2004 - '# TYPE name'
            return False
        described = f"{words[1]} {words[2]}"
        again = described in self._described
        if again:
            self._described.clear()
        self._described.add(described)
        return again

    def _first_sight(self, line: str, head: str, tail: str, line_number: int) -> tuple[int, str]:
        """Number of a series not seen in this form, and ``value timestamp`` of its line."""
        if not head:  # no labels: remembered by its name, which cannot be taken for a head
            head, _, tail = line.partition(" ")
            if (number := self._numbers.get(head)) is not None and tail[:1] not in " {\t":
                return number, tail
        try:
            series = parse_series(line)
            value, stamp = split_value(series.rest)
            _check_numbers(value, stamp)
        except SyntaxFault as fault:
            self._broken(line, line_number, str(fault))
            return _PASSED_OVER, ""
        number = self._number_of(series, line, line_number)
        if series.rest == tail.rstrip(" \t\r") and "#" not in tail:
            self._numbers[head] = number
        return number, f"{value} {stamp}" if stamp else value

    def _number_of(self, series: Series, line: str, line_number: int) -> int:
        key = (series.name, frozenset(series.labels.items()))
        if (number := self._known.get(key)) is not None:
            return number
        number = _PASSED_OVER
        dialect = dialect_of(series.name)
        if dialect is None:
            if len(self.strangers) < _STRANGERS_SHOWN:
                self.strangers.add(series.name)
        else:
            try:
                place = dialect.place(series.name, series.labels, self._cluster)
            except PlaceError as error:
                self._broken(line, line_number, str(error))
                place = None
            if place is not None:
                number = len(self._places)
                self._places.append(place)
        self._known[key] = number
        return number

    def _whole_lines(self, batch: Batch) -> list[str]:
        """The batch's lines without a last one that may have lost its end."""
        if batch.damage:
            self.problems.add(
                Problem(
                    file=self._exporter,
                    line=batch.first + len(batch.lines),
                    what=f"the rest cannot be read ({batch.damage})",
                    expected="a whole file",
                    advice="What stands before was read",
                )
            )
        if not batch.cut:
            return batch.lines
        *lines, last = batch.lines
        stamp = lines[-1].rpartition(" ")[2] if lines else self._stamp
        if last.rstrip() == "# EOF" or _ends_with_stamp(last, stamp):
            return batch.lines
        self.problems.add(
            Problem(
                file=self._exporter,
                line=batch.first + len(lines),
                what="the file ends in the middle of a page",
                expected="a line end behind the last sample",
                advice="The page was read up to the line before",
            )
        )
        return lines

    def _finished(self, at: float | None, line_number: int) -> Iterator[Page]:
        """The page read so far, unless it is empty, older than the last, or has no time."""
        values, stamp = self._values, self._stamp
        self._values, self._stamp = {}, ""
        places = self._places
        if all(places[number].field is Field.PROCESS_STARTED for number in values):
            return  # every Prometheus client has that one: a stranger's page, or none
        self.ours += len(values)
        time = _seconds(stamp) if stamp else at
        if time is None or (not stamp and time <= self._latest):
            self.problems.add(
                Problem(
                    file=self._exporter,
                    line=line_number,
                    what="a page without timestamps, whose time is not known",
                    expected="one page in the file, or a timestamp in milliseconds on every sample",
                )
            )
        elif time < self._latest:
            self._late += 1
            if self._late == 1:
                self._first_late = line_number
        else:
            self._latest = time
            placed = ((places[number], value) for number, value in values.items())
            yield assemble(placed, at=time, exporter=self._exporter)

    def _say_late(self) -> None:
        if self._late:
            self.problems.add(
                Problem(
                    file=self._exporter,
                    line=self._first_late,
                    what=f"{self._late} pages older than a page before them were left out",
                    expected="pages in the order of time",
                    advice="Sort the archive's pages, or give it as several files",
                )
            )

    def _broken(self, line: str, line_number: int, expected: str) -> None:
        self.problems.add(
            Problem(
                file=self._exporter,
                line=line_number,
                what=f"cannot read {excerpt(line)}",
                expected=expected,
            )
        )


def parse_pages(
    source: str | bytes | BinaryIO,
    cluster: str,
    exporter: str,
    *,
    problems: ProblemList | None = None,
    at: float | None = None,
) -> Iterator[Page]:
    """Pages of an exposition text or a seekable binary file (plain or gzip), in file order.

    ``exporter`` names the instance on each page and in ``problems``, which fills up while the
    pages are taken; ``at`` (Unix seconds) is the time of a page without timestamps.
    """
    reader = PageReader(cluster, exporter, ProblemList() if problems is None else problems)
    if isinstance(source, str):
        source = source.encode("utf-8", "surrogateescape")
    pieces = [source] if isinstance(source, bytes) else chunks(source)
    return reader.read(batches(pieces), at=at)
