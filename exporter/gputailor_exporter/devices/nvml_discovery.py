"""Which NVIDIA devices are there: GPUs and their MIG instances, and what they are called."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import DeviceIdentity, Reason
from gputailor_exporter.devices.nvml_calls import call, reason_of
from gputailor_exporter.devices.nvml_counts import MOST_INSTANCES, ImpossibleCount, counted

ARCHITECTURES: Final[Mapping[int, str]] = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_NO_INSTANCE: Final = 0xFFFFFFFF
_PROFILE: Final = re.compile(r"\bMIG (\S+)$")


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of the driver and of the CUDA that it offers; empty where unknown."""

    driver: str = ""
    cuda: str = ""


def read_versions() -> Versions:
    """Ask the driver for its versions."""
    number = _fact("nvmlSystemGetCudaDriverVersion_v2") or _fact("nvmlSystemGetCudaDriverVersion")
    cuda = f"{number // 1000}.{number % 1000 // 10}" if number else ""
    return Versions(_fact("nvmlSystemGetDriverVersion") or "", cuda)


def board_and_instances(
    index: int, versions: Versions, known: Mapping[str, DeviceIdentity]
) -> list[tuple[DeviceIdentity, Any]]:
    """Identity and handle of a GPU, then of its MIG instances.

    What is ``known`` of an unchanged GPU is not asked again. Raises ``NVMLError`` where the GPU
    does not answer, ``UnicodeDecodeError`` where its UUID is no text; a MIG instance of that kind
    is left out.
    """
    handle = call("nvmlDeviceGetHandleByIndex", index)
    uuid = call("nvmlDeviceGetUUID", handle)
    mode = _fact("nvmlDeviceGetMigMode", handle)
    mig = mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    board = known.get(uuid)
    if board is None or board.mig_enabled != mig or board.index != str(index):
        board = _identify(handle, index, uuid, versions, mig=mig)
    found = [(board, handle)]
    for place in range(_places(handle) if mig else 0):
        instance = _fact("nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        if instance is not None:
            with suppress(pynvml.NVMLError, UnicodeDecodeError):
                found.append((_instance(board, instance), instance))
    return found


def _places(handle: Any) -> int:
    """How many MIG instances to look for; a number that cannot be hides none of them."""
    places = _fact("nvmlDeviceGetMaxMigDeviceCount", handle)
    try:
        return counted("MIG instances", places or 0, MOST_INSTANCES)
    except ImpossibleCount:
        return MOST_INSTANCES


def divided(known: Iterable[DeviceIdentity]) -> frozenset[str]:
    """UUIDs of the MIG devices whose GPU instance several compute instances share."""
    places: dict[tuple[str, int | None], list[str]] = {}
    for device in known:
        if device.parent_uuid:
            places.setdefault((device.parent_uuid, device.gpu_instance_id), []).append(device.uuid)
    return frozenset(uuid for uuids in places.values() if len(uuids) > 1 for uuid in uuids)


def instance_or_board(board: str, instance: int, known: Iterable[DeviceIdentity]) -> str:
    """Uuid of the MIG device that an event names, where it names exactly one; else the GPU's."""
    fitting = [d.uuid for d in known if d.parent_uuid == board and d.gpu_instance_id == instance]
    return fitting[0] if instance != _NO_INSTANCE and len(fitting) == 1 else board


def _identify(
    handle: Any, index: int, uuid: str, versions: Versions, *, mig: bool
) -> DeviceIdentity:
    capability = _fact("nvmlDeviceGetCudaComputeCapability", handle)
    pci = _fact("nvmlDeviceGetPciInfo", handle)
    return DeviceIdentity(
        index=str(index),
        uuid=uuid,
        model=_fact("nvmlDeviceGetName", handle) or "",
        architecture=ARCHITECTURES.get(_fact("nvmlDeviceGetArchitecture", handle), ""),
        compute_capability="{}.{}".format(*capability) if capability else "",
        driver_version=versions.driver,
        cuda_version=versions.cuda,
        pci_bus_id=_bus_id(pci),
        mig_enabled=mig,
    )


def _instance(board: DeviceIdentity, handle: Any) -> DeviceIdentity:
    return DeviceIdentity(
        index=board.index,
        uuid=call("nvmlDeviceGetUUID", handle),
        model=board.model,
        architecture=board.architecture,
        compute_capability=board.compute_capability,
        mig_profile=_profile(handle),
        parent_uuid=board.uuid,
        driver_version=board.driver_version,
        cuda_version=board.cuda_version,
        pci_bus_id=board.pci_bus_id,
        gpu_instance_id=_fact("nvmlDeviceGetGpuInstanceId", handle),
        compute_instance_id=_fact("nvmlDeviceGetComputeInstanceId", handle),
    )


def _profile(handle: Any) -> str:
    """MIG profile ("1g.5gb"): the end of the device's name, else from its slices and memory."""
    name = _fact("nvmlDeviceGetName", handle) or ""
    named = _PROFILE.search(name)
    if named:
        return named.group(1)
    parts = _fact("nvmlDeviceGetAttributes", handle)
    if parts is None or not parts.gpuInstanceSliceCount:
        return ""
    profile = f"{parts.gpuInstanceSliceCount}g.{round(parts.memorySizeMB / 1024)}gb"
    if parts.computeInstanceSliceCount != parts.gpuInstanceSliceCount:
        return f"{parts.computeInstanceSliceCount}c.{profile}"
    return profile


def _bus_id(pci: Any) -> str:
    """The PCI address; empty where the driver does not tell, or tells no text."""
    try:
        return "" if pci is None else str(pci.busId)
    except UnicodeDecodeError:  # the binding decodes when the field is read
        return ""


def _fact(function: str, *arguments: Any) -> Any:
    """One fact; None where the driver does not tell. A lost GPU is an error."""
    try:
        return call(function, *arguments)
    except pynvml.NVMLError as error:
        if reason_of(error) is Reason.GPU_IS_LOST:
            raise
        return None
    except UnicodeDecodeError:  # a name of random bytes
        return None
