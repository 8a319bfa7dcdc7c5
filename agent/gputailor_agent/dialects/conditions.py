"""Names of what a row says of its device's health, and how a mask of NVML's reasons is read.

Our exporter counts seconds by reason (``throttled/hw_slowdown``) and errors by code (``xid/79``);
what other exporters tell becomes the same. Bits are NVML's ``nvmlClocksEventReasons``, which
DCGM hands on as they are. A reason without a bit here is a setting, or an idle card.
"""

from collections.abc import Mapping
from typing import Final

from gputailor_exporter.vocabulary import ThrottleReason

THROTTLED: Final = "throttled/"
XID: Final = "xid/"
ECC_UNCORRECTED: Final = "ecc/uncorrected"
ECC_CORRECTED: Final = "ecc/corrected"
#: Seconds in which a memory row could not be remapped, which only another card mends.
ROW_REMAP_FAILED: Final = "fault/row_remap_failed"
#: Seconds held in which nobody told whether clocks were held down, or whether errors occurred.
UNTOLD_THROTTLING: Final = "untold/throttled"
UNTOLD_ERRORS: Final = "untold/errors"
#: All of the above begin so.
OF_HEALTH: Final = (THROTTLED, XID, "ecc/", "fault/", "untold/")


def throttled(reason: str) -> str:
    """Return the condition's name of a reason that holds the clocks down."""
    return f"{THROTTLED}{reason}"


#: Heat of any kind, where an exporter does not tell software's from hardware's.
THERMAL: Final = throttled("thermal")
POWER_CAP: Final = throttled(ThrottleReason.SW_POWER_CAP)
HW_SLOWDOWN: Final = throttled(ThrottleReason.HW_SLOWDOWN)
HW_THERMAL: Final = throttled(ThrottleReason.HW_THERMAL_SLOWDOWN)
SW_THERMAL: Final = throttled(ThrottleReason.SW_THERMAL_SLOWDOWN)
POWER_BRAKE: Final = throttled(ThrottleReason.HW_POWER_BRAKE_SLOWDOWN)

#: Bits of the mask that are faults and no ordinary limit.
BITS: Final[Mapping[int, str]] = {
    0x08: HW_SLOWDOWN,
    0x20: SW_THERMAL,
    0x40: HW_THERMAL,
    0x80: POWER_BRAKE,
}
#: A mask below this has none of them.
LOWEST_BIT: Final = min(BITS)


def tells_of_health(conditions: Mapping[str, float]) -> bool:
    """Whether any of a row's conditions is of its device's health."""
    return any(name.startswith(OF_HEALTH) for name in conditions)
