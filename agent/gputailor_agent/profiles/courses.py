"""How use changes: over the week, from run to run, with the number of GPUs, from rank to rank.

All of it is found from one profile; rules decide what follows. Where there is too little to tell
something the answer is None or nothing, never a guess.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

import numpy as np
import numpy.typing as npt

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.profile import GpuUse, Profile, RunUse
from gputailor_agent.model.usage import HOUR_SECONDS, NO_USE
from gputailor_agent.profiles.tally import busy_signal

HOURS_OF_WEEK: Final = 168
#: The Unix epoch was a Thursday: so many hours before it a week began, on Monday at 0:00 UTC.
_EPOCH_HOUR: Final = 72
#: Fewer completed runs have no trend: two points always lie on a line.
LEAST_RUNS: Final = 3
#: A rank is told apart from fewer others only by chance.
LEAST_RANKS: Final = 4
#: A rank that differs less from the others than this share of the time is not told.
LEAST_APART: Final = 0.15
#: Least observed share of the time held for a zero to mean that a device did nothing.
_WATCHED: Final = 0.9
#: Half of all values of a normal distribution lie within 1/1.4826 of its standard deviation.
_DEVIATIONS: Final = 3 * 1.4826
#: ... measured no finer than the histogram's own resolution.
_FINEST: Final = 0.01


@dataclass(frozen=True, slots=True)
class WeekShape:
    """Use by hour of the week, from Monday 0:00 UTC; arrays of 168 values.

    ``mean``: busy share of the observed time, 0..1, NaN where that hour of the week was never
    observed. ``gpus``: devices observed, mean over the weeks in which the hour lay in the window.
    ``weeks``: how many different weeks told something of the hour.
    """

    mean: npt.NDArray[np.float64]
    gpus: npt.NDArray[np.float64]
    weeks: npt.NDArray[np.int64]

    @property
    def busiest(self) -> int | None:
        """Hour of the week with the highest mean; None where nothing was observed."""
        return None if np.isnan(self.mean).all() else int(np.nanargmax(self.mean))


def hour_of_week(at: int) -> int:
    """Return the hour of the week (0: Monday 0:00 UTC) in which Unix time ``at`` lies."""
    return (at // HOUR_SECONDS + _EPOCH_HOUR) % HOURS_OF_WEEK


def week_shape(profile: Profile) -> WeekShape:
    """Return how the workload's devices together were used over the week."""
    observed, active = np.zeros(HOURS_OF_WEEK), np.zeros(HOURS_OF_WEEK)
    seen: dict[int, set[int]] = defaultdict(set)
    for use in profile.gpus:
        for hour, seconds, busy in use.hours:
            if seconds > 0:
                place = hour_of_week(hour)
                observed[place] += seconds
                active[place] += busy
                seen[place].add(hour)
    weeks = np.array([len(seen[place]) for place in range(HOURS_OF_WEEK)], dtype=np.int64)
    possible = np.zeros(HOURS_OF_WEEK)
    first, last = int(profile.window.start), int(profile.window.end)
    for hour in range(first // HOUR_SECONDS * HOUR_SECONDS, last, HOUR_SECONDS):
        possible[hour_of_week(hour)] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(observed > 0, active / observed, np.nan)
        gpus = np.where(possible > 0, observed / (possible * HOUR_SECONDS), 0.0)
    return WeekShape(mean=mean, gpus=gpus, weeks=weeks)


@dataclass(frozen=True, slots=True)
class Trend:
    """What changes per run, as a share of the first run's value, by the medians of all pairs.

    ``None``: not known of enough runs.
    """

    runs: int
    seconds: float | None
    gpu_seconds: float | None
    memory_peak: float | None
    mean_sm: float | None


def trend(runs: Iterable[RunUse]) -> Trend | None:
    """Return how completed runs of the same number of GPUs change; None for fewer than three.

    Runs of the most common number count: others take more or less time for another reason. The
    slope is the median over all pairs (Theil and Sen), which a third of odd runs cannot move.
    """
    done = [run for run in runs if run.outcome == Outcome.SUCCEEDED and run.started is not None]
    by_size: dict[float, list[RunUse]] = defaultdict(list)
    for run in done:
        by_size[run.gpus].append(run)
    if not by_size:
        return None
    same = max(by_size.values(), key=lambda some: (len(some), some[0].gpus))
    if len(same) < LEAST_RUNS:
        return None
    same.sort(key=lambda run: (run.started or 0.0, run.id))
    return Trend(
        runs=len(same),
        seconds=_slope([run_length(run) for run in same]),
        gpu_seconds=_slope([run.gpu_seconds for run in same]),
        memory_peak=_slope([run.memory_peak_bytes for run in same]),
        mean_sm=_slope([run.mean_sm for run in same]),
    )


def run_length(run: RunUse) -> float | None:
    """Seconds from a run's start to its end; None while it runs or where it does not say."""
    if run.started is None or run.finished is None:
        return None
    return run.finished - run.started


def _slope(values: Iterable[float | None]) -> float | None:
    points = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(points) < LEAST_RUNS:
        return None
    slopes = [(b - a) / (right - left) for (left, a), (right, b) in combinations(points, 2)]
    slope = median(slopes)
    begin = median(value - slope * place for place, value in points)
    return slope / begin if begin > 0 else None


@dataclass(frozen=True, slots=True)
class Scaling:
    """Completed runs of different numbers of GPUs.

    ``seconds``: (GPUs, median seconds of a run), rising. ``exponent`` of seconds ~ GPUs**-exponent:
    1 where twice the GPUs take half the time, 0 where they do not help. ``efficiency``: GPU-seconds
    of the smallest size over those of the largest.
    """

    seconds: tuple[tuple[float, float], ...]
    exponent: float
    efficiency: float


def scaling(runs: Iterable[RunUse]) -> Scaling | None:
    """Return how run time falls with the number of GPUs; None for runs of one size only.

    That all runs did the same work is taken for granted: they are runs of one workload.
    """
    lengths: dict[float, list[float]] = defaultdict(list)
    for run in runs:
        length = run_length(run)
        if run.outcome == Outcome.SUCCEEDED and length and length > 0 and run.gpus > 0:
            lengths[run.gpus].append(length)
    if len(lengths) < 2:  # noqa: PLR2004 - a comparison takes two
        return None
    points = tuple((gpus, median(lengths[gpus])) for gpus in sorted(lengths))
    (few, slow), (many, fast) = points[0], points[-1]
    size = np.log([gpus for gpus, _ in points])
    exponent = -float(np.polyfit(size, np.log([seconds for _, seconds in points]), 1)[0])
    return Scaling(seconds=points, exponent=exponent, efficiency=(few * slow) / (many * fast))


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank's device that works unlike the others of its run.

    ``mean`` and ``others`` (their median) are busy shares of ``signal``, 0..1. Where ranks wait for
    each other the one that is busier than all is the slow one; one that is less busy waits itself.
    """

    run_id: str
    pod: str
    gpu_uuid: str
    signal: str
    mean: float
    others: float

    @property
    def slow(self) -> bool:
        """Whether the others wait for it."""
        return self.mean > self.others


def stragglers(profile: Profile) -> tuple[Straggler, ...]:
    """Return devices that differ from the other ranks of their run by more than chance.

    Only runs with four ranks or more; a device counts as different when it is further from the
    median of the others than three of their deviations (by the median, so that it does not hide
    itself) and than 0.15.
    """
    runs = ranks_by_run(profile.gpus)
    return tuple(found for run_id in sorted(runs) for found in _of_run(run_id, runs[run_id]))


def ranks_by_run(uses: Iterable[GpuUse]) -> dict[str, list[GpuUse]]:
    """The devices of each run that have a part in it.

    One that was held and did nothing at all has none: it waits for nobody, nor anybody for it.
    """
    runs: dict[str, list[GpuUse]] = defaultdict(list)
    for use in uses:
        if takes_part(use):
            runs[use.run_id].append(use)
    return runs


def takes_part(use: GpuUse) -> bool:
    """Whether the device worked at all; one that was not observed for long enough may have."""
    busy = use.signals.get(busy_signal(use.signals), NO_USE)
    if busy.observed_seconds < _WATCHED * use.allocated_seconds or busy.observed_seconds <= 0:
        return True
    return any(one.active_seconds > 0 for one in use.signals.values())


def _of_run(run_id: str, uses: list[GpuUse]) -> Iterable[Straggler]:
    signals = {busy_signal(use.signals) for use in uses}
    signal = "sm" if all(_mean(use, "sm") is not None for use in uses) else min(signals)
    known = [(use, mean) for use in uses if (mean := _mean(use, signal)) is not None]
    if len(known) < LEAST_RANKS or len(known) < len(uses):
        return
    for place, (use, mean) in enumerate(known):
        others = [other for at, (_, other) in enumerate(known) if at != place]
        middle = median(others)
        spread = median(abs(other - middle) for other in others)
        if abs(mean - middle) > max(LEAST_APART, _DEVIATIONS * max(spread, _FINEST)):
            yield Straggler(run_id, use.pod, use.gpu_uuid, signal, mean, middle)


def _mean(use: GpuUse, signal: str) -> float | None:
    mean = use.signals.get(signal, NO_USE).mean
    return None if mean is None or math.isnan(mean) else mean
