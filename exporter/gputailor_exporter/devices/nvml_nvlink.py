"""State, capacity and errors of a GPU's NVLinks.

The driver gives a link's speed in MB/s and for each direction (field values 90 and, by link, 164);
the capacity is that of the links that are up. Errors come as totals over all links or, from Hopper
on, link by link.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import Reason
from gputailor_exporter.devices.nvml_activity import value_of
from gputailor_exporter.devices.nvml_calls import Calls
from gputailor_exporter.devices.nvml_counts import MOST_LINKS, is_sentinel
from gputailor_exporter.devices.nvml_links import LINK_COUNT, Wish, ask_fields

#: Speed of a link that is active, the same for all; speed of one link.
_COMMON_SPEED: Final = (pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0)
_SPEED_OF_LINK: Final = pynvml.NVML_FI_DEV_NVLINK_GET_SPEED
#: No link is faster than this, in MB/s: NVLink 5 has 50,000 in each direction.
_MOST_MB_PER_SECOND: Final = 1_000_000
_BYTES_PER_MB: Final = 1_000_000

_ERROR_TOTALS: Final[Mapping[str, Wish]] = {
    "crc_flit": (pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 0),
    "crc_data": (pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 0),
    "replay": (pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 0),
    "recovery": (pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 0),
    "ecc_data": (pynvml.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL, 0),
}
_ERRORS_OF_LINK: Final[Mapping[str, int]] = {
    "crc": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
    "replay": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
    "recovery": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
}


@dataclass(frozen=True, slots=True)
class NvLinks:
    """The links of one GPU; ``bytes_per_second`` in each direction, None where unknown."""

    up: Mapping[str, bool] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    bytes_per_second: float | None = None


def read_nvlinks(calls: Calls, handle: Any) -> NvLinks:
    """Ask for the links of a GPU; one reason (``nvlinks``) where it has none or hides them."""
    answers, reason = _ask(calls, handle, [LINK_COUNT, _COMMON_SPEED, *_ERROR_TOTALS.values()])
    count = calls.count("nvlinks", answers.get(LINK_COUNT, 0), MOST_LINKS)
    if not count:
        calls.reasons.setdefault("nvlinks", reason)
        return NvLinks()
    up: dict[str, bool] = {}
    for link in range(count):
        state = calls.ask("nvlinks", "nvmlDeviceGetNvLinkState", handle, link, variant=link)
        if calls.number("nvlinks", state, 0, 2) is not None:
            up[str(link)] = state == pynvml.NVML_FEATURE_ENABLED
    errors = {name: int(answers[wish]) for name, wish in _ERROR_TOTALS.items() if wish in answers}
    if not errors:
        errors = _errors_by_link(calls, handle, count)
    if not errors:
        calls.reasons["nvlink_errors"] = Reason.NOT_SUPPORTED
    capacity = _capacity(calls, handle, answers.get(_COMMON_SPEED), up)
    if capacity is None:
        calls.reasons["nvlink_capacity"] = Reason.NOT_SUPPORTED
    return NvLinks(up, errors, capacity)


def _ask(calls: Calls, handle: Any, wishes: list[Wish]) -> tuple[dict[Wish, float], Reason]:
    """Numbers that can be true, and why there is none."""
    rows, reason = ask_fields(calls, handle, wishes)
    answers = {}
    for wish, row in rows.items():
        if row.nvmlReturn == pynvml.NVML_SUCCESS:
            value = value_of(row.valueType, row.value)
            if not is_sentinel(value) and value >= 0:
                answers[wish] = value
    return answers, reason


def _errors_by_link(calls: Calls, handle: Any, count: int) -> dict[str, int]:
    """Sums over links; a kind that one link does not tell is left out."""
    wishes = {
        name: [(number, link) for link in range(count)] for name, number in _ERRORS_OF_LINK.items()
    }
    answers, _ = _ask(calls, handle, [wish for each in wishes.values() for wish in each])
    return {
        name: int(sum(answers[wish] for wish in each))
        for name, each in wishes.items()
        if all(wish in answers for wish in each)
    }


def _capacity(
    calls: Calls, handle: Any, common: float | None, up: Mapping[str, bool]
) -> float | None:
    """Bytes per second of all links that are up, in each direction; None where not told."""
    links = [int(link) for link, state in up.items() if state]
    if not up:
        return None
    speeds = [common] * len(links)
    if not common and links:
        answers, _ = _ask(calls, handle, [(_SPEED_OF_LINK, link) for link in links])
        speeds = [answers.get((_SPEED_OF_LINK, link)) for link in links]
    known = [speed for speed in speeds if speed and speed <= _MOST_MB_PER_SECOND]
    return sum(known) * _BYTES_PER_MB if len(known) == len(links) else None
