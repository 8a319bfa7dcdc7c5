"""Which hours are still to be read, as spans of Unix seconds, [begin, end)."""

from collections.abc import Iterable

from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.sources.prometheus.readings import BLOCK_SECONDS


def count_hours(begin: int, end: float) -> int:
    """Hours that the span touches."""
    return max(0, -int(-(end - begin) // HOUR_SECONDS))


def gaps_of(spans: Iterable[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """Parts of [first, last) that no span covers, in order."""
    found = []
    for begin, end in (*sorted(spans), (last, last)):
        if first < min(begin, last):
            found.append((first, min(begin, last)))
        first = max(first, end)
    return found


def block_of(hour: int) -> int:
    """Begin of the block of histograms that an hour is in."""
    return hour // BLOCK_SECONDS * BLOCK_SECONDS


def in_blocks(
    gaps: Iterable[tuple[int, int]], last: int, newest: int | None
) -> list[tuple[int, int]]:
    """The gaps as they are read: blocks of histograms are whole, so that no way of reading differs.

    ``newest``: hours up to there are in the counters that are kept, and what follows goes on. A
    block may be read up to there, also where this time less is asked for.
    """
    latest = last if newest is None else max(last, newest)
    whole = [
        (begin if begin == newest else block_of(begin), min(latest, -block_of(-end)))
        for begin, end in gaps
    ]
    return list(joined(whole))


def joined(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The spans in order, with those that touch made one."""
    whole: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if whole and begin <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((begin, end))
    return tuple(whole)


def without(spans: Iterable[tuple[int, int]], begin: int, end: int) -> tuple[tuple[int, int], ...]:
    """The spans less what lies in [begin, end)."""
    cut = [
        part
        for first, last in spans
        for part in ((first, min(last, begin)), (max(first, end), last))
        if part[0] < part[1]
    ]
    return tuple(sorted(cut))


def covers(spans: Iterable[tuple[int, int]], hour: int) -> bool:
    """Whether one of the spans holds the hour."""
    return any(begin <= hour < end for begin, end in spans)
