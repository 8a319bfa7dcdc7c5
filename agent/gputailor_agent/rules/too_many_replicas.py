"""Too many replicas: some pods of a service never worked, in at least a whole week.

A replica counts as unused where every signal of all its GPUs stayed at zero, was watched for long
enough, and the pod has been there for a day: one that is new may be there for tonight's load. One
that worked at any time counts as needed, and so does one of which it is not known. GPUs that never
worked take nothing with them when they go, so the slowdown is [1, 1]. Where none worked at all,
``idle`` or ``standby`` speak.
"""

from typing import Final

from gputailor_agent.model.judgement import (
    Evidence,
    Finding,
    Interval,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case, opened
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
)
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS
from gputailor_agent.rules.members import Member, members_of, sure_of_zero
from gputailor_agent.rules.pricing import MONEY_MESSAGES, is_service, monthly
from gputailor_agent.rules.requesting import request_evidence

_ID: Final = "too_many_replicas"
_HALF: Final = 0.5
_HOUR: Final = 3600.0

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "too_many_replicas.unused": "{unused:count} of {replicas:count} replicas never worked in the "
    "window: {needed:count} would do",
    "too_many_replicas.batch": "its pods are ranks or runs of a job, not replicas of a service",
    "too_many_replicas.notebook": "each of its pods is a person's own",
    "too_many_replicas.every_node": "it runs one pod on every node; how many is not its to choose",
    "too_many_replicas.one": "it has one replica; fewer is none",
    "too_many_replicas.none_active": "no replica worked at all: see idle",
    "too_many_replicas.all_active": "every replica that has been there for long enough worked",
    "too_many_replicas.risk_load": "the load may need the spare replicas at times the window did "
    "not see",
    "too_many_replicas.risk_failure": "fewer replicas are left when a node fails",
    "too_many_replicas.risk_autoscaler": "an autoscaler would set the number back: lower its "
    "minimum instead",
    "too_many_replicas.not_zero": "none at all: {needed:count} answered requests",
    "too_many_replicas.not_shared": "all replicas on shared GPUs: those that work keep theirs",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether fewer replicas of a service would have done."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    limits = case.limits
    pods = members_of(profile, context, limits["coverage"])
    live = [pod for pod in pods if pod.live]
    silent = _not_about(case, live)
    if silent is not None:
        return silent
    used = [pod for pod in live if not _unused(pod, limits["replica_hours"])]
    if not any(pod.needed for pod in pods):
        why = message("too_many_replicas.none_active")
        return case.silent(SilenceKind.FINE, why, _numbers(case, live, used))
    if not used or len(used) == len(live):
        why = message("too_many_replicas.all_active")
        return case.silent(SilenceKind.FINE, why, _numbers(case, live, used))
    return _finding(case, live, used)


def _not_about(case: Case, live: list[Member]) -> Silence | None:
    workload = case.profile.workload
    key = ""
    if not is_service(case.profile):
        key = "batch"
    elif workload.task_class == "notebook":
        key = "notebook"
    elif workload.kind == "DaemonSet":
        key = "every_node"
    elif len(live) <= 1:
        key = "one"
    if not key:
        return None
    return case.silent(SilenceKind.NOT_APPLICABLE, message(f"{_ID}.{key}"))


def _unused(pod: Member, hours: float) -> bool:
    return pod.needed == 0 and pod.held_seconds >= hours * _HOUR


def _numbers(case: Case, live: list[Member], used: list[Member]) -> tuple[Evidence, ...]:
    profile = case.profile
    return (
        held_against("replicas that worked", len(used), "<", len(live), unit="count",
                     profile=profile, signal=case.basis.busy,
                     formula="pods with any activity, not watched for long enough, or too new"),
        noted("replicas now", len(live), unit="count", profile=profile,
              formula="pods that hold devices at the window's end"),
        *request_evidence(profile),
    )  # fmt: skip


def _finding(case: Case, live: list[Member], used: list[Member]) -> Finding:
    now, needed = len(live), len(used)
    share = (now - needed) / now
    sure, reason = sure_of_zero(case.basis, "replicas")
    why = message("too_many_replicas.unused", unused=now - needed, replicas=now, needed=needed)
    advice = Advice(
        severity=Severity.HIGH if share >= _HALF else Severity.MEDIUM,
        confidence=sure,
        reason=reason,
        change=changes.set_replicas(case.profile, needed),
        saving=monthly(case.profile, case.context).saving(share),
        slowdown=Interval(low=1.0, high=1.0),
        risks=(
            message("too_many_replicas.risk_load"),
            message("too_many_replicas.risk_failure"),
            message("too_many_replicas.risk_autoscaler"),
        ),
        not_chosen=(
            message("too_many_replicas.not_zero", needed=needed),
            message("too_many_replicas.not_shared"),
        ),
    )
    return case.found(why, advice, _numbers(case, live, used))


RULE: Final = Rule(
    id=_ID,
    title="Too many replicas",
    summary="Some replicas of a service never work.",
    signals=("kernel", "sm", "encoder", "decoder"),
    thresholds=(
        *SIZING_THRESHOLDS,
        Threshold("replica_hours", 24, "hours", "a replica younger than this is not called unused"),
    ),
    messages=_MESSAGES,
    evaluate=evaluate,
    order=22,
)
