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
    Collector(
        "temperature",
        "temperatures and their limits",
        (m.DEVICE_TEMPERATURE, m.DEVICE_TEMPERATURE_LIMIT),
    ),
    Collector("fan", "speed of the fans, where the device has its own", (m.DEVICE_FAN_SPEED,)),
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
    Collector(
        "nvlink",
        "bytes over NVLink (on AMD: XGMI), state, capacity and errors of the links",
        (
            m.DEVICE_NVLINK_BYTES,
            m.DEVICE_NVLINK_UP,
            m.DEVICE_NVLINK_CAPACITY,
            m.DEVICE_NVLINK_ERRORS,
        ),
    ),
    Collector("fabric", "registration with the NVSwitch fabric", (m.DEVICE_FABRIC,)),
    Collector("throttle", "seconds the clocks were held down", (m.DEVICE_THROTTLED_SECONDS,)),
    Collector("ecc", "ECC errors", (m.DEVICE_ECC_ERRORS,)),
    Collector(
        "rows",
        "remapped memory rows and retired pages",
        (
            m.DEVICE_REMAPPED_ROWS,
            m.DEVICE_REMAPPED_ROWS_PENDING,
            m.DEVICE_REMAPPED_ROWS_FAILED,
            m.DEVICE_RETIRED_PAGES,
            m.DEVICE_RETIRED_PAGES_PENDING,
        ),
    ),
    Collector(
        "modes",
        "ECC, MIG, persistence and compute mode",
        (m.DEVICE_MODE_ENABLED, m.DEVICE_MODE_ENABLED_PENDING, m.DEVICE_COMPUTE_MODE),
    ),
    Collector("serial", "serial number of the board", (m.DEVICE_SERIAL,), default=False),
    Collector("xid", "Xid errors", (m.DEVICE_XID_ERRORS, m.DEVICE_XID_LAST)),
    Collector("histogram", "histograms of a container's seconds", (m.CONTAINER_ACTIVITY,)),
)

#: Names of what is on unless the options say otherwise.
DEFAULT: Final = frozenset(one.name for one in COLLECTORS if one.default)
