"""Which rows of a log were taken at one time, and which column tells devices apart.

nvidia-smi queries its devices one after another: their rows carry the same time, or times a few
milliseconds apart, then nothing for the period of the log. Rows without a device's name are told
apart by their place within such a poll.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_CONSISTENT: Final = 0.8  # share of polls that must have the same number of rows
_NEAR: Final = 0.2  # rows nearer than this part of the usual period belong to one poll
_PERIOD_QUANTILE: Final = 0.99
_MOST_DEVICES: Final = 64


def poll_starts(times: Sequence[float]) -> list[int]:
    """Row numbers at which polls begin; one row is one poll where there is a single device."""
    rows = len(times)
    if rows == 0:
        return []
    gaps = sorted(abs(b - a) for a, b in pairwise(times))
    tries = [0.0]
    if gaps:
        tries.append(gaps[min(len(gaps) - 1, int(len(gaps) * _PERIOD_QUANTILE))] * _NEAR)
    for near in tries:
        apart = (row for row in range(1, rows) if abs(times[row] - times[row - 1]) > near)
        starts = [0, *apart]
        if _size(starts, rows) > 1:
            return starts
    return list(range(rows))


def _size(starts: Sequence[int], rows: int) -> int:
    """Rows of a usual poll when nearly all agree, else 1."""
    sizes = [end - start for start, end in pairwise([*starts, rows])]
    whole = sizes[:-1] if len(sizes) > 1 else sizes
    size, count = Counter(whole).most_common(1)[0]
    agree = count >= len(whole) * _CONSISTENT
    return size if agree and 1 < size <= _MOST_DEVICES else 1


def poll_size(starts: Sequence[int], rows: int) -> int:
    """Number of devices in each poll."""
    return _size(starts, rows) if rows else 1


def looks_like_one_device(
    times: Sequence[float], starts: Sequence[int], size: int, columns: Sequence[Sequence[float]]
) -> bool:
    """Whether polls of ``size`` rows are rather one device sampled more often than its clock shows.

    Only where times are whole seconds. Devices keep their values from poll to poll more than they
    share them with each other; one device sampled twice a second does not.
    """
    if any(time != int(time) for time in times):
        return False
    within = across = 0.0
    for values in columns:
        for start, after in pairwise(starts):
            if after - start != size or after + size > len(values):
                continue
            within += abs(values[start + 1] - values[start])
            across += abs(values[after] - values[start])
    if within == across == 0.0:
        return size == 2  # noqa: PLR2004 - two equal rows a second: either way; more: devices
    return within <= across


def positions(starts: Sequence[int], rows: int, size: int) -> "array[int]":
    """Place of each row in its poll; -1 in a poll that lacks rows or has too many.

    The last poll may be cut: its rows stand in their order.
    """
    found = array("q", [-1]) * rows
    for start, end in pairwise([*starts, rows]):
        if end - start == size or (end == rows and end - start < size):
            for row in range(start, end):
                found[row] = row - start
    return found
