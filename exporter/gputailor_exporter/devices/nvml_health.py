"""Memory, power, energy, temperatures, clocks, links, throttling and memory errors of one device.

Bytes over PCIe come only from the driver's counters (field values 197 and 198) or, failing these,
from GPM: the throughput call looks at 20 ms and would be a point sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import (
    FASTEST_PCIE_BYTES_PER_SECOND,
    Memory,
    PcieLink,
    Reason,
)
from gputailor_exporter.devices.nvml_activity import value_of
from gputailor_exporter.devices.nvml_calls import Calls, is_sentinel
from gputailor_exporter.metrics import ThrottleReason

#: Limits beyond which a number is nonsense; well above any device.
MOST_WATTS: Final = 20_000.0
MOST_MEGAHERTZ: Final = 20_000.0
CELSIUS: Final = (-60.0, 250.0)
MOST_ROWS: Final = 1_000_000

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

#: Scope of a field value that asks for the sum over all NVLinks.
_ALL_LINKS: Final = 0xFFFFFFFF
_MEMORY_TEMPERATURE: Final = (pynvml.NVML_FI_DEV_MEMORY_TEMP, 0)
_PCIE: Final = {
    "tx": (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
    "rx": (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
}
_NVLINK: Final = {
    "tx": pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
    "rx": pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
}
_LINK_COUNT: Final = (pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)
_KIB: Final = 1024
_REFUSALS: Final = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT)


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
    return calls.number("power", _scaled(milliwatts, 1e-3), 0.0, MOST_WATTS)


def read_power_limit(calls: Calls, handle: Any) -> float | None:
    """Watts that the card may draw now."""
    milliwatts = calls.first(
        "power_limit",
        ("nvmlDeviceGetEnforcedPowerLimit", handle),
        ("nvmlDeviceGetPowerManagementLimit", handle),
    )
    return calls.number("power_limit", _scaled(milliwatts, 1e-3), 0.0, MOST_WATTS)


def read_energy(calls: Calls, handle: Any) -> float | None:
    """Joules drawn since the driver was loaded."""
    millijoules = calls.ask("energy", "nvmlDeviceGetTotalEnergyConsumption", handle)
    joules = calls.number("energy", millijoules, 0.0, float(1 << 62))
    return _scaled(joules, 1e-3)


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
        if highest:  # asked once, so its reason would come and go
            calls.reasons.pop(value, None)
    return clocks


def read_pcie_link(calls: Calls, handle: Any, before: PcieLink | None) -> PcieLink | None:
    """The link now; its maxima do not change and are asked for once."""
    generation = _small(calls, "pcie_link", "nvmlDeviceGetCurrPcieLinkGeneration", handle)
    width = _small(calls, "pcie_link", "nvmlDeviceGetCurrPcieLinkWidth", handle)
    if before is None:
        generation_max = _small(calls, "pcie_link", "nvmlDeviceGetMaxPcieLinkGeneration", handle)
        width_max = _small(calls, "pcie_link", "nvmlDeviceGetMaxPcieLinkWidth", handle)
    else:
        generation_max, width_max = before.generation_max, before.width_max
    link = PcieLink(generation, generation_max, width, width_max)
    if link == PcieLink():
        return None
    calls.reasons.pop("pcie_link", None)
    return link


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


def read_remapped_rows(calls: Calls, handle: Any) -> dict[str, int]:
    """Memory rows remapped, by the kind of error that caused it."""
    answer = calls.ask("remapped_rows", "nvmlDeviceGetRemappedRows", handle)
    rows = {}
    for cause, count in zip(("corrected", "uncorrected"), answer or (), strict=False):
        if calls.number("remapped_rows", count, 0, MOST_ROWS) is not None:
            rows[cause] = int(count)
    return rows


@dataclass
class LinkCounters:
    """Counters by field number; ``modulus`` None: the PCIe counter does not wrap."""

    pcie_bytes: dict[str, int] = field(default_factory=dict)
    pcie_modulus: int | None = None
    nvlink_bytes: dict[str, int] = field(default_factory=dict)
    memory_celsius: float | None = None


class Fields:
    """Field values of one device, in one call; what is not supported is not asked again."""

    def __init__(self) -> None:
        """Everything is asked for at first."""
        self._refused: set[tuple[int, int]] = set()
        self._links: int | None = None
        self._round = 0
        self._reason = Reason.NOT_SUPPORTED

    def read(
        self, calls: Calls, handle: Any, link: PcieLink | None, since: float | None
    ) -> LinkCounters:
        """Counters now. ``since``: seconds since the reading before, None at the first."""
        if self._round != calls.rounds:
            self._refused, self._links, self._round = set(), None, calls.rounds
        totals = {direction: (number, _ALL_LINKS) for direction, number in _NVLINK.items()}
        wanted = [_MEMORY_TEMPERATURE, *_PCIE.values(), *totals.values()]
        if self._links is None:
            wanted.append(_LINK_COUNT)
        answers = self._ask(calls, handle, wanted)
        found = LinkCounters()
        if _MEMORY_TEMPERATURE in answers:
            celsius = answers[_MEMORY_TEMPERATURE][0]
            found.memory_celsius = calls.number("temperature_memory", celsius, *CELSIUS)
        self._pcie(calls, answers, link, since, found)
        if _LINK_COUNT in answers:
            self._links = int(answers[_LINK_COUNT][0])
        self._nvlink(calls, handle, answers, totals, found)
        return found

    def _ask(
        self, calls: Calls, handle: Any, wanted: list[tuple[int, int]]
    ) -> dict[tuple[int, int], tuple[float, int]]:
        """(field, scope) -> (value, type number) of those that have an answer."""
        ids = [wish for wish in wanted if wish not in self._refused]
        if not ids:
            return {}
        # one more than wanted: some drivers write behind the end
        rows = calls.ask("field_values", "nvmlDeviceGetFieldValues", handle, [*ids, ids[-1]])
        self._reason = calls.reasons.pop("field_values", Reason.NOT_SUPPORTED)
        answers = {}
        for wish, row in zip(ids, rows or (), strict=False):
            if row.nvmlReturn == pynvml.NVML_SUCCESS:
                answers[wish] = (value_of(row.valueType, row.value), row.valueType)
            elif row.nvmlReturn in _REFUSALS:
                self._refused.add(wish)
        return answers

    def _pcie(
        self,
        calls: Calls,
        answers: Mapping[tuple[int, int], tuple[float, int]],
        link: PcieLink | None,
        since: float | None,
        found: LinkCounters,
    ) -> None:
        for direction, wish in _PCIE.items():
            value, kind = answers.get(wish, (None, 0))
            if value is None:
                calls.reasons.setdefault("pcie_bytes", self._reason)
            elif is_sentinel(value):
                calls.reasons["pcie_bytes"] = Reason.INVALID_VALUE
            else:
                found.pcie_bytes[direction] = int(value)
                if kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
                    found.pcie_modulus = 1 << 32
        if found.pcie_modulus and _may_lap(found.pcie_modulus, link, since):
            calls.reasons["pcie_bytes"] = Reason.CONTRADICTED
            found.pcie_bytes, found.pcie_modulus = {}, None

    def _nvlink(
        self,
        calls: Calls,
        handle: Any,
        answers: Mapping[tuple[int, int], tuple[float, int]],
        totals: Mapping[str, tuple[int, int]],
        found: LinkCounters,
    ) -> None:
        """Sum over the links; the driver's own total where it has one."""
        if not self._links:
            calls.reasons["nvlink_bytes"] = self._reason
            return
        per_link = {
            direction: [(number, link) for link in range(self._links)]
            for direction, number in _NVLINK.items()
            if totals[direction] in self._refused
        }
        more = self._ask(calls, handle, [wish for wishes in per_link.values() for wish in wishes])
        known = {**answers, **more}
        for direction in _NVLINK:
            wishes = per_link.get(direction, [totals[direction]])
            values = [known[wish][0] for wish in wishes if wish in known]
            if len(values) < len(wishes):
                calls.reasons["nvlink_bytes"] = Reason.NOT_SUPPORTED
            elif any(is_sentinel(value) for value in values):
                calls.reasons["nvlink_bytes"] = Reason.INVALID_VALUE
            else:
                found.nvlink_bytes[direction] = int(sum(values)) * _KIB


def _may_lap(modulus: int, link: PcieLink | None, since: float | None) -> bool:
    """Whether the link could move a whole turn of the counter between two readings.

    Then the difference of two readings is anybody's guess. An unknown link is taken as fast.
    """
    if since is None:
        return False
    capacity = (link.bytes_per_second if link else None) or FASTEST_PCIE_BYTES_PER_SECOND
    return capacity * since >= modulus


def _scaled(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor


def _small(calls: Calls, value: str, function: str, handle: Any) -> int | None:
    number = calls.number(value, calls.ask(value, function, handle), 1, 64)
    return None if number is None else int(number)
