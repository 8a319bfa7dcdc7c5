"""From hourly rows and the inventory to one profile per workload: pure, exact, no clock.

``tally`` adds rows up, ``holding`` says which pod held how many devices and for how long,
``runs`` tells runs apart, ``splitting`` what a name only seemed to join, ``building`` puts them
together. What rules rely on:

* sums are exact (every additive figure lies on the grid of ``model.usage.quantise``), so any order
  and grouping of the same rows gives the same profile, bit for bit;
* a row whose pod is not in the inventory becomes a workload of kind ``Pod`` of its own: history is
  never dropped because a look-up failed;
* a device that a pod asked for and no source ever measured is a ``GpuUse`` with an empty
  ``gpu_uuid`` and no signals: time without coverage, never zero.
"""

from gputailor_agent.model.packed import BUSY_SIGNALS
from gputailor_agent.profiles.building import build_profiles
from gputailor_agent.profiles.holding import Holdings, asked_gpus
from gputailor_agent.profiles.tally import (
    Tally,
    busy_signal,
    merge_rows,
    merge_uses,
)

__all__ = [
    "BUSY_SIGNALS",
    "Holdings",
    "Tally",
    "asked_gpus",
    "build_profiles",
    "busy_signal",
    "merge_rows",
    "merge_uses",
]
