"""Memory, power, energy, temperature, clocks and throttling of one device, each in its own call."""

from collections.abc import Mapping
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import Memory, Reason
from gputailor_exporter.devices.nvml_calls import Calls
from gputailor_exporter.devices.nvml_counts import is_sentinel
from gputailor_exporter.metrics import ThrottleReason

#: Limits beyond which a number is nonsense; well above any device.
MOST_WATTS: Final = 20_000.0
#: A card that answers draws something, and may: NVML's least unit. 0 is a blank.
LEAST_WATTS: Final = 1e-3
MOST_MEGAHERTZ: Final = 20_000.0
#: From 1 up: a blank comes as 0 or, where the call is signed, as -1 to -16.
CELSIUS: Final = (1.0, 250.0)

CLOCKS: Final[Mapping[str, int]] = {
    "graphics": pynvml.NVML_CLOCK_GRAPHICS,
    "sm": pynvml.NVML_CLOCK_SM,
    "memory": pynvml.NVML_CLOCK_MEM,
    "video": pynvml.NVML_CLOCK_VIDEO,
}
#: Bits of the clocks-event reasons. NVML tells a GPU's rest by the same call: nothing holds its
#: clocks down then, so that bit is no throttling.
GPU_IDLE: Final = pynvml.nvmlClocksThrottleReasonGpuIdle
THROTTLE_REASONS: Final[Mapping[int, str]] = {
    0x002: ThrottleReason.APPLICATIONS_CLOCKS_SETTING,
    0x004: ThrottleReason.SW_POWER_CAP,
    0x008: ThrottleReason.HW_SLOWDOWN,
    0x010: ThrottleReason.SYNC_BOOST,
    0x020: ThrottleReason.SW_THERMAL_SLOWDOWN,
    0x040: ThrottleReason.HW_THERMAL_SLOWDOWN,
    0x080: ThrottleReason.HW_POWER_BRAKE_SLOWDOWN,
    0x100: ThrottleReason.DISPLAY_CLOCK_SETTING,
}


def read_memory(calls: Calls, handle: Any) -> Memory | None:
    """Device memory in bytes; version 1 of the call counts what the driver reserves as used."""
    info = calls.ask("memory", "nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2, variant=2)
    if info is None:
        info = calls.ask("memory", "nvmlDeviceGetMemoryInfo", handle)
    if info is None:
        return None
    reserved = getattr(info, "reserved", None)
    if is_sentinel(info.total) or info.total == 0 or info.used + (reserved or 0) > info.total:
        calls.reasons["memory"] = Reason.INVALID_VALUE
        return None
    return Memory(info.total, info.used, reserved)


def read_power(calls: Calls, handle: Any) -> float | None:
    """Watts drawn."""
    milliwatts = calls.ask("power", "nvmlDeviceGetPowerUsage", handle)
    return calls.number("power", scaled(milliwatts, 1e-3), LEAST_WATTS, MOST_WATTS)


def read_power_limit(calls: Calls, handle: Any) -> float | None:
    """Watts that the card may draw now."""
    milliwatts = calls.first(
        "power_limit",
        ("nvmlDeviceGetEnforcedPowerLimit", handle),
        ("nvmlDeviceGetPowerManagementLimit", handle),
    )
    return calls.number("power_limit", scaled(milliwatts, 1e-3), LEAST_WATTS, MOST_WATTS)


def read_energy(calls: Calls, handle: Any) -> float | None:
    """Joules drawn since the driver was loaded."""
    millijoules = calls.ask("energy", "nvmlDeviceGetTotalEnergyConsumption", handle)
    joules = calls.number("energy", millijoules, 0.0, float(1 << 62))
    return scaled(joules, 1e-3)


def read_temperature(calls: Calls, handle: Any) -> float | None:
    """Degrees Celsius of the GPU chip."""
    answer = calls.first(
        "temperature",
        ("nvmlDeviceGetTemperatureV", handle, pynvml.NVML_TEMPERATURE_GPU),
        ("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU),
    )
    return calls.number("temperature", answer, *CELSIUS)


def read_clocks(calls: Calls, handle: Any, *, highest: bool = False) -> dict[str, float]:
    """Hertz by domain: now, or the highest."""
    function = "nvmlDeviceGetMaxClockInfo" if highest else "nvmlDeviceGetClockInfo"
    clocks: dict[str, float] = {}
    for domain, number in CLOCKS.items():
        value = f"clock_max_{domain}" if highest else f"clock_{domain}"
        megahertz = calls.ask(value, function, handle, number, variant=number)
        megahertz = calls.number(value, megahertz, 0.0, MOST_MEGAHERTZ)
        if megahertz is not None:
            clocks[domain] = megahertz * 1e6
    return clocks


def read_throttle_reasons(calls: Calls, handle: Any) -> frozenset[str] | None:
    """Names of the reasons that hold the clocks down now; a bit without a name is ``bit_N``."""
    bits = calls.first(
        "throttle_reasons",
        ("nvmlDeviceGetCurrentClocksEventReasons", handle),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
    )
    if bits is None:
        return None
    if is_sentinel(bits):
        calls.reasons["throttle_reasons"] = Reason.INVALID_VALUE
        return None
    held = bits & ~GPU_IDLE
    places = [place for place in range(held.bit_length()) if held >> place & 1]
    return frozenset(THROTTLE_REASONS.get(1 << place, f"bit_{place}") for place in places)


def scaled(number: float | None, factor: float) -> float | None:
    """A number in another unit; None stays None."""
    return None if number is None else number * factor
