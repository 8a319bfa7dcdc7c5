"""Remembers whom a process belongs to, by its pid and the time it started.

A pid alone may be another process by now. Looking again each cycle costs one file read a process:
few processes are checked twice a second; of many, ``CHECKS_PER_SECOND`` are, in turn, so that ten
thousand cost no more a second than five hundred (each is then checked about every twenty seconds,
and a pid comes round again only after tens of thousands of new processes). Times are monotonic.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_exporter.attribution.allocations import UNTOLD, ContainerRef

PROC: Final = Path("/proc")
CHECKS_PER_SECOND: Final = 512.0
#: A process seen within this time is not looked at again: one process may be on many devices.
FRESH_SECONDS: Final = 0.5
#: How soon a process that could not be led anywhere is looked up again.
RETRY_SECONDS: Final = 2.0
#: A process that nobody asked for in this time is forgotten.
FORGET_SECONDS: Final = 60.0
CACHED_PROCESSES: Final = 32768  # the kernel's own default for the number of pids
_STAT_START: Final = 19  # of the fields after the command's name: field 22 of proc(5)
_GOLDEN: Final = 0.6180339887  # spreads neighbouring pids evenly over a period

#: From pid and command name to the owner and whether the answer may be kept.
LookUp = Callable[[int, str], tuple[ContainerRef | None, bool]]


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Command name (at most 15 characters) and start time in clock ticks since boot."""

    command: str
    started: str


@dataclass(slots=True)
class _Known:
    started: str
    owner: ContainerRef | None
    sure: bool
    due: float  # when to look again
    asked: float


def read_stat(proc_root: Path, pid: int) -> ProcessStat | None:
    """Read ``/proc/<pid>/stat``; None where the process is gone or hidden."""
    try:
        text = (proc_root / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    head, _, tail = text.rpartition(b")")  # the name may hold blanks and brackets
    fields = tail.split()
    if len(fields) <= _STAT_START:
        return None
    command = head.partition(b"(")[2].decode("utf-8", "replace")
    return ProcessStat(command, fields[_STAT_START].decode("ascii", "replace"))


class TrackedProcesses:
    """Owners of processes, looked up once and checked from time to time. Used from one thread."""

    def __init__(
        self,
        proc_root: Path,
        look_up: LookUp,
        *,
        clock: Callable[[], float] = time.monotonic,
        cached: int = CACHED_PROCESSES,
        checks_per_second: float = CHECKS_PER_SECOND,
    ) -> None:
        """``look_up`` finds the owner of a new process; ``cached`` bounds what is remembered."""
        self._proc = proc_root
        self._look_up = look_up
        self._clock = clock
        self._cached = cached
        self._rate = checks_per_second
        self._known: OrderedDict[int, _Known] = OrderedDict()

    def __len__(self) -> int:
        """Return how many processes are remembered."""
        return len(self._known)

    def owner(self, pid: int) -> ContainerRef | None:
        """Return the owner; ``UNTOLD`` where the process is gone or cannot be looked into."""
        now = self._clock()
        known = self._known.get(pid)
        if known is not None and now < known.due:
            known.asked = now
            self._known.move_to_end(pid)
            return known.owner
        stat = read_stat(self._proc, pid)
        if stat is None:
            return self._keep(pid, "", UNTOLD, sure=False, now=now)
        if known is not None and known.sure and known.started == stat.started:
            return self._keep(pid, known.started, known.owner, sure=True, now=now)
        owner, sure = self._look_up(pid, stat.command)
        after = read_stat(self._proc, pid)
        if after is None or after.started != stat.started:  # replaced while we looked
            self._known.pop(pid, None)
            return UNTOLD
        return self._keep(pid, stat.started, owner, sure=sure, now=now)

    def _keep(
        self, pid: int, started: str, owner: ContainerRef | None, *, sure: bool, now: float
    ) -> ContainerRef | None:
        due = now + self._pause(pid, FRESH_SECONDS if sure else RETRY_SECONDS)
        self._known[pid] = _Known(started, owner, sure, due, now)
        self._known.move_to_end(pid)
        while len(self._known) > self._cached or self._oldest() < now - FORGET_SECONDS:
            self._known.popitem(last=False)
        return owner

    def _oldest(self) -> float:
        return next(iter(self._known.values())).asked

    def _pause(self, pid: int, least: float) -> float:
        """Return how long an answer is trusted: the longer, the more processes there are."""
        period = len(self._known) / self._rate
        return max(least, period * (0.5 + pid * _GOLDEN % 1.0))
