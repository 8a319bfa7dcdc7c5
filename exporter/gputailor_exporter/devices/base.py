"""What every device back end owes the sampler: values, or reasons why there is none.

A back end never invents a value. What it cannot read it leaves out and names in ``unavailable``
with a reason of ``Reason``; a sentinel or an out-of-range value is dropped or clamped and counted
by the reason ``invalid_value``. Times are seconds of the monotonic clock unless said.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from gputailor_exporter.metrics import Signal

#: Usable bytes per second, lane and direction by PCIe generation: transfer rate x line code / 8
#: (8b/10b for 1 and 2, 128b/130b for 3 to 5, 242/256 FLIT for 6). Source: PCI-SIG base
#: specifications, as tabulated in public comparisons of the generations.
PCIE_LANE_BYTES_PER_SECOND: Final[Mapping[int, float]] = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
#: The widest and fastest link there is, for where a link is unknown.
FASTEST_PCIE_BYTES_PER_SECOND: Final = 16 * PCIE_LANE_BYTES_PER_SECOND[6]


class Reason(StrEnum):
    """Why a value is missing; also the ``reason`` label."""

    NOT_SUPPORTED = "not_supported"  # the device or driver mode has no such value
    FUNCTION_NOT_FOUND = "function_not_found"  # the driver is too old to have the call
    NO_PERMISSION = "no_permission"
    GPU_IS_LOST = "gpu_is_lost"
    TIMEOUT = "timeout"
    INVALID_VALUE = "invalid_value"  # a sentinel or out of range
    CONTRADICTED = "contradicted"  # another signal proves this one wrong
    NO_SAMPLES = "no_samples"
    DRIVER_ERROR = "driver_error"
    NOT_ATTRIBUTABLE = "not_attributable"  # shared device and no per-process value
    IN_USE = "in_use"  # the driver gives the value to one client at a time, and that is not us
    HELD_BY_DCGM = "held_by_dcgm"  # likewise, and NVIDIA's host engine runs on this node


class DeviceError(Exception):
    """A device could not be read. ``reason`` is a ``Reason``; the text names the call.

    ``driver_replaced``: the driver as a whole is no longer the one this process loaded, so that
    only a new process can read any device.
    """

    def __init__(self, reason: Reason, text: str, *, driver_replaced: bool = False) -> None:
        """Keep the reason beside the text."""
        super().__init__(text)
        self.reason = reason
        self.driver_replaced = driver_replaced


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """One device: a whole GPU or a MIG instance. Empty string where a fact is unknown."""

    index: str  # the driver's index; a MIG instance carries its parent's
    uuid: str  # "GPU-…" or "MIG-…"
    vendor: str = "nvidia"
    model: str = ""
    architecture: str = ""
    compute_capability: str = ""
    mig_profile: str = ""  # "1g.5gb"
    parent_uuid: str = ""
    driver_version: str = ""
    cuda_version: str = ""
    pci_bus_id: str = ""
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    mig_enabled: bool = False  # a parent in MIG mode: keeps power, energy, temperature
    plugin_ids: tuple[str, ...] = ()  # what device plugins call it, other than by its uuid


@dataclass(frozen=True, slots=True)
class SignalReading:
    """The mean of a signal (0..1) over the last ``covers_seconds``.

    ``covers_seconds`` None: a value without a stated span; accounting lets it stand for the time
    since the previous cycle, at most the largest gap it accepts.
    """

    value: float
    covers_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """Device memory in bytes; ``used`` excludes ``reserved`` (None where the driver hides it)."""

    total_bytes: int
    used_bytes: int
    reserved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """One process on a device. None where the driver does not say."""

    pid: int
    memory_used_bytes: int | None = None
    kernel: float | None = None  # share of time, 0..1, since the previous cycle
    encoder: float | None = None
    decoder: float | None = None


@dataclass(frozen=True, slots=True)
class PcieLink:
    """PCIe link now and at best; None where unknown."""

    generation: int | None = None
    generation_max: int | None = None
    width: int | None = None
    width_max: int | None = None

    @property
    def bytes_per_second(self) -> float | None:
        """Capacity in each direction now; None where generation or width is unknown."""
        lane = PCIE_LANE_BYTES_PER_SECOND.get(self.generation or 0)
        return None if lane is None or not self.width else lane * self.width


@dataclass(frozen=True, slots=True)
class Fabric:
    """A GPU's place among those that NVSwitches join. Empty string where unknown."""

    state: str  # not_started, in_progress, completed: how far its registration is
    status: str = ""  # ok or error_N (an NVML error), once completed
    health: str = ""  # healthy, unhealthy, limited_capacity


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What changes seldom: limits, modes, links, lasting damage. Absent or None: unknown."""

    temperature_limits_celsius: Mapping[str, float] = field(default_factory=dict)
    power_limit_default_watts: float | None = None
    power_limit_max_watts: float | None = None
    fan_speed_ratio: float | None = None  # of the highest, as ordered
    modes: Mapping[str, bool] = field(default_factory=dict)  # ecc, mig, persistence -> on
    modes_pending: Mapping[str, bool] = field(default_factory=dict)  # after the next reset
    compute_mode: str = ""
    remapped_rows_pending: bool | None = None
    remapped_rows_failed: bool | None = None
    retired_pages: Mapping[str, int] = field(default_factory=dict)  # by cause
    retired_pages_pending: bool | None = None
    nvlinks_up: Mapping[str, bool] = field(default_factory=dict)  # link number -> up
    nvlink_errors: Mapping[str, int] = field(default_factory=dict)  # kind -> count over all links
    nvlink_bytes_per_second: float | None = None  # of all links that are up, in each direction
    fabric: Fabric | None = None
    serial: str = ""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One cycle's values of one device. Everything optional; reasons stand in ``unavailable``."""

    at: float
    signals: Mapping[Signal, SignalReading] = field(default_factory=dict)
    unavailable: Mapping[str, Reason] = field(default_factory=dict)  # signal or value name -> why
    memory: Memory | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    energy_joules: float | None = None  # the driver's own counter, since driver load
    temperatures_celsius: Mapping[str, float] = field(default_factory=dict)  # sensor -> value
    clocks_hertz: Mapping[str, float] = field(default_factory=dict)  # domain -> value
    clocks_max_hertz: Mapping[str, float] = field(default_factory=dict)
    pcie_bytes: Mapping[str, int] = field(default_factory=dict)  # rx, tx -> driver's raw counter
    pcie_counter_modulus: int | None = None  # raw counter wraps here; None: does not wrap
    pcie_link: PcieLink | None = None
    nvlink_bytes: Mapping[str, int] = field(default_factory=dict)  # rx, tx -> raw counter
    throttle_reasons: frozenset[str] | None = None
    ecc_errors: Mapping[str, int] = field(default_factory=dict)  # corrected, uncorrected
    remapped_rows: Mapping[str, int] = field(default_factory=dict)  # corrected, uncorrected
    state: DeviceState = field(default_factory=DeviceState)
    processes: tuple[ProcessReading, ...] | None = None  # None: cannot be read, or is not wanted
    process_utilization_known: bool = False  # per-process kernel values can be trusted


@dataclass(frozen=True, slots=True)
class XidEvent:
    """An Xid the driver reported; ``at`` is Unix time."""

    gpu_uuid: str
    xid: int
    at: float


class Backend(Protocol):
    """A way to read devices. ``read`` may block (each device has a thread of its own)."""

    name: str

    def open(self) -> None:
        """Start; raises ``DeviceError`` when there is no driver or no permission."""

    def expected(self) -> int | None:
        """Number of GPUs (not MIG instances) that should be here; None where unknown."""

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """Devices present now, MIG instances after their parent."""

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """Read one device at monotonic time ``at``; raises ``DeviceError`` when it is lost."""

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Xid events since the last call; waits at most ``timeout_seconds``."""

    def close(self) -> None:
        """Release the driver."""


@runtime_checkable
class SparesProcesses(Protocol):
    """A back end to which the list of a device's processes costs something."""

    def want_processes(self, gpu_uuids: frozenset[str]) -> None:
        """Take note whose processes are used: those of these devices, in every cycle.

        Until it is called, all are. Must not block; other threads are inside ``read`` meanwhile.
        """


def want_processes(backend: Backend, gpu_uuids: frozenset[str]) -> None:
    """Tell a back end whose processes are used, where it wants to know."""
    if isinstance(backend, SparesProcesses):
        backend.want_processes(gpu_uuids)


class Wrapped:
    """A back end that passes everything on to another one; whoever derives from it changes some."""

    def __init__(self, backend: Backend) -> None:
        """``backend`` is the one that reads."""
        self._backend = backend
        self.name = backend.name

    def open(self) -> None:
        """See ``Backend``."""
        self._backend.open()

    def expected(self) -> int | None:
        """See ``Backend``."""
        return self._backend.expected()

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """See ``Backend``."""
        return self._backend.devices()

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """See ``Backend``."""
        return self._backend.read(device, at)

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """See ``Backend``."""
        return self._backend.wait_events(timeout_seconds)

    def want_processes(self, gpu_uuids: frozenset[str]) -> None:
        """See ``SparesProcesses``."""
        want_processes(self._backend, gpu_uuids)

    def close(self) -> None:
        """See ``Backend``."""
        self._backend.close()
