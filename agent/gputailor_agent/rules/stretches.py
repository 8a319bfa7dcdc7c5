"""Stretches of whole hours in which nothing ran, and what a stop after some time would free.

An hour is quiet where every device that was held in it was observed for 0.9 of it and none worked.
An hour that is missing, or was seen in part, ends a stretch: what is unknown is never quiet, so all
figures are at least what they say. Hours are the store's, so a pause of less than one is not seen.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from gputailor_agent.model.profile import GpuUse
from gputailor_agent.model.usage import HOUR_SECONDS, NO_USE
from gputailor_agent.profiles.courses import hour_of_week
from gputailor_agent.rules.idleness import VIDEO_SIGNALS

_OBSERVED: Final = 0.9
_FRIDAY_ENDS: Final = 120  # hour of the week, UTC


@dataclass(frozen=True, slots=True)
class Quiet:
    """Seconds of devices. ``freed``: of quiet stretches, what lies after the time to stop."""

    held: float
    quiet: float
    freed: float
    freed_at_weekends: float
    longest: float  # seconds of the longest stretch, not of devices
    stretches: int  # longer than the time to stop

    @property
    def quiet_share(self) -> float:
        """Quiet share of the time held, 0..1."""
        return min(1.0, self.quiet / self.held) if self.held > 0 else 0.0

    @property
    def freed_share(self) -> float:
        """Freed share of the time held, 0..1."""
        return min(1.0, self.freed / self.held) if self.held > 0 else 0.0

    @property
    def weekend_share(self) -> float:
        """Part of what is freed that lies on Saturdays and Sundays (UTC), 0..1."""
        return self.freed_at_weekends / self.freed if self.freed > 0 else 0.0


def quiet_time(groups: Iterable[Iterable[GpuUse]], stop_after: float) -> Quiet:
    """Return the quiet time of groups of devices, each of which is stopped as a whole.

    ``stop_after``: seconds without work before a group is stopped.
    """
    held = quiet = freed = weekend = longest = 0.0
    stretches = 0
    for group in groups:
        uses = list(group)
        held += sum(use.allocated_seconds for use in uses)
        for stretch in _stretches(uses):
            length = float(len(stretch) * HOUR_SECONDS)
            quiet += HOUR_SECONDS * sum(devices for _, devices in stretch)
            longest = max(longest, length)
            stretches += length > stop_after
            for place, (hour, devices) in enumerate(stretch):
                over = min(float(HOUR_SECONDS), (place + 1) * HOUR_SECONDS - stop_after)
                if over > 0:
                    freed += over * devices
                    weekend += over * devices * (hour_of_week(hour) >= _FRIDAY_ENDS)
    return Quiet(held, quiet, freed, weekend, longest, stretches)


def _stretches(uses: list[GpuUse]) -> Iterable[list[tuple[int, int]]]:
    """Runs of quiet hours: (hour, devices held in it) each."""
    stretch: list[tuple[int, int]] = []
    for hour, devices, quiet in _hours(uses):
        if stretch and (not quiet or stretch[-1][0] + HOUR_SECONDS != hour):
            yield stretch
            stretch = []
        if quiet:
            stretch.append((hour, devices))
    if stretch:
        yield stretch


def _hours(uses: list[GpuUse]) -> Iterable[tuple[int, int, bool]]:
    """Each hour that was seen, in order: devices held in it, and whether all of them were quiet."""
    least = _OBSERVED * HOUR_SECONDS
    held = [tuple(zip(*use.hours, strict=True)) for use in uses if use.hours]
    if held and all(hours == held[0][0] for hours, _, _ in held):
        seen = zip(*(observed for _, observed, _ in held), strict=True)
        worked = zip(*(active for _, _, active in held), strict=True)
        at_zero = (min(all_seen) >= least and not any(all_worked)
                   for all_seen, all_worked in zip(seen, worked, strict=True))  # fmt: skip
        return zip(held[0][0], repeat(len(held)), at_zero)
    told: dict[int, tuple[int, bool]] = {}
    for use in uses:
        for hour, observed, active in use.hours:
            devices, quiet = told.get(hour, (0, True))
            told[hour] = (devices + 1, quiet and active == 0 and observed >= least)
    return [(hour, *told[hour]) for hour in sorted(told)]


def video_worked(uses: Iterable[GpuUse]) -> bool:
    """Whether an encoder or decoder worked at all: hours do not tell when."""
    return any(
        use.signals.get(name, NO_USE).active_seconds > 0 for use in uses for name in VIDEO_SIGNALS
    )
