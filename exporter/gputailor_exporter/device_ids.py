"""Device ids as device plugins and DRA drivers name them, matched with the devices of this node.

Forms: ``GPU-<uuid>``, ``MIG-<uuid>``, ``MIG-GPU-<uuid>/<gi>/<ci>`` (drivers before R470), any of
them with ``::<replica>`` (time-slicing, MPS), GKE's ``nvidia0``, ``nvidia0/gi1``,
``nvidia0/vgpu0``, ``nvidia0/gi1/vgpu0``, and DRA's ``gpu-0``, ``gpu-0-mig-…`` of the driver
``gpu.nvidia.com``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gputailor_exporter.devices.base import DeviceIdentity

_LEGACY_MIG = re.compile(r"^MIG-(?P<parent>GPU-[0-9a-fA-F-]+)/(?P<gi>\d+)/(?P<ci>\d+)$")
_GKE = re.compile(r"^nvidia(?P<gpu>\d+)(/gi(?P<gi>\d+))?(/vgpu(?P<replica>\d+))?$")
_DRA = re.compile(r"^gpu-(?P<gpu>\d+)(-mig-(?P<profile>[^-]+)(-[0-9-]+)?)?$")


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device and, where the id names a replica of it, which one."""

    uuid: str
    replica: str = ""


class DeviceIndex:
    """Finds devices by the ids others use for them."""

    def __init__(self, devices: Iterable[DeviceIdentity]) -> None:
        """Index the devices that are present."""
        self._by_uuid: dict[str, DeviceIdentity] = {}
        self._gpus: dict[str, DeviceIdentity] = {}
        self._instances: dict[str, list[DeviceIdentity]] = {}
        for device in devices:
            self._by_uuid[device.uuid.lower()] = device
            if device.parent_uuid:
                self._instances.setdefault(device.parent_uuid, []).append(device)
            else:
                self._gpus[device.index] = device

    def resolve(self, device_id: str) -> DeviceRef | None:
        """Return the device a plugin's id means; None when it is none of this node's."""
        base, _, replica = device_id.partition("::")
        known = self._by_uuid.get(base.lower())
        if known is not None:
            return DeviceRef(known.uuid, replica)
        legacy = _LEGACY_MIG.match(base)
        if legacy is not None:
            return self._legacy(legacy, replica)
        gke = _GKE.match(base)
        if gke is not None and not replica:
            return self._gke(gke)
        return None

    def resolve_claim(self, device_name: str, cdi_names: Iterable[str] = ()) -> DeviceRef | None:
        """Return the device a DRA claim means: by a UUID in its names, else by its number.

        A MIG device whose name does not single out one instance stays unresolved.
        """
        for name in (device_name, *cdi_names):
            found = self.resolve(name.rpartition("=")[2])
            if found is not None:
                return found
        match = _DRA.match(device_name)
        if match is None:
            return None
        gpu = self._gpus.get(match["gpu"])
        if gpu is None or match["profile"] is None:
            return None if gpu is None else DeviceRef(gpu.uuid)
        wanted = match["profile"].replace(".", "")
        fitting = [
            one
            for one in self._instances.get(gpu.uuid, ())
            if one.mig_profile.replace(".", "") == wanted
        ]
        return DeviceRef(fitting[0].uuid) if len(fitting) == 1 else None

    def _instance(self, parent: str, gi: int, ci: int | None) -> DeviceIdentity | None:
        fitting = [
            one
            for one in self._instances.get(parent, ())
            if one.gpu_instance_id == gi and (ci is None or one.compute_instance_id == ci)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _legacy(self, match: re.Match[str], replica: str) -> DeviceRef | None:
        parent = self._by_uuid.get(match["parent"].lower())
        if parent is None:
            return None
        found = self._instance(parent.uuid, int(match["gi"]), int(match["ci"]))
        return None if found is None else DeviceRef(found.uuid, replica)

    def _gke(self, match: re.Match[str]) -> DeviceRef | None:
        found = self._gpus.get(match["gpu"])
        if found is not None and match["gi"] is not None:
            found = self._instance(found.uuid, int(match["gi"]), None)
        return None if found is None else DeviceRef(found.uuid, match["replica"] or "")
