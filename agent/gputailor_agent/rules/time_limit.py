"""Time limit: far above what runs take, or so low that runs are ended by it.

The limit is a Job's, CronJob's or Kubeflow job's ``activeDeadlineSeconds``, the pod's own, or
Kueue's ``max-exec-time-seconds``. Far above: the longest of at least three completed runs took at
most a fifth of it. That costs nothing by itself: a scheduler that plans ahead can fit shorter runs
into gaps, and a run that hangs is ended sooner. Ended by it: Kubernetes says DeadlineExceeded, or a
run that did not succeed took 0.98 of the limit or more; its GPU-hours are lost unless its state was
saved. How long such a run would have taken nobody knows, so no saving is counted.
"""

import math
from dataclasses import dataclass
from typing import Final

from gputailor_agent.inventory.kinds import known_kind
from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile, RunUse
from gputailor_agent.profiles.courses import run_length
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, containers_of, found
from gputailor_agent.rules.base import (
    Context,
    Limits,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
    silence,
)
from gputailor_agent.rules.checkpoints import checkpoint_sign
from gputailor_agent.rules.deadlines import deadline_of
from gputailor_agent.rules.gates import GATE_MESSAGES, never_held
from gputailor_agent.rules.pricing import is_service

_ID: Final = "time_limit"
_HOUR: Final = 3600.0
_QUARTER: Final = 900
_HALF: Final = 0.5
_MANY: Final = 10
_DEADLINE: Final = "DeadlineExceeded"
_LINKS: Final = (
    "https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup",
)
_FORMULA: Final = "not counted: a limit takes no GPU by itself"

_THRESHOLDS: Final = (
    Threshold("batch_runs", 3, "count", "completed runs before the limit is called too high"),
    Threshold("used_share", 0.2, "ratio", "longest run, of the limit, at or below which it is"),
    Threshold("reached_share", 0.98, "ratio", "of the limit: a failed run this long was ended"),
    Threshold("headroom", 2, "factor", "new limit, of the longest run; this project's own default"),
    Threshold("raise", 2, "factor", "new limit, of one that ended runs; this project's default"),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "time_limit.too_high": "its time limit is {limit:seconds}, and the longest of {runs:count} "
    "runs took {longest:seconds}: {wanted:seconds} would do, and a run that hangs would end sooner",
    "time_limit.reached": "{killed:count} of {runs:count} runs were ended by the time limit of "
    "{limit:seconds} ({hours:count} GPU-hours): allow {wanted:seconds}, or save its state and go "
    "on from it",
    "time_limit.unquantified": "a lower limit frees nothing by itself; what a hung run would have "
    "taken is not known",
    "time_limit.lost": "how long the runs that were ended would have taken is not known",
    "time_limit.service": "it runs until somebody stops it",
    "time_limit.none": "no time limit is known for it (activeDeadlineSeconds of its Job or pods, "
    "or Kueue's label)",
    "time_limit.no_runs": "unknown: when its runs began or ended is not known",
    "time_limit.few_runs": "watching: {runs:count} completed runs, {needed:count} are needed",
    "time_limit.fine": "its longest run took {longest:seconds} of the {limit:seconds} allowed",
    "time_limit.risk_longer": "a run with more data takes longer and would be ended: the limit "
    "leaves {headroom:factor} the longest run seen",
    "time_limit.risk_hang": "a run that hangs holds its GPUs for longer",
    "time_limit.not_none": "no limit at all: a run that hangs would hold its GPUs for ever",
    "time_limit.not_more": "a higher limit alone: without saved state the next failure loses as "
    "much",
}


@dataclass(frozen=True, slots=True)
class _Case:
    """One workload with a limit (seconds) and what its runs took."""

    profile: Profile
    context: Context
    limits: Limits
    limit: float
    ended: tuple[RunUse, ...]
    completed: tuple[RunUse, ...]
    killed: tuple[RunUse, ...]
    told: bool  # Kubernetes itself says that the deadline ended them
    longest: float

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What was looked at."""
        profile = self.profile
        return (
            noted("time limit", self.limit, unit="seconds", profile=profile,
                  formula="activeDeadlineSeconds, or Kueue's label: the lowest"),
            held_against("completed runs", len(self.completed), ">=", self.limits["batch_runs"],
                         unit="count", profile=profile, formula="runs that ended and succeeded"),
            held_against("longest run of the limit", self.longest / self.limit, "<=",
                         self.limits["used_share"], unit="ratio", profile=profile,
                         formula="longest run, one that still runs included / limit"),
            held_against("runs ended by the limit", len(self.killed), ">=", 1, unit="count",
                         profile=profile, formula=f"{_DEADLINE}, or not succeeded after "
                         f"{self.limits['reached_share']:g} of the limit"),
        )  # fmt: skip


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the workload's time limit fits its runs."""
    limits = RULE.limits(context)
    silent = never_held(_ID, profile)
    if silent is not None:
        return silent
    if is_service(profile) or known_kind(profile.workload.kind).life == "service":
        return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, message("time_limit.service"))
    pods = [pod for pod, _ in containers_of(profile, context)]
    limit = deadline_of(profile.workload, pods)
    if limit is None:
        return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, message("time_limit.none"))
    case = _case(profile, context, limits, limit)
    if case is None:
        why = message("time_limit.no_runs")
        missing = ("run times",)
        return silence(_ID, profile, SilenceKind.UNKNOWN, why, missing_signals=missing)
    return _judged(case)


def _case(profile: Profile, context: Context, limits: Limits, limit: float) -> _Case | None:
    lengths = {run.id: _length(run, profile.window.end) for run in profile.runs}
    known = [run for run in profile.runs if lengths[run.id] is not None]
    if not known:
        return None
    ended = tuple(run for run in known if run.finished is not None)
    completed = tuple(r for r in ended if r.outcome == Outcome.SUCCEEDED and not r.oom)
    told = _told_by_kubernetes(profile, context)
    least = limits["reached_share"] * limit
    killed = tuple(
        run for run in ended
        if run.outcome != Outcome.SUCCEEDED and not run.oom
        and (run.id in told or (lengths[run.id] or 0.0) >= least)
    )  # fmt: skip
    running = [run for run in known if run.outcome == Outcome.RUNNING]
    return _Case(
        profile,
        context,
        limits,
        limit,
        ended,
        completed,
        killed,
        told=bool(killed) and all(run.id in told for run in killed),
        longest=max((lengths[run.id] or 0.0 for run in (*completed, *running)), default=0.0),
    )


def _length(run: RunUse, end: float) -> float | None:
    if run.outcome == Outcome.RUNNING and run.started is not None:
        return max(0.0, end - run.started)
    return run_length(run)


def _told_by_kubernetes(profile: Profile, context: Context) -> set[str]:
    """Runs with a pod of which Kubernetes says that its deadline ended it."""
    found_in = set()
    for use in profile.gpus:
        pod = context.holdings.find(use.namespace, use.pod, use.pod_uid)
        if pod is not None and pod.reason == _DEADLINE:
            found_in.add(use.run_id)
    return found_in


def _judged(case: _Case) -> Finding | Silence:
    profile, limits = case.profile, case.limits
    if case.killed:
        return _reached(case)
    if len(case.completed) < limits["batch_runs"]:
        why = message("time_limit.few_runs", runs=len(case.completed), needed=limits["batch_runs"])
        return silence(_ID, profile, SilenceKind.WATCHING, why, case.evidence)
    wanted = _rounded(case.longest * limits["headroom"])
    if case.longest > limits["used_share"] * case.limit or wanted >= case.limit:
        why = message("time_limit.fine", longest=case.longest, limit=case.limit)
        return silence(_ID, profile, SilenceKind.FINE, why, case.evidence)
    return _too_high(case, wanted)


def _rounded(seconds: float) -> int:
    """Up to whole quarters of an hour."""
    return max(1, math.ceil(seconds / _QUARTER)) * _QUARTER


def _too_high(case: _Case, wanted: int) -> Finding:
    runs = len(case.completed)
    many = runs >= _MANY
    why = message(
        "time_limit.too_high", limit=case.limit, runs=runs, longest=case.longest, wanted=wanted
    )
    advice = Advice(
        severity=Severity.INFO,
        confidence=Confidence.HIGH if many else Confidence.MEDIUM,
        reason=f"{runs} completed runs were measured from start to end",
        change=_change(case, wanted),
        saving=Saving(why=message("time_limit.unquantified"), formula=_FORMULA),
        risks=(message("time_limit.risk_longer", headroom=wanted / max(case.longest, 1.0)),),
        not_chosen=(message("time_limit.not_none"),),
    )
    return found(_ID, case.profile, why, advice, case.evidence)


def _reached(case: _Case) -> Finding:
    wanted = _rounded(case.limit * case.limits["raise"])
    lost = sum(run.gpu_seconds for run in case.killed)
    whole = sum(run.gpu_seconds for run in case.profile.runs)
    why = message(
        "time_limit.reached",
        killed=len(case.killed),
        runs=len(case.ended),
        limit=case.limit,
        hours=lost / _HOUR,
        wanted=wanted,
    )
    share = noted(
        "GPU time of runs ended by the limit", lost / whole if whole > 0 else None, unit="ratio",
        profile=case.profile, formula="GPU-seconds of those runs / of all runs of the window",
    )  # fmt: skip
    signs = [checkpoint_sign(spec, pod.annotations)
             for pod, spec in containers_of(case.profile, case.context)]  # fmt: skip
    saved = noted(
        "sign of checkpoints", next((sign for sign in signs if sign), None),
        profile=case.profile, formula="arguments and variables of its pods, or the annotation",
    )  # fmt: skip
    grave = whole > 0 and lost >= _HALF * whole
    advice = Advice(
        severity=Severity.HIGH if grave and not any(signs) else Severity.MEDIUM,
        confidence=Confidence.HIGH if case.told else Confidence.MEDIUM,
        reason="Kubernetes says that the deadline ended them"
        if case.told
        else "they ended without success when the limit was over",
        change=_change(case, wanted),
        saving=Saving(why=message("time_limit.lost"), formula=_FORMULA),
        risks=(message("time_limit.risk_hang"),),
        not_chosen=(message("time_limit.not_none"), message("time_limit.not_more")),
    )
    return found(_ID, case.profile, why, advice, (*case.evidence, share, saved))


def _change(case: _Case, wanted: int) -> Change:
    return changes.set_time_limit(case.profile, wanted, case.limit, _LINKS)


RULE: Final = Rule(
    id=_ID,
    title="Time limit",
    summary="The time limit of runs is far above what they take, or it ends them.",
    signals=(),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=82,
)
