"""What the exporter collects, in parts that can be turned off one by one.

A collector that is off is neither asked of the driver nor published, and is not listed as
unavailable: nobody wanted it. ``--collect.NAME=false`` turns one off, ``--collect.NAME=true`` on;
the registry gives the flag, the row in docs/metrics.md and the families.
"""

from dataclasses import dataclass
from typing import Final

from gputailor_exporter import metrics as m
from gputailor_exporter.metrics import Family


@dataclass(frozen=True, slots=True)
class Collector:
    """One part: ``families`` vanish with it; ``default`` says whether it is on unasked."""

    name: str
    help: str
    families: tuple[Family, ...] = ()
    default: bool = True


COLLECTORS: Final[tuple[Collector, ...]] = (
    Collector("gpm", "SM, tensor, FP and DRAM activity by the driver's GPM (Hopper and later)"),
    Collector("clocks", "clocks now and at most", (m.DEVICE_CLOCK, m.DEVICE_CLOCK_MAX)),
    Collector("temperature", "temperatures", (m.DEVICE_TEMPERATURE,)),
    Collector(
        "pcie",
        "bytes over PCIe and the state of the link",
        (
            m.DEVICE_PCIE_BYTES,
            m.DEVICE_PCIE_GENERATION,
            m.DEVICE_PCIE_GENERATION_MAX,
            m.DEVICE_PCIE_WIDTH,
            m.DEVICE_PCIE_WIDTH_MAX,
        ),
    ),
    Collector("nvlink", "bytes over NVLink", (m.DEVICE_NVLINK_BYTES,)),
    Collector("throttle", "seconds the clocks were held down", (m.DEVICE_THROTTLED_SECONDS,)),
    Collector("ecc", "ECC errors", (m.DEVICE_ECC_ERRORS,)),
    Collector("rows", "remapped memory rows", (m.DEVICE_REMAPPED_ROWS,)),
    Collector("xid", "Xid errors", (m.DEVICE_XID_ERRORS, m.DEVICE_XID_LAST)),
    Collector("histogram", "histograms of a container's seconds", (m.CONTAINER_ACTIVITY,)),
)

#: Names of what is on unless the options say otherwise.
DEFAULT: Final = frozenset(one.name for one in COLLECTORS if one.default)
