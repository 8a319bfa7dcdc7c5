"""Who holds which device: values shared by kubelet's answer, the scenario and the accounting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.metrics import Sharing


@dataclass(frozen=True, slots=True, order=True)
class ContainerRef:
    """A container of a pod; ``pod_uid`` is empty where it cannot be known."""

    namespace: str
    pod: str
    container: str
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A container holds a device, or ``share`` of it (replicas held / replicas of the device)."""

    holder: ContainerRef
    gpu_uuid: str
    sharing: Sharing = Sharing.EXCLUSIVE
    share: float = 1.0


class AllocationError(Exception):
    """The allocations could not be read; ``reason`` is a short label value."""

    def __init__(self, reason: str, text: str) -> None:
        """Keep the reason beside the text."""
        super().__init__(text)
        self.reason = reason


class AllocationSource(Protocol):
    """Tells who holds which device now. Called from one thread; may take seconds or raise."""

    name: str

    @property
    def unmatched(self) -> Mapping[str, int]:
        """Ids that named no present device, by resource, since the start."""

    def allocations(self, devices: Sequence[DeviceIdentity], at: float) -> tuple[Allocation, ...]:
        """Allocations of ``devices`` at monotonic time ``at``; raises ``AllocationError``."""

    def close(self) -> None:
        """Release the connection."""


class ProcessAttribution(Protocol):
    """Leads from a process on a device to the container it runs in."""

    def owner(self, pid: int) -> ContainerRef | None:
        """Return the container of ``pid``; None when it belongs to no pod or cannot be known."""
