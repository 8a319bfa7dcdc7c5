"""What changes seldom on an NVIDIA GPU: limits, modes, state of the links, lasting damage.

These values cost as many calls as all others together and change on the scale of minutes or by an
operator's hand, so that they are read every ``SLOW_SECONDS`` and stand in between. They have their
own ``Calls``, so that their reasons stand as long as their values do.
"""

from collections.abc import Container, Mapping
from ctypes import byref
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import DeviceState, Fabric, Reason
from gputailor_exporter.devices.nvml_calls import Calls
from gputailor_exporter.devices.nvml_health import (
    CELSIUS,
    LEAST_WATTS,
    MOST_WATTS,
    read_clocks,
    read_power_limit,
    scaled,
)
from gputailor_exporter.devices.nvml_lists import count_retired_pages
from gputailor_exporter.devices.nvml_nvlink import read_nvlinks

#: Time between two readings of what changes seldom; a default of ours, half a scrape interval.
SLOW_SECONDS: Final = 30.0

MOST_ROWS: Final = 1_000_000

TEMPERATURE_LIMITS: Final[Mapping[str, int]] = {
    "shutdown": pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,
    "slowdown": pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
    "memory_max": pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX,
    "gpu_max": pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX,
}
COMPUTE_MODES: Final[Mapping[int, str]] = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive_thread",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
}
RETIREMENT_CAUSES: Final[Mapping[str, int]] = {
    "single_bit_ecc": pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
    "double_bit_ecc": pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
}
#: States of ``nvmlGpuFabricInfoV_t``; 0 is "not supported".
FABRIC_STATES: Final[Mapping[int, str]] = {1: "not_started", 2: "in_progress", 3: "completed"}
FABRIC_HEALTH: Final[Mapping[int, str]] = {1: "healthy", 2: "unhealthy", 3: "limited_capacity"}
#: The state is one byte in the driver; some bindings read the padding behind it too.
_STATE_MASK: Final = 0xFF


@dataclass(frozen=True, slots=True)
class SlowReading:
    """The values; ``reasons`` says why others are missing."""

    state: DeviceState = field(default_factory=DeviceState)
    power_limit_watts: float | None = None
    clocks_max_hertz: Mapping[str, float] = field(default_factory=dict)
    ecc_errors: Mapping[str, int] = field(default_factory=dict)
    remapped_rows: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, Reason] = field(default_factory=dict)


class SlowValues:
    """Reads one board every ``SLOW_SECONDS`` and gives what it read last in between."""

    def __init__(self, device: str, collectors: Container[str]) -> None:
        """``device`` names the device in error texts."""
        self._calls = Calls(device)
        self._collectors = collectors
        self._read_at: float | None = None
        self._last = SlowReading()

    def read(self, handle: Any, at: float) -> SlowReading:
        """Values that are at most ``SLOW_SECONDS`` old at monotonic time ``at``.

        Raises ``DeviceError`` where the device is lost.
        """
        if self._read_at is None or at - self._read_at >= SLOW_SECONDS:
            self._calls.begin(at)
            self._last = self._read(handle)
            self._read_at = at
        return self._last

    def _read(self, handle: Any) -> SlowReading:
        calls, wanted = self._calls, self._collectors
        rows: tuple[int, ...] = read_remapped_rows(calls, handle) if "rows" in wanted else ()
        return SlowReading(
            state=self._state(handle, rows),
            power_limit_watts=read_power_limit(calls, handle),
            clocks_max_hertz=read_clocks(calls, handle, highest=True) if "clocks" in wanted else {},
            ecc_errors=read_ecc_errors(calls, handle) if "ecc" in wanted else {},
            remapped_rows=dict(zip(("corrected", "uncorrected"), rows, strict=False)),
            reasons=dict(calls.reasons),
        )

    def _state(self, handle: Any, rows: tuple[int, ...]) -> DeviceState:
        calls, wanted = self._calls, self._collectors
        modes, pending = read_modes(calls, handle) if "modes" in wanted else ({}, {})
        pages, pages_wait = read_retired_pages(calls, handle) if "rows" in wanted else ({}, None)
        links = read_nvlinks(calls, handle) if "nvlink" in wanted else None
        return DeviceState(
            temperature_limits_celsius=(
                read_temperature_limits(calls, handle) if "temperature" in wanted else {}
            ),
            power_limit_default_watts=read_power_limit_default(calls, handle),
            power_limit_max_watts=read_power_limit_max(calls, handle),
            fan_speed_ratio=read_fan_speed(calls, handle) if "fan" in wanted else None,
            modes=modes,
            modes_pending=pending,
            compute_mode=read_compute_mode(calls, handle) if "modes" in wanted else "",
            remapped_rows_pending=bool(rows[2]) if rows else None,
            remapped_rows_failed=bool(rows[3]) if rows else None,
            retired_pages=pages,
            retired_pages_pending=pages_wait,
            nvlinks_up={} if links is None else links.up,
            nvlink_errors={} if links is None else links.errors,
            nvlink_bytes_per_second=None if links is None else links.bytes_per_second,
            fabric=read_fabric(calls, handle) if "fabric" in wanted else None,
            serial=read_serial(calls, handle) if "serial" in wanted else "",
        )


def read_temperature_limits(calls: Calls, handle: Any) -> dict[str, float]:
    """Degrees Celsius by limit; one reason where the driver tells none."""
    found: dict[str, float] = {}
    value = "temperature_limits"
    for name, number in TEMPERATURE_LIMITS.items():
        function = "nvmlDeviceGetTemperatureThreshold"
        answer = calls.ask(value, function, handle, number, variant=number)
        celsius = calls.number(value, answer, 1.0, CELSIUS[1])
        if celsius is not None:
            found[name] = celsius
    if found:  # a card without its own memory limit lacks nothing
        calls.reasons.pop(value, None)
    return found


def read_power_limit_default(calls: Calls, handle: Any) -> float | None:
    """Watts of the limit that holds after a restart."""
    value = "power_limit_default"
    milliwatts = calls.ask(value, "nvmlDeviceGetPowerManagementDefaultLimit", handle)
    return calls.number(value, scaled(milliwatts, 1e-3), LEAST_WATTS, MOST_WATTS)


def read_power_limit_max(calls: Calls, handle: Any) -> float | None:
    """Watts of the highest limit that an operator may set."""
    value = "power_limit_max"
    limits = calls.ask(value, "nvmlDeviceGetPowerManagementLimitConstraints", handle)
    milliwatts = None if limits is None else limits[1]
    return calls.number(value, scaled(milliwatts, 1e-3), LEAST_WATTS, MOST_WATTS)


def read_fan_speed(calls: Calls, handle: Any) -> float | None:
    """Ordered speed against the highest; above 1 where a fan may run faster than its rating."""
    percent = calls.ask("fan_speed", "nvmlDeviceGetFanSpeed", handle)
    return scaled(calls.number("fan_speed", percent, 0.0, 200.0), 0.01)


def read_modes(calls: Calls, handle: Any) -> tuple[dict[str, bool], dict[str, bool]]:
    """Modes that are on, and what those that change by a reset will be after it."""
    now: dict[str, bool] = {}
    pending: dict[str, bool] = {}
    for name, function in (("ecc", "nvmlDeviceGetEccMode"), ("mig", "nvmlDeviceGetMigMode")):
        value = f"{name}_mode"
        current, after = calls.ask(value, function, handle) or (None, None)
        for modes, told in ((now, current), (pending, after)):
            state = calls.number(value, told, 0, 1)
            if state is not None:
                modes[name] = bool(state)
    state = calls.ask("persistence_mode", "nvmlDeviceGetPersistenceMode", handle)
    state = calls.number("persistence_mode", state, 0, 1)
    if state is not None:
        now["persistence"] = bool(state)
    return now, pending


def read_compute_mode(calls: Calls, handle: Any) -> str:
    """Who may open a context on the device; empty where unknown."""
    number = calls.ask("compute_mode", "nvmlDeviceGetComputeMode", handle)
    if number is not None and number not in COMPUTE_MODES:
        calls.reasons["compute_mode"] = Reason.INVALID_VALUE
    return COMPUTE_MODES.get(number, "")


def read_ecc_errors(calls: Calls, handle: Any) -> dict[str, int]:
    """ECC errors of the device's life by severity."""
    errors: dict[str, int] = {}
    for severity, kind in (
        ("corrected", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ("uncorrected", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    ):
        arguments = (handle, kind, pynvml.NVML_AGGREGATE_ECC)
        count = calls.ask("ecc_errors", "nvmlDeviceGetTotalEccErrors", *arguments, variant=kind)
        count = calls.number("ecc_errors", count, 0, 1 << 62)
        if count is not None:
            errors[severity] = int(count)
    return errors


def read_remapped_rows(calls: Calls, handle: Any) -> tuple[int, ...]:
    """Rows remapped for corrected and uncorrected errors, whether some wait, whether one failed.

    Nothing where one of the four cannot be true.
    """
    answer = calls.ask("remapped_rows", "nvmlDeviceGetRemappedRows", handle) or ()
    known = [calls.number("remapped_rows", count, 0, MOST_ROWS) for count in answer]
    return tuple(int(count) for count in known if count is not None) if None not in known else ()


def read_retired_pages(calls: Calls, handle: Any) -> tuple[dict[str, int], bool | None]:
    """Pages by cause, and whether some wait for a restart; devices that remap rows have none."""
    pages: dict[str, int] = {}
    for name, cause in RETIREMENT_CAUSES.items():
        function = "nvmlDeviceGetRetiredPages"
        arguments = ("retired_pages", function, handle, cause)
        found = calls.ask(*arguments, variant=cause, by=count_retired_pages)
        if found is not None:
            pages[name] = found
    value = "retired_pages_pending"
    waits = calls.ask(value, "nvmlDeviceGetRetiredPagesPendingStatus", handle)
    waits = calls.number(value, waits, 0, 1)
    return pages, None if waits is None else bool(waits)


def read_fabric(calls: Calls, handle: Any) -> Fabric | None:
    """Registration with the NVSwitch fabric, by the newest layout that binding and driver share."""
    for name in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        layout = getattr(pynvml, name, None)
        if layout is None:
            continue
        info = layout()
        function = "nvmlDeviceGetGpuFabricInfoV"
        if calls.ask("fabric", function, handle, byref(info), variant=name) is None:
            continue
        state = info.state & _STATE_MASK
        if state not in FABRIC_STATES:
            calls.reasons["fabric"] = Reason.INVALID_VALUE if state else Reason.NOT_SUPPORTED
            return None
        status = ""
        if FABRIC_STATES[state] == "completed":  # only then it means anything
            status = "ok" if info.status == pynvml.NVML_SUCCESS else f"error_{info.status}"
        health = FABRIC_HEALTH.get(getattr(info, "healthSummary", 0), "")
        return Fabric(FABRIC_STATES[state], status, health)
    calls.reasons.setdefault("fabric", Reason.FUNCTION_NOT_FOUND)
    return None


def read_serial(calls: Calls, handle: Any) -> str:
    """Serial number of the board; empty where it has none."""
    return calls.ask("serial", "nvmlDeviceGetSerial", handle) or ""
