"""When inside an hour a page is due beside that at its end, and pages out of what was read.

Where an hour ends without histograms, those of everybody who does not simply go on to the next one
are due as of that time: whoever ended, began anew or moved before another sample was taken.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from gputailor_agent.dialects import Holder, Place
from gputailor_agent.model.usage import Page
from gputailor_agent.sources.assembly import assemble
from gputailor_agent.sources.prometheus.history import Life
from gputailor_agent.sources.prometheus.placing import Reading, Target, settled

Moment = tuple[Target, float]
Ending = tuple[Life, list[tuple[Place, float]]]
#: Containers and devices, who tells of them, and on which node.
Held = Mapping[tuple[Target, Holder], str]

_CLOCK_SKEW_SECONDS: Final = 60.0  # between the exporter's clock and the server's
_JUST_AFTER_SECONDS: Final = 0.001


def began_anew(now: Reading, begin: float) -> set[Target]:
    """Targets whose process began inside the hour, or may have."""
    return {
        target
        for target in now.values
        if (now.started(target) or 0.0) > begin - _CLOCK_SKEW_SECONDS
    }


def unread(
    left: Held, now: Reading, lives: Iterable[Life], begin: float
) -> tuple[list[Life], list[Moment]]:
    """Return whose histograms are due as of ``begin``: containers that ended, whole targets.

    ``left``: those who were there then and whose histograms were not read.
    """
    known = {(life.target, life.holder): life for life in lives}
    present, anew = now.holders(), began_anew(now, begin)
    ended: list[Life] = []
    targets: set[Target] = set()
    for (target, holder), node in left.items():
        life = known.get((target, holder))
        if (target, holder) in present:
            if target in anew and not (life and life.resets):
                targets.add(target)
        elif life is None and target in now.values and target not in anew:
            ended.append(Life(target, node, holder, begin, begin, ()))
        elif life is None:
            targets.add(target)
    return ended, sorted((target, begin) for target in targets)


def moments_of(lives: list[Life], now: Reading, known: Collection[str]) -> list[Moment]:
    """Times inside the hour at which a target's whole page is due."""
    moments = {(life.target, at) for life in lives for at in life.resets}
    by_target: dict[Target, list[Life]] = {}
    for life in lives:
        by_target.setdefault(life.target, []).append(life)
    for target, own in by_target.items():
        if target not in now.values:
            moments.add((target, max(life.last for life in own)))
        if own[0].node not in known:
            moments.add((target, min(life.first for life in own)))
    return sorted(moments)


def dated(page: Page, age: float, begin: float, end: float) -> Page:
    """A page from inside the hour, dated as the hour's ends are.

    Those are dated later than their values, by ``age``; without the same here, counters would seem
    to run faster than time. The shift fades towards the end, so that the order of pages stays. What
    the hour before left unread comes just after that hour's own page.
    """
    if page.at == begin:
        return msgspec.structs.replace(page, at=begin + _JUST_AFTER_SECONDS)
    if not begin < page.at < end or not age:
        return page
    shift = age * (end - page.at) / (end - begin)
    return msgspec.structs.replace(page, at=page.at + shift)


def pages_of(readings: dict[float, Reading], endings: Iterable[Ending]) -> list[Page]:
    """A page per node and time; an ended container is on its node's first page after its end."""
    placed: dict[tuple[float, str], list[tuple[Place, float]]] = {}
    for at, reading in readings.items():
        for node, targets in reading.of_nodes().items():
            placed[at, node] = list(settled(reading, targets))
    for life, values in endings:
        after = [at for at, node in placed if node == life.node and at >= life.last]
        if after:
            page = placed[min(after), life.node]
            if all(place.holder != life.holder for place, _ in page):
                page.extend(values)
    return [assemble(values, at=at, exporter=node) for (at, node), values in sorted(placed.items())]
