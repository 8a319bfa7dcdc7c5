"""A recorded history, and the part of it that was known at a moment.

Rows are hourly: a row is known when its hour is over. Of the inventory each pod is taken back to
what it was then; nodes, owners and labels are those of the end, since they carry no times.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Inventory, Pod
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageKey, UsageRow
from gputailor_agent.profiles import busy_signal
from gputailor_agent.rules.idleness import VIDEO_SIGNALS

#: Whose use a row is: namespace, pod, pod UID, container, device.
Place = tuple[str, str, str, str, str]
#: Least share of an hour that must have been observed to say that nothing ran in it.
_OBSERVED: Final = 0.9


def place_of(key: UsageKey) -> Place:
    """Whose use a row is."""
    return (key.namespace, key.pod, key.pod_uid, key.container, key.gpu_uuid)


def worked(row: UsageRow) -> bool | None:
    """Whether anything ran on the device in that hour; None where that was not observed."""
    names = ("kernel", "sm", "tensor", "graphics", *VIDEO_SIGNALS)
    if any(use.active_seconds > 0 for name, use in row.signals.items() if name in names):
        return True
    use = row.signals.get(busy_signal(row.signals))
    if use is None or use.observed_seconds < _OBSERVED * row.allocated_seconds:
        return None
    return False


@dataclass(frozen=True)
class History:
    """Everything that was recorded. ``rows`` of one cluster, in any order."""

    rows: tuple[UsageRow, ...]
    devices: tuple[Device, ...]
    inventory: Inventory

    @cached_property
    def ordered(self) -> tuple[UsageRow, ...]:
        """Rows by hour."""
        return tuple(sorted(self.rows, key=lambda row: row.key))

    @cached_property
    def first(self) -> float:
        """Unix seconds of the first row's hour; 0 without rows."""
        return float(min((row.key.hour for row in self.rows), default=0))

    @cached_property
    def last(self) -> float:
        """End of the last row's hour."""
        return float(max((row.key.hour for row in self.rows), default=-HOUR_SECONDS) + HOUR_SECONDS)

    @cached_property
    def by_hour(self) -> dict[int, list[UsageRow]]:
        """Rows by the start of their hour."""
        found: dict[int, list[UsageRow]] = {}
        for row in self.rows:
            found.setdefault(row.key.hour, []).append(row)
        return found

    @cached_property
    def by_pod(self) -> dict[tuple[str, str, str], list[UsageRow]]:
        """Rows by namespace, pod and UID, each by hour."""
        found: dict[tuple[str, str, str], list[UsageRow]] = {}
        for row in self.ordered:
            found.setdefault((row.key.namespace, row.key.pod, row.key.pod_uid), []).append(row)
        return found

    def rows_until(self, at: float, since: float) -> Iterator[UsageRow]:
        """Yield rows whose hour began at ``since`` or later and was over at ``at``."""
        for hour, rows in self.by_hour.items():
            if since <= hour and hour + HOUR_SECONDS <= at:
                yield from rows


def known_at(inventory: Inventory, at: float) -> Inventory:
    """Return the inventory as far as it was known at ``at`` (Unix seconds)."""
    return msgspec.structs.replace(inventory, at=at, pods=tuple(_pods_at(inventory.pods, at)))


def _pods_at(pods: Iterable[Pod], at: float) -> Iterator[Pod]:
    for pod in pods:
        begun = [one for one in (pod.created, pod.scheduled, pod.started) if one is not None]
        if begun and min(begun) > at:
            continue
        known = pod
        if pod.finished is not None and pod.finished > at:
            known = msgspec.structs.replace(
                known, finished=None, phase="Running", reason="", exit_code=None, oom_killed=False
            )
        if pod.scheduled is not None and pod.scheduled > at:
            known = msgspec.structs.replace(known, node=None, phase="Pending")
        yield known
