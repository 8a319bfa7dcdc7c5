"""Files as a source: archives of exporters' pages, and logs of nvidia-smi, told apart by content.

Logs are read when the archive is opened (they are small); pages stream, merged over all files in
the order of time, so 14 days of a cluster pass through in bounded memory.
"""

import heapq
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gputailor_agent.model.usage import Page
from gputailor_agent.sources.exposition import PageReader
from gputailor_agent.sources.lines import batches, chunks, head_of
from gputailor_agent.sources.logs import Log, LogError, read_log
from gputailor_agent.sources.problems import Problem, ProblemList, shown

#: Called with bytes read so far and bytes in all.
Progress = Callable[[int, int], None]

_COMMENT: Final = re.compile(r"# (HELP|TYPE|UNIT) \S+|# EOF")
_SAMPLE: Final = re.compile(
    r"[a-zA-Z_:][a-zA-Z0-9_:]*(?<!:)(\{.*\})? +[-+]?([0-9][0-9.eE+-]*|NaN|Inf)( +[0-9.]+)?\s*"
)
#: What may lie beside data in a folder and is nothing of ours; a file named by itself is tried.
_BESIDE: Final = frozenset(
    (".md", ".json", ".yaml", ".yml", ".py", ".sh", ".html", ".svg", ".sha256", ".license", ".rst")
)
#: What a report that is made of such files is said to be measured by.
MEASURED_BY: Final = "archive of exporter pages"
_NO_FILE: Final = "is a pipe or a device; files are read more than once"
_SAVE: Final = "Save it to a file"
_NO_VALUE: Final = "every value of its GPUs is unknown"
_VALUES: Final = "numbers for utilization.gpu, memory.used or power.draw"
_OURS: Final = "metrics of the GPU Tailor exporter (gputailor_…)"


class _PageFile(NamedTuple):
    """A file of pages; ``written`` (Unix seconds) dates a page without timestamps."""

    path: Path
    written: float


class Archive:
    """What the files hold. ``problems`` grows while pages are taken; ``logs`` are read already."""

    def __init__(self, cluster: str, progress: Progress | None) -> None:
        self.logs: tuple[Log, ...] = ()
        self._cluster = cluster
        self._progress = progress
        self._problems = ProblemList()
        self._pages: list[_PageFile] = []
        self._total = 0
        self._read = 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be read so far; ``str()`` of each is a sentence."""
        return tuple(self._problems)

    @property
    def page_files(self) -> tuple[Path, ...]:
        """Files that hold pages of exporters."""
        return tuple(file.path for file in self._pages)

    def pages(self) -> Iterator[Page]:
        """Pages of all files in the order of time; can be taken again from the start."""
        return heapq.merge(*map(self._pages_of, self._pages), key=lambda page: page.at)

    def open(self, paths: Iterable[Path]) -> None:
        """Look at every file once and read the logs."""
        files = list({path.resolve(): (path, size) for path, size in self._files(paths)}.values())
        self._total = sum(size for _, size in files)
        logs: list[Log] = []
        for path, size in files:
            try:
                if _is_exposition(head_of(path)):
                    self._pages.append(_PageFile(path, path.stat().st_mtime))
                    continue
                log = read_log(path, progress=self._told)
                if set(log.knows) - {"model"}:
                    logs.append(log)
                else:
                    self._problems.add(Problem(file=shown(path), what=_NO_VALUE, expected=_VALUES))
            except LogError as error:
                self._problems.add(_problem_of(error))
                self._told(size)
            except OSError as error:
                self._problems.add(_unreadable(path, error))
        self.logs = tuple(logs)

    def _files(self, paths: Iterable[Path]) -> Iterator[tuple[Path, int]]:
        for path in paths:
            try:
                if path.is_dir():
                    found = sorted(file for file in path.rglob("*") if _is_data(file, path))
                    if not found:
                        self._problems.add(Problem(file=shown(path), what="no data in this folder"))
                    yield from ((file, file.stat().st_size) for file in found)
                elif (status := path.stat()) and stat.S_ISREG(status.st_mode):
                    yield path, status.st_size
                else:
                    self._problems.add(Problem(file=shown(path), what=_NO_FILE, advice=_SAVE))
            except OSError as error:
                self._problems.add(_unreadable(path, error))

    def _told(self, count: int) -> None:
        self._read = min(self._read + count, self._total)
        if self._progress is not None:
            self._progress(self._read, self._total)

    def _pages_of(self, file: _PageFile) -> Iterator[Page]:
        reader = PageReader(self._cluster, shown(file.path), self._problems)
        try:
            with file.path.open("rb") as raw:
                yield from reader.read(batches(chunks(raw, self._told)), at=file.written)
        except OSError as error:
            self._problems.add(_unreadable(file.path, error))
            return
        if not reader.ours:
            strangers = ", ".join(sorted(reader.strangers))
            what = (
                f"only metrics of others ({strangers})" if strangers else "no page that can be used"
            )
            self._problems.add(Problem(file=shown(file.path), what=what, expected=_OURS))


def read_archive(
    paths: Sequence[Path], cluster: str, *, progress: Progress | None = None
) -> Archive:
    """Open files and folders (searched to the bottom); never raises for what is in them.

    ``progress`` hears of bytes read so far and in all, here for logs and later for pages.
    """
    archive = Archive(cluster, progress)
    archive.open(paths)
    return archive


def _is_data(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.is_file() and not hidden and path.suffix.lower() not in _BESIDE


def _is_exposition(head: bytes) -> bool:
    """Whether the first line that is not blank is one of the exposition formats."""
    for line in head[: 1 << 14].decode("utf-8", errors="replace").split("\n"):
        if line.strip():
            return bool(_COMMENT.match(line) or _SAMPLE.fullmatch(line))
    return False


def _problem_of(error: LogError) -> Problem:
    return Problem(
        file=shown(error.path),
        line=error.line,
        what=error.found,
        expected=error.expected,
        advice=error.advice,
    )


def _unreadable(path: Path, error: OSError) -> Problem:
    return Problem(
        file=shown(path),
        what=f"cannot be opened ({error.strerror or error})",
        advice="Check the path and its permissions",
    )
