"""What was asked for, as a Prometheus remembers it from kube-state-metrics.

It serves where neither files nor a live cluster were named: nothing but the Prometheus need be
reachable, and runs that ended and were deleted before anybody looked are known, too.
"""

import logging
import math
from typing import Final

from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.inventory.kube_state_metrics import accelerator_pattern, inventory_of
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS

log = logging.getLogger(__name__)

_OVERLAP_SECONDS: Final = float(HOUR_SECONDS)


def read_recorded(access: PrometheusAccess, cluster: str, window: Window) -> Inventory:
    """The inventory as of the window's end, with the pods that went within it.

    A server without kube-state-metrics gives an empty one that says so. Raises
    ``PrometheusError``.
    """
    with access.states() as reader:
        state = reader.read(accelerator_pattern(), window.start, window.end)
        log.info(
            "kube-state-metrics in %s: %d series, %d requests, %d samples touched",
            reader.address,
            len(state.samples),
            reader.cost.requests,
            reader.cost.samples,
        )
    return inventory_of(state, cluster)


class RecordedInventory:
    """An agent's inventory reader: reads the whole window once, then each hour what is new.

    Within an hour the last reading is given again, with the time that it was made.
    """

    def __init__(self, access: PrometheusAccess, cluster: str, window_seconds: float) -> None:
        self._access = access
        self._cluster = cluster
        self._window_seconds = window_seconds
        self._last: Inventory | None = None

    def __call__(self, at: float) -> Inventory:
        """The inventory of the hour that ``at`` (Unix seconds) lies in."""
        last = self._last
        if last is not None and _hour(last.at) == _hour(at):
            return last
        start = at - self._window_seconds
        if last is not None and last.complete and start < last.at <= at:
            start = last.at - _OVERLAP_SECONDS
        found = read_recorded(self._access, self._cluster, Window(start=start, end=at))
        self._last = found
        return found


def _hour(at: float) -> int:
    return math.floor(at / HOUR_SECONDS)
