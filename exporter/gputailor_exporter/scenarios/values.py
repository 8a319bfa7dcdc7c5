"""The simulated cluster as values: nodes, devices, activities, pods and what they hold."""

from dataclasses import dataclass

from gputailor_exporter.attribution.allocations import ContainerRef
from gputailor_exporter.devices.base import DeviceIdentity, Reason
from gputailor_exporter.metrics import Sharing, Signal
from gputailor_exporter.scenarios.hardware import GpuModel
from gputailor_exporter.scenarios.shapes import Shape


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or a MIG instance of a simulated node."""

    address: str  # "0", or "7/2" for the third MIG instance of GPU 7
    identity: DeviceIdentity
    model: GpuModel
    memory_bytes: int
    reserved_bytes: int
    sms: int
    sharing: Sharing
    replicas: int
    signals: frozenset[Signal]  # those that can be read
    weight: float = 1.0  # share of the card, for the parent's power


@dataclass(frozen=True, slots=True)
class Node:
    """A simulated machine; ``devices`` holds MIG instances after their parent."""

    name: str
    instance_type: str
    region: str
    zone: str
    cpu: str
    memory: str
    labels: dict[str, str]
    taints: tuple[str, ...]
    unschedulable: bool
    devices: tuple[Device, ...]

    def by_address(self, address: str) -> Device | None:
        """Return the device of this address."""
        return next((device for device in self.devices if device.address == address), None)


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Device memory of one holder in bytes over its age in seconds.

    From ``start`` it climbs to ``plateau`` within ``warmup``; from ``peak_at`` it stands at
    ``peak`` for ``peak_length``.
    """

    start: int
    plateau: int
    peak: int
    warmup: float
    peak_at: float
    peak_length: float

    def at(self, age: float) -> int:
        """Bytes in use at this age; 0 before it began."""
        if age < 0:
            return 0
        if self.peak_at <= age < self.peak_at + self.peak_length:
            return self.peak
        if age >= self.warmup:
            return self.plateau
        return int(self.start + (self.plateau - self.start) * age / self.warmup)


@dataclass(frozen=True, slots=True)
class Activity:
    """What a holder does: levels of the signals at full intensity, scaled by one shape.

    One shape for all signals keeps them in step, as they are on a real card.
    ``power`` is the share of the range from loaded context to maximum at full intensity.
    """

    name: str
    shape: Shape
    levels: dict[Signal, float]
    memory: MemoryCurve
    power: float
    pcie_bytes_per_second: tuple[float, float]  # rx, tx at full intensity
    nvlink_bytes_per_second: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Hold:
    """A pod's container has a device, or a share of it, from ``start`` to ``end`` (Unix time)."""

    owner: ContainerRef | None  # None: a process of the host that belongs to no pod
    device: Device
    replicas: int
    start: float
    end: float  # infinity while no end is planned
    activity: Activity
    pid: int
    path: str  # place in the document, for errors

    @property
    def share(self) -> float:
        """Replicas held / replicas of the device."""
        return self.replicas / self.device.replicas


@dataclass(frozen=True, slots=True)
class PodRun:
    """One pod of one run."""

    name: str
    uid: str
    node: str
    index: int
    holds: tuple[Hold, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Pods that began together: one Job, or one template of a Deployment."""

    name: str  # of the Job; of the workload where there is no Job
    token: str  # pod-template-hash, or the suffix of the Job's name
    start: float
    end: float
    outcome: str  # succeeded, failed, oom_killed
    pods: tuple[PodRun, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """What somebody deployed: the root owner, its template and its runs."""

    name: str
    namespace: str
    kind: str
    container: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]
    ports: tuple[int, ...]
    cpu: str
    memory: str
    labels: dict[str, str]
    annotations: dict[str, str]
    schedule: str  # cron expression of a CronJob
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """A window in which something cannot be read."""

    node: str
    addresses: frozenset[str]  # empty: every device of the node
    exporter: bool  # the exporter itself is down
    device: bool  # the device is lost
    signals: frozenset[Signal]
    reason: Reason
    start: float
    end: float

    def touches(self, device: Device) -> bool:
        """Tell whether the window speaks of this device."""
        return not self.addresses or device.address in self.addresses
