"""Use against request, device by device, drawn on the server as SVG paths.

A strip is as wide as the window. Where a pod held the device it is filled pale: that was asked for.
The dark part is how much of the observed time the device worked. What was held and not observed is
hatched: unknown, which is not zero. Three paths a strip, whatever the number of hours.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from gputailor_agent.api.kept import Strip
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _

WIDTH: Final = 720
HEIGHT: Final = 48
#: Steps that can be told apart on a screen; longer windows take several hours as one step.
MOST_STEPS: Final = 336
#: A step of which less was observed is drawn as unknown.
LEAST_OBSERVED: Final = 0.5
_DAY_SECONDS: Final = 86_400


class Step(NamedTuple):
    """One step of a strip: its start, and seconds held, observed and active in it."""

    start: float
    seconds: float
    held: float
    observed: float
    active: float


class Day(NamedTuple):
    """A day of a strip in words."""

    day: str
    held: str
    observed: str
    use: str


class Drawn(NamedTuple):
    """A strip as the page shows it. Paths are of a box ``WIDTH`` x ``HEIGHT``."""

    pod: str
    device: str
    model: str
    text: str  # what the picture says, for those who do not see it
    memory: str
    asked: str
    used: str
    unseen: str
    days: tuple[Day, ...]


def draw(strips: Iterable[Strip], window: Window) -> list[Drawn]:
    """Strips as paths, in their order."""
    return [_drawn(strip, window) for strip in strips]


def ticks(window: Window) -> list[tuple[float, str]]:
    """Days to write below the strips, as (place, day), at most eight."""
    first = -int(-window.start // _DAY_SECONDS) * _DAY_SECONDS
    days = range(first, int(window.end) + 1, _DAY_SECONDS)
    every = max(1, -(-len(days) // 8))
    return [(_place(day, window), units.day(day)) for day in days[::every]]


def _drawn(strip: Strip, window: Window) -> Drawn:
    steps = _steps(strip, window)
    known = [one for one in steps if _is_known(one)]
    device = strip.device
    return Drawn(
        pod=strip.pod,
        device=_named(strip),
        model=units.unknown() if device is None or not device.model else device.model,
        text=_words(steps),
        memory=_memory(strip),
        asked=_path(((one, min(1.0, one.held / one.seconds)) for one in steps), window),
        used=_path(((one, min(1.0, one.active / one.observed)) for one in known), window),
        unseen=_path(
            ((one, min(1.0, one.held / one.seconds)) for one in steps if not _is_known(one)), window
        ),
        days=tuple(_days(strip)),
    )


def _named(strip: Strip) -> str:
    device = strip.device
    if device is None or not device.node:
        return strip.gpu_uuid
    return _("GPU {index} on {node}", index=device.index or strip.gpu_uuid, node=device.node)


def _is_known(step: Step) -> bool:
    return step.held > 0 and step.observed >= LEAST_OBSERVED * step.held


def _steps(strip: Strip, window: Window) -> list[Step]:
    hours = max(1, -(-int(window.seconds / HOUR_SECONDS) // MOST_STEPS))
    length = hours * HOUR_SECONDS
    sums: dict[int, list[float]] = {}
    for hour, held, observed, active in strip.hours:
        one = sums.setdefault(hour // length * length, [0.0, 0.0, 0.0])
        one[0] += held
        one[1] += observed
        one[2] += active
    return [Step(start, length, *sums[start]) for start in sorted(sums) if sums[start][0] > 0]


def _place(at: float, window: Window) -> float:
    share = (at - window.start) / window.seconds if window.seconds > 0 else 0.0
    return round(min(1.0, max(0.0, share)) * WIDTH, 1)


def _path(parts: Iterable[tuple[Step, float]], window: Window) -> str:
    """Boxes from the bottom up, each as high as its share; '' for none."""
    drawn = []
    for step, share in parts:
        left, right = _place(step.start, window), _place(step.start + step.seconds, window)
        height = round(share * HEIGHT, 1)
        if right > left and height > 0:
            drawn.append(f"M{left:g} {HEIGHT}V{HEIGHT - height:g}H{right:g}V{HEIGHT}z")
    return "".join(drawn)


def _words(steps: list[Step]) -> str:
    held = sum(one.held for one in steps)
    observed = sum(one.observed for one in steps)
    active = sum(one.active for one in steps)
    use = units.ratio(active / observed) if observed > 0 else units.unknown()
    return _(
        "held for {held}, {observed} of it observed, working {use} of the observed time",
        held=units.duration(held),
        observed=units.ratio(min(1.0, observed / held)) if held > 0 else units.unknown(),
        use=use,
    )


def _memory(strip: Strip) -> str:
    return _(
        "memory peak {peak} of {total}",
        peak=units.size(strip.memory_peak_bytes),
        total=units.size(strip.memory_total_bytes),
    )


def _days(strip: Strip) -> Iterable[Day]:
    sums: dict[int, list[float]] = {}
    for hour, held, observed, active in strip.hours:
        one = sums.setdefault(hour // _DAY_SECONDS * _DAY_SECONDS, [0.0, 0.0, 0.0])
        one[0] += held
        one[1] += observed
        one[2] += active
    for day in sorted(sums):
        held, observed, active = sums[day]
        if held > 0:
            yield Day(
                day=units.day(day),
                held=units.duration(held),
                observed=units.ratio(min(1.0, observed / held)),
                use=units.ratio(active / observed) if observed > 0 else units.unknown(),
            )
