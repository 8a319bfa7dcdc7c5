"""Intervals of slowdown, widened by what measurements strayed from the model.

The model's ends are bounds of arithmetic; runs on real machines are noisy, links and caches differ,
and a newer architecture gets more out of the same figures. The factors were chosen so that 95 of
100 measured slowdowns of other jobs lay inside (docs/accuracy.md).
"""

from typing import Final

from gputailor_agent.model.judgement import Interval
from gputailor_agent.rules.calibrated import Calibrated, Margins, calibrated

_OLDEST_MAJOR: Final = 5


def widened(interval: Interval, margins: Margins) -> Interval:
    """Return the interval with its low end divided and its high end multiplied by the margins."""
    return Interval(low=interval.low / margins.low, high=interval.high * margins.high)


def margin_words(margins: Margins) -> str:
    """Return how an interval was widened and by what, for a formula."""
    return f"low end / {margins.low:g}, high end x {margins.high:g} ({margins.source})"


def fewer_gpus_margins(figures: Calibrated | None = None) -> Margins:
    """Margins of ``slowdown.fewer_gpus`` and ``slowdown.fitted``."""
    return (figures or calibrated()).fewer_gpus


def smaller_gpu_margins(figures: Calibrated | None = None, *, dropped: bool = False) -> Margins:
    """Margins of ``slowdown.smaller_gpu`` where no activity is known and architectures differ.

    ``dropped``: the candidate is older than what current CUDA runs on (see ``is_dropped``).
    """
    own = figures or calibrated()
    return own.dropped_gpu if dropped else own.smaller_gpu


def is_dropped(compute_capability: str) -> bool:
    """Whether CUDA 12 has dropped a card (Kepler, capability 3; its release notes)."""
    major = compute_capability.partition(".")[0]
    return major.isdigit() and int(major) < _OLDEST_MAJOR
