"""Completed runs of one workload by the environment they had, so that their times can be compared.

Only runs of the number and kind of GPUs that most of them had: others differ for that reason.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median, quantiles

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.profile import Profile, RunUse
from gputailor_agent.profiles.courses import run_length, trend
from gputailor_agent.rules.environments import Environment


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Completed runs of one environment; ``seconds``: of each."""

    environment: Environment
    runs: tuple[RunUse, ...]
    seconds: tuple[float, ...]

    @property
    def middle(self) -> float:
        """Median of a run's seconds."""
        return median(self.seconds)

    @property
    def half(self) -> tuple[float, float]:
        """Between these lies the middle half of the runs."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0]
        low, _, high = quantiles(self.seconds, n=4, method="inclusive")
        return low, high


def run_groups(profile: Profile, known: dict[str, Environment]) -> list[RunGroup]:
    """Return completed runs by environment: of the number and kind of GPUs that most runs had."""
    models: dict[str, set[str]] = defaultdict(set)
    for use in profile.gpus:
        models[use.run_id].add(use.device.model if use.device is not None else "")
    done = [
        run for run in profile.runs
        if run.outcome == Outcome.SUCCEEDED and not run.oom and run.id in known
        and run.started is not None and (run_length(run) or 0.0) > 0
    ]  # fmt: skip
    shapes = Counter((run.gpus, tuple(sorted(models[run.id]))) for run in done)
    if not shapes:
        return []
    shape = max(shapes, key=lambda one: (shapes[one], one))
    by: dict[Environment, list[RunUse]] = defaultdict(list)
    for run in done:
        if (run.gpus, tuple(sorted(models[run.id]))) == shape:
            by[known[run.id]].append(run)
    return [
        RunGroup(one, tuple(runs), tuple(run_length(run) or 0.0 for run in runs))
        for one, runs in sorted(by.items(), key=lambda pair: repr(pair[0]))
    ]


def grew_before(fast: RunGroup, slow: RunGroup, ratio: float) -> bool:
    """Whether runs grew so fast before the change that it explains the difference."""
    before = trend(fast.runs)
    slope = before.seconds if before is not None else None
    apart = (len(fast.runs) + len(slow.runs)) / 2
    return slope is not None and slope * apart >= ratio - 1.0
