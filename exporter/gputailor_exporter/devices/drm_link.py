"""The PCIe link of a device, by the files every PCI device has."""

from typing import Final

from gputailor_exporter.devices.base import PcieLink
from gputailor_exporter.devices.drm_sysfs import DeviceFiles

#: Transfers a second and lane in 1e9 -> generation (PCI-SIG base specifications).
_GENERATIONS: Final = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_VALUE: Final = "pcie_link"


def read_pcie_link(files: DeviceFiles) -> PcieLink | None:
    """Return the link now and at best; None, with a reason, where nothing of it can be read.

    The files say "16.0 GT/s PCIe" and "16"; a device behind a switch of its own board shows the
    link to that switch.
    """
    link = PcieLink(
        generation=_generation(files, "current_link_speed"),
        generation_max=_generation(files, "max_link_speed"),
        width=_width(files, "current_link_width"),
        width_max=_width(files, "max_link_width"),
    )
    return None if link == PcieLink() else link


def _generation(files: DeviceFiles, file: str) -> int | None:
    text = files.text(_VALUE, file) or ""
    try:
        return _GENERATIONS.get(float(text.partition(" ")[0]))
    except ValueError:  # "Unknown"
        return None


def _width(files: DeviceFiles, file: str) -> int | None:
    text = files.text(_VALUE, file) or ""
    return int(text) if text.isdecimal() and 0 < int(text) <= 32 else None  # noqa: PLR2004 - lanes
