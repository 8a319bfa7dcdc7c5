"""What all profiles of a cluster have in common, whichever of them are built together.

A large cluster is judged in parts. What a profile says must not depend on which part it was built
in, so everything that comes from the whole cluster (its pods, its devices, when anybody first
looked) is found once, here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from gputailor_agent.model.containers import CONTAINER_ITSELF
from gputailor_agent.model.inventory import Inventory, Node
from gputailor_agent.model.packed import DAY_SECONDS, PlacedPart, hour_of, part_of, place_of
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageRow
from gputailor_agent.profiles.attributing import Attribution
from gputailor_agent.profiles.describing import latest_devices
from gputailor_agent.profiles.holding import Holdings

_WHOLE_HOUR: Final = float(HOUR_SECONDS)


class Beginning(NamedTuple):
    """The first hour of a window with use, and how long any device was held in it at most."""

    hour: float
    allocated_seconds: float


@dataclass(frozen=True)
class Surroundings:
    """``window`` begins at a whole hour; ``began`` None: not known, to be found from the rows."""

    inventory: Inventory
    nodes: dict[str, Node]
    devices: dict[str, Device]
    holdings: Holdings
    window: Window
    measured_since: float | None
    began: Beginning | None

    @classmethod
    def of(
        cls,
        inventory: Inventory,
        devices: Iterable[Device],
        window: Window,
        *,
        measured_since: float | None = None,
        began: Beginning | None = None,
        holdings: Holdings | None = None,
    ) -> "Surroundings":
        """Index the cluster; ``holdings`` where its pods are indexed already."""
        return cls(
            inventory=inventory,
            nodes={node.name: node for node in inventory.nodes},
            devices=latest_devices(devices),
            holdings=holdings or Holdings(inventory),
            window=whole_hours(window),
            measured_since=measured_since,
            began=began,
        )

    def looked(self, began: Beginning | None) -> Window:
        """The part of the window in which anybody looked, given its first use."""
        window = self.window
        if began is None or began.hour >= window.end:
            return window
        first = began.hour
        since = min(window.end, first + _WHOLE_HOUR) - min(began.allocated_seconds, _WHOLE_HOUR)
        known = self.measured_since
        if known is not None and first <= known < first + _WHOLE_HOUR:
            since = min(since, known)
        return Window(start=max(first, since), end=window.end)


def whole_hours(window: Window) -> Window:
    """The window from the hour on in which it begins."""
    start = int(window.start // HOUR_SECONDS) * HOUR_SECONDS
    return Window(start=float(start), end=window.end)


def beginning(
    read: Callable[[float, float], Iterable[UsageRow | PlacedPart]],
    attribution: Attribution,
    window: Window,
) -> Beginning | None:
    """Find the first use of the window by reading no more days than that takes.

    ``read`` yields the rows of [start, end); those without a pod count once they are attributed.
    """
    start, end = whole_hours(window).start, window.end
    while start < end:
        until = min(end, float((start // DAY_SECONDS + 1) * DAY_SECONDS))
        found: Beginning | None = None
        for row in attribution.attributed(read(start, until)):
            found = _earlier(found, row, start, until)
            if found is not None and found.hour == start and found.allocated_seconds >= _WHOLE_HOUR:
                return found
        if found is not None:
            return found
        start = until
    return None


def _earlier(
    known: Beginning | None, row: UsageRow | PlacedPart, start: float, end: float
) -> Beginning | None:
    place, part = row if isinstance(row, tuple) else (place_of(row.key), part_of(hour_of(row)))
    if place[-1] == CONTAINER_ITSELF or not start <= part.hour < end:
        return known
    allocated = part.first_hour_allocated
    if known is None or part.hour < known.hour:
        return Beginning(float(part.hour), allocated)
    if part.hour == known.hour and allocated > known.allocated_seconds:
        return Beginning(known.hour, allocated)
    return known
