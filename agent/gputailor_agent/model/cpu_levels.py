"""How many CPUs a container used, as time by level: the histogram that a quantile is read from.

CPUs have no upper end, so the edges rise by a constant ratio, four to an octave: a quantile is
known to 19 %, stated as the interval between two edges. Each level is an amount of a row ("seconds
that so many CPUs were used"), so rows merge in any order and any grouping, and a row of an older
version, which has none, merges as one of which nobody told. Levels are means of five minutes.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

#: Amounts of a row begin so; the rest is the level's upper edge in CPUs, 0 for none at all.
PREFIX: Final = "host/cpus_at/"
_TO_AN_OCTAVE: Final = 4
#: The ratio of an edge to the one below it: what a quantile is known to.
RATIO: Final = 2 ** (1 / _TO_AN_OCTAVE)
#: Below 1/64 of a CPU a container does nothing that anybody asks for; one level holds it all.
_LOWEST: Final = -6 * _TO_AN_OCTAVE
#: A value on an edge belongs to it, though its logarithm may come out above.
_ROUNDED: Final = 1e-9


class CpuLevel(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile of the CPUs that any one container used: it lies in [low, high]."""

    q: float
    low: float
    high: float
    seconds: float  # of all containers, of which a level is known


def level(cpus: float) -> str:
    """Return the name of the amount that counts time at so many CPUs, 0 or more."""
    if cpus <= 0:
        return f"{PREFIX}0"
    place = max(_LOWEST, math.ceil(_TO_AN_OCTAVE * math.log2(cpus) - _ROUNDED))
    return f"{PREFIX}{2 ** (place / _TO_AN_OCTAVE):.6g}"


def quantile(amounts: Mapping[str, float], q: float) -> CpuLevel | None:
    """Nearest-rank quantile (``q`` in 0..1) of the time by level; None where nobody told."""
    levels = sorted(
        (float(name.removeprefix(PREFIX)), seconds)
        for name, seconds in amounts.items()
        if name.startswith(PREFIX) and seconds > 0
    )
    total = sum(seconds for _, seconds in levels)
    if total <= 0:
        return None
    seen, high = 0.0, 0.0
    for edge, seconds in levels:
        seen, high = seen + seconds, edge
        if seen >= q * total:
            break
    return CpuLevel(q=q, low=high / RATIO, high=high, seconds=total)
