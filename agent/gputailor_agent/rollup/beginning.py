"""When counters began: what of them was risen since the last look, and what is older than it.

Two things tell: the exporter's process start, by the exporter's clock, and the seconds the
container's own counters hold, which no clock can shift.
"""

import numpy as np

from gputailor_agent.model.usage import HOUR_SECONDS, ContainerCounters, Page
from gputailor_agent.rollup.layout import ALLOCATED, Layout
from gputailor_agent.rollup.owing import Owing
from gputailor_agent.rollup.plausible import slack_seconds
from gputailor_agent.rollup.series import Series, SeriesKey, hour_holding
from gputailor_agent.rollup.state import ExporterState


def counts_from(
    page: Page,
    previous: ExporterState | None,
    counters: ContainerCounters,
    watch_started: float | None,
) -> float | None:
    """When a series never seen before began, if that was inside the watch; else None."""
    since: float | None = None
    started = page.process_started
    if previous is not None:  # the container was not on the exporter's previous page
        since = previous.at
    elif started is not None and watch_started is not None and watch_started < started <= page.at:
        since = started
    if since is None:
        return None
    allocated, elapsed = counters.allocated_seconds, page.at - since
    if allocated is not None and allocated > elapsed + slack_seconds(elapsed):
        return None  # it is older than the watch, wherever it was hidden
    return max(since, anew_since(page, allocated))


def anew_since(page: Page, allocated_seconds: float | None) -> float:
    """When counters that began anew were at zero, by our clock.

    What the container counted itself decides: the exporter's clock may be off.
    """
    if allocated_seconds is not None:
        return page.at - allocated_seconds
    started = page.process_started
    return float("-inf") if started is None else min(page.at, started)


def start_of_rise(page: Page, series: Series, counters: ContainerCounters) -> tuple[float, bool]:
    """When the rise to this sample began, and whether the counters began anew at zero."""
    allocated = counters.allocated_seconds
    if allocated is not None and not younger_than(page, series.seen, counters):
        return series.seen, False  # older than the last sample: these counters went on
    started, own = page.process_started, series.process_started
    if started is not None and (started > own + 1 if own is not None else started > series.seen):
        return max(series.seen, anew_since(page, allocated)), True
    held = float(series.last[series.layout.index[ALLOCATED]])
    if allocated is not None and allocated < held:
        series.began = max(series.at, anew_since(page, allocated))
        return max(series.seen, anew_since(page, allocated)), True
    return series.seen, False


def younger_than(page: Page, at: float, counters: ContainerCounters) -> bool:
    """Whether the page's counters may have begun at zero after ``at``."""
    elapsed = page.at - at
    age = page.at - anew_since(page, counters.allocated_seconds)
    return age <= elapsed + slack_seconds(elapsed)


def own_clock(
    series: Series, page: Page, counters: ContainerCounters, start: float, *, anew: bool
) -> float:
    """Allocated seconds by our clock, for a source that does not count them."""
    held = 0.0 if anew else float(series.last[series.layout.index[ALLOCATED]])
    return held + (page.at - start if counters.allocated else 0.0)


def begin_series(
    key: SeriesKey,
    page: Page,
    counters: ContainerCounters,
    sample: tuple[Layout, list[float]],
    start: float | None,
) -> Series:
    """Return a new series that counts from zero at ``start``, or from ``sample`` on (None).

    Counters of the device are older than the container: they count from ``sample`` on in any case.
    """
    layout, values = sample
    sampled = np.array(values)
    last = sampled if start is None else np.zeros(layout.width)
    last[layout.device] = sampled[layout.device]
    began = start
    if start is None and counters.allocated_seconds is not None:
        began = page.at - counters.allocated_seconds
    if start is None or start >= page.at:
        hour = hour_holding(page.at)
    else:
        hour = int(start // HOUR_SECONDS) * HOUR_SECONDS
    return Series(
        key=key,
        exporter=page.exporter,
        at=page.at if start is None else start,
        seen=page.at if start is None else start,
        process_started=page.process_started,
        began=began,
        layout=layout,
        last=last,
        hour=hour,
        total=np.zeros(layout.width),
        carry=np.zeros(layout.width),
        owing=Owing(page.at if start is None else start) if tells_later(page, counters) else None,
    )


def tells_later(page: Page, counters: ContainerCounters) -> bool:
    """Whether a later page tells the container's histograms."""
    return page.histograms_later and not counters.histogram
