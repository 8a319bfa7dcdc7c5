"""Bytes over PCIe and NVLink, and the state of the PCIe link, mostly by NVML's field values.

Bytes over PCIe come only from the driver's counters (field values 197 and 198) or, failing these,
from GPM: the throughput call looks at 20 ms and would be a point sample.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pynvml

from gputailor_exporter.devices.base import FASTEST_PCIE_BYTES_PER_SECOND, PcieLink, Reason
from gputailor_exporter.devices.nvml_activity import value_of
from gputailor_exporter.devices.nvml_calls import Calls
from gputailor_exporter.devices.nvml_counts import MOST_LINKS, is_sentinel
from gputailor_exporter.devices.nvml_health import CELSIUS

#: Field number and scope (a link's number, 0, or all links).
Wish: TypeAlias = tuple[int, int]

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
LINK_COUNT: Final = (pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)
_KIB: Final = 1024
REFUSALS: Final = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT)


def ask_fields(calls: Calls, handle: Any, wishes: Sequence[Wish]) -> tuple[dict[Wish, Any], Reason]:
    """Rows of field values by wish, and why there is none where the call itself fails."""
    if not wishes:
        return {}, Reason.NOT_SUPPORTED
    # one more than wanted: some drivers write behind the end
    rows = calls.ask("field_values", "nvmlDeviceGetFieldValues", handle, [*wishes, wishes[-1]])
    reason = calls.reasons.pop("field_values", Reason.NOT_SUPPORTED)
    return dict(zip(wishes, rows or (), strict=False)), reason


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


@dataclass
class LinkCounters:
    """Counters by field number; ``pcie_modulus`` None: the PCIe counter does not wrap."""

    pcie_bytes: dict[str, int] = field(default_factory=dict)
    pcie_modulus: int | None = None
    nvlink_bytes: dict[str, int] = field(default_factory=dict)
    memory_celsius: float | None = None


class Fields:
    """Field values of one device, in one call; what is not supported is not asked again."""

    def __init__(self, collectors: Container[str]) -> None:
        """Everything that a collector wants is asked for at first."""
        self._memory = "temperature" in collectors
        self._wants_pcie = "pcie" in collectors
        self._wants_nvlink = "nvlink" in collectors
        self._refused: set[Wish] = set()
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
        wanted = [_MEMORY_TEMPERATURE] if self._memory else []
        if self._wants_pcie:
            wanted += _PCIE.values()
        if self._wants_nvlink:
            wanted += totals.values()
            if self._links is None:
                wanted.append(LINK_COUNT)
        answers = self._ask(calls, handle, wanted)
        found = LinkCounters()
        if _MEMORY_TEMPERATURE in answers:
            celsius = answers[_MEMORY_TEMPERATURE][0]
            found.memory_celsius = calls.number("temperature_memory", celsius, *CELSIUS)
        if self._wants_pcie:
            self._pcie(calls, answers, link, since, found)
        if LINK_COUNT in answers:
            self._links = calls.count("nvlink_bytes", answers[LINK_COUNT][0], MOST_LINKS)
        if self._wants_nvlink:
            self._nvlink(calls, handle, answers, totals, found)
        return found

    def _ask(
        self, calls: Calls, handle: Any, wanted: Sequence[Wish]
    ) -> dict[Wish, tuple[float, int]]:
        """(field, scope) -> (value, type number) of those that have an answer."""
        rows, self._reason = ask_fields(
            calls, handle, [wish for wish in wanted if wish not in self._refused]
        )
        answers = {}
        for wish, row in rows.items():
            if row.nvmlReturn == pynvml.NVML_SUCCESS:
                answers[wish] = (value_of(row.valueType, row.value), row.valueType)
            elif row.nvmlReturn in REFUSALS:
                self._refused.add(wish)
        return answers

    def _pcie(
        self,
        calls: Calls,
        answers: Mapping[Wish, tuple[float, int]],
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
        answers: Mapping[Wish, tuple[float, int]],
        totals: Mapping[str, Wish],
        found: LinkCounters,
    ) -> None:
        """Sum over the links; the driver's own total where it has one."""
        if not self._links:
            calls.reasons.setdefault("nvlink_bytes", self._reason)
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


def _small(calls: Calls, value: str, function: str, handle: Any) -> int | None:
    number = calls.number(value, calls.ask(value, function, handle), 1, 64)
    return None if number is None else int(number)
