"""The contract: every metric family the exporter publishes, declared once.

Dashboards and the agent import names from here and nothing else of the exporter. Base units, no
percent. The unit of truth is a pair of counters: seconds a signal was active (the integral of its
0..1 value) and seconds it was observed; the mean over any window is rise(active) / rise(observed).
A signal that cannot be read is absent, and ``exporter_signal_unavailable`` says why; it is never 0.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIX: Final = "gputailor_"


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


DEVICE_LABELS: Final = ("node", "gpu", "gpu_uuid")
CONTAINER_LABELS: Final = ("node", "namespace", "pod", "pod_uid", "container", "gpu_uuid")


def _device(name: str, kind: Kind, text: str, *labels: str, unit: str = "") -> Family:
    return Family(PREFIX + "device_" + name, kind, text, (*DEVICE_LABELS, *labels), unit)


def _container(name: str, kind: Kind, text: str, *labels: str, unit: str = "") -> Family:
    return Family(PREFIX + "container_gpu_" + name, kind, text, (*CONTAINER_LABELS, *labels), unit)


def _self(name: str, kind: Kind, text: str, *labels: str, unit: str = "") -> Family:
    return Family(PREFIX + "exporter_" + name, kind, text, labels, unit)


DEVICE_INFO: Final = _device(
    "info",
    Kind.GAUGE,
    "Identity of the device; the value is always 1. A MIG instance is a device with a parent.",
    "vendor",
    "model",
    "architecture",
    "compute_capability",
    "mig_profile",
    "parent_uuid",
    "driver_version",
    "cuda_version",
    "pci_bus_id",
)
DEVICE_ACTIVE_SECONDS: Final = _device(
    "active_seconds_total",
    Kind.COUNTER,
    "Seconds the signal was active: the integral of its 0..1 value over observed time.",
    "signal",
    unit="seconds",
)
DEVICE_OBSERVED_SECONDS: Final = _device(
    "observed_seconds_total",
    Kind.COUNTER,
    "Seconds the signal was readable; gaps are not counted.",
    "signal",
    unit="seconds",
)
DEVICE_ACTIVITY_RATIO: Final = _device(
    "activity_ratio",
    Kind.GAUGE,
    "Mean of the signal since the previous cycle, for people who look; rules use the counters.",
    "signal",
    unit="ratio",
)
DEVICE_MEMORY_TOTAL: Final = _device(
    "memory_total_bytes", Kind.GAUGE, "Memory of the device.", unit="bytes"
)
DEVICE_MEMORY_USED: Final = _device(
    "memory_used_bytes",
    Kind.GAUGE,
    "Memory in use, without what the driver reserves.",
    unit="bytes",
)
DEVICE_MEMORY_RESERVED: Final = _device(
    "memory_reserved_bytes", Kind.GAUGE, "Memory the driver keeps for itself.", unit="bytes"
)
DEVICE_POWER: Final = _device("power_watts", Kind.GAUGE, "Power drawn now.", unit="watts")
DEVICE_POWER_LIMIT: Final = _device(
    "power_limit_watts", Kind.GAUGE, "Power limit in force.", unit="watts"
)
DEVICE_ENERGY: Final = _device(
    "energy_joules_total", Kind.COUNTER, "Energy drawn since the exporter started.", unit="joules"
)
DEVICE_ENERGY_SOURCE: Final = Family(
    PREFIX + "device_energy_source_info",
    Kind.GAUGE,
    "Where the energy counter comes from: the driver's counter or the integral of power.",
    ("node", "gpu_uuid", "source"),
)
DEVICE_TEMPERATURE: Final = _device(
    "temperature_celsius", Kind.GAUGE, "Temperature by sensor.", "sensor", unit="celsius"
)
DEVICE_CLOCK: Final = _device("clock_hertz", Kind.GAUGE, "Clock by domain.", "domain", unit="hertz")
DEVICE_CLOCK_MAX: Final = _device(
    "clock_max_hertz", Kind.GAUGE, "Highest clock by domain.", "domain", unit="hertz"
)
DEVICE_PCIE_BYTES: Final = _device(
    "pcie_bytes_total",
    Kind.COUNTER,
    "Bytes over PCIe, seen from the device.",
    "direction",
    unit="bytes",
)
DEVICE_PCIE_GENERATION: Final = _device(
    "pcie_link_generation", Kind.GAUGE, "PCIe generation of the link now."
)
DEVICE_PCIE_GENERATION_MAX: Final = _device(
    "pcie_link_generation_max", Kind.GAUGE, "Highest PCIe generation of device and slot."
)
DEVICE_PCIE_WIDTH: Final = _device("pcie_link_width", Kind.GAUGE, "PCIe lanes in use now.")
DEVICE_PCIE_WIDTH_MAX: Final = _device(
    "pcie_link_width_max", Kind.GAUGE, "Most PCIe lanes of device and slot."
)
DEVICE_NVLINK_BYTES: Final = _device(
    "nvlink_bytes_total", Kind.COUNTER, "Bytes over NVLink.", "direction", unit="bytes"
)
DEVICE_THROTTLED_SECONDS: Final = _device(
    "throttled_seconds_total",
    Kind.COUNTER,
    "Seconds the clocks were held down, by reason; an idle device's low clock is not counted.",
    "reason",
    unit="seconds",
)
DEVICE_XID_ERRORS: Final = _device(
    "xid_errors_total", Kind.COUNTER, "Xid errors by code since the exporter started.", "xid"
)
DEVICE_XID_LAST: Final = _device(
    "xid_last_timestamp_seconds",
    Kind.GAUGE,
    "When the Xid was last seen, in Unix time.",
    "xid",
    unit="seconds",
)
DEVICE_ECC_ERRORS: Final = _device(
    "ecc_errors_total", Kind.COUNTER, "ECC errors of the device's life.", "severity"
)
DEVICE_REMAPPED_ROWS: Final = _device(
    "remapped_rows_total", Kind.COUNTER, "Memory rows remapped, by cause.", "cause"
)
DEVICE_UP: Final = _device(
    "up", Kind.GAUGE, "1 while the device answers; 0 when it is lost or hangs."
)
DEVICE_UNATTRIBUTED_ACTIVE_SECONDS: Final = _device(
    "unattributed_active_seconds_total",
    Kind.COUNTER,
    "Active seconds of a shared device that belong to no container.",
    "signal",
    unit="seconds",
)
DEVICE_UNATTRIBUTED_MEMORY: Final = _device(
    "unattributed_memory_used_bytes",
    Kind.GAUGE,
    "Memory of a shared device that belongs to no container.",
    unit="bytes",
)
DEVICE_UNATTRIBUTED_ENERGY: Final = _device(
    "unattributed_energy_joules_total",
    Kind.COUNTER,
    "Energy of a shared device that belongs to no container.",
    unit="joules",
)

CONTAINER_ALLOCATED: Final = _container(
    "allocated",
    Kind.GAUGE,
    "1 from the moment kubelet hands the device out; vanishes when the container ends.",
    "sharing",
)
CONTAINER_ALLOCATED_SHARE: Final = _container(
    "allocated_share",
    Kind.GAUGE,
    "1, or replicas held / replicas of the device.",
)
CONTAINER_ALLOCATED_SECONDS: Final = _container(
    "allocated_seconds_total",
    Kind.COUNTER,
    "Seconds the container held the device while the exporter ran.",
    unit="seconds",
)
CONTAINER_ACTIVE_SECONDS: Final = _container(
    "active_seconds_total",
    Kind.COUNTER,
    "Seconds the signal was active for this container: the integral of its 0..1 value.",
    "signal",
    unit="seconds",
)
CONTAINER_OBSERVED_SECONDS: Final = _container(
    "observed_seconds_total",
    Kind.COUNTER,
    "Seconds the signal was readable for this container.",
    "signal",
    unit="seconds",
)
CONTAINER_ACTIVITY: Final = _container(
    "activity",
    Kind.HISTOGRAM,
    "One-second values of the signal; width is sm / kernel while kernels run.",
    "signal",
)
CONTAINER_CONDITION_SECONDS: Final = _container(
    "condition_seconds_total",
    Kind.COUNTER,
    "Seconds a joint one-second condition held.",
    "condition",
    unit="seconds",
)
CONTAINER_LINK_BYTES: Final = _container(
    "link_bytes_total",
    Kind.COUNTER,
    "Bytes over a link of the container's device.",
    "link",
    "direction",
    unit="bytes",
)
CONTAINER_MEMORY_USED: Final = _container(
    "memory_used_bytes", Kind.GAUGE, "GPU memory in use by the container.", unit="bytes"
)
CONTAINER_MEMORY_PEAK: Final = _container(
    "memory_peak_bytes",
    Kind.GAUGE,
    "Highest GPU memory in use since the allocation began.",
    unit="bytes",
)
CONTAINER_ENERGY: Final = _container(
    "energy_joules_total", Kind.COUNTER, "Energy that fell to the container.", unit="joules"
)
CONTAINER_LAST_ACTIVE: Final = _container(
    "last_active_timestamp_seconds",
    Kind.GAUGE,
    "When a kernel, the encoder or the decoder was last active, in Unix time.",
    unit="seconds",
)

EXPORTER_BUILD_INFO: Final = _self(
    "build_info", Kind.GAUGE, "Version of the exporter; the value is always 1.", "version"
)
EXPORTER_CYCLE_DURATION: Final = _self(
    "cycle_duration_seconds",
    Kind.GAUGE,
    "Duration of the device's last measuring cycle.",
    "gpu_uuid",
    unit="seconds",
)
EXPORTER_LAST_SUCCESS: Final = _self(
    "last_success_timestamp_seconds",
    Kind.GAUGE,
    "When the source was last read well, in Unix time.",
    "source",
    unit="seconds",
)
EXPORTER_ERRORS: Final = _self(
    "errors_total", Kind.COUNTER, "Failures by source and reason.", "source", "reason"
)
EXPORTER_SIGNAL_UNAVAILABLE: Final = _self(
    "signal_unavailable",
    Kind.GAUGE,
    "1 for each signal that cannot be read, with the reason.",
    "gpu_uuid",
    "signal",
    "reason",
)
EXPORTER_DEVICES: Final = _self(
    "devices", Kind.GAUGE, "Devices expected on this node and devices present.", "state"
)
#: Standard name of every Prometheus client: lets a reader see a restart of the exporter.
PROCESS_START_TIME: Final = Family(
    "process_start_time_seconds",
    Kind.GAUGE,
    "Start time of the process since unix epoch in seconds.",
    (),
    "seconds",
)

FAMILIES: Final[tuple[Family, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Family)
)
