"""How long one device has been at zero, by its hourly rows and its last active time.

Hours tell observed and active seconds only; where inside an hour a gap lies is not known, so a
partial hour is credited with the least it must have observed. Where the whole idle time was not
observed well enough, the longest part up to now that was takes its place. Nothing here decides;
``idle`` does.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress
from operator import itemgetter, not_
from typing import Final

from gputailor_agent.model.profile import GpuUse, Window
from gputailor_agent.model.usage import HOUR_SECONDS, NO_USE
from gputailor_agent.profiles import busy_signal
from gputailor_agent.profiles.holding import held_from
from gputailor_agent.rules.base import Context, Limits
from gputailor_agent.rules.power import idle_watts_limit, least_idle_watts

#: Signals that can be at work while no kernel runs.
VIDEO_SIGNALS = ("encoder", "decoder")
#: When an hour began; hours of a device are in their order.
_START: Final = itemgetter(0)
#: Signals of units that work in kernels only, and up to which mean a resting card's are read.
_UNITS: Final = ("dram", "fp64", "fp32", "fp16", "integer")
_RESTS: Final = 0.05


class Doubt(StrEnum):
    """Why it cannot be said whether a device was idle; the value ends the key of the message."""

    NEVER_MEASURED = "never_measured"
    COVERAGE = "coverage"
    POWER = "power"
    VIDEO_STOPPED = "video_stopped"
    VIDEO_TIME = "video_time"
    CONTRADICTION = "contradiction"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class DeviceIdleness:
    """One device at the window's end. ``doubt`` None: the zero is a measurement."""

    use: GpuUse
    since: float
    from_start: bool  # never active since the pod got it
    cut: bool  # ``since`` is the end of a gap: before that it is unknown
    seconds: float
    coverage: float
    signal: str
    video_known: bool
    watts: float | None
    watts_limit: float | None
    link_bytes_per_second: float | None
    doubt: Doubt | None


def idleness(use: GpuUse, window: Window, context: Context, limits: Limits) -> DeviceIdleness:
    """Measure how long ``use`` has been idle at ``window.end``, and what speaks against it."""
    end = window.end
    held = _held_since(use, window, context)
    since, from_start = _idle_since(use, held, window)
    coverage = _coverage_since(use, max(since, window.start), held, end)
    cut = False
    if coverage < limits["coverage"]:
        after_gap = _covered_since(use, since, end, limits["coverage"])
        if after_gap is not None:
            cut, since, from_start = True, after_gap, False
            coverage = _coverage_since(use, since, held, end)
    # Hours with any activity may have been spent at full board power; the rest is the idle part.
    busy, idle = _busy_and_idle(use)
    watts = least_idle_watts(context, use, busy, idle)
    limit = idle_watts_limit(context, use, limits)
    link = _link_rate(use, idle) if busy == 0 else None
    known = [use.signals.get(name, NO_USE).observed_seconds for name in VIDEO_SIGNALS]
    doubt = _doubt(use, from_start, coverage, limits)
    if doubt is None and watts is not None and limit is not None and watts > limit:
        doubt = Doubt.POWER
    if doubt is None and link is not None and link > limits["link_bytes_per_second"]:
        doubt = Doubt.LINK
    return DeviceIdleness(
        use=use,
        since=since,
        from_start=from_start,
        cut=cut,
        seconds=max(0.0, end - since),
        coverage=coverage,
        signal=busy_signal(use.signals),
        video_known=all(seconds > 0 for seconds in known),
        watts=watts,
        watts_limit=limit,
        link_bytes_per_second=link,
        doubt=doubt,
    )


def _busy_and_idle(use: GpuUse) -> tuple[float, float]:
    """Observed seconds of the hours with any activity, and of those without."""
    if not use.hours:
        return 0.0, 0.0
    _, observed, active = zip(*use.hours, strict=True)
    if not any(active):
        return 0.0, sum(observed)
    return sum(compress(observed, active)), sum(compress(observed, map(not_, active)))


def _held_since(use: GpuUse, window: Window, context: Context) -> float:
    """When the pod got its devices: by the inventory, else as late as the source allows."""
    pod = context.holdings.find(use.namespace, use.pod, use.pod_uid)
    start = held_from(pod) if pod is not None else None
    if start is not None:
        return start
    first = max(window.start, float(use.first_hour))
    return max(first, window.end - use.allocated_seconds)


def _idle_since(use: GpuUse, held: float, window: Window) -> tuple[float, bool]:
    """Since when nothing is known to have run, and whether that is since the start.

    A pod that began before the window and did nothing inside it counts from the window's start or
    its last active time, and never as idle from its start: nobody looked that far back.
    """
    since = held if held >= window.start or use.last_active is not None else window.start
    if use.last_active is not None:
        since = max(since, use.last_active)
    for hour, _, active in reversed(use.hours):
        # The last active time lies inside its hour; activity in a later one is a contradiction
        # that counts as activity up to that hour's end. Of several such hours the last one counts.
        if use.last_active is not None and hour <= use.last_active:
            break
        if active > 0:
            since = max(since, min(window.end, float(hour + HOUR_SECONDS)))
            break
    return since, since <= held and held >= window.start


def _observed_since(use: GpuUse, since: float, held: float, end: float) -> float:
    """Least observed seconds in ``[since, end)``."""
    if end <= since:
        return 0.0
    first = bisect_right(use.hours, since - HOUR_SECONDS, key=_START)
    whole_from = bisect_left(use.hours, max(since, held), first, key=_START)
    whole_to = bisect_right(use.hours, end - HOUR_SECONDS, whole_from, key=_START)
    whole = use.hours[whole_from:whole_to]
    total = _at_most(HOUR_SECONDS, [observed for _, observed, _ in whole])
    for hour, observed, _ in (*use.hours[first:whole_from], *use.hours[whole_to:]):
        stop = min(end, float(hour + HOUR_SECONDS))
        before = max(0.0, since - max(float(hour), held))
        total += max(0.0, min(observed - before, stop - max(float(hour), since)))
    return total


def _at_most(most: float, values: list[float]) -> float:
    """Sum of values of which each counts for so much at most; seldom one is more."""
    if values and max(values) > most:
        return sum(min(value, most) for value in values)
    return sum(values)


def _coverage_since(use: GpuUse, since: float, held: float, end: float) -> float:
    return min(1.0, _observed_since(use, since, held, end) / (end - since)) if end > since else 0.0


def _covered_since(use: GpuUse, since: float, end: float, coverage: float) -> float | None:
    """Return the earliest whole hour after ``since`` from which on coverage is enough.

    From the end backwards, so that each hour is added once.
    """
    found, total = None, 0.0
    for hour, observed, _ in reversed(use.hours):
        if hour <= since:
            break
        if hour < end:
            total += max(0.0, min(observed, end - hour, HOUR_SECONDS))
            if total / (end - hour) >= coverage:
                found = float(hour)
    return found


def _link_rate(use: GpuUse, observed: float) -> float | None:
    sent = use.link_bytes
    return sum(sent.values()) / observed if sent and observed > 0 else None


def works_elsewhere(use: GpuUse) -> bool:
    """Whether memory or arithmetic units work, more than a resting card's are read to do."""
    means = (use.signals.get(name, NO_USE).mean or 0.0 for name in _UNITS)
    return any(mean >= _RESTS for mean in means)


def _doubt(use: GpuUse, from_start: bool, coverage: float, limits: Limits) -> Doubt | None:
    busy = use.signals.get(busy_signal(use.signals), NO_USE)
    if busy.observed_seconds <= 0:
        return Doubt.NEVER_MEASURED
    if coverage < limits["coverage"]:
        return Doubt.COVERAGE
    for name in VIDEO_SIGNALS:
        video = use.signals.get(name, NO_USE)
        if 0 < video.observed_seconds < limits["coverage"] * busy.observed_seconds:
            return Doubt.VIDEO_STOPPED
        if video.active_seconds > 0 and use.last_active is None:
            return Doubt.VIDEO_TIME
    others = (use.signals.get(name, NO_USE) for name in ("kernel", "sm", "graphics", "tensor"))
    if from_start and (any(other.active_seconds > 0 for other in others) or works_elsewhere(use)):
        return Doubt.CONTRADICTION
    return None
