"""The rise of a container's counters between two samples, held against the clock.

A counter of seconds cannot rise faster than time passes. Where one does (a broken exporter, a clock
that jumped) it is cut back to what was possible and counted, never believed.
"""

import math
from collections import Counter
from typing import Final

import numpy as np

from gputailor_agent.rollup.layout import ALLOCATED, Layout, Vector, is_lifelong

_SLACK_SECONDS: Final = 5.0  # a page may have been rendered seconds before it was fetched
_SLACK_RATIO: Final = 0.05

#: Counters of seconds: their first value on a later page tells whether they began after the
#: previous one. Energy and bytes cannot be told so and count from their first sample on.
_SECONDS: Final = frozenset({"active", "observed", "condition", "device", "bucket"})


def slack_seconds(elapsed: float) -> float:
    """How far a counter of seconds may run ahead of ``elapsed`` seconds."""
    return _SLACK_SECONDS + _SLACK_RATIO * max(0.0, elapsed)


def bounded_rise(
    layout: Layout,
    last: Vector,
    new: Vector,
    elapsed: float,
    *,
    anew: bool,
    problems: Counter[str],
) -> Vector:
    """Rise from ``last`` to ``new`` over ``elapsed`` seconds; buckets of histograms apart.

    NaN in ``new``: not published (no rise); in ``last``: never seen before. ``anew``: the counters
    began at zero after the last sample. What is impossible is cut back and counted in ``problems``.
    """
    rise = new.copy() if anew else new - last
    if anew and layout.device.size:  # another pod's turn: the device's own counters went on
        now, before = new[layout.device], last[layout.device]
        rise[layout.device] = np.where(now < before, now, now - before)
    if not math.isfinite(rise.sum()):
        _fill(rise, layout, new, elapsed, problems)
    upper = layout.upper_buckets
    if upper.size:
        rise[upper] -= rise[upper - 1]
    if rise.min() < 0:
        problems["counter_decreased"] += int((rise < 0).sum())
        np.maximum(rise, 0.0, out=rise)
    if rise[layout.timed].max() > elapsed + slack_seconds(elapsed):
        problems["faster_than_time"] += 1
        _slow_down(rise, layout, elapsed)
    if layout.active.size:
        rise[layout.active] = np.minimum(rise[layout.active], rise[layout.measured])
    return rise


def _fill(
    rise: Vector, layout: Layout, new: Vector, elapsed: float, problems: Counter[str]
) -> None:
    """Settle what has no plain difference: not published, never seen before, not a number."""
    for at in np.flatnonzero(~np.isfinite(rise)).tolist():
        value = float(new[at])
        if math.isinf(value):
            problems["not_a_number"] += 1
        young = 0.0 <= value <= elapsed + slack_seconds(elapsed)
        column = layout.columns[at]
        begun = young and column[0] in _SECONDS and not is_lifelong(column)
        rise[at] = value if begun else 0.0


def _slow_down(rise: Vector, layout: Layout, elapsed: float) -> None:
    """Cut each signal back to the allocated time, and that to the time passed."""
    allocated = layout.index[ALLOCATED]
    rise[allocated] = min(rise[allocated], elapsed)
    ceiling = float(rise[allocated])
    spans = {span.signal: span for span in layout.spans}
    for signal, active, observed in layout.signals:
        seconds = float(rise[observed])
        if seconds <= ceiling:
            continue
        factor = ceiling / seconds
        rise[observed] = ceiling
        rise[active] *= factor
        if signal in spans:
            rise[spans[signal].start : spans[signal].stop] *= factor
