"""Small fixed machines and readings for the exporter's tests, and how to look into a snapshot."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gputailor_exporter.accounting import AccountingSettings, NodeAccounts, Snapshot
from gputailor_exporter.attribution.allocations import Allocation, ContainerRef
from gputailor_exporter.devices.base import (
    DeviceIdentity,
    DeviceReading,
    Memory,
    SignalReading,
)
from gputailor_exporter.metrics import Family, Sharing, Signal

WALL = 1_700_000_000.0
GIB = 1 << 30

GPU = DeviceIdentity("0", "GPU-a", model="NVIDIA A100-SXM4-80GB", architecture="Ampere")
OTHER = DeviceIdentity("1", "GPU-b", model="NVIDIA A100-SXM4-80GB", architecture="Ampere")
PARENT = DeviceIdentity("2", "GPU-m", model="NVIDIA A100-SXM4-80GB", mig_enabled=True)
SLICE = DeviceIdentity("2", "MIG-1", mig_profile="1g.10gb", parent_uuid="GPU-m")


def container(name: str, uid: str = "") -> ContainerRef:
    return ContainerRef("team", name, "main", uid or f"uid-{name}")


def holds(name: str, device: DeviceIdentity = GPU, **how: Any) -> Allocation:
    return Allocation(container(name), device.uuid, **how)


def sliced(name: str, device: DeviceIdentity = GPU, share: float = 0.5) -> Allocation:
    return holds(name, device, sharing=Sharing.TIME_SLICING, share=share)


def reading(
    at: float,
    signals: Mapping[Signal, float] | None = None,
    *,
    covers: float | None = None,
    used_bytes: int | None = None,
    **more: Any,
) -> DeviceReading:
    given = {name: SignalReading(value, covers) for name, value in (signals or {}).items()}
    memory = None if used_bytes is None else Memory(80 * GIB, used_bytes, GIB)
    return DeviceReading(at=at, signals=given, memory=memory, **more)


def accounts(
    devices: Sequence[DeviceIdentity] = (GPU,),
    allocations: Iterable[Allocation] = (),
    **settings: Any,
) -> NodeAccounts:
    made = NodeAccounts("node-1", AccountingSettings(**settings))
    made.set_devices(devices, len([one for one in devices if not one.parent_uuid]))
    made.set_allocations(allocations, 0.0)
    return made


def advance(
    made: NodeAccounts,
    readings: Iterable[DeviceReading],
    device: DeviceIdentity = GPU,
    owner_of: Callable[[int], ContainerRef | None] | None = None,
) -> None:
    for one in readings:
        made.advance(device, one, owner_of, WALL + one.at)


def samples(snapshot: Snapshot, family: Family, **labels: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a family whose labels match, by label row (no histograms)."""
    for found in snapshot.families:
        if found.family is family:
            wanted = {family.labels.index(name): value for name, value in labels.items()}
            return {
                row: value
                for row, value in zip(found.rows, found.values, strict=True)
                if all(row[place] == value for place, value in wanted.items())
            }
    return {}


def one(snapshot: Snapshot, family: Family, **labels: str) -> float | None:
    """Return the only sample that matches; None where there is none."""
    found = samples(snapshot, family, **labels)
    assert len(found) <= 1, found
    return next(iter(found.values()), None)


def histogram(snapshot: Snapshot, family: Family, **labels: str) -> tuple[float, ...] | None:
    """Return the cumulative counts and the sum of the only histogram that matches."""
    for found in snapshot.families:
        if found.family is family:
            width = len(found.values) // len(found.rows)
            wanted = {family.labels.index(name): value for name, value in labels.items()}
            for place, row in enumerate(found.rows):
                if all(row[where] == value for where, value in wanted.items()):
                    return found.values[place * width : (place + 1) * width]
    return None
