"""Which AMD devices are there, and what they are called.

A GPU is ``GPU-<unique_id>`` as in ROCm, else ``PCI-<address>``. A card in several compute
partitions (``current_compute_partition`` other than SPX) is a parent that keeps power, energy and
temperature, followed by its partitions. The first partition goes by the card's own nodes, the
others by the platform devices ``amdgpu_xcp_N`` that the driver makes for them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_exporter.devices.amd_topology import ComputeNode, compute_nodes
from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.devices.drm_cards import (
    Card,
    cards,
    driver_version,
    pci_name,
    read_lines,
)
from gputailor_exporter.devices.drm_sysfs import read_text

DRIVER: Final = "amdgpu"
#: libdrm's marketing names: "device id, revision, name" a line, in hexadecimal without 0x.
MARKETING_NAMES: Final = Path("/usr/share/libdrm/amdgpu.ids")


@dataclass(frozen=True, slots=True)
class AmdDevice:
    """One device: a card, or a partition of one."""

    identity: DeviceIdentity
    card: Card  # the partition's parent, for a partition
    node: ComputeNode | None = None  # None: KFD does not drive it
    partition: int | None = None
    minors: frozenset[int] = frozenset()


class Discovery:
    """Finds devices; remembers names, which cost a search in a database."""

    def __init__(self, sys: Path, proc: Path, marketing_names: Path = MARKETING_NAMES) -> None:
        """``sys``, ``proc``: the host's."""
        self._sys = sys
        self._proc = proc
        self._marketing_names = marketing_names
        self._models: dict[str, str] = {}

    def devices(self) -> tuple[AmdDevice, ...]:
        """Return the devices present, by PCI address, partitions after their card."""
        present = cards(self._sys)
        own = sorted((one for one in present if one.driver == DRIVER and one.pci), key=_by_name)
        if not own:
            return ()
        nodes = compute_nodes(self._sys)
        version = driver_version(self._sys, self._proc, DRIVER)
        found: list[AmdDevice] = []
        for index, card in enumerate(own):
            mine = [node for node in nodes if card.name.startswith(f"{node.address}.")]
            found.extend(self._card(index, card, mine, present, version))
        return tuple(found)

    def _card(
        self,
        index: int,
        card: Card,
        nodes: list[ComputeNode],
        present: Iterable[Card],
        version: str,
    ) -> Iterable[AmdDevice]:
        first = nodes[0] if nodes else None
        parted = len(nodes) > 1
        identity = DeviceIdentity(
            index=str(index),
            uuid=_uuid(card, first),
            vendor="amd",
            model=self._model(card),
            architecture=first.architecture if first else "",
            driver_version=version,
            pci_bus_id=card.name,
            mig_enabled=parted,
            plugin_ids=() if parted else _plugin_ids(card, card.name),
        )
        yield AmdDevice(identity, card, None if parted else first, minors=card.minors)
        if parted:
            by_render = {one.render: one for one in present}
            for node in nodes:
                yield _partition(identity, card, node, by_render)

    def _model(self, card: Card) -> str:
        model = self._models.get(card.name)
        if model is None:
            model = read_text(card.folder / "product_name") or self._marketing_name(card)
            model = model or pci_name(card) or f"AMD {card.device_id.removeprefix('0x')}"
            self._models[card.name] = model
        return model

    def _marketing_name(self, card: Card) -> str:
        wanted = card.device_id.removeprefix("0x").upper()
        revision = read_text(card.folder / "revision").removeprefix("0x").upper()
        for line in read_lines(self._marketing_names):
            parts = [part.strip() for part in line.split(",", 2)]
            if parts[:2] == [wanted, revision] and len(parts) == 3:  # noqa: PLR2004 - a whole line
                return parts[2]
        return ""


def _by_name(card: Card) -> str:
    return card.name


def _uuid(card: Card, node: ComputeNode | None) -> str:
    unique = read_text(card.folder / "unique_id")
    if not unique and node is not None and node.unique_id:
        unique = f"{node.unique_id:016x}"
    return f"GPU-{unique}" if unique.strip("0") else f"PCI-{card.name}"


def _plugin_ids(card: Card, name: str) -> tuple[str, ...]:
    """Return AMD's device plugin's id and the name its DRA driver gives the device."""
    return (name, f"gpu-{card.number}-{card.render}") if card.render is not None else (name,)


def _partition(
    parent: DeviceIdentity, card: Card, node: ComputeNode, by_render: Mapping[int | None, Card]
) -> AmdDevice:
    profile = "_".join(
        text.lower()
        for kind in ("compute", "memory")
        if (text := read_text(card.folder / f"current_{kind}_partition"))
    )
    own = by_render.get(node.render, card)
    identity = DeviceIdentity(
        index=parent.index,
        uuid=f"{parent.uuid}-xcp-{node.partition}",
        vendor=parent.vendor,
        model=parent.model,
        architecture=node.architecture,
        mig_profile=profile,
        parent_uuid=parent.uuid,
        driver_version=parent.driver_version,
        pci_bus_id=parent.pci_bus_id,
        plugin_ids=_plugin_ids(own, own.name),
    )
    return AmdDevice(identity, card, node, node.partition, frozenset({node.render}) | own.minors)
