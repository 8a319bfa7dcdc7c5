"""What became of an advice, by what was recorded after it.

Only what a history shows can be judged: whether a released GPU was wanted within the hour, whether
GPUs or replicas given up would have worked later, whether a smaller card would have run out of
memory. How much slower a change would have made a run, no history of the unchanged run tells.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gputailor_agent.evaluation.backtest.history import History, Place, place_of, worked
from gputailor_agent.model.judgement import Finding
from gputailor_agent.model.usage import HOUR_SECONDS, UsageRow


class Verdict(StrEnum):
    """What became of an advice."""

    RIGHT = "right"
    WRONG = "wrong"  # following it would have done harm
    UNKNOWN = "unknown"  # the history does not go on, or was not observed
    UNJUDGED = "unjudged"  # no history can tell


@dataclass(frozen=True, slots=True)
class Advice:
    """A finding when it was made or became surer, and what became of it."""

    at: float
    workload: str
    rule: str
    confidence: str
    verdict: Verdict
    counts: bool = True  # sure enough that its saving is added up


@dataclass(frozen=True, slots=True)
class Later:
    """What is judged by: the finding, its workload's places then, and its rows from then on."""

    finding: Finding
    at: float
    places: frozenset[Place]  # that held devices when it was made
    rows: tuple[UsageRow, ...]  # of the workload, of whole hours after ``at``


def judge(later: Later) -> Verdict:
    """Return what became of the finding."""
    return _JUDGES.get(later.finding.change.kind, _by_memory)(later)


def _released(later: Later) -> Verdict:
    """Right if nothing ran for an hour on the devices that were held."""
    rows = [
        row
        for row in later.rows
        if later.at <= row.key.hour < later.at + HOUR_SECONDS and place_of(row.key) in later.places
    ]
    told = [worked(row) for row in rows]
    if any(told):
        return Verdict.WRONG
    if not rows or any(one is None for one in told):
        return Verdict.UNKNOWN
    return Verdict.RIGHT


def _fewer_gpus(later: Later) -> Verdict:
    """Right if no pod put more GPUs to work than it would have had.

    Where every GPU works and fewer are only worth a try, nothing is claimed that could be wrong.
    """
    slowdown = later.finding.slowdown
    kept = later.finding.change.params.get("gpus")
    if not isinstance(kept, int | float) or (slowdown is not None and slowdown.high > 1):
        return Verdict.UNJUDGED
    active: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in later.rows:
        if worked(row):
            active[row.key.namespace, row.key.pod, row.key.pod_uid].add(row.key.gpu_uuid)
    return _at_most((len(gpus) for gpus in active.values()), kept, later.rows)


def _fewer_replicas(later: Later) -> Verdict:
    """Right if never more pods worked in one hour than would have been there."""
    kept = later.finding.change.params.get("replicas")
    if not isinstance(kept, int | float):
        return Verdict.UNJUDGED
    active: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for row in later.rows:
        if worked(row):
            active[row.key.hour].add((row.key.pod, row.key.pod_uid))
    return _at_most((len(pods) for pods in active.values()), kept, later.rows)


def _at_most(counts: Iterable[int], kept: float, rows: tuple[UsageRow, ...]) -> Verdict:
    if any(count > kept for count in counts):
        return Verdict.WRONG
    known = [worked(row) for row in rows]
    return Verdict.RIGHT if known and None not in known else Verdict.UNKNOWN


def _by_memory(later: Later) -> Verdict:
    """Where the advice named the memory that there would be: right if it was enough."""
    usable = usable_bytes(later.finding)
    if usable is None:
        return Verdict.UNJUDGED
    peaks = [row.memory_peak_bytes for row in later.rows if row.memory_peak_bytes is not None]
    if any(peak > usable for peak in peaks):
        return Verdict.WRONG
    return Verdict.RIGHT if peaks else Verdict.UNKNOWN


def usable_bytes(finding: Finding) -> float | None:
    """Memory that the advised card or slice has; None where the advice is about something else."""
    for evidence in finding.evidence:
        if evidence.name == "memory needed" and isinstance(evidence.threshold, int | float):
            return float(evidence.threshold)
    return None


_JUDGES: Final[Mapping[str, Callable[[Later], Verdict]]] = MappingProxyType(
    {"release": _released, "set_gpus": _fewer_gpus, "set_replicas": _fewer_replicas}
)


def rows_after(
    history: History, pods: frozenset[tuple[str, str, str]], at: float
) -> tuple[UsageRow, ...]:
    """Rows of some pods of whole hours from ``at`` on."""
    return tuple(
        row for pod in sorted(pods) for row in history.by_pod.get(pod, ()) if row.key.hour >= at
    )
