"""Accounts of one node: every device, every container that holds or lately held one.

Pure: no clock, no I/O, no locks. ``at`` is monotonic time, ``wall`` Unix time, both passed in.
Everything is linear in time, so an interval may be one second live or a minute in a simulation.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gputailor_exporter.accounting.device import DeviceAccount
from gputailor_exporter.accounting.export import NodeView, export
from gputailor_exporter.accounting.holder import HolderAccount
from gputailor_exporter.accounting.settings import AccountingSettings
from gputailor_exporter.accounting.sharing import Division
from gputailor_exporter.accounting.snapshot import Snapshot
from gputailor_exporter.attribution.allocations import Allocation, ContainerRef
from gputailor_exporter.devices.base import DeviceIdentity, DeviceReading, Reason, XidEvent

_Key = tuple[ContainerRef, str]


class NodeAccounts:
    """What the exporter knows of one node. Not thread-safe: the sampler holds a lock."""

    def __init__(self, node: str, settings: AccountingSettings) -> None:
        """Start empty accounts for ``node``."""
        self.node = node
        self.settings = settings
        self._devices: dict[str, DeviceAccount] = {}
        self._holders: dict[_Key, HolderAccount] = {}
        self._on_device: dict[str, list[HolderAccount]] = {}  # live ones
        self._division = Division()
        self._xids: dict[tuple[str, int], tuple[int, float]] = {}  # count, last Unix time
        self._present: tuple[DeviceIdentity, ...] = ()
        self._expected: int | None = None

    def set_devices(self, identities: Sequence[DeviceIdentity], expected: int | None) -> None:
        """Take the devices present now and the number of GPUs that should be.

        A GPU that vanished stays with ``device_up`` 0, and so do its MIG instances; an instance
        that vanished from a GPU that is here was taken apart on purpose and leaves.
        """
        present = {identity.uuid for identity in identities}
        for uuid, device in list(self._devices.items()):
            if uuid in present:
                continue
            parent = device.identity.parent_uuid
            if parent in present or (parent and parent not in self._devices):
                del self._devices[uuid]
            else:
                device.fail(Reason.GPU_IS_LOST)
        for identity in identities:
            self._device(identity)
        self._present = tuple(identities)
        self._expected = expected

    def identities(self) -> tuple[DeviceIdentity, ...]:
        """Return all devices, lost ones first: where two go by one number, the present one wins.

        A container goes on holding a device that fell off the bus.
        """
        present = {identity.uuid for identity in self._present}
        lost = (one.identity for uuid, one in self._devices.items() if uuid not in present)
        return (*lost, *self._present)

    def _device(self, identity: DeviceIdentity) -> DeviceAccount:
        device = self._devices.get(identity.uuid)
        if device is None:
            device = DeviceAccount(self.node, identity, self.settings)
            self._devices[identity.uuid] = device
            device.shared = self.is_shared(identity.uuid)
        elif device.identity is not identity and device.identity != identity:
            device.rename(self.node, identity)
        return device

    def set_allocations(self, allocations: Iterable[Allocation], at: float) -> None:
        """Take who holds what from ``at`` on.

        New holders start with every known counter at 0; ended ones lose their allocation at once
        and keep their counters, unchanged, for the linger time. The same container given the same
        device twice (two replicas) holds the sum of the shares. One that comes back within its
        linger time goes on where it stopped, unless its pod's UID is unknown: then it may as well
        be a new pod of the same name, and begins at 0 (a ``lasting`` one goes on).
        """
        wanted = _merged(allocations)
        for key, holder in list(self._holders.items()):
            if holder.live:
                if key in wanted:
                    holder.tick(at)
                else:
                    self._end(holder, at)
            elif at - (holder.ended_at or 0.0) > self.settings.linger_seconds:
                del self._holders[key]
        fresh: list[HolderAccount] = []
        for key, allocation in wanted.items():
            known = self._holders.get(key)
            same = allocation.lasting or bool(allocation.holder.pod_uid)
            if known is None or not (known.live or same):
                fresh.append(self._open(allocation, at))
                self._holders[key] = fresh[-1]
                continue
            if not known.live:
                known.revive(at)
            known.allocation = allocation
        self._regroup()
        for holder in fresh:
            device = self._devices.get(holder.allocation.gpu_uuid)
            if device is not None:
                holder.inherit(device)

    def _end(self, holder: HolderAccount, at: float) -> None:
        """Close an account; until the next cycle its memory is on the device and nobody's."""
        device = self._devices.get(holder.allocation.gpu_uuid)
        if device is not None and device.unattributed_memory is not None:
            device.unattributed_memory += holder.memory_used or 0.0
        holder.end(at)

    def _open(self, allocation: Allocation, at: float) -> HolderAccount:
        ref = allocation.holder
        labels = (
            self.node,
            ref.namespace,
            ref.pod,
            ref.pod_uid,
            ref.container,
            allocation.gpu_uuid,
        )
        settings = self.settings
        return HolderAccount(
            labels, allocation, at, gap_seconds=settings.gap_seconds, histogram=settings.histogram
        )

    def _regroup(self) -> None:
        self._on_device = {}
        for holder in self._holders.values():
            if holder.live:
                self._on_device.setdefault(holder.allocation.gpu_uuid, []).append(holder)
        for uuid, device in self._devices.items():
            device.shared = self.is_shared(uuid)

    def is_shared(self, gpu_uuid: str) -> bool:
        """Return whether several containers hold the device, or one holds a part of it."""
        holders = self._on_device.get(gpu_uuid, ())
        return len(holders) > 1 or any(holder.shares for holder in holders)

    def shared(self) -> frozenset[str]:
        """Return the UUIDs of the devices that are divided by process."""
        return frozenset(uuid for uuid in self._on_device if self.is_shared(uuid))

    def advance(
        self,
        identity: DeviceIdentity,
        reading: DeviceReading,
        owner_of: Callable[[int], ContainerRef | None] | None,
        wall: float,
    ) -> None:
        """Take one good cycle of one device, at ``reading.at``.

        ``owner_of`` leads a pid to its container (asked for shared devices only); None where
        processes cannot be attributed at all.
        """
        device = self._device(identity)
        if not device.advance(reading):
            return
        holders = self._on_device.get(identity.uuid, ())
        for holder in holders:
            holder.tick(reading.at)
        self._division.divide(device, holders, owner_of, wall)

    def fail(self, gpu_uuid: str, reason: Reason, at: float) -> None:
        """Mark a device as lost or hung: nothing of it is observed until its next good cycle."""
        device = self._devices.get(gpu_uuid)
        if device is not None:
            device.fail(reason)
        for holder in self._on_device.get(gpu_uuid, ()):
            holder.tick(at)
            holder.memory_used = None

    def add_xid(self, event: XidEvent) -> None:
        """Count an Xid of a device by code and keep when it was last seen."""
        count, last = self._xids.get((event.gpu_uuid, event.xid), (0, 0.0))
        self._xids[event.gpu_uuid, event.xid] = (count + 1, max(last, event.at))

    def down(self) -> tuple[str, ...]:
        """Return the UUIDs of the devices that are lost or hung."""
        return tuple(uuid for uuid, device in self._devices.items() if device.failure is not None)

    def snapshot(self, wall: float) -> Snapshot:
        """Return all samples as a value that later cycles do not change."""
        view = NodeView(
            node=self.node,
            devices=tuple(self._devices.values()),
            holders=tuple(self._holders.values()),
            xids=self._xids,
            present=sum(1 for identity in self._present if not identity.parent_uuid),
            expected=self._expected,
        )
        return Snapshot(wall, export(view))


def _merged(allocations: Iterable[Allocation]) -> dict[_Key, Allocation]:
    wanted: dict[_Key, Allocation] = {}
    for allocation in allocations:
        key = (allocation.holder, allocation.gpu_uuid)
        other = wanted.get(key)
        if other is not None and other.sharing == allocation.sharing:
            share = min(1.0, other.share + allocation.share)
            wanted[key] = replace(allocation, share=share)
        else:
            wanted[key] = allocation
    return wanted
