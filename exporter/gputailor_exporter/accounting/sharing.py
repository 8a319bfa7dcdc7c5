"""Divides a shared device among its containers by process, and keeps the remainder apart.

Never a copy of the device: what cannot be led to a container is "unattributed", and for every
signal the containers' active seconds and the unattributed ones add up to the device's; memory is
divided likewise. A container without a process of its own is only said to have been idle where that
is sure: once processes have been led to containers on this node at all, or while the device holds
no context. Before that, a process without an owner may be anyone's, and a driver that lists no
process may see none (from inside a container without hostPID).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gputailor_exporter.accounting.device import UNREAD, DeviceAccount
from gputailor_exporter.accounting.holder import HolderAccount
from gputailor_exporter.accounting.signals import COUNT, DECODER, ENCODER, KERNEL, PROCESS_PLACES
from gputailor_exporter.allocations import ContainerRef
from gputailor_exporter.devices.base import ProcessReading
from gputailor_exporter.metrics import Sharing

Owner = Callable[[int], ContainerRef | None]

_UNKNOWN: Final = -1.0

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


class SharedDivision:
    """Divides cycles of shared devices; remembers whether owners were ever found on this node."""

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
        """Credit each holder with its processes' part, and the device's account with the rest.

        A process share is scaled down where the shares exceed the device's value. Energy goes by
        share of the device's kernel activity; of an idle cycle nothing is attributed.
        """
        reading = device.reading
        if reading is None:
            return
        processes = reading.processes if owner_of is not None else None
        sums = [ProcessSums() for _ in holders]
        rest = ProcessSums()
        for process in processes or ():
            owner = owner_of(process.pid) if owner_of is not None else None
            self._owners_found = self._owners_found or owner is not None
            place = _holder_of(owner, holders)
            (rest if place is None else sums[place]).add(process)
        if processes is None:
            sure = [False] * len(holders)
        else:
            sure = [self._sure(device, own, rest) for own in sums]
        trusted = processes is not None and reading.process_utilization_known
        given, energy = [0.0] * COUNT, 0.0
        if trusted:
            device.process_known = True
            factors = _factors(device, [*sums, rest])
            for holder, own, known in zip(holders, sums, sure, strict=True):
                if known and not _may_run_as_another(holder, own, rest):
                    energy += self._credit(device, holder, own, factors, given=given, wall=wall)
        memory = 0.0
        factor = _memory_factor(device, [*sums, rest])
        for holder, own, known in zip(holders, sums, sure, strict=True):
            used = own.memory_bytes * factor if known and own.memory_bytes != _UNKNOWN else None
            holder.take_memory(used)
            memory += used or 0.0
        _keep_rest(device, given, energy, None if processes is None else memory)

    def _sure(self, device: DeviceAccount, own: ProcessSums, rest: ProcessSums) -> bool:
        """Whether the processes found for a holder are all that it has."""
        if own.count > 0 or self._owners_found:
            return True
        memory = device.reading.memory if device.reading else None
        return rest.count == 0 and memory is not None and memory.used_bytes < NO_CONTEXT_BYTES

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
                given[place] += values[place] * min(seconds[place], at - holder.since)
        holder.credit(places, values, seconds, at, wall)
        if device.energy.source is None or seconds[KERNEL] < 0.0:
            return 0.0
        holder.energy_known = True
        whole = device.values[KERNEL]
        part = values[KERNEL] / whole * holder.part_of(device) if whole > 0.0 else 0.0
        energy = device.energy.rise * part
        holder.energy += energy
        return energy


def _holder_of(owner: ContainerRef | None, holders: Sequence[HolderAccount]) -> int | None:
    """Return the place of the holder that ``owner`` is; unknown parts of an owner match any."""
    if owner is None:
        return None
    found = [
        place for place, holder in enumerate(holders) if _same(holder.allocation.holder, owner)
    ]
    return found[0] if len(found) == 1 else None


def _same(held: ContainerRef, owner: ContainerRef) -> bool:
    return (
        held.namespace == owner.namespace
        and held.pod == owner.pod
        and (held.container == owner.container or not owner.container)
        and (held.pod_uid == owner.pod_uid or not held.pod_uid or not owner.pod_uid)
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


def _may_run_as_another(holder: HolderAccount, own: ProcessSums, rest: ProcessSums) -> bool:
    """Whether the holder's kernels may be told as those of the MPS server, which is in no pod."""
    return (
        holder.allocation.sharing is Sharing.MPS
        and own.shares[KERNEL] == 0.0
        and rest.shares[KERNEL] != 0.0
    )


def _keep_rest(
    device: DeviceAccount, given: list[float], energy: float, memory: float | None
) -> None:
    """Add to the unattributed counters what no holder got; memory None: processes unreadable."""
    for place in device.read_now:
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
