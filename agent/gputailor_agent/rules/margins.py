"""Intervals of slowdown, widened by what measurements strayed from the model.

The model's ends are bounds of arithmetic; runs on real machines are noisy, links and caches differ,
and a newer architecture gets more out of the same figures. The factors were chosen so that at least
95 of 100 measured slowdowns of other jobs lay inside (docs/accuracy.md). Where nothing but the time
with a kernel is known they are so wide that they only say how little can be known.
"""

from gputailor_agent.model.judgement import Interval
from gputailor_agent.rules.calibrated import Calibrated, Margins, calibrated


def widened(interval: Interval, margins: Margins) -> Interval:
    """Return the interval with its low end divided and its high end multiplied by the margins."""
    return Interval(low=interval.low / margins.low, high=interval.high * margins.high)


def widened_work(interval: Interval, margins: Margins, active: float, worst: float) -> Interval:
    """Return ``slowdown.on_card``'s interval, widened where the card works: a share ``active``.

    ``worst``: largest rho. The high end is 1 - G + G worst x margin: what is not the card's work
    strays no further because the card is another. All of the time at work it is ``widened``.
    """
    high = interval.high + active * max(1.0, worst) * (margins.high - 1.0)
    return Interval(low=interval.low / margins.low, high=high)


def margin_words(margins: Margins, of: str = "high end") -> str:
    """Return how an interval was widened and by what (``of``: the upper one), for a formula."""
    return f"low end / {margins.low:g}, {of} x {margins.high:g} ({margins.source})"


def fewer_gpus_margins(figures: Calibrated | None = None) -> Margins:
    """Margins of ``slowdown.fewer_gpus`` and ``slowdown.fitted``."""
    return (figures or calibrated()).fewer_gpus


def smaller_gpu_margins(figures: Calibrated | None = None) -> Margins:
    """Margins of ``slowdown.smaller_gpu`` where no activity is known and architectures differ."""
    return (figures or calibrated()).smaller_gpu
