"""Numbers of the NVIDIA driver that stand for "no value", and counts that cannot be.

Whatever the driver counts and a loop of ours runs to goes through ``counted``: a blank of 32 bits
would be four billion GPUs, links or processes.
"""

import math
from typing import Final

#: Blank values: from the top of the signed 64-bit range on (DCGM's blanks, such as
#: 9223372036854775794) up to all bits set (NVML's own). Blanks of 32 bits fall to the limits.
_BLANK_64: Final = 0x7FFFFFFFFFFFFFF0

#: The most there can be of each, well above what exists (in brackets).
MOST_GPUS: Final = 256  # of a machine (16 to 32)
MOST_INSTANCES: Final = 64  # MIG instances of a GPU (7)
MOST_LINKS: Final = 64  # NVLinks of a GPU (18 on Hopper and Blackwell)
MOST_ROWS: Final = 1 << 16  # rows of a list of samples, processes or retired pages
MOST_EVENTS: Final = 4096  # taken at once; the rest waits for the next call


class ImpossibleCount(ValueError):  # noqa: N818 - said as it is read
    """The driver counts more of something than there can be."""


def counted(what: str, answer: float, most: int) -> int:
    """Return the driver's count of ``what``; raises ``ImpossibleCount`` where it cannot be one."""
    if is_sentinel(answer) or not 0 <= answer <= most:
        raise ImpossibleCount(f"the driver counts {answer:g} {what}; more than {most} cannot be")
    return int(answer)


def is_sentinel(value: float) -> bool:
    """Whether a number stands for "no value" (blank of NVML or DCGM, NaN, infinity)."""
    return not math.isfinite(value) or value >= _BLANK_64
