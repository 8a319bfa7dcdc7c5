"""Device ids as device plugins and DRA drivers name them, matched with the devices of this node.

Forms: ``GPU-<uuid>``, ``MIG-<uuid>``, ``MIG-GPU-<uuid>/<gi>/<ci>`` (drivers before R470), a PCI
address (AMD's plugin; its partitions and other vendors' devices go by their back end's
``plugin_ids``), any of them with ``::<replica>`` (NVIDIA's plugin: time-slicing, MPS),
``_<replica>`` or ``-slice-<replica>`` (AMD's plugin), Intel's ``card0-<replica>``, GKE's
``nvidia0``, ``nvidia0/gi1``, ``nvidia0/vgpu0``, ``nvidia0/gi1/vgpu0``, and the names ``gpu-0``,
``gpu-0-mig-1g10gb-19-0`` of the DRA driver ``gpu.nvidia.com``: parent, profile without its points,
the driver's number of the profile, the slice it starts at. The number in the last two is the
driver's minor number (``/dev/nvidia0``), not NVML's index. HAMi's ``GPU-<uuid>-<n>`` are left alone
on purpose: its scheduler hands out other devices than kubelet believes, so that its ids say nothing
of who holds what.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gputailor_exporter.devices.base import DeviceIdentity

_LEGACY_MIG = re.compile(r"^MIG-(?P<parent>GPU-[0-9a-fA-F-]+)/(?P<gi>\d+)/(?P<ci>\d+)$")
_GKE = re.compile(r"^nvidia(?P<gpu>\d+)(/gi(?P<gi>\d+))?(/vgpu(?P<replica>\d+))?$")
_DRA = re.compile(r"^gpu-(?P<gpu>\d+)(-mig-(?P<profile>\d.*?)(-\d+-\d+)?)?$")
_REPLICA = re.compile(r"^(?P<base>.+?)(?:::(?P<named>.+)|(?:_|-slice-)(?P<numbered>\d+))$")
_SHARED_CARD = re.compile(r"^(?P<base>card\d+)-(?P<numbered>\d+)$")
_PCI = re.compile(r"^(?:[0-9a-f]{4,8}:)?(?P<short>[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$")
_PCI_DOMAIN = re.compile(r"^0*(?P<domain>[0-9a-f]*):[0-9a-f]{2}:")

#: Minor number -> UUID; where it is not known NVML's index stands in for it.
Minors = Callable[[], Mapping[str, str]]


def _no_minors() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device and, where the id names a replica of it, which one."""

    uuid: str
    replica: str = ""


@dataclass(frozen=True, slots=True)
class MigPlace:
    """A MIG instance by its parent's minor number and its instance ids."""

    minor: str
    gpu_instance: int
    compute_instance: int | None = None


_NO_PLACES: Final[Callable[[str], MigPlace | None]] = lambda _: None  # noqa: E731 a constant


class DeviceIndex:
    """Finds devices by the ids others use for them."""

    def __init__(
        self,
        devices: Iterable[DeviceIdentity],
        minors: Minors = _no_minors,
        places: Callable[[str], MigPlace | None] = _NO_PLACES,
    ) -> None:
        """Index the devices that are present.

        ``minors`` is asked once, when a number has to be understood; ``places`` tells which MIG
        instance a CDI device's name means.
        """
        self._by_uuid: dict[str, DeviceIdentity] = {}
        self._by_pci: dict[str, DeviceIdentity] = {}
        self._by_index: dict[str, DeviceIdentity] = {}
        self._instances: dict[str, list[DeviceIdentity]] = {}
        self._minors = minors
        self._by_minor: Mapping[str, str] | None = None
        self._places = places
        for device in devices:
            self._by_uuid[device.uuid.lower()] = device
            self._by_uuid.update((name.lower(), device) for name in device.plugin_ids)
            if device.parent_uuid:
                self._instances.setdefault(device.parent_uuid, []).append(device)
                continue
            if device.vendor == "nvidia":  # the forms with numbers are NVIDIA's
                self._by_index[device.index] = device
            if device.pci_bus_id:
                self._by_pci[_pci(device.pci_bus_id)] = device

    def resolve(self, device_id: str) -> DeviceRef | None:
        """Return the device a plugin's id means; None when it is none of this node's."""
        whole = self._plain(device_id)
        if whole is not None:
            return whole
        replica = _REPLICA.match(device_id) or _SHARED_CARD.match(device_id)
        if replica is None:
            return None
        found = self._plain(replica["base"])
        if found is None or found.replica:
            return None
        groups = replica.groupdict()
        return DeviceRef(found.uuid, groups.get("named") or replica["numbered"])

    def resolve_claim(self, device_name: str, cdi_names: Iterable[str] = ()) -> DeviceRef | None:
        """Return the device a DRA claim means: by a UUID in its names, else by its number.

        A MIG device whose name fits several instances is told by its CDI specification; where
        that is not to be read it stays unresolved.
        """
        names = [device_name, *cdi_names]
        for name in names:
            found = self.resolve(name.rpartition("=")[2])
            if found is not None:
                return found
        match = _DRA.match(device_name)
        if match is None:
            return None
        gpu = self._gpu(match["gpu"])
        if gpu is None or match["profile"] is None:
            return None if gpu is None else DeviceRef(gpu.uuid)
        wanted = _profile(match["profile"])
        instances = self._instances.get(gpu.uuid, ())
        fitting = [one for one in instances if _profile(one.mig_profile) == wanted]
        if len(fitting) == 1:
            return DeviceRef(fitting[0].uuid)
        return self._placed(names[1:]) if fitting else None

    def _placed(self, cdi_names: Iterable[str]) -> DeviceRef | None:
        for name in cdi_names:
            place = self._places(name)
            gpu = None if place is None else self._gpu(place.minor)
            if place is None or gpu is None:
                continue
            found = self._instance(gpu.uuid, place.gpu_instance, place.compute_instance)
            if found is not None:
                return DeviceRef(found.uuid)
        return None

    def _plain(self, device_id: str) -> DeviceRef | None:
        known = self._by_uuid.get(device_id.lower()) or self._by_pci.get(_pci(device_id))
        if known is not None:
            return DeviceRef(known.uuid)
        legacy = _LEGACY_MIG.match(device_id)
        if legacy is not None:
            return self._legacy(legacy)
        gke = _GKE.match(device_id)
        return None if gke is None else self._gke(gke)

    def _gpu(self, number: str) -> DeviceIdentity | None:
        if self._by_minor is None:
            self._by_minor = self._minors()
        uuid = self._by_minor.get(number)
        if uuid is None and not self._by_minor:
            return self._by_index.get(number)
        return None if uuid is None else self._by_uuid.get(uuid.lower())

    def _instance(self, parent: str, gi: int, ci: int | None) -> DeviceIdentity | None:
        fitting = [
            one
            for one in self._instances.get(parent, ())
            if one.gpu_instance_id == gi and (ci is None or one.compute_instance_id == ci)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _legacy(self, match: re.Match[str]) -> DeviceRef | None:
        parent = self._by_uuid.get(match["parent"].lower())
        if parent is None:
            return None
        found = self._instance(parent.uuid, int(match["gi"]), int(match["ci"]))
        return None if found is None else DeviceRef(found.uuid)

    def _gke(self, match: re.Match[str]) -> DeviceRef | None:
        found = self._gpu(match["gpu"])
        if found is not None and match["gi"] is not None:
            found = self._instance(found.uuid, int(match["gi"]), None)
        return None if found is None else DeviceRef(found.uuid, match["replica"] or "")


def _profile(name: str) -> str:
    """A profile's name as DRA writes it: "1g.24gb+me" and "1g24gb-me" are the same."""
    return re.sub(r"[^0-9a-z]", "", name.lower())


def _pci(address: str) -> str:
    """A PCI address without the zeros that some write before its domain."""
    text = address.lower()
    match = _PCI.match(text)
    if match is None:
        return text
    domain = _PCI_DOMAIN.match(text)
    return f"{domain['domain'] if domain else ''}:{match['short']}"
