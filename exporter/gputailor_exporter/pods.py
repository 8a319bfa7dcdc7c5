"""Who holds which device, from kubelet's PodResources API v1.

``List`` names the devices of each container; ``GetAllocatableResources`` names all replicas of a
shared device, so that a share has its denominator. An id that means no device of this node is
counted in ``unmatched``, never dropped silently. The API carries no pod UID: it comes from the
names of kubelet's log folders where they are mounted (``pod_uid``), else it stays empty.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from google.protobuf.message import DecodeError, Message

from gputailor_exporter import podresources_pb2 as v1
from gputailor_exporter.allocations import Allocation, AllocationError, ContainerRef
from gputailor_exporter.device_ids import DeviceIndex, DeviceRef
from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.metrics import Sharing
from gputailor_exporter.unary import BAD_ANSWER, UnaryCall

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
    ) -> None:
        """``pod_uid`` finds a pod's UID by namespace and name ('' where it cannot).

        ``sharing`` states how replicas share where the administrator knows it; ids of the form
        ``<id>::N`` do not tell time-slicing from MPS.
        """
        self._socket = socket_path
        self._timeout = timeout_seconds
        self._pod_uid = pod_uid
        self._sharing = sharing
        self.unmatched: Counter[str] = Counter()  # by resource or DRA driver, since the start

    def allocations(self, devices: Sequence[DeviceIdentity], at: float) -> tuple[Allocation, ...]:
        """Ask kubelet now; raises ``AllocationError``.

        A container that holds several replicas of a device has one allocation with their share.
        """
        del at  # kubelet answers for the present
        listed = v1.ListPodResourcesResponse()
        self._call(_LIST, v1.ListPodResourcesRequest(), listed)
        index = DeviceIndex(devices)
        held: dict[tuple[ContainerRef, str], set[str]] = {}
        resources: dict[tuple[ContainerRef, str], str] = {}
        for pod in listed.pod_resources:
            uid = None
            for container in pod.containers:
                for resource, ref in self._references(container, index):
                    if uid is None:
                        uid = self._pod_uid(pod.namespace, pod.name)
                    key = (ContainerRef(pod.namespace, pod.name, container.name, uid), ref.uuid)
                    held.setdefault(key, set()).add(ref.replica)
                    resources.setdefault(key, resource)
        replicas = self._replicas(held, index)
        instances = {device.uuid for device in devices if device.parent_uuid}
        claimed = Counter(uuid for _, uuid in held)
        return tuple(
            self._allocation(key, names, resources[key], replicas, instances, claimed)
            for key, names in held.items()
        )

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def _call(self, method: str, request: Message, answer: Message) -> None:
        call = UnaryCall(self._socket, method, self._timeout)
        received = call.run(request.SerializeToString())
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
        self, held: dict[tuple[ContainerRef, str], set[str]], index: DeviceIndex
    ) -> dict[str, int]:
        """Replicas of each shared device: all that kubelet may hand out, else those held."""
        seen: dict[str, set[str]] = {}
        for (_, uuid), names in held.items():
            seen.setdefault(uuid, set()).update(name for name in names if name)
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

    def _allocation(  # noqa: PLR0917 what one row of the answer needs
        self,
        key: tuple[ContainerRef, str],
        names: set[str],
        resource: str,
        replicas: dict[str, int],
        instances: set[str],
        claimed: Counter[str],
    ) -> Allocation:
        holder, uuid = key
        total = replicas.get(uuid, 0)
        if total:
            mine = len(names - {""}) or 1
            return Allocation(holder, uuid, self._way(resource), min(1.0, mine / total))
        if claimed[uuid] > 1:  # several containers by one claim: nobody's share is known
            return Allocation(holder, uuid, self._sharing or Sharing.SHARED, 1 / claimed[uuid])
        return Allocation(holder, uuid, Sharing.MIG if uuid in instances else Sharing.EXCLUSIVE)

    def _way(self, resource: str) -> Sharing:
        """How replicas share: as told, else what NVIDIA's plugin does by default."""
        if self._sharing is not None:
            return self._sharing
        known = resource.startswith("nvidia.com/") or resource.endswith(_SHARED_SUFFIX)
        return Sharing.TIME_SLICING if known else Sharing.SHARED


def _is_gpu(claim: v1.ClaimResource, index: DeviceIndex) -> bool:
    """A GPU driver's claim, or one whose names carry the UUID of a device that is here."""
    if claim.driver_name in _GPU_DRIVERS:
        return True
    names = [claim.device_name, *(device.name for device in claim.cdi_devices)]
    return any(index.resolve(name.rpartition("=")[2]) is not None for name in names)
