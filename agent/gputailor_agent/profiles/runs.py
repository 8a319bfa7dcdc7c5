"""Runs inside a window: what each asked for, how it ended, how much it used.

A run shorter than a scrape interval is still here: its counters tell the whole of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from gputailor_agent.model.inventory import Outcome, Pod, Run
from gputailor_agent.model.profile import GpuUse, RunUse
from gputailor_agent.model.sums import UseSums
from gputailor_agent.model.usage import UsageKey
from gputailor_agent.profiles.holding import held_from
from gputailor_agent.profiles.tally import DeviceTally, Tally, merge_uses


@dataclass
class Member:
    """One container of one pod while its profile is built."""

    key: UsageKey
    run_id: str
    pod: Pod | None
    asked: float
    tallies: dict[str, DeviceTally] = field(default_factory=dict)
    itself: UseSums | None = None  # beside its devices; None: nobody told of it
    uses: list[GpuUse] = field(default_factory=list)
    live: bool = False
    by_inventory: bool = False

    @property
    def dialects(self) -> set[str]:
        """Who measured."""
        told = [
            {*tally.dialects, *chain(*tally.filled.values())} for tally in self.tallies.values()
        ]
        return set[str]().union(*told)

    @property
    def oom(self) -> bool:
        """Whether Kubernetes or the source saw it killed for memory."""
        killed = self.pod is not None and (self.pod.oom_killed or self.pod.reason == "OOMKilled")
        told = (self.itself, *self.tallies.values())
        return killed or any(tally is not None and tally.oom_kills > 0 for tally in told)


def filled_by(members: Iterable[Member]) -> dict[str, tuple[str, ...]]:
    """Signals and figures that the source of their rows could not tell, and who told them."""
    found: dict[str, set[str]] = defaultdict(set)
    for member in members:
        for tally in member.tallies.values():
            for name, by in tally.filled.items():
                found[name] |= by
    return {name: tuple(sorted(by)) for name, by in sorted(found.items())}


def run_uses(
    members: Iterable[Member], known: Mapping[str, Run], whole: Tally
) -> tuple[RunUse, ...]:
    """Return the runs of ``members``, oldest first. ``whole`` is the sum of all their devices."""
    by_run: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        by_run[member.run_id].append(member)
    runs = [
        _run_use(run_id, parts, known.get(run_id), whole if len(by_run) == 1 else _sum(parts))
        for run_id, parts in by_run.items()
    ]
    return tuple(sorted(runs, key=lambda run: (run.started or 0.0, run.id)))


def _sum(members: list[Member]) -> Tally:
    return merge_uses(use for member in members for use in member.uses)


def _run_use(run_id: str, members: list[Member], known: Run | None, total: Tally) -> RunUse:
    sm, kernel = total.signal("sm"), total.signal("kernel")
    started, finished, outcome = _course(members, known)
    return RunUse(
        id=run_id,
        started=started,
        finished=finished,
        outcome=outcome,
        oom=any(member.oom for member in members),
        gpus=_most_at_once(members),
        pods=len({(member.key.pod, member.key.pod_uid) for member in members}),
        gpu_seconds=total.allocated_seconds,
        memory_peak_bytes=total.memory_peak_bytes,
        mean_sm=None if sm is None else sm.mean,
        mean_kernel=None if kernel is None else kernel.mean,
    )


def _course(members: list[Member], known: Run | None) -> tuple[float | None, float | None, Outcome]:
    if known is not None:
        return known.started, known.finished, known.outcome
    starts = [held_from(member.pod) for member in members if member.pod is not None]
    told = [start for start in starts if start is not None]
    started = min(told) if told else None
    if any(member.live for member in members):
        return started, None, Outcome.RUNNING
    phases = {member.pod.phase for member in members if member.pod is not None}
    ends = [member.pod.finished for member in members if member.pod is not None]
    finished = max((end for end in ends if end is not None), default=None)
    if "Failed" in phases:
        return started, finished, Outcome.FAILED
    return started, finished, Outcome.SUCCEEDED if phases == {"Succeeded"} else Outcome.UNKNOWN


def _most_at_once(members: list[Member]) -> float:
    """Most devices held at one time: pods that follow each other (retries) hold the same ones."""
    changes: list[tuple[float, float]] = []
    for member in members:
        count = member.asked or float(len(member.tallies))
        pod = member.pod
        start = held_from(pod) if pod is not None else None
        if start is None or pod is None:
            return sum(other.asked or float(len(other.tallies)) for other in members)
        changes.append((start, count))
        if pod.finished is not None:
            changes.append((pod.finished, -count))
    most = now = 0.0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most
