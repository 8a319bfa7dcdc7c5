"""The words of the contract: signals, ways of sharing, conditions, and what a metric family is.

Label values and shapes that every part agrees on. They are imported from ``metrics``, which
declares the families themselves.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Signal(StrEnum):
    """Activity signals, each a value in 0..1; names as NVML's and DCGM's users know them."""

    KERNEL = "kernel"  # some kernel ran (NVML "GPU utilisation")
    GRAPHICS = "graphics"  # the graphics/compute engine was busy
    SM = "sm"  # mean share of SMs with a warp resident
    OCCUPANCY = "occupancy"  # resident warps against the possible
    TENSOR = "tensor"  # tensor pipe
    FP64 = "fp64"
    FP32 = "fp32"
    FP16 = "fp16"
    INTEGER = "integer"
    DRAM = "dram"  # device memory bandwidth
    MEMCOPY = "memcopy"  # NVML "memory utilisation": time memory was read or written
    ENCODER = "encoder"
    DECODER = "decoder"


#: What NVML alone can read of a whole GPU.
BASIC: Final = frozenset({Signal.KERNEL, Signal.MEMCOPY, Signal.ENCODER, Signal.DECODER})
#: What GPM (Hopper and later) or DCGM's profiling adds; all that is left on a MIG instance.
PROFILED: Final = frozenset(Signal) - BASIC

WIDTH: Final = "width"  # sm / kernel while kernels run; only in the container histogram

#: Signals of which container counters are kept (those that rules read).
CONTAINER_SIGNALS: Final[tuple[Signal, ...]] = (
    Signal.KERNEL,
    Signal.SM,
    Signal.TENSOR,
    Signal.FP64,
    Signal.FP32,
    Signal.FP16,
    Signal.DRAM,
    Signal.ENCODER,
    Signal.DECODER,
)

#: Signals with a histogram of one-second values per container.
HISTOGRAM_SIGNALS: Final[tuple[str, ...]] = (
    Signal.KERNEL,
    Signal.SM,
    Signal.TENSOR,
    Signal.DRAM,
    WIDTH,
)

#: Upper bounds (inclusive) of the container histogram; +Inf is implied. Zero has its own bucket.
HISTOGRAM_BOUNDS: Final[tuple[float, ...]] = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)


class Condition(StrEnum):
    """Joint one-second conditions that means cannot show."""

    AMP_CANDIDATE = "amp_candidate"  # sm >= 0.40, tensor < 0.05, fp32 >= 0.20, fp64 < 0.05
    ZERO_INSIDE_ACTIVE_MINUTE = "zero_inside_active_minute"
    LINK_SATURATED = "link_saturated"  # PCIe or NVLink at 0.6 of the link or more


class ThrottleReason(StrEnum):
    """What holds the clocks down, as NVML names it. An idle GPU's low clock is not among them."""

    APPLICATIONS_CLOCKS_SETTING = "applications_clocks_setting"
    SW_POWER_CAP = "sw_power_cap"
    HW_SLOWDOWN = "hw_slowdown"
    SYNC_BOOST = "sync_boost"
    SW_THERMAL_SLOWDOWN = "sw_thermal_slowdown"
    HW_THERMAL_SLOWDOWN = "hw_thermal_slowdown"
    HW_POWER_BRAKE_SLOWDOWN = "hw_power_brake_slowdown"
    DISPLAY_CLOCK_SETTING = "display_clock_setting"


class Sharing(StrEnum):
    """How a container holds a device."""

    EXCLUSIVE = "exclusive"
    MIG = "mig"
    TIME_SLICING = "time_slicing"
    MPS = "mps"
    SHARED = "shared"  # shared, and the way is not known


class Kind(StrEnum):
    """Metric types of the exposition formats."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family. ``name`` is the full sample name, with ``_total`` for counters."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    unit: str = ""
