"""Which processes use a DRM device, and how much: open files found in ``/proc``, read one by one.

Finding them (folders and links, no driver involved) is shared by all devices and bounded per
cycle: a process is looked at again when its number of open files changed (the size of
``/proc/<pid>/fd``, since Linux 6.2) and every ten seconds. Reading what a driver says about an
open file is each device's own, for a driver that hangs may hang there too.

A client (``drm-client-id``) that several files or processes share is counted once, for the lowest
pid. Reading other users' files needs root with CAP_SYS_PTRACE, and all processes must be visible
(hostPID, no ``hidepid``); otherwise what is found is not all there is, and said so: unknown, not 0.
What a process did between its last reading and its end is lost.
"""

import os
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_exporter.devices.base import ProcessReading, Reason
from gputailor_exporter.devices.drm_fdinfo import Usage, parse_fdinfo, signal_of
from gputailor_exporter.devices.drm_sysfs import names_in, read_file, read_text, reason_of
from gputailor_exporter.metrics import Signal

#: A process whose files did not change in number is looked at again after this long.
RESCAN_SECONDS: Final = 10.0
#: Processes looked at in one cycle: the rest waits, so that thousands cannot hold up a reading.
SCANS: Final = 256
#: Devices whose cycles fall closer together than this share what was found.
_FRESH_SECONDS: Final = 0.4
#: Files that share a client are read again after this many cycles: they may have been opened anew.
_VERIFY_CYCLES: Final = 10

_NODE: Final = re.compile(r"/(?:card|renderD|accel)(\d+)$")
#: The kernel's own second thread: seen only where all processes are.
_KERNEL_THREAD: Final = ("2", "kthreadd")

SIGNALS: Final = (Signal.KERNEL, Signal.ENCODER, Signal.DECODER)


@dataclass(slots=True)
class _Process:
    size: int = -1
    scanned: float | None = None
    files: tuple[tuple[int, int], ...] = ()  # file descriptor, minor of the device
    refused: bool = False


class OpenFiles:
    """Open files of DRM devices on this machine; shared by the devices' threads."""

    def __init__(self, proc: Path, *, scans: int = SCANS) -> None:
        """``proc``: the host's ``/proc``; ``scans``: processes looked at in one cycle."""
        self.proc = str(proc)
        self.opened = 0  # folders, since the start
        self._scans = scans
        self._lock = threading.Lock()
        self._at: float | None = None
        self._processes: dict[int, _Process] = {}
        self._waiting = True
        self._all_visible = False

    def refresh(self, at: float) -> None:
        """Bring the list up to monotonic time ``at``; at most ``scans`` processes are looked at."""
        with self._lock:
            if self._at is not None and 0 <= at - self._at < _FRESH_SECONDS:
                return
            self._at = at
            pid, name = _KERNEL_THREAD
            self._all_visible = read_text(f"{self.proc}/{pid}/comm") == name
            self.opened += 2
            present = {int(entry) for entry in names_in(self.proc) if entry.isdecimal()}
            for gone in self._processes.keys() - present:
                del self._processes[gone]
            self._scan(present, at)

    def _scan(self, present: Iterable[int], at: float) -> None:
        due = []
        for pid in present:
            process = self._processes.setdefault(pid, _Process())
            size = self._size(pid)
            changed = size != process.size
            process.size = size
            if process.scanned is None or changed or at - process.scanned >= RESCAN_SECONDS:
                due.append((process.scanned if process.scanned is not None else -1.0, pid))
        due.sort()
        for _, pid in due[: self._scans]:
            self._look_at(pid, self._processes[pid], at)
        self._waiting = any(process.scanned is None for process in self._processes.values())

    def _size(self, pid: int) -> int:
        try:
            return os.stat(f"{self.proc}/{pid}/fd").st_size  # noqa: PTH116 - once a process and second
        except OSError:
            return -1

    def _look_at(self, pid: int, process: _Process, at: float) -> None:
        process.scanned = at
        process.files, process.refused = (), False
        folder = f"{self.proc}/{pid}/fd"
        self.opened += 1
        try:
            names = os.listdir(folder)  # noqa: PTH208 - paths would be made for each file
            found = [(int(name), minor) for name in names if (minor := _minor(folder, name)) >= 0]
        except PermissionError:
            process.refused = True
        except OSError:  # it ended meanwhile
            return
        else:
            process.files = tuple(sorted(found))

    def of(self, minors: frozenset[int]) -> tuple[tuple[int, int], ...]:
        """Return pid and file descriptor of each open file of the devices, lowest pid first."""
        with self._lock:
            return tuple(
                (pid, file)
                for pid, process in sorted(self._processes.items())
                for file, minor in process.files
                if minor in minors
            )

    def missing(self) -> Reason | None:
        """Return why the list is not all there is; None where it is."""
        with self._lock:
            if not self._all_visible or any(one.refused for one in self._processes.values()):
                return Reason.NO_PERMISSION
            return Reason.NO_SAMPLES if self._waiting else None


def _minor(folder: str, name: str) -> int:
    """Return the minor number of the DRM device a link leads to; -1 for any other file."""
    path = f"{folder}/{name}"
    try:
        target = os.readlink(path)  # noqa: PTH115 - likewise
    except FileNotFoundError:
        return -1
    match = _NODE.search(target) if target.startswith("/dev/") else None
    if match is None:
        return -1
    try:  # a container may know the device by another name; its number is the same
        return os.minor(os.stat(path).st_rdev)  # noqa: PTH116 - likewise
    except OSError:
        return int(match[1])


@dataclass(frozen=True, slots=True)
class ClientActivity:
    """What the clients of one device did since the previous reading.

    ``shares``: their engines' busy share of time by signal, summed, at most 1; where engines run
    side by side this is an upper bound. ``processes`` None and ``reason``: not all can be read.
    """

    processes: tuple[ProcessReading, ...] | None
    shares: Mapping[Signal, float]
    covers_seconds: float | None
    reason: Reason | None
    reasons: Mapping[Signal, Reason]


@dataclass(slots=True)
class _Client:
    pid: int
    usage: Usage
    shares: dict[Signal, float] | None = None  # None: not known yet


@dataclass(slots=True)
class _Mark:
    """The highest busy time seen of each engine: drivers may fall back for a while."""

    busy: dict[str, tuple[int, int | None]]


class DeviceClients:
    """Clients of one device between two readings. Not safe for several threads."""

    def __init__(self, minors: frozenset[int], pdev: str = "") -> None:
        """``minors``: of its nodes in ``/dev/dri``; ``pdev``: its PCI address, '' for any."""
        self.opened = 0  # files, in the last reading
        self._minors = minors
        self._pdev = pdev.lower()
        self._marks: dict[str, _Mark] = {}
        self._client_of: dict[tuple[int, int], str] = {}
        self._read_at: float | None = None
        self._complete = False  # the previous reading missed nobody
        self._cycles = 0
        self._signals: set[Signal] = set()

    def read(self, files: OpenFiles, at: float) -> ClientActivity:
        """Read all clients at monotonic time ``at``."""
        files.refresh(at)
        clients, reason = self._clients(files)
        reason = reason or files.missing()
        since = None if self._read_at is None else at - self._read_at
        for client in clients.values():
            self._measure(client, since)
        for gone in self._marks.keys() - clients.keys():
            del self._marks[gone]
        self._read_at, self._complete = at, reason is None
        if reason is not None:
            return ClientActivity(None, {}, None, reason, dict.fromkeys(SIGNALS, reason))
        processes = _processes(clients.values())
        if since is None:
            missing = dict.fromkeys(SIGNALS, Reason.NO_SAMPLES)
            return ClientActivity(processes, {}, None, None, missing)
        shares, reasons = self._shares(clients.values())
        return ClientActivity(processes, shares, since, None, reasons)

    def _clients(self, files: OpenFiles) -> tuple[dict[str, _Client], Reason | None]:
        found: dict[str, _Client] = {}
        known: dict[tuple[int, int], str] = {}
        refused: Reason | None = None
        self.opened = 0
        self._cycles += 1
        verify = self._cycles % _VERIFY_CYCLES == 0
        for place in files.of(self._minors):
            client = self._client_of.get(place)
            if client in found and not verify:
                known[place] = found[client].usage.client
                continue
            pid, file = place
            self.opened += 1
            try:
                text = read_file(f"{files.proc}/{pid}/fdinfo/{file}").decode("utf-8", "replace")
            except OSError as error:
                if reason_of(error) is Reason.NO_PERMISSION:
                    refused = Reason.NO_PERMISSION
                continue
            usage = parse_fdinfo(text)
            if usage is None or (self._pdev and usage.pdev and usage.pdev != self._pdev):
                continue
            known[place] = usage.client
            found.setdefault(usage.client, _Client(pid, usage))
        self._client_of = known
        return found, refused

    def _measure(self, client: _Client, since: float | None) -> None:
        usage = client.usage
        mark = self._marks.get(usage.client)
        # Of a client that was known, or came since a complete reading, all work is new.
        from_zero = mark is not None or (self._complete and since is not None)
        mark = self._marks.setdefault(usage.client, _Mark({}))
        shares: dict[Signal, float] = {}
        for engine, (spent, total) in (usage.busy or {}).items():
            before = mark.busy.get(engine, (0, None) if from_zero else None)
            signal = signal_of(engine)
            share = _share(before, spent, total, since)
            if share is not None and signal is not None:
                many = (usage.capacity or {}).get(engine, 1)
                shares[signal] = min(1.0, shares.get(signal, 0.0) + share / many)
            mark.busy[engine] = (max(spent, before[0] if before else 0), total)
        client.shares = None if usage.busy is None or not from_zero else shares

    def _shares(
        self, clients: Iterable[_Client]
    ) -> tuple[dict[Signal, float], dict[Signal, Reason]]:
        sums: dict[Signal, float] = {}
        timed = True
        for client in clients:
            timed = timed and client.usage.busy is not None
            for signal, share in (client.shares or {}).items():
                sums[signal] = min(1.0, sums.get(signal, 0.0) + share)
        self._signals |= sums.keys()
        if not timed:
            return {}, dict.fromkeys(SIGNALS, Reason.NOT_SUPPORTED)
        # Nobody has the device open, or all who have it are timed: what is not busy is idle.
        shares = {signal: sums.get(signal, 0.0) for signal in {Signal.KERNEL, *self._signals}}
        return shares, {one: Reason.NOT_SUPPORTED for one in SIGNALS if one not in shares}


def _share(
    before: tuple[int, int | None] | None, spent: int, total: int | None, since: float | None
) -> float | None:
    """Return the busy share of time of an engine, or of a group of them; None if unknown."""
    if before is None or not since:
        return None
    rise = max(0, spent - before[0])
    if total is None:
        return rise / (since * 1e9)
    span = None if before[1] is None else total - before[1]
    return rise / span if span and span > 0 else None


def _processes(clients: Iterable[_Client]) -> tuple[ProcessReading, ...]:
    """Return one reading a process, summed over its clients."""
    memory: dict[int, int | None] = {}
    shares: dict[int, dict[Signal, float] | None] = {}
    for client in clients:
        pid, used = client.pid, client.usage.memory_bytes
        before = memory.get(pid, 0)
        memory[pid] = None if used is None or before is None else before + used
        mine = shares.setdefault(pid, {})
        if client.shares is None or mine is None:
            shares[pid] = None
            continue
        for signal, share in client.shares.items():
            mine[signal] = min(1.0, mine.get(signal, 0.0) + share)
    return tuple(_process(pid, memory[pid], shares[pid]) for pid in sorted(memory))


def _process(pid: int, memory: int | None, shares: dict[Signal, float] | None) -> ProcessReading:
    if shares is None:
        return ProcessReading(pid, memory)
    kernel, encoder, decoder = (shares.get(signal, 0.0) for signal in SIGNALS)
    return ProcessReading(pid, memory, kernel, encoder, decoder)
