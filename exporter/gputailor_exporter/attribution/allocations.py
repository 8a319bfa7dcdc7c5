"""Who holds which device: values shared by kubelet's answer, the scenario and the accounting.

On a bare host a user stands in for the namespace, a Slurm job, container or systemd unit for the
pod, and the command for the container: see ``hosts``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.metrics import Sharing


@dataclass(frozen=True, slots=True, order=True)
class ContainerRef:
    """A container of a pod; ``pod_uid`` is empty where it cannot be known."""

    namespace: str
    pod: str
    container: str
    pod_uid: str = ""
    mps_server: bool = field(default=False, compare=False)  # its process runs its clients' kernels


#: The owner of a process that may be anyone's: gone, hidden, or of a container not known yet.
UNTOLD: Final = ContainerRef("", "", "")


@dataclass(frozen=True, slots=True)
class Allocation:
    """A container holds a device, or ``share`` of it (replicas held / replicas of the device).

    ``lasting``: the holder's name alone says that it is the same one when it comes back, though it
    has no UID (a user's job, not a pod that may have been made anew under its old name).
    """

    holder: ContainerRef
    gpu_uuid: str
    sharing: Sharing = Sharing.EXCLUSIVE
    share: float = 1.0
    lasting: bool = False


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

    @property
    def problems(self) -> Mapping[str, int]:
        """Other faults of answers that were taken all the same, by reason, since the start."""

    def allocations(self, devices: Sequence[DeviceIdentity], at: float) -> tuple[Allocation, ...]:
        """Allocations of ``devices`` at monotonic time ``at``; raises ``AllocationError``."""

    def close(self) -> None:
        """Release the connection."""


class ProcessAttribution(Protocol):
    """Leads from a process on a device to the container it runs in."""

    def owner(self, pid: int) -> ContainerRef | None:
        """Return the container of ``pid``; None when it is in none, ``UNTOLD`` if unknown."""
