"""Standby: a service keeps a model loaded and waits for requests most of the time.

Not idle: it answers when it is asked. But a service that works in few hours of a whole week could
be scaled to zero in between, where its callers bear the wait for the model, or could share its card
with others. Whole hours without work on any GPU of the service count, each stretch from the time
after which a scaler would stop it. Where the pauses are short, scaling to zero frees little, and a
shared card is a trial: how those that share disturb each other is not measured. A service without
any work within ``standby_hours`` is the business of ``idle``, one whose replicas differ that of
``too_many_replicas``.
"""

from typing import Final

import msgspec

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case, opened, running_seconds
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
)
from gputailor_agent.rules.gates import DAY_SECONDS, GATE_MESSAGES, SIZING_THRESHOLDS
from gputailor_agent.rules.pricing import MONEY_MESSAGES, monthly, not_counted
from gputailor_agent.rules.requesting import asked_within, request_evidence
from gputailor_agent.rules.scaling import to_zero
from gputailor_agent.rules.stretches import Quiet, quiet_time, video_worked

_ID: Final = "standby"
_HOUR: Final = 3600.0
_MINUTE: Final = 60.0
_HALF: Final = 0.5
_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
_SHARING: Final = (
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html"
)
_TURNS: Final = "[1, 2]: two take turns at worst"

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    Threshold("stop_minutes", 30, "minutes", "without work before a scaler stops the service"),
    Threshold(
        "freed_share",
        0.25,
        "ratio",
        "time that scaling to zero would free, from which on it is worth it; own default",
    ),
    Threshold("waiting_share", 0.75, "ratio", "time at zero from which on a shared card is tried"),
    Threshold("standby_hours", 72, "hours", "without work for longer than this it is idle"),
    Threshold("loaded_ratio", 0.05, "ratio", "memory in use above which a model is loaded"),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "standby.to_zero": "the service keeps its model loaded on {gpus:count} GPU(s) and works on "
    "nothing for {quiet:ratio} of the time, up to {longest:seconds} at a stretch: scaled to zero "
    "after {after:seconds} without requests it would free {freed:ratio} of the time",
    "standby.share": "the service keeps its model loaded and waits for {waiting:ratio} of the "
    "time, in pauses too short to stop it: try it on a shared GPU, beside another that waits",
    "standby.not_service": "it does not answer requests",
    "standby.every_node": "it runs on every node; it cannot be scaled",
    "standby.not_loaded": "no model is loaded: see idle",
    "standby.never_worked": "it worked on nothing in the whole window: see idle",
    "standby.long_idle": "it has worked on nothing for {ago:seconds}: see idle",
    "standby.video": "unknown: it uses the video engines, and it is not known in which hours",
    "standby.shared": "it has a part of a GPU already, and its pauses are too short to stop it",
    "standby.busy": "it works often enough: {waiting:ratio} of the time at zero, and stopping it "
    "in between would free {freed:ratio}",
    "standby.risk_cold": "the first request after a pause waits until a pod is there and the model "
    "is loaded: minutes, which were not measured here",
    "standby.risk_capacity": "the GPU may be taken by others when it is wanted back",
    "standby.risk_unseen": "requests come through counters of the GPU alone; no engine told of "
    "them",
    "standby.risk_memory": "it takes memory in advance ({evidence}): its share must be set, for "
    "instance --gpu-memory-utilization 0.45",
    "standby.risk_isolation": "there is no wall between memories of those that share a GPU",
    "standby.not_release": "releasing it: it is asked now and then",
    "standby.not_zero": "scaling to zero: its pauses are too short",
    "standby.not_share": "a shared GPU: it would hold its memory all the time",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a loaded service waits for most of the time."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    limits = case.limits
    silent = _not_about(case)
    if silent is not None:
        return silent
    after = limits["stop_minutes"] * _MINUTE
    quiet = quiet_time([basis.uses], after)
    running = running_seconds(basis)
    observed = basis.use(basis.busy).observed_seconds
    waiting = None if running is None or observed <= 0 else max(0.0, 1.0 - running / observed)
    numbers = _numbers(case, quiet, waiting)
    if quiet.freed_share >= limits["freed_share"]:
        return _to_zero(case, quiet, after, numbers)
    if waiting is None or waiting < limits["waiting_share"]:
        why = message("standby.busy", waiting=waiting, freed=quiet.freed_share)
        return case.silent(SilenceKind.FINE, why, numbers)
    if any(use.share < 1 for use in basis.uses):
        return case.silent(SilenceKind.FINE, message("standby.shared"), numbers)
    return _share(case, waiting, numbers)


def _not_about(case: Case) -> Silence | None:
    key = ""
    if case.profile.workload.task_class != TaskClass.INFERENCE:
        key = "not_service"
    elif case.profile.workload.kind == "DaemonSet":
        key = "every_node"
    elif not _loaded(case):
        key = "not_loaded"
    if key:
        return case.silent(SilenceKind.NOT_APPLICABLE, message(f"{_ID}.{key}"))
    if video_worked(case.basis.uses):
        why = message("standby.video")
        return case.silent(SilenceKind.UNKNOWN, why, missing=("encoder", "decoder"))
    return None if _asked_lately(case) else _idle(case)


def _loaded(case: Case) -> bool:
    """Whether a model is in memory; taken for granted where memory is not known."""
    peak, total = case.profile.memory_peak_bytes, case.profile.memory_total_bytes
    return peak is None or total is None or peak >= case.limits["loaded_ratio"] * total


def _idle(case: Case) -> Silence | None:
    """The silence of a service that has not worked for so long that it is idle."""
    ago = _worked_ago(case)
    if case.basis.use(case.basis.busy).active_seconds == 0:
        return case.silent(SilenceKind.FINE, message("standby.never_worked"))
    if ago > case.limits["standby_hours"] * _HOUR:
        return case.silent(SilenceKind.FINE, message("standby.long_idle", ago=ago))
    return None


def _asked_lately(case: Case) -> bool:
    asked = asked_within(case.profile)
    return asked is not None and asked <= case.limits["standby_hours"] * _HOUR


def _worked_ago(case: Case) -> float:
    """Least seconds since any GPU worked, by the hour where no time was told."""
    hours = [float(hour) for use in case.basis.uses for hour, _, active in use.hours if active > 0]
    last = max([case.profile.last_active or 0.0, *hours])
    return max(0.0, case.profile.window.end - last)


def _numbers(case: Case, quiet: Quiet, waiting: float | None) -> tuple[Evidence, ...]:
    profile, limits = case.profile, case.limits
    return (
        held_against("time that scaling to zero would free", quiet.freed_share, ">=",
                     limits["freed_share"], unit="ratio", profile=profile,
                     formula="whole hours at zero on every GPU of the service, of each stretch "
                     "what comes after the time to stop / seconds held"),
        held_against("time at zero", waiting, ">=", limits["waiting_share"], unit="ratio",
                     profile=profile, signal=case.basis.busy,
                     formula="1 - seconds in which anything ran / observed seconds"),
        noted("longest stretch", quiet.longest, unit="seconds", profile=profile,
              formula="hours at zero one after another"),
        noted("stretches per day", quiet.stretches * DAY_SECONDS / profile.window.seconds,
              unit="count", profile=profile,
              formula="stretches longer than the time to stop / days of the window"),
        *request_evidence(profile),
    )  # fmt: skip


def _to_zero(case: Case, quiet: Quiet, after: float, numbers: tuple[Evidence, ...]) -> Finding:
    profile = case.profile
    why = message(
        "standby.to_zero",
        gpus=len({use.gpu_uuid for use in (*case.basis.uses, *case.basis.unused)}),
        quiet=quiet.quiet_share,
        longest=quiet.longest,
        after=after,
        freed=quiet.freed_share,
    )
    told = profile.engine is not None and profile.engine.requests is not None
    risks = [message("standby.risk_cold"), message("standby.risk_capacity")]
    if not told:
        risks.append(message("standby.risk_unseen"))
    advice = Advice(
        severity=Severity.MEDIUM if quiet.freed_share >= _HALF else Severity.LOW,
        confidence=Confidence.MEDIUM,
        reason="hours without work were measured; whether its callers can wait was not",
        change=to_zero(profile, after),
        saving=monthly(profile, case.context).saving(quiet.freed_share),
        slowdown=Interval(low=1.0, high=1.0),
        risks=tuple(risks),
        not_chosen=(message("standby.not_release"), message("standby.not_share")),
    )
    return case.found(why, advice, numbers)


def _share(case: Case, waiting: float, numbers: tuple[Evidence, ...]) -> Finding:
    workload = case.profile.workload
    risks = [message("standby.risk_isolation")]
    if workload.preallocates:
        evidence = workload.preallocates_evidence or workload.framework or "detected"
        risks.append(message("standby.risk_memory", evidence=evidence))
    advice = Advice(
        severity=Severity.LOW,
        confidence=Confidence.LOW,
        reason="how those that share disturb each other was not measured",
        change=_shared(case.profile),
        saving=not_counted(_TURNS),
        slowdown=Interval(low=1.0, high=2.0),
        risks=tuple(risks),
        not_chosen=(message("standby.not_release"), message("standby.not_zero")),
    )
    return case.found(message("standby.share", waiting=waiting), advice, numbers)


def _shared(profile: Profile) -> Change:
    change = changes.select_nodes(profile, "share_gpu", {_STRATEGY: "time-slicing"}, {"tenants": 2})
    code = (
        "# configuration of NVIDIA's device plugin on the nodes that share\n"
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
        "    - name: nvidia.com/gpu\n      replicas: 2\n"
    )
    return msgspec.structs.replace(change, code=code, links=(_SHARING,))


RULE: Final = Rule(
    id=_ID,
    title="Standby",
    summary="A service with a loaded model waits for requests most of the time.",
    signals=("kernel", "sm", "encoder", "decoder"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=12,
)
