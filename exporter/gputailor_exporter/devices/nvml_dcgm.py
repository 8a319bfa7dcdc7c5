"""NVIDIA's DCGM beside us: whether it runs on this node, and what that means for GPM.

GPM has its own hardware and takes no lock: several clients may sample it at once, and DCGM itself
reads it through the same NVML calls on Hopper and later. Before Hopper DCGM's profiling holds the
GPU's one performance monitor, which we never touch: there GPM is not supported, and only DCGM's
PROF values exist. (Sources: DCGM's API page on profiling, "Ampere and Older" against "Hopper and
Newer"; its maintainers in issue 62 of NVIDIA/DCGM.) So nothing of ours has to stand back, and what
is left to do is to say so, and to name DCGM where a driver calls the counters in use after all.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gputailor_exporter.devices.base import Reason

#: Names of processes that profile through DCGM. The kernel cuts names to 15 characters; both fit.
PROCESSES: Final = frozenset({"nv-hostengine", "dcgm-exporter"})

#: A driver that called GPM in use is not asked again for this long: a reading must not disturb.
HELD_SECONDS: Final = 60.0


def profilers(proc_root: Path) -> tuple[str, ...]:
    """Names of DCGM's processes on this node, sorted; needs the host's /proc (hostPID)."""
    found: set[str] = set()
    with suppress(OSError):
        for folder in proc_root.iterdir():
            if folder.name.isdecimal():
                with suppress(OSError, UnicodeDecodeError):  # ended meanwhile, or a foreign name
                    found.add((folder / "comm").read_text(encoding="utf-8").strip())
    return tuple(sorted(found & PROCESSES))


class Holder:
    """Who holds the performance counters where the driver says that someone does."""

    def __init__(self, look: Callable[[], tuple[str, ...]]) -> None:
        """``look`` lists DCGM's processes; it is called only when the driver says "in use"."""
        self._look = look
        self._until: float | None = None
        self._reason = Reason.IN_USE

    def holding(self, at: float) -> Reason | None:
        """Why GPM is not asked at monotonic time ``at``; None: ask it."""
        return self._reason if self._until is not None and at < self._until else None

    def refused(self, at: float) -> Reason:
        """Take note that the driver called GPM in use; returns the reason to tell."""
        self._until = at + HELD_SECONDS
        self._reason = Reason.HELD_BY_DCGM if self._look() else Reason.IN_USE
        return self._reason
