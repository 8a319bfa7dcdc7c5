"""Quantiles over the time in which kernels ran, from one-second histograms, never too low.

Seconds that a histogram lacks (the signal could not be read while kernels ran) count as full, and
so do those of a wide bucket up to its upper edge. Time whose histogram is not read yet tells
nothing. The busiest device counts.
"""

from collections.abc import Iterable

from gputailor_agent.model.profile import GpuUse
from gputailor_agent.model.usage import NO_USE, Histogram
from gputailor_agent.rules.advising import Case

#: SM activity / kernel activity in each second in which kernels ran; only in histograms.
WIDTH = "width"


def unread(case: Case) -> tuple[str, ...]:
    """What a quantile of width and DRAM lacks: signals and histograms by name."""
    missing = case.missing("kernel", "sm", "dram")
    uses = case.basis.uses
    without = (
        name
        for name in ("kernel", "dram", WIDTH)
        if name not in missing and any(_histogram(use, name) is None for use in _ran(uses))
    )
    return (*missing, *without)


def _ran(uses: Iterable[GpuUse]) -> list[GpuUse]:
    return [use for use in uses if use.signals.get("kernel", NO_USE).active_seconds > 0]


def _histogram(use: GpuUse, signal: str) -> Histogram | None:
    return use.signals.get(signal, NO_USE).histogram


def highest(uses: Iterable[GpuUse], signal: str, q: float) -> float | None:
    """Highest ``q``-quantile (0..1) of a signal on any device while kernels ran, upper edge.

    None where a device that ran has no histogram of it.
    """
    values = [_quantile(use, signal, q) for use in _ran(uses)]
    known = [value for value in values if value is not None]
    return max(known, default=0.0) if len(known) == len(values) else None


def p98(uses: Iterable[GpuUse], signal: str) -> float | None:
    """Return what a part of a card has to hold but for 2 % of the time: ``highest`` of 0.98."""
    return highest(uses, signal, 0.98)


def _quantile(use: GpuUse, signal: str, q: float) -> float | None:
    kernel, own = _histogram(use, "kernel"), _histogram(use, signal)
    if kernel is None or own is None:
        return None
    running = use.signals["kernel"].told_seconds - kernel.zero_seconds
    seconds = list(own.seconds)
    if signal != WIDTH:  # width has values only while kernels run
        seconds[0] = max(0.0, seconds[0] - kernel.zero_seconds)
    seconds[-1] += max(0.0, running - sum(seconds))
    quantile = Histogram(seconds=tuple(seconds), resolution=own.resolution).quantile(q)
    return None if quantile is None else quantile.high
