"""The DRM devices of this machine, their names and the nodes programs open them by.

``/sys/class/drm/cardN/device`` leads to the device; its ``drm`` folder names its nodes in
``/dev/dri`` (``cardN``, ``renderDN``), whose numbers are their minors.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_exporter.devices.drm_sysfs import names_in, read_text

SYS: Final = Path("/sys")

#: Where distributions keep the names of PCI devices.
PCI_IDS: Final = (Path("/usr/share/hwdata/pci.ids"), Path("/usr/share/misc/pci.ids"))

VENDORS: Final = {"0x1002": "amd", "0x10de": "nvidia", "0x8086": "intel"}

_CARD: Final = re.compile(r"^card(\d+)$")
_NODE: Final = re.compile(r"^(?:card|renderD)(\d+)$")


@dataclass(frozen=True, slots=True)
class Card:
    """One DRM device. ``name``: its PCI address, or the kernel's name on another bus."""

    number: int  # of /dev/dri/cardN
    folder: Path  # in sysfs
    name: str
    driver: str
    vendor_id: str = ""  # "0x1002"; '' on another bus than PCI
    device_id: str = ""
    minors: frozenset[int] = frozenset()
    render: int | None = None  # minor of its render node

    @property
    def vendor(self) -> str:
        """Vendor in lower case; the driver's name where the bus tells no vendor."""
        return VENDORS.get(self.vendor_id, self.vendor_id or self.driver)

    @property
    def pci(self) -> bool:
        """Whether ``name`` is a PCI address."""
        return bool(self.vendor_id)


def cards(sys: Path = SYS) -> tuple[Card, ...]:
    """Return the DRM devices present, by their numbers; none where there is no DRM."""
    found = []
    for entry in names_in(sys / "class" / "drm"):
        match = _CARD.match(entry)
        if match is not None:
            card = _card(int(match[1]), sys / "class" / "drm" / entry)
            if card is not None:
                found.append(card)
    return tuple(sorted(found, key=lambda card: card.number))


def _card(number: int, entry: Path) -> Card | None:
    folder = (entry / "device").resolve()
    if not folder.is_dir():
        return None
    nodes = [match for node in names_in(folder / "drm") if (match := _NODE.match(node))]
    render = [int(match[1]) for match in nodes if match[0].startswith("renderD")]
    driver = (folder / "driver").resolve().name if (folder / "driver").exists() else ""
    return Card(
        number=number,
        folder=folder,
        name=folder.name,
        driver=driver,
        vendor_id=read_text(folder / "vendor").lower(),
        device_id=read_text(folder / "device").lower(),
        minors=frozenset(int(match[1]) for match in nodes),
        render=render[0] if render else None,
    )


def pci_name(card: Card, files: tuple[Path, ...] = PCI_IDS) -> str:
    """Return the device's name by the PCI database; '' where there is no database or entry."""
    vendor, device = card.vendor_id.removeprefix("0x"), card.device_id.removeprefix("0x")
    for file in files:
        inside = False
        for line in read_lines(file):
            if line.startswith("#") or not line.strip():
                continue
            if not line.startswith("\t"):
                inside = line.startswith(vendor)
            elif inside and line.startswith(f"\t{device}"):
                return line.strip().partition(" ")[2].strip()
    return ""


def read_lines(file: Path) -> list[str]:
    """Return the lines of a database; none where it cannot be read."""
    try:
        return file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def driver_version(sys: Path, proc: Path, driver: str) -> str:
    """Return the module's own version, else the kernel's release, of which the driver is part."""
    release = read_text(proc / "sys" / "kernel" / "osrelease")
    return read_text(sys / "module" / driver / "version") or release
