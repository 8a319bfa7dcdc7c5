"""How much slower a job gets: intervals, never a single number. Pure arithmetic.

Both ends are bounds under the roofline model: a resource that is used to ``u`` now cannot limit the
job before ``u rho`` reaches 1, and work that was bound by it cannot be slowed by more than ``rho``.
``u`` is a signal's one-second value (0..1), ``rho`` what a candidate has less of it: P_now / P_c.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from gputailor_agent.model.judgement import Interval
from gputailor_agent.model.usage import HISTOGRAM_EDGES, SignalUse

FEWER_FORMULA = "[max(1, N mean(u) / k), N / k], N: GPUs that worked"
LOW_FORMULA = "max over resources of E[max(1, u rho)], lower edges of the histogram"
HIGH_FORMULA = "1 - G + G max(1, max rho)"


def fewer_gpus(now: float, then: float, mean_activity: float) -> Interval:
    """Slowdown of the same work on ``then`` instead of ``now`` working GPUs of one kind.

    Low: the measured busy seconds packed perfectly. High: perfect scaling today.
    """
    low = max(1.0, now * min(1.0, mean_activity) / then)
    return Interval(low=low, high=max(low, now / then))


def fitted(runs: Sequence[tuple[float, float]], now: float, then: float) -> Interval | None:
    """Slowdown fitted from runs of other sizes: (GPUs, seconds) each; None where it cannot be.

    Least squares of ``seconds = a + b / GPUs`` with a, b >= 0 (Amdahl's law), widened by the
    largest relative residual. Needs three runs of at least two sizes.
    """
    sizes = {gpus for gpus, _ in runs}
    if len(runs) < 3 or len(sizes) < 2:  # noqa: PLR2004 - two unknowns and one to check them
        return None
    xs = [1.0 / gpus for gpus, _ in runs]
    ys = [seconds for _, seconds in runs]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    slope = min(max(0.0, slope), mean_y / mean_x)
    fixed = max(0.0, mean_y - slope * mean_x)
    guesses = [fixed + slope * x for x in xs]
    if min(guesses) <= 0:
        return None
    error = max(abs(y - g) / g for y, g in zip(ys, guesses, strict=True))
    ratio = (fixed + slope / then) / (fixed + slope / now)
    return Interval(low=max(1.0, ratio * (1 - error)), high=max(1.0, ratio * (1 + error)))


@lru_cache(maxsize=64)
def _low_edges(resolution: float) -> tuple[float, ...]:
    """Lower edge of each bucket of a histogram of that resolution."""
    return tuple(max(0.0, edge - resolution) for edge in HISTOGRAM_EDGES)


def least_mean(use: SignalUse) -> float:
    """Least mean of the signal that its histogram allows; 0 without one."""
    histogram = use.histogram
    if histogram is None:
        return 0.0
    seconds = max(histogram.total_seconds, use.observed_seconds)
    if seconds <= 0:
        return 0.0
    edges = _low_edges(histogram.resolution)
    return sum(part * edge for part, edge in zip(histogram.seconds, edges, strict=True)) / seconds


def at_least(use: SignalUse, rho: float) -> float:
    """Lower bound of E[max(1, u rho)] over all observed time; 1 where nothing is known.

    By the histogram's lower edges (time it does not cover counts 1) and by the mean, since
    max(1, u rho) is convex in u: both are lower bounds, the higher one is the closer.
    """
    if rho <= 1 or use.observed_seconds <= 0:
        return 1.0
    low = max(1.0, min(1.0, use.mean or 0.0) * rho)
    histogram = use.histogram
    if histogram is None:
        return low
    seconds = max(histogram.total_seconds, use.observed_seconds)
    excess = sum(
        part * (edge * rho - 1.0)
        for part, edge in zip(histogram.seconds, _low_edges(histogram.resolution), strict=True)
        if edge * rho > 1.0
    )
    return max(low, 1.0 + excess / seconds)


def raised(active_share: float, uses: Iterable[SignalUse]) -> float:
    """Share of time active, 0..1: at least the mean of every resource used."""
    means = [mean for use in uses for mean in (use.mean or 0.0, least_mean(use))]
    return min(1.0, max([active_share, *means]))


def smaller_gpu(resources: Iterable[tuple[SignalUse, float]], active_share: float) -> Interval:
    """Slowdown on a candidate: (use of a resource, rho) for each one used or unknown.

    ``active_share`` is G, the share of time active; it is raised to the mean of every resource,
    which cannot be used for longer than something runs. ``low <= high`` always.
    """
    pairs = list(resources)
    return on_card(pairs, raised(active_share, (use for use, _ in pairs)))


def on_card(pairs: Sequence[tuple[SignalUse, float]], active: float) -> Interval:
    """Return ``smaller_gpu`` where the share of time active is ``raised`` already."""
    low = max([1.0, *(at_least(use, rho) for use, rho in pairs)])
    worst = max([1.0, *(rho for _, rho in pairs)])
    return Interval(low=low, high=max(low, 1.0 - active + active * worst))
