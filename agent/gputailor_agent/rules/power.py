"""Does the power drawn agree with "nothing ran"? Counters can stick at 0 (Xid 31); watts do not.

A card with a loaded context draws more than one without; how much no maker publishes. The limit is
a share of the card's board power, but never less than a floor (a T4 or L4 with a context draws
close to half of its 70 W); both are this project's own defaults. Energy of MIG instances and shared
devices is not theirs alone, so they cannot be checked this way.
"""

from typing import Final

from gputailor_agent.model.profile import GpuUse
from gputailor_agent.rules.base import Context, Limits, Threshold
from gputailor_agent.rules.pricing import spec_of

POWER_THRESHOLDS: Final = (
    Threshold(
        "power_share",
        0.35,
        "ratio",
        "share of the board power above which zero activity is not believed",
    ),
    Threshold("power_floor_watts", 45.0, "watts", "least watts that contradict zero activity"),
)


def idle_watts_limit(context: Context, use: GpuUse, limits: Limits) -> float | None:
    """Watts above which the device cannot have been idle; None where that cannot be told."""
    device, spec = use.device, spec_of(context, use)
    if device is None or device.mig_profile or use.share < 1 or spec is None:
        return None
    board = spec.tdp_watts or device.power_limit_watts
    if board is None:
        return None
    return max(limits["power_share"] * board, limits["power_floor_watts"])


def least_idle_watts(
    context: Context, use: GpuUse, busy_seconds: float, idle_seconds: float
) -> float | None:
    """Least mean power of the idle part, were all other time spent at full board power.

    ``busy_seconds`` is what was observed in hours with any activity (0: exact). None where energy
    or board power is not known.
    """
    if use.energy_joules is None or idle_seconds <= 0:
        return None
    if busy_seconds <= 0:
        return use.energy_joules / idle_seconds
    spec = spec_of(context, use)
    device = use.device
    board = (device.power_limit_watts if device is not None else None) or (
        spec.tdp_watts if spec is not None else None
    )
    if board is None:
        return None
    return max(0.0, use.energy_joules - board * busy_seconds) / idle_seconds
