"""Who uses the devices of a machine without Kubernetes: its processes stand in for pods.

A process's user stands for the namespace, its Slurm job, container or systemd unit for the pod
(``job_123``, ``docker-0123456789ab``, ``ollama.service``, ``session-3.scope``; else its command),
its command name for the container; the pod's UID stays empty. Arguments are never read: they may
hold secrets. A device is held by those whose processes the driver lists on it, from the first cycle
that shows one to the last; one alone holds it (exclusively, or the MIG instance), several share it.
The node's own display servers, which hold a few MiB of every device, make no device shared.

Users are looked up by the C library, which may ask a directory server that does not answer: a
thread of its own waits for it, and a user without a name after ten seconds goes by number.
"""

import pwd
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gputailor_exporter.attribution.allocations import (
    UNTOLD,
    Allocation,
    ContainerRef,
    ProcessAttribution,
)
from gputailor_exporter.attribution.cgroups import host_unit
from gputailor_exporter.attribution.tracking import PROC, TrackedProcesses
from gputailor_exporter.devices.base import (
    Backend,
    DeviceIdentity,
    DeviceReading,
    ProcessReading,
    Wrapped,
)
from gputailor_exporter.metrics import Sharing
from gputailor_exporter.processes import MPS_COMMAND

NAME_SECONDS: Final = 10.0
#: How long the first to ask for a user waits: names out of a file are there at once.
PATIENCE_SECONDS: Final = 0.1
#: How long the processes last seen stand for those of a device that does not answer.
KEEP_SECONDS: Final = 120.0

#: Commands that draw the desktop of a machine, and the most memory that one holds without work.
DISPLAY_COMMANDS: Final = frozenset({"Xorg", "X", "Xwayland", "gnome-shell", "kwin_wayland"})
IDLE_DISPLAY_BYTES: Final = 64 * 2**20


class UserNames:
    """Names of users by number, looked up in a thread of their own and kept."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        look_up: Callable[[int], str] | None = None,
    ) -> None:
        """``look_up`` may block; it raises ``KeyError`` for a user without a name."""
        self._clock = clock
        self._look_up = look_up or (lambda uid: pwd.getpwuid(uid).pw_name)
        self._names: dict[int, str] = {}
        self._asked: dict[int, float] = {}
        self._queue: queue.SimpleQueue[tuple[int, threading.Event]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def name(self, uid: int) -> str | None:
        """Return the name, the number where there is none, None while it is being looked up."""
        known = self._names.get(uid)
        if known is not None:
            return known
        now = self._clock()
        if uid not in self._asked:
            self._asked[uid] = now
            told = threading.Event()
            self._queue.put((uid, told))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="users", daemon=True)
                self._thread.start()
            told.wait(PATIENCE_SECONDS)
        elif now - self._asked[uid] >= NAME_SECONDS:
            return self._names.setdefault(uid, str(uid))  # kept: a label does not change later
        return self._names.get(uid)

    def _work(self) -> None:
        while True:
            uid, told = self._queue.get()
            try:
                name = self._look_up(uid)
            except (KeyError, OSError):
                name = str(uid)
            self._names.setdefault(uid, name)
            told.set()


class HostAttribution:
    """A ``ProcessAttribution`` for a bare host. Used from one thread."""

    def __init__(
        self,
        proc_root: Path | str = PROC,
        users: UserNames | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``proc_root`` is the host's ``/proc``."""
        self._proc = Path(proc_root)
        self._users = users or UserNames(clock)
        self.tracked = TrackedProcesses(self._proc, self._look_up, clock=clock)

    def owner(self, pid: int) -> ContainerRef | None:
        """Return who stands for the container; ``UNTOLD`` where the process can't be seen."""
        return self.tracked.owner(pid)

    def _look_up(self, pid: int, command: str) -> tuple[ContainerRef | None, bool]:
        folder = self._proc / str(pid)
        try:
            uid = _real_uid((folder / "status").read_text("utf-8", "replace"))
            unit = host_unit((folder / "cgroup").read_text("utf-8", "replace"))
        except OSError:
            return UNTOLD, False
        user = None if uid is None else self._users.name(uid)
        if user is None:
            return UNTOLD, False
        serves = command.startswith(MPS_COMMAND)
        return ContainerRef(user, unit or command, command, mps_server=serves), True


def _real_uid(status: str) -> int | None:
    """Real user number of ``/proc/<pid>/status``: the folder's owner is root for some processes."""
    for line in status.splitlines():
        name, _, numbers = line.partition(":")
        if name == "Uid":
            first = numbers.split()[:1]
            return int(first[0]) if first and first[0].isdigit() else None
    return None


class WatchedBackend(Wrapped):
    """A back end that remembers which processes its last readings showed; else as it is."""

    def __init__(self, backend: Backend) -> None:
        """Everything is passed on to ``backend``."""
        super().__init__(backend)
        self._seen: dict[str, tuple[float, tuple[ProcessReading, ...]]] = {}

    def processes(self, gpu_uuid: str, at: float) -> tuple[ProcessReading, ...]:
        """Processes that the device's last reading showed, if it is not too old at ``at``."""
        read_at, found = self._seen.get(gpu_uuid, (at, ()))
        return found if at - read_at <= KEEP_SECONDS else ()

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """See ``Backend``."""
        found = super().devices()
        present = {device.uuid for device in found}
        for uuid in self._seen.keys() - present:
            self._seen.pop(uuid, None)
        return found

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """See ``Backend``; notes the processes. Unreadable ones are nobody's."""
        reading = super().read(device, at)
        self._seen[device.uuid] = (at, reading.processes or ())
        return reading

    def want_processes(self, gpu_uuids: frozenset[str]) -> None:
        """Here they are wanted of every device: they say who holds it."""


class ProcessAllocations:
    """An ``AllocationSource`` made of the processes themselves. Used from one thread."""

    name = "processes"

    def __init__(
        self,
        processes: Callable[[str, float], tuple[ProcessReading, ...]],
        attribution: ProcessAttribution,
    ) -> None:
        """``processes`` gives those of a device by UUID and monotonic time."""
        self._processes = processes
        self._attribution = attribution
        self.unmatched: Mapping[str, int] = {}
        self.problems: Mapping[str, int] = {}

    def allocations(self, devices: Sequence[DeviceIdentity], at: float) -> tuple[Allocation, ...]:
        """Return who has a process on which device."""
        return tuple(one for device in devices for one in self._of_device(device, at))

    def close(self) -> None:
        """Nothing is held open."""

    def _of_device(self, device: DeviceIdentity, at: float) -> list[Allocation]:
        owners: dict[ContainerRef, None] = {}
        servers: dict[ContainerRef, None] = {}
        strangers = False
        for process in self._processes(device.uuid, at):
            owner = self._attribution.owner(process.pid)
            if owner is None or owner == UNTOLD:
                strangers = True
            elif owner.mps_server:
                servers[owner] = None
            elif not _is_idle_display(owner, process):
                owners[owner] = None
        # Before Volta the driver lists the server alone: then it stands for all its clients.
        holders = list(owners or servers)
        if len(holders) > 1 or (holders and strangers):
            way = Sharing.MPS if servers and not strangers else Sharing.SHARED
        else:
            way = Sharing.MIG if device.parent_uuid else Sharing.EXCLUSIVE
        share = 1.0 / len(holders) if holders else 1.0
        return [Allocation(one, device.uuid, way, share, lasting=True) for one in holders]


def _is_idle_display(owner: ContainerRef, process: ProcessReading) -> bool:
    return (
        owner.container in DISPLAY_COMMANDS
        and (process.memory_used_bytes or 0) <= IDLE_DISPLAY_BYTES
    )
