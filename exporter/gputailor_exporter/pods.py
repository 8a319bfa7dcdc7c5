"""Who holds which device, from kubelet's PodResources API v1.

``List`` names the devices of each container; ``GetAllocatableResources`` names all replicas of a
shared device, so that a share has its denominator. An id that means no device of this node is
counted in ``unmatched``, never dropped silently. The API carries no pod UID: it comes from the
names of kubelet's log folders where they are mounted (``pod_uid``), else it stays empty.

Just after its start kubelet may answer by half: without pods it has not been told of yet, or with a
pod but without the devices it gave it. A pod ends by leaving the list; one that is listed still
holds what it held. Such answers are made whole from the last one for a bounded time, and counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from google.protobuf.message import DecodeError, Message

from gputailor_exporter.attribution.allocations import Allocation, AllocationError, ContainerRef
from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.kubelet import podresources_pb2 as v1
from gputailor_exporter.kubelet.device_ids import DeviceIndex, DeviceRef
from gputailor_exporter.kubelet.driver_files import DriverFiles
from gputailor_exporter.kubelet.half_answers import KEEP_SECONDS, HalfAnswers, Held, PodName
from gputailor_exporter.kubelet.unary import BAD_ANSWER, Line
from gputailor_exporter.metrics import Sharing

SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
TIMEOUT_SECONDS: Final = 5.0
_LIST: Final = "/v1.PodResourcesLister/List"
_ALLOCATABLE: Final = "/v1.PodResourcesLister/GetAllocatableResources"
#: Kubelet before 1.23 has no such method (12); with its feature gate off it says unknown (2).
_NO_ALLOCATABLE: Final = ("grpc_status_12", "grpc_status_2")

#: Resources that are GPUs by their name: an id of theirs that matches nothing is worth counting.
_GPU_RESOURCES: Final = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu")
_GPU_DRIVERS: Final = ("gpu.nvidia.com", "gpu.amd.com")
_SHARED_SUFFIX: Final = ".shared"

UidReader = Callable[[str, str], str]


def _no_uid(namespace: str, pod: str) -> str:
    del namespace, pod
    return ""


def names_gpus(resource: str) -> bool:
    """Tell whether a resource name speaks of GPUs."""
    return resource.startswith(_GPU_RESOURCES)


class PodResources:
    """Kubelet's own answer; an ``AllocationSource``. Used from one thread."""

    name = "kubelet"

    def __init__(
        self,
        socket_path: str = SOCKET,
        timeout_seconds: float = TIMEOUT_SECONDS,
        *,
        pod_uid: UidReader = _no_uid,
        sharing: Sharing | None = None,
        files: DriverFiles | None = None,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        """``pod_uid`` finds a pod's UID by namespace and name ('' where it cannot).

        ``sharing`` states how replicas share where the administrator knows it; ids of the form
        ``<id>::N`` do not tell time-slicing from MPS. ``files`` are the driver's own, by default
        this machine's; ``keep_seconds`` is how long half an answer is made whole from the last.
        """
        self._socket = socket_path
        self._line = Line(socket_path, timeout_seconds)
        self._pod_uid = pod_uid
        self._sharing = sharing
        self._files = files or DriverFiles()
        self._halves = HalfAnswers(keep_seconds)
        self.unmatched: Counter[str] = Counter()  # by resource or DRA driver, since the start

    def allocations(self, devices: Sequence[DeviceIdentity], at: float) -> tuple[Allocation, ...]:
        """Ask kubelet now; raises ``AllocationError``.

        A container that holds several replicas of a device has one allocation with their share.
        """
        listed = v1.ListPodResourcesResponse()
        self._call(_LIST, v1.ListPodResourcesRequest(), listed)
        index = DeviceIndex(devices, self._files.minors, self._files.mig_place)
        held = self._halves.whole(self._held(listed, index), _contents(listed), at)
        replicas = self._replicas(held, index)
        instances = {device.uuid for device in devices if device.parent_uuid}
        claimed = Counter(uuid for _, uuid in held)
        return tuple(
            self._allocation(key, part, replicas, instances, claimed) for key, part in held.items()
        )

    @property
    def problems(self) -> Mapping[str, int]:
        """Answers that were not whole, by reason, since the start."""
        return self._halves.problems

    def _held(
        self, listed: v1.ListPodResourcesResponse, index: DeviceIndex
    ) -> dict[tuple[ContainerRef, str], Held]:
        """Replicas of each device that each container holds."""
        held: dict[tuple[ContainerRef, str], Held] = {}
        for pod in listed.pod_resources:
            uid = None
            for container in pod.containers:
                for resource, ref in self._references(container, index):
                    if uid is None:
                        uid = self._pod_uid(pod.namespace, pod.name)
                    key = (ContainerRef(pod.namespace, pod.name, container.name, uid), ref.uuid)
                    part = held.setdefault(key, Held(resource, frozenset()))
                    held[key] = Held(part.resource, part.replicas | {ref.replica})
        return held

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _call(self, method: str, request: Message, answer: Message) -> None:
        received = self._line.call(method, request.SerializeToString())
        try:
            answer.ParseFromString(received)
        except DecodeError as error:
            text = f"{self._socket}: {method} answered no PodResources v1 message"
            raise AllocationError(BAD_ANSWER, text) from error

    def _references(
        self, container: v1.ContainerResources, index: DeviceIndex
    ) -> Iterator[tuple[str, DeviceRef]]:
        for entry in container.devices:
            for device_id in entry.device_ids:
                ref = index.resolve(device_id)
                if ref is not None:
                    yield entry.resource_name, ref
                elif names_gpus(entry.resource_name):
                    self.unmatched[entry.resource_name] += 1
        for claim in container.dynamic_resources:
            for one in claim.claim_resources:
                names = [device.name for device in one.cdi_devices]
                ref = index.resolve_claim(one.device_name, names) if _is_gpu(one, index) else None
                if ref is not None:
                    yield one.driver_name, ref
                elif one.driver_name in _GPU_DRIVERS:
                    self.unmatched[one.driver_name] += 1

    def _replicas(
        self, held: Mapping[tuple[ContainerRef, str], Held], index: DeviceIndex
    ) -> dict[str, int]:
        """Replicas of each shared device: all that kubelet may hand out, else those held."""
        seen: dict[str, set[str]] = {}
        for (_, uuid), part in held.items():
            seen.setdefault(uuid, set()).update(name for name in part.replicas if name)
        shared = {uuid: names for uuid, names in seen.items() if names}
        if not shared:
            return {}
        for entry in self._allocatable():
            for device_id in entry.device_ids:
                ref = index.resolve(device_id)
                if ref is not None and ref.replica and ref.uuid in shared:
                    shared[ref.uuid].add(ref.replica)
        return {uuid: len(names) for uuid, names in shared.items()}

    def _allocatable(self) -> Iterable[v1.ContainerDevices]:
        answer = v1.AllocatableResourcesResponse()
        try:
            self._call(_ALLOCATABLE, v1.AllocatableResourcesRequest(), answer)
        except AllocationError as error:
            if error.reason not in _NO_ALLOCATABLE:
                raise
        return answer.devices

    def _allocation(
        self,
        key: tuple[ContainerRef, str],
        part: Held,
        replicas: dict[str, int],
        instances: set[str],
        claimed: Counter[str],
    ) -> Allocation:
        holder, uuid = key
        total = replicas.get(uuid, 0)
        if total:
            mine = len(part.replicas - {""}) or 1
            return Allocation(holder, uuid, self._way(part.resource), min(1.0, mine / total))
        if claimed[uuid] > 1:  # several containers by one claim: nobody's share is known
            return Allocation(holder, uuid, self._sharing or Sharing.SHARED, 1 / claimed[uuid])
        return Allocation(holder, uuid, Sharing.MIG if uuid in instances else Sharing.EXCLUSIVE)

    def _way(self, resource: str) -> Sharing:
        """How replicas share: as told, else what NVIDIA's plugin does by default."""
        if self._sharing is not None:
            return self._sharing
        known = resource.startswith("nvidia.com/") or resource.endswith(_SHARED_SUFFIX)
        return Sharing.TIME_SLICING if known else Sharing.SHARED


def _contents(listed: v1.ListPodResourcesResponse) -> dict[PodName, dict[str, frozenset[str]]]:
    """Each listed pod's containers, with the resources and drivers they have something of."""
    return {
        (pod.namespace, pod.name): {
            container.name: frozenset(
                [entry.resource_name for entry in container.devices]
                + [
                    one.driver_name
                    for claim in container.dynamic_resources
                    for one in claim.claim_resources
                ]
            )
            for container in pod.containers
        }
        for pod in listed.pod_resources
    }


def _is_gpu(claim: v1.ClaimResource, index: DeviceIndex) -> bool:
    """A GPU driver's claim, or one whose names carry the UUID of a device that is here."""
    if claim.driver_name in _GPU_DRIVERS:
        return True
    names = [claim.device_name, *(device.name for device in claim.cdi_devices)]
    return any(index.resolve(name.rpartition("=")[2]) is not None for name in names)
