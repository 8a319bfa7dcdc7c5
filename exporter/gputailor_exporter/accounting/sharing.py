"""Divides a device among its containers, and keeps what belongs to none of them apart.

For every signal the containers' active seconds and the unattributed ones add up to the device's,
always: whether nobody holds it, one container does, or several share it; energy and memory alike.
One container that has a device for itself has the device's values. A shared one is divided by
process, never copied: what cannot be led to a container is "unattributed".

A container without a process of its own is only said to have been idle where that is sure: once
processes have been led to containers on this node at all, or while the device holds no context.
Before that, a process without an owner may be anyone's, and a driver that lists no process may see
none (from inside a container without hostPID). Nor is it sure while a process that may be its own
(``UNTOLD``, or of a pod with several containers on the device) was at work.

MPS: the server owns the context and its clients' kernels run as the server's; the driver lists it
in place of its clients, or, from Volta on, beside them with their memory (NVIDIA's MPS
documentation, "nvidia-cuda-mps-server"). So its work is a client's where only one container can be
the client; else nobody can tell whose it was, and a client without work of its own is unknown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gputailor_exporter.accounting.device import UNREAD, DeviceAccount
from gputailor_exporter.accounting.holder import HolderAccount
from gputailor_exporter.accounting.signals import (
    CONTAINER_PLACES,
    COUNT,
    DECODER,
    ENCODER,
    KERNEL,
    PROCESS_PLACES,
)
from gputailor_exporter.attribution.allocations import UNTOLD, ContainerRef
from gputailor_exporter.devices.base import ProcessReading
from gputailor_exporter.metrics import Sharing

Owner = Callable[[int], ContainerRef | None]

_UNKNOWN: Final = -1.0
_CARRIED: Final = frozenset(CONTAINER_PLACES)

#: A device with less in use holds no process's context, which takes 100 MiB and more; a default.
NO_CONTEXT_BYTES: Final = 64 * 2**20


@dataclass(slots=True)
class ProcessSums:
    """Sums over processes by place; ``_UNKNOWN`` once one process does not say."""

    count: int = 0
    shares: list[float] = field(default_factory=lambda: [0.0] * COUNT)
    memory_bytes: float = 0.0

    def add(self, process: ProcessReading) -> None:
        """Add one process."""
        self.count += 1
        for place, value in (
            (KERNEL, process.kernel),
            (ENCODER, process.encoder),
            (DECODER, process.decoder),
        ):
            known = value is not None and self.shares[place] != _UNKNOWN
            self.shares[place] = self.shares[place] + (value or 0.0) if known else _UNKNOWN
        used = process.memory_used_bytes
        known = used is not None and self.memory_bytes != _UNKNOWN
        self.memory_bytes = self.memory_bytes + (used or 0) if known else _UNKNOWN

    def take_work(self, other: "ProcessSums") -> None:
        """Take over another group's work; its memory stays where it is."""
        for place in PROCESS_PLACES:
            mine, theirs = self.shares[place], other.shares[place]
            self.shares[place] = _UNKNOWN if _UNKNOWN in {mine, theirs} else mine + theirs
            other.shares[place] = 0.0

    @property
    def worked(self) -> bool:
        """Whether a kernel of the group ran, or may have."""
        return self.shares[KERNEL] != 0.0


class Sorted:
    """The processes of one cycle, sorted by whose they are."""

    __slots__ = ("_places", "_refs", "doubtful", "owners_found", "rest", "server", "sums", "untold")

    def __init__(self, holders: Sequence[HolderAccount]) -> None:
        self._refs = [holder.allocation.holder for holder in holders]
        self._places: dict[tuple[str, str], list[int]] = {}
        for place, ref in enumerate(self._refs):
            self._places.setdefault((ref.namespace, ref.pod), []).append(place)
        self.sums = [ProcessSums() for _ in holders]
        self.rest = ProcessSums()  # of nobody here: other pods, the host
        self.server = ProcessSums()  # of an MPS server outside the holders
        self.untold = ProcessSums()  # what may be anyone's
        self.doubtful = [ProcessSums() for _ in holders]  # what may be this holder's or another's
        self.owners_found = False

    def add(self, process: ProcessReading, owner: ContainerRef | None) -> None:
        """Put one process where it belongs."""
        if owner is None:
            self.rest.add(process)
            return
        places = self._holders_of(owner)
        if len(places) == 1:
            self.sums[places[0]].add(process)
        elif owner.mps_server:
            self.server.add(process)
        elif owner == UNTOLD:
            self.untold.add(process)
        else:
            self.rest.add(process)
            for place in places:
                self.doubtful[place].add(process)
        self.owners_found = self.owners_found or owner != UNTOLD

    def _holders_of(self, owner: ContainerRef) -> list[int]:
        """Places of the holders that ``owner`` may be; unknown parts of it match any."""
        found = self._places.get((owner.namespace, owner.pod), [])
        return [place for place in found if _same(self._refs[place], owner)]

    def settle_server(self) -> bool:
        """Give the MPS server's work to its only client; False where it may be several's."""
        if not self.server.count or not self.server.worked:
            return True
        clients = [place for place, own in enumerate(self.sums) if own.count]
        if len(self.sums) == 1:
            clients = [0]
        if len(clients) != 1:
            return False
        self.sums[clients[0]].take_work(self.server)
        return True

    def groups(self) -> list[ProcessSums]:
        """All processes, each in one group."""
        return [*self.sums, self.server, self.untold, self.rest]

    def may_be_more(self, place: int) -> bool:
        """Whether a process of unknown owner may be this holder's."""
        return self.untold.count > 0 or self.doubtful[place].count > 0


class Division:
    """Divides cycles of devices; remembers whether owners were ever found on this node."""

    __slots__ = ("_owners_found", "_seconds", "_values")

    def __init__(self) -> None:
        self._owners_found = False
        self._values = [0.0] * COUNT  # of the holder in hand
        self._seconds = [UNREAD] * COUNT

    def divide(
        self,
        device: DeviceAccount,
        holders: Sequence[HolderAccount],
        owner_of: Owner | None,
        wall: float,
    ) -> None:
        """Credit each holder with its part of the cycle, and the device's account with the rest."""
        if not holders:
            keep_rest(device, [0.0] * COUNT, 0.0, 0.0)
        elif device.shared:
            self._share(device, holders, owner_of, wall)
        else:
            _give_all(device, holders[0], wall)

    def _share(
        self,
        device: DeviceAccount,
        holders: Sequence[HolderAccount],
        owner_of: Owner | None,
        wall: float,
    ) -> None:
        """Divide by process.

        A process share is scaled down where the shares exceed the device's value. Energy goes by
        share of the device's kernel activity; of an idle cycle nothing is attributed.
        """
        reading = device.reading
        assert reading is not None
        processes = reading.processes if owner_of is not None else None
        found = Sorted(holders)
        for process in processes or ():
            found.add(process, owner_of(process.pid) if owner_of is not None else None)
        self._owners_found = self._owners_found or found.owners_found
        sure = [processes is not None and self._sure(device, found, p) for p in range(len(holders))]
        server_told = found.settle_server()
        given, energy = [0.0] * COUNT, 0.0
        if processes is not None and reading.process_utilization_known:
            device.process_known = True
            factors = _factors(device, found.groups())
            for place, holder in enumerate(holders):
                own = found.sums[place]
                hidden = _may_be_hidden(holder, found, place, server_told=server_told)
                if sure[place] and not hidden:
                    energy += self._credit(device, holder, own, factors, given=given, wall=wall)
        memory = 0.0
        factor = _memory_factor(device, found.groups())
        for holder, own, known in zip(holders, found.sums, sure, strict=True):
            used = own.memory_bytes * factor if known and own.memory_bytes != _UNKNOWN else None
            holder.take_memory(used)
            memory += used or 0.0
        keep_rest(device, given, energy, None if processes is None else memory)

    def _sure(self, device: DeviceAccount, found: Sorted, place: int) -> bool:
        """Whether the processes found for a holder are all that it has."""
        if found.sums[place].count > 0:
            return True
        if found.may_be_more(place):
            return False
        if self._owners_found:
            return True
        memory = device.reading.memory if device.reading else None
        nobody = found.rest.count == 0 and found.server.count == 0
        return nobody and memory is not None and memory.used_bytes < NO_CONTEXT_BYTES

    def _credit(
        self,
        device: DeviceAccount,
        holder: HolderAccount,
        own: ProcessSums,
        factors: list[float],
        *,
        given: list[float],
        wall: float,
    ) -> float:
        """Credit one holder; adds to ``given`` and returns the energy it got in joules."""
        at = device.last_at
        assert at is not None
        values, seconds = self._values, self._seconds
        places = []
        for place in PROCESS_PLACES:
            seconds[place] = UNREAD
            if device.seconds[place] >= 0.0 and own.shares[place] != _UNKNOWN:
                places.append(place)
                seconds[place] = device.seconds[place]
                values[place] = own.shares[place] * factors[place]
                given[place] += values[place] * min(seconds[place], holder.held_until(at))
        holder.credit(places, values, seconds, at, wall)
        if device.energy.source is None or seconds[KERNEL] < 0.0:
            return 0.0
        holder.energy_known = True
        whole = device.values[KERNEL]
        part = values[KERNEL] / whole * holder.part_of(device) if whole > 0.0 else 0.0
        energy = device.energy.rise * part
        holder.energy += energy
        return energy


def _give_all(device: DeviceAccount, holder: HolderAccount, wall: float) -> None:
    """Give one container the device's values, of the part of the cycle in which it held it."""
    at = device.last_at
    assert at is not None
    limit = holder.held_until(at)
    given = [0.0] * COUNT
    for place in device.read_now:
        given[place] = device.values[place] * min(device.seconds[place], limit)
    holder.take_device(device, wall)
    energy = device.energy.rise * holder.part_of(device)
    keep_rest(device, given, energy, holder.memory_used)


def _same(held: ContainerRef, owner: ContainerRef) -> bool:
    return (held.container == owner.container or not owner.container) and (
        held.pod_uid == owner.pod_uid or not held.pod_uid or not owner.pod_uid
    )


def _factors(device: DeviceAccount, groups: Sequence[ProcessSums]) -> list[float]:
    """Return by place what process shares are multiplied with so as not to exceed the device."""
    factors = [1.0] * COUNT
    for place in PROCESS_PLACES:
        whole = device.values[place]
        total = sum(group.shares[place] for group in groups if group.shares[place] != _UNKNOWN)
        if device.seconds[place] >= 0.0 and total > whole:
            factors[place] = whole / total
    return factors


def _memory_factor(device: DeviceAccount, groups: Sequence[ProcessSums]) -> float:
    """Return what process memory is multiplied with so as not to exceed the device's."""
    memory = device.reading.memory if device.reading else None
    total = sum(group.memory_bytes for group in groups if group.memory_bytes != _UNKNOWN)
    return 1.0 if memory is None or total <= memory.used_bytes else memory.used_bytes / total


def _may_be_hidden(holder: HolderAccount, found: Sorted, place: int, *, server_told: bool) -> bool:
    """Whether a holder that shows no work may have done some under another process's name."""
    if found.sums[place].worked:
        return False
    client = holder.allocation.sharing is Sharing.MPS and found.rest.worked
    others = found.untold.worked or found.doubtful[place].worked
    return client or others or not server_told


def keep_rest(
    device: DeviceAccount, given: list[float], energy: float, memory: float | None
) -> None:
    """Add to the unattributed counters what no holder got; memory None: its holders' is unknown.

    Only of signals that containers carry: of the others the device's own counter is all there is.
    """
    for place in device.read_now:
        if place not in _CARRIED:
            continue
        rest = device.values[place] * device.seconds[place] - given[place]
        device.unattributed_active[place] += max(0.0, rest)
        device.unattributed_known[place] = True
    if device.energy.source is not None:
        rest = max(0.0, device.energy.rise - energy)
        device.unattributed_energy = (device.unattributed_energy or 0.0) + rest
    used = device.reading.memory if device.reading else None
    device.unattributed_memory = (
        None if used is None or memory is None else max(0.0, used.used_bytes - memory)
    )
