"""What there was to find, with hindsight: idle hours, and sizing that the whole history shows.

The oracle takes each opening at its first hour. Idle: all devices of a pod at zero for two whole
hours or more. Every other rule: what it says of the whole history at its end.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gputailor_agent.evaluation.backtest.history import History, worked
from gputailor_agent.model.usage import HOUR_SECONDS, UsageRow

#: A shorter pause is no waste that anybody could have used.
_LEAST_HOURS: Final = 2
#: Findings of this kind of change answer idle time.
RELEASE: Final = "release"

PodKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Opening:
    """GPU-hours that could have been had: all of them from ``start`` to ``end``."""

    rule: str
    workload: str
    start: float
    end: float
    gpu_hours: float

    def left_at(self, at: float) -> float:
        """GPU-hours that are still to be had at ``at``, spread evenly."""
        length = self.end - self.start
        left = max(0.0, min(1.0, (self.end - at) / length)) if length > 0 else 0.0
        return left * self.gpu_hours


def idle_openings(history: History, workload_of: dict[PodKey, str], rule: str) -> list[Opening]:
    """Stretches of whole hours in which no device of a pod did anything."""
    found = []
    for pod, rows in history.by_pod.items():
        workload = workload_of.get(pod)
        if workload is None:
            continue
        for hours in _stretches(rows):
            held = sum(row.allocated_seconds * row.share for row in rows if row.key.hour in hours)
            start, end = float(min(hours)), float(max(hours) + HOUR_SECONDS)
            found.append(Opening(rule, workload, start, end, held / HOUR_SECONDS))
    return found


def _stretches(rows: list[UsageRow]) -> Iterator[set[int]]:
    """Runs of consecutive hours that were observed and at zero on every device."""
    by_hour: dict[int, list[bool | None]] = defaultdict(list)
    for row in rows:
        by_hour[row.key.hour].append(worked(row))
    zero = sorted(hour for hour, told in by_hour.items() if all(one is False for one in told))
    run: list[int] = []
    for hour in zero:
        if run and hour != run[-1] + HOUR_SECONDS:
            if len(run) >= _LEAST_HOURS:
                yield set(run)
            run = []
        run.append(hour)
    if len(run) >= _LEAST_HOURS:
        yield set(run)
