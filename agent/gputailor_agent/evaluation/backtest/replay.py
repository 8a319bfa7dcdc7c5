"""Judge a history moment by moment, each with what was known then and nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gputailor_agent.assessment import Assessment, AssessmentSettings, assess
from gputailor_agent.evaluation.backtest.hindsight import (
    Advice,
    Later,
    judge,
    rows_after,
)
from gputailor_agent.evaluation.backtest.history import History, Place, known_at
from gputailor_agent.evaluation.backtest.openings import (
    RELEASE,
    Opening,
    PodKey,
    idle_openings,
)
from gputailor_agent.model.judgement import Finding
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.planner.choosing import SURE, counts
from gputailor_agent.rules.base import HOURS_PER_MONTH, Catalogue

_DAY: Final = 86_400.0
_IDLE: Final = "idle"

_Key = tuple[str, str]  # workload and rule
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """``every_seconds`` between moments; each looks back ``window_days``, as a report does."""

    every_seconds: float = 6 * 3600.0
    window_days: float = 14.0
    assessment: AssessmentSettings = field(default_factory=AssessmentSettings)


@dataclass(frozen=True, slots=True)
class Replay:
    """What was advised, what there was to find, and how many runs it was taken from."""

    advice: tuple[Advice, ...]
    openings: tuple[Opening, ...]
    runs: int
    moments: int
    start: float
    end: float


def _nobody(_done: int, _total: int | None) -> None:
    """Nobody watches."""


def replay(
    history: History,
    catalogue: Catalogue,
    settings: Settings,
    *,
    progress: Progress = _nobody,
) -> Replay:
    """Judge ``history`` at every moment of it; rows and pods after a moment change nothing there.

    A finding counts once, when it is first made, and again when its confidence rises: a notice and
    the advice to act are two things to be right about. One that went away and came back counts
    again.
    """
    whole = _assess(history, catalogue, settings, history.last, since=history.first)
    workload_of = {pod: profile.workload.id for profile in whole.profiles for pod in _pods(profile)}
    moments = _moments(history, settings)
    advice: list[Advice] = []
    standing: dict[_Key, int] = {}
    for done, at in enumerate(moments):
        progress(done, len(moments))
        now = _assess(history, catalogue, settings, at)
        found = _found(now)
        sure = {key: SURE[finding.confidence] for key, (finding, _) in found.items()}
        new, standing = risen(sure, standing)
        advice += [_advice(history, found[key], at, workload_of) for key in new]
    return Replay(
        advice=tuple(advice),
        openings=(*idle_openings(history, workload_of, _IDLE), *_sizing(whole, history)),
        runs=sum(len(profile.runs) for profile in whole.profiles),
        moments=len(moments),
        start=history.first,
        end=history.last,
    )


def risen(
    sure: Mapping[_Key, int], standing: Mapping[_Key, int]
) -> tuple[list[_Key], dict[_Key, int]]:
    """What is new or surer than ever since it stands, and how sure at most each has been."""
    most = {key: max(level, standing.get(key, level)) for key, level in sure.items()}
    return [key for key, level in most.items() if level > standing.get(key, -1)], most


def _moments(history: History, settings: Settings) -> list[float]:
    """Whole hours, the last one early enough for an hour to follow."""
    step = max(HOUR_SECONDS, round(settings.every_seconds / HOUR_SECONDS) * HOUR_SECONDS)
    first = int(history.first // HOUR_SECONDS * HOUR_SECONDS) + step
    return [float(at) for at in range(first, int(history.last), step)]


def _assess(
    history: History,
    catalogue: Catalogue,
    settings: Settings,
    at: float,
    *,
    since: float | None = None,
) -> Assessment:
    start = max(history.first, at - settings.window_days * _DAY) if since is None else since
    return assess(
        history.rows_until(at, start),
        history.devices,
        known_at(history.inventory, at),
        window=Window(start=start, end=at),
        now=at,
        catalogue=catalogue,
        settings=settings.assessment,
    )


def _pods(profile: Profile) -> frozenset[PodKey]:
    return frozenset((use.namespace, use.pod, use.pod_uid) for use in profile.gpus)


def _found(assessment: Assessment) -> dict[_Key, tuple[Finding, Profile]]:
    """Every finding (primary or not) by workload and rule, with what it was made from."""
    profiles = {profile.workload.id: profile for profile in assessment.profiles}
    return {
        (finding.workload_id, finding.rule): (finding, profiles[finding.workload_id])
        for verdict in assessment.plan.verdicts
        for finding in (verdict.primary, *verdict.alternatives)
        if finding is not None
    }


def _advice(
    history: History,
    found: tuple[Finding, Profile],
    at: float,
    workload_of: dict[PodKey, str],
) -> Advice:
    finding, profile = found
    pods = _pods(profile)
    # Pods that came later belong to the workload by what is known at the end of the history.
    names = {workload_of[pod] for pod in pods if pod in workload_of}
    same = pods | {pod for pod, name in workload_of.items() if name in names}
    places: set[Place] = {
        (use.namespace, use.pod, use.pod_uid, use.container, use.gpu_uuid)
        for use in profile.gpus
        if use.last_hour + 2 * HOUR_SECONDS > at
    }
    later = Later(finding, at, frozenset(places), rows_after(history, frozenset(same), at))
    return Advice(
        at=at,
        workload=min(names, default=finding.workload_id),
        rule=finding.rule,
        confidence=str(finding.confidence),
        verdict=judge(later),
        counts=counts(finding),
    )


def _share(finding: Finding, profile: Profile) -> float:
    """Share of the held GPU-hours that the advice would free; 0 where none is counted."""
    hours = finding.saving.gpu_hours_per_month or 0.0
    window = max(profile.window.seconds / 3600, 1e-9)
    monthly = profile.allocated_seconds / 3600 / window * HOURS_PER_MONTH
    return min(1.0, hours / monthly) if monthly > 0 else 0.0


def _sizing(whole: Assessment, history: History) -> list[Opening]:
    """What rules other than those of idle time say of the whole history."""
    found = []
    for finding, profile in _found(whole).values():
        share = _share(finding, profile)
        if finding.change.kind == RELEASE or share <= 0:
            continue
        hours = [hour for use in profile.gpus for hour, _, _ in use.hours]
        start = float(min(hours, default=history.first))
        held = share * profile.allocated_seconds / 3600
        found.append(Opening(finding.rule, finding.workload_id, start, history.last, held))
    return found
