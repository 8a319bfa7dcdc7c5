"""From the document's ``models`` and ``nodes`` to devices with stable made-up identities."""

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import Final

from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.metrics import Sharing, Signal
from gputailor_exporter.scenarios.document import ScenarioError, Section
from gputailor_exporter.scenarios.hardware import MODELS, GpuModel, mig_size
from gputailor_exporter.scenarios.values import Device, Node
from gputailor_exporter.vocabulary import BASIC, PROFILED

_NAME = re.compile(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")
_COMPUTE_SLICES: Final = 7


def stable_uuid(*parts: object) -> str:
    """Return a UUID that depends on nothing but its arguments."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def object_name(section: Section, key: str) -> str:
    """Return a name Kubernetes would accept."""
    name = section.text(key)
    if not _NAME.match(name):
        raise section.fail(key, f"expected a Kubernetes object name, found {name!r}")
    return name


def read_model(key: str, section: Section) -> GpuModel:
    """Return a GPU model of the document's own."""
    idle = section.number("idle_watts", 0)
    most = section.number("max_watts", idle)
    clock = section.number("clock_max_mhz", 1, default=1500.0)
    model = GpuModel(
        key=key,
        name=section.text("name"),
        product=section.text("product", section.text("name").replace(" ", "-")),
        architecture=section.text("architecture", ""),
        compute_capability=section.text("compute_capability", ""),
        memory_bytes=section.size("memory"),
        reserved_bytes=section.size("reserved", 0),
        sms=section.whole("sms", 1),
        idle_watts=idle,
        context_watts=section.number("context_watts", idle, most, idle),
        max_watts=most,
        pcie_generation=section.whole("pcie_generation", 1, 4),
        clock_max_hertz=clock * 1e6,
        memory_clock_hertz=section.number("memory_clock_mhz", 1, default=clock) * 1e6,
        gpm=section.raw("gpm") is True,
        mig_sms_per_slice=section.whole("mig_sms_per_slice", 0, 0),
        vendor=section.text("vendor", "nvidia"),
    )
    section.finish()
    return model


class _NodeReader:
    """Reads one node; counts its GPUs."""

    def __init__(self, section: Section, models: Mapping[str, GpuModel], seed: int) -> None:
        self.section = section
        self.models = models
        self.seed = seed
        self.name = object_name(section, "name")
        self.driver = section.text("driver", "580.95.05")
        self.cuda = section.text("cuda", "13.0")
        self.profiling = section.choice("profiling", ("auto", "all", "none"), "auto")
        self.devices: list[Device] = []
        self.count = 0

    def read(self) -> Node:
        for group in self.section.sections("gpus", required=True):
            self._group(group)
            group.finish()
        node = Node(
            name=self.name,
            instance_type=self.section.text("instance_type", ""),
            region=self.section.text("region", ""),
            zone=self.section.text("zone", ""),
            cpu=self.section.text("cpu", "32"),
            memory=self.section.text("memory", "128Gi"),
            labels=self.section.mapping("labels"),
            taints=self.section.texts("taints"),
            unschedulable=self.section.raw("cordoned") is True,
            devices=tuple(self.devices),
        )
        self.section.finish()
        return node

    def _group(self, group: Section) -> None:
        model = self.models[group.choice("model", self.models)]
        profiles = group.texts("mig")
        replicas = group.whole("replicas", 1, 1)
        way = group.choice("sharing", (Sharing.TIME_SLICING, Sharing.MPS), Sharing.TIME_SLICING)
        if profiles and replicas > 1:
            raise group.fail("replicas", "expected no replicas on a GPU with MIG instances")
        sharing = Sharing(way) if replicas > 1 else Sharing.EXCLUSIVE
        for _ in range(group.whole("count", 1, 1)):
            parent = self._gpu(model, sharing, replicas, mig=bool(profiles))
            self._instances(group, parent, profiles)
            self.count += 1

    def _readable(self, model: GpuModel) -> frozenset[Signal]:
        profiled = self.profiling == "all" or (self.profiling == "auto" and model.gpm)
        return BASIC | PROFILED if profiled else BASIC

    def _gpu(self, model: GpuModel, sharing: Sharing, replicas: int, *, mig: bool) -> Device:
        index = self.count
        device = Device(
            address=str(index),
            identity=DeviceIdentity(
                index=str(index),
                uuid="GPU-" + stable_uuid(self.seed, self.name, "gpu", index),
                vendor=model.vendor,
                model=model.name,
                architecture=model.architecture,
                compute_capability=model.compute_capability,
                driver_version=self.driver,
                cuda_version=self.cuda,
                pci_bus_id=f"00000000:{0x10 + index:02X}:00.0",
                mig_enabled=mig,
            ),
            model=model,
            memory_bytes=model.memory_bytes,
            reserved_bytes=model.reserved_bytes,
            sms=model.sms,
            sharing=sharing,
            replicas=replicas,
            signals=frozenset() if mig else self._readable(model),
        )
        self.devices.append(device)
        return device

    def _instances(self, group: Section, parent: Device, profiles: tuple[str, ...]) -> None:
        slices = 0
        for position, profile in enumerate(profiles):
            size = mig_size(parent.model, profile)
            if size is None:
                raise group.fail("mig", f"{parent.model.name} has no MIG profile {profile!r}")
            slices += size[0]
            self.devices.append(self._instance(parent, position, profile, size))
        if slices > _COMPUTE_SLICES:
            raise group.fail("mig", f"expected at most {_COMPUTE_SLICES} slices, found {slices}")

    def _instance(
        self, parent: Device, position: int, profile: str, size: tuple[int, int, int]
    ) -> Device:
        slices, memory_bytes, sms = size
        identity = parent.identity
        return Device(
            address=f"{parent.address}/{position}",
            identity=DeviceIdentity(
                index=identity.index,
                uuid="MIG-" + stable_uuid(identity.uuid, position, profile),
                vendor=identity.vendor,
                model=identity.model,
                architecture=identity.architecture,
                compute_capability=identity.compute_capability,
                mig_profile=profile,
                parent_uuid=identity.uuid,
                driver_version=identity.driver_version,
                cuda_version=identity.cuda_version,
                pci_bus_id=identity.pci_bus_id,
                gpu_instance_id=position + 1,
                compute_instance_id=0,
            ),
            model=parent.model,
            memory_bytes=memory_bytes,
            reserved_bytes=0,
            sms=sms,
            sharing=Sharing.MIG,
            replicas=1,
            signals=self._readable(parent.model) - BASIC,
            weight=slices / _COMPUTE_SLICES,
        )


def read_nodes(document: Section, seed: int) -> dict[str, Node]:
    """Return the nodes by name."""
    models = dict(MODELS)
    for key, section in document.named_sections("models").items():
        models[key] = read_model(key, section)
    nodes: dict[str, Node] = {}
    for section in document.sections("nodes", required=True):
        node = _NodeReader(section, models, seed).read()
        if node.name in nodes:
            raise ScenarioError(section.file, f"{section.path}.name", f"{node.name} is there twice")
        nodes[node.name] = node
    return nodes
