"""What ``gputailor doctor`` finds of a Prometheus itself: retention, intervals, clocks, gaps."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from gputailor_agent.cli.checks import Check

if TYPE_CHECKING:
    from gputailor_agent.sources.prometheus.inspecting import Inspection

_DAY_SECONDS: Final = 86_400.0
_WINDOW_DAYS: Final = 14
_LONGEST_INTERVAL_SECONDS: Final = 120.0  # beyond it a series looks as if it had ended
_SKEW_SECONDS: Final = 30.0
_SHOWN: Final = 5
_UNITS: Final = {"y": 365 * 86_400, "w": 7 * 86_400, "d": 86_400, "h": 3600, "m": 60, "s": 1}


def server_checks(seen: "Inspection", now: float) -> Iterator[Check]:
    """Retention, scrape intervals, clocks, and whether the answers were whole."""
    yield _retention(seen.retention)
    for job, seconds in sorted(seen.intervals.items()):
        slow = seconds > _LONGEST_INTERVAL_SECONDS
        yield Check(
            name="scrape interval",
            standing="problem" if slow else "ok",
            found=f"{job}: every {seconds:.0f} s",
            advice="scrape it at least every 120 s (scrape_interval of the job, interval of its "
            "ServiceMonitor)"
            if slow
            else "",
        )
    yield from _clocks(seen, now)
    for said in seen.differ:
        what, _, advice = said.rpartition("; ")
        yield Check(name="replicas", standing="problem", found=what, advice=advice)
    for said in seen.partial[:_SHOWN]:
        yield Check(
            name="partial answers",
            standing="problem",
            found=f"the server lacks something: {said}",
            advice="bring the store back that does not answer; what it has counts as not observed",
        )


def _retention(told: str | None) -> Check:
    seconds = None if told is None else _seconds(told)
    if seconds is None:
        return Check(
            name="retention",
            standing="note",
            found="the server does not say how long it keeps data"
            + (f" in time ({told})" if told else ""),
            advice=f"reports look back {_WINDOW_DAYS} days: see that it keeps as much",
        )
    short = seconds < _WINDOW_DAYS * _DAY_SECONDS
    return Check(
        name="retention",
        standing="note" if short else "ok",
        found=f"data are kept for {seconds / _DAY_SECONDS:.3g} days",
        advice=f"--storage.tsdb.retention.time={_WINDOW_DAYS + 1}d lets a first report look back "
        f"{_WINDOW_DAYS} days; an agent keeps what it has read"
        if short
        else "",
    )


def _seconds(text: str) -> float | None:
    """Length of ``15d``, ``1w2d`` or ``15d or 10GiB``; None where no time is named."""
    parts = re.findall(r"(\d+)(y|w|d|h|m|s)", text.partition(" or ")[0])
    return float(sum(int(count) * _UNITS[unit] for count, unit in parts)) or None


def _clocks(seen: "Inspection", now: float) -> Iterator[Check]:
    skew, name = seen.skew_seconds, "clocks"
    if skew is not None and abs(skew) > _SKEW_SECONDS:
        way = "ahead of" if skew > 0 else "behind"
        yield Check(
            name=name,
            standing="problem",
            found=f"this machine's clock is {abs(skew):.0f} s {way} the server's "
            f"({when(now)} here)",
            advice="synchronise both (NTP); hours are taken to end by the server's clock",
        )
    for instance, seconds in sorted(seen.ahead.items())[:_SHOWN]:
        yield Check(
            name=name,
            standing="problem",
            found=f"the exporter {instance} is {seconds:.0f} s ahead of the server",
            advice="synchronise the node's clock (NTP): beginnings of allocations are read by it",
        )
    if not seen.ahead and (skew is None or abs(skew) <= _SKEW_SECONDS):
        told = "the server tells no time" if skew is None else "this machine, server and exporters"
        agree = "" if skew is None else " agree"
        yield Check(name=name, standing="note" if skew is None else "ok", found=told + agree)


def when(at: float) -> str:
    """A time (Unix seconds) as people read it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
