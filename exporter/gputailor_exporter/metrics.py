"""The contract: every metric family the exporter publishes, declared once.

Dashboards and the agent import names from here and nothing else of the exporter. Base units, no
percent. The unit of truth is a pair of counters: seconds a signal was active (the integral of its
0..1 value) and seconds it was observed; the mean over any window is rise(active) / rise(observed).
A signal that cannot be read is absent, and ``exporter_signal_unavailable`` says why; it is never 0.
"""

from typing import Final

from gputailor_exporter.vocabulary import (
    CONTAINER_SIGNALS,
    HISTOGRAM_BOUNDS,
    HISTOGRAM_SIGNALS,
    WIDTH,
    Condition,
    Family,
    Kind,
    Sharing,
    Signal,
    ThrottleReason,
)

#: What is declared elsewhere and belongs to the contract; the families follow below.
__all__ = [
    "CONTAINER_SIGNALS",
    "HISTOGRAM_BOUNDS",
    "HISTOGRAM_SIGNALS",
    "WIDTH",
    "Condition",
    "Family",
    "Kind",
    "Sharing",
    "Signal",
    "ThrottleReason",
]

PREFIX: Final = "gputailor_"

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
DEVICE_POWER_LIMIT_DEFAULT: Final = _device(
    "power_limit_default_watts", Kind.GAUGE, "Power limit the device starts with.", unit="watts"
)
DEVICE_POWER_LIMIT_MAX: Final = _device(
    "power_limit_max_watts", Kind.GAUGE, "Highest power limit that may be set.", unit="watts"
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
DEVICE_TEMPERATURE_LIMIT: Final = _device(
    "temperature_limit_celsius",
    Kind.GAUGE,
    "Temperature at which the device slows down or shuts down, or that a part may reach at most.",
    "limit",
    unit="celsius",
)
DEVICE_FAN_SPEED: Final = _device(
    "fan_speed_ratio",
    Kind.GAUGE,
    "Speed the fans are told to run at, against the highest.",
    unit="ratio",
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
    "nvlink_bytes_total",
    Kind.COUNTER,
    "Bytes over NVLink; on AMD over XGMI.",
    "direction",
    unit="bytes",
)
DEVICE_NVLINK_UP: Final = _device(
    "nvlink_up", Kind.GAUGE, "1 while the NVLink is active, 0 while it is not.", "link"
)
DEVICE_NVLINK_CAPACITY: Final = _device(
    "nvlink_capacity_bytes_per_second",
    Kind.GAUGE,
    "Speed of all NVLinks that are up together, in each direction.",
)
DEVICE_NVLINK_ERRORS: Final = _device(
    "nvlink_errors_total", Kind.COUNTER, "Errors of all NVLinks together, by kind.", "error"
)
DEVICE_FABRIC: Final = _device(
    "fabric_info",
    Kind.GAUGE,
    "State of the device's registration with the NVSwitch fabric; the value is always 1.",
    "state",
    "status",
    "health",
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
DEVICE_REMAPPED_ROWS_PENDING: Final = _device(
    "remapped_rows_pending", Kind.GAUGE, "1 while rows wait for a reset to be remapped."
)
DEVICE_REMAPPED_ROWS_FAILED: Final = _device(
    "remapped_rows_failed", Kind.GAUGE, "1 if a row could not be remapped: replace the device."
)
DEVICE_RETIRED_PAGES: Final = _device(
    "retired_pages_total",
    Kind.COUNTER,
    "Memory pages taken out of use for good, by cause (devices without row remapping).",
    "cause",
)
DEVICE_RETIRED_PAGES_PENDING: Final = _device(
    "retired_pages_pending", Kind.GAUGE, "1 while pages wait for a restart to be taken out of use."
)
DEVICE_MODE_ENABLED: Final = _device(
    "mode_enabled", Kind.GAUGE, "1 while the mode is on: ecc, mig, persistence.", "mode"
)
DEVICE_MODE_ENABLED_PENDING: Final = _device(
    "mode_enabled_pending",
    Kind.GAUGE,
    "What the mode will be after the next reset of the device.",
    "mode",
)
DEVICE_COMPUTE_MODE: Final = _device(
    "compute_mode",
    Kind.GAUGE,
    "1 for the mode in force: who may open a context on the device.",
    "mode",
)
DEVICE_SERIAL: Final = _device(
    "serial_info", Kind.GAUGE, "Serial number of the board; the value is always 1.", "serial"
)
DEVICE_UP: Final = _device(
    "up", Kind.GAUGE, "1 while the device answers; 0 when it is lost or hangs."
)
DEVICE_INVALID_VALUES: Final = _device(
    "invalid_values_total",
    Kind.COUNTER,
    "Cycles in which a value that cannot be true (a sentinel, out of range) was dropped.",
    "signal",
)
DEVICE_UNATTRIBUTED_ACTIVE_SECONDS: Final = _device(
    "unattributed_active_seconds_total",
    Kind.COUNTER,
    "Active seconds of the device that belong to no container.",
    "signal",
    unit="seconds",
)
DEVICE_UNATTRIBUTED_MEMORY: Final = _device(
    "unattributed_memory_used_bytes",
    Kind.GAUGE,
    "Memory of the device that belongs to no container.",
    unit="bytes",
)
DEVICE_UNATTRIBUTED_ENERGY: Final = _device(
    "unattributed_energy_joules_total",
    Kind.COUNTER,
    "Energy of the device that belongs to no container.",
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
    "Bytes over a link of the container's device; AMD's XGMI stands under nvlink.",
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
EXPORTER_DEVICE_LAST_SUCCESS: Final = _self(
    "device_last_success_timestamp_seconds",
    Kind.GAUGE,
    "When the device was last read well, in Unix time: its age is time() minus this.",
    "gpu_uuid",
    unit="seconds",
)
EXPORTER_DEVICE_FAILURE: Final = _self(
    "device_failure",
    Kind.GAUGE,
    "1 while the device does not answer, with the reason.",
    "gpu_uuid",
    "reason",
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
