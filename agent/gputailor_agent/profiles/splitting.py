"""A name stem joins runs by guessing; runs whose memory peaks differ twofold are other things.

Only what a stem joined is split: a declared workload, a service and a CronJob are what they are
called. Completed runs decide, since an aborted run's low peak says nothing; every other run goes to
the part whose peaks are nearest to its own. The part of the oldest run keeps the plain id; another
one's ends in the power of two that holds its peak (``#peak-32g``), which stays the same from week
to week.
"""

import math
from collections.abc import Mapping

from gputailor_agent.inventory.identity import split_stem
from gputailor_agent.inventory.kinds import known_kind
from gputailor_agent.model.inventory import Outcome, Run, Workload
from gputailor_agent.profiles.runs import Member

_GIB = 1024**3


def parts_of(
    workload: Workload, members: list[Member], runs: Mapping[str, Run]
) -> list[tuple[str, list[Member]]]:
    """Return (end of the id, members) of each part; one part with '' where nothing is split."""
    peaks = _peaks(members)
    completed = {
        run: peak
        for run, peak in peaks.items()
        if run in runs and runs[run].outcome == Outcome.SUCCEEDED and peak > 0
    }
    if not _by_stem(workload) or len(completed) < 2:  # noqa: PLR2004 - one run has no other
        return [("", members)]
    groups = [[completed[run] for run in part] for part in split_stem(completed)]
    if len(groups) == 1:
        return [("", members)]
    parts: list[list[Member]] = [[] for _ in groups]
    for member in members:
        parts[_nearest(peaks.get(member.run_id, 0), groups)].append(member)
    oldest = min(completed, key=lambda run: (runs[run].started or 0.0, run))
    plain = _nearest(completed[oldest], groups)
    return [
        ("" if place == plain else f"#peak-{_power_of_two(max(groups[place]))}g", part)
        for place, part in enumerate(parts)
    ]


def _by_stem(workload: Workload) -> bool:
    declared = workload.id.split("/")[1:2] == ["workload"]
    return not declared and known_kind(workload.kind).life in {"run", "pipeline"}


def _peaks(members: list[Member]) -> dict[str, float]:
    """Highest memory peak of each run on any one device; runs without one are left out."""
    peaks: dict[str, float] = {}
    for member in members:
        for tally in member.tallies.values():
            if tally.memory_peak_bytes is not None:
                known = peaks.get(member.run_id, 0.0)
                peaks[member.run_id] = max(known, float(tally.memory_peak_bytes))
    return peaks


def _nearest(peak: float, groups: list[list[float]]) -> int:
    """Place of the group that holds the peak or has the nearest one; the highest for none."""
    if peak <= 0:
        return len(groups) - 1
    return min(
        range(len(groups)),
        key=lambda place: min(abs(math.log(peak / other)) for other in groups[place]),
    )


def _power_of_two(peak: float) -> int:
    """Least power of two, in GiB, that is at least the peak."""
    return 1 << max(0, math.ceil(math.log2(peak / _GIB)))
