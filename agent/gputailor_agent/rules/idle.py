"""Idle: every GPU of every pod has been at zero for so long that it should be given back.

Kernels, encoder and decoder count, and bytes over the link where they are known. What was not
observed is unknown, never idle; a card that draws more than an idle one is unknown as well. One
idle GPU of eight or one idle replica of ten is not this rule's business (see ``too_many_gpus``).

There are two times. The first is that of a notice: after 60 minutes without work since the start,
240 after some work (Job Defense Shield's times to warn), 30 of a notebook. Its confidence is low
and it counts no saving, for many such GPUs are at work again soon. The second is that of action,
and measured: the shortest after which at least 97 of 100 GPUs of a cluster's trace stayed idle for
another hour (docs/accuracy.md). Shorter times that others act on, 120 and 300 minutes, fall short
of that. Both findings say what to expect by that trace, from 30 idle minutes on.
"""

from typing import Final

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Confidence,
    Evidence,
    Finding,
    Message,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, found
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
from gputailor_agent.rules.calibrated import IdleStep
from gputailor_agent.rules.gates import GATE_MESSAGES, never_held
from gputailor_agent.rules.idle_outlook import (
    act_minutes,
    idle_outlook,
    outlook_evidence,
    outlook_words,
)
from gputailor_agent.rules.idle_standing import HELD_NOW, Standing, idle_evidence, standing_of
from gputailor_agent.rules.idleness import idleness
from gputailor_agent.rules.members import by_pod
from gputailor_agent.rules.power import POWER_THRESHOLDS
from gputailor_agent.rules.pricing import MONEY_MESSAGES, monthly, not_counted
from gputailor_agent.rules.requesting import asked_within
from gputailor_agent.rules.stretches import quiet_time

_ID: Final = "idle"
_HOUR: Final = 3600.0
_SURE: Final = "at least 97 of 100 stay idle for another hour (measured, see docs/accuracy.md)"

_THRESHOLDS: Final = (
    Threshold("coverage", 0.98, "ratio", "least share of the idle time that was observed"),
    Threshold("start_warn_minutes", 60, "minutes", "idle since its start: tell, count no saving"),
    Threshold(
        "start_act_minutes",
        act_minutes(from_start=True),
        "minutes",
        f"idle since its start: act; from here on {_SURE}",
    ),
    Threshold("warn_minutes", 240, "minutes", "went idle after some work: tell, count no saving"),
    Threshold(
        "act_minutes",
        act_minutes(from_start=False),
        "minutes",
        f"went idle after some work: act; from here on {_SURE}",
    ),
    Threshold(
        "notebook_minutes",
        30,
        "minutes",
        "a notebook without work: tell, softly; a saving counts from the times to act",
    ),
    Threshold(
        "standby_hours",
        72,
        "hours",
        "an inference service that worked within this time stands by and is not idle",
    ),
    Threshold("loaded_ratio", 0.05, "ratio", "memory in use above which a model is loaded"),
    Threshold(
        "link_bytes_per_second",
        1e6,
        "bytes per second",
        "traffic above which a device is at work (monitoring alone causes a little)",
    ),
    *POWER_THRESHOLDS,
)

#: What is found, in words that stand alone where so short a time was never measured.
_FOUND: Final = {
    "idle.from_start": "{gpus:count} GPU(s) held for {idle:seconds} and never used: release them",
    "idle.went_idle": "{gpus:count} GPU(s) without any work for {idle:seconds}, since "
    "{since:time}: release them",
    "idle.notice_from_start": "{gpus:count} GPU(s) held for {idle:seconds} and not used yet: "
    "release them if nobody needs them now",
    "idle.notice_went_idle": "{gpus:count} GPU(s) without any work for {idle:seconds}, since "
    "{since:time}: release them if nobody needs them now",
    "idle.notebook": "the notebook has held {gpus:count} GPU(s) without any work for "
    "{idle:seconds}; stop it if nobody needs it now",
    "idle.inference": "the service has a model loaded on {gpus:count} GPU(s) and has worked on "
    "nothing for {idle:seconds}; scale it to zero if nobody calls it",
}
_OUTLOOK: Final = (
    "of 100 such GPUs in a recorded cluster {stay:count} stayed idle for another hour, and "
    "{low:count} to {high:count} of the next 24 hours were idle"
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    **_FOUND,
    **{f"{key}_outlook": f"{text}; {_OUTLOOK}" for key, text in _FOUND.items()},
    "idle.standby": "standby: the service worked {ago:seconds} ago and keeps its model loaded",
    "idle.standby_requests": "standby: its engine had requests within the last {ago:seconds}",
    "idle.not_running": "no pod of it holds a GPU at the window's end",
    "idle.active": "in use: none of {gpus:count} GPU(s) has paused for longer than {idle:seconds} "
    "by now",
    "idle.active_now": "in use: {gpus:count} GPU(s) at work up to the window's end",
    "idle.some_active": "{idle_gpus:count} of {gpus:count} GPU(s) are idle, the others work: that "
    "is a question of how many, not of idleness",
    "idle.too_early": "nothing has run since it began {idle:seconds} ago; it counts as idle from "
    "{ready:time}",
    "idle.unknown_never_measured": "unknown: {unknown:count} of {gpus:count} GPU(s) were never "
    "measured; is the exporter running on the node?",
    "idle.unknown_coverage": "unknown: {unknown:count} of {gpus:count} GPU(s) were not observed "
    "without a gap for long enough",
    "idle.unknown_power": "unknown: {unknown:count} of {gpus:count} GPU(s) draw more power than an "
    "idle card does, although nothing is counted; the counters may have stopped (look for Xid "
    "errors)",
    "idle.unknown_video_stopped": "unknown: the encoder or decoder of {unknown:count} of "
    "{gpus:count} GPU(s) could not be read all the time",
    "idle.unknown_video_time": "unknown: the encoder or decoder of {unknown:count} of {gpus:count} "
    "GPU(s) worked in the window, and it is not known when",
    "idle.unknown_contradiction": "unknown: no kernels are counted on {unknown:count} of "
    "{gpus:count} GPU(s), but other counters say that they worked",
    "idle.unknown_link": "unknown: no kernels are counted on {unknown:count} of {gpus:count} "
    "GPU(s), but bytes went over their links",
    "idle.risk_unsaved": "what the process holds in GPU or host memory is lost: save it first",
    "idle.risk_reload": "the next request waits until the model is loaded again",
    "idle.risk_no_video": "encoder and decoder cannot be read here; kernels alone were looked at",
    "idle.risk_no_power": "power cannot be checked against the counters here",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the workload is idle at the window's end."""
    limits = RULE.limits(context)
    silent = never_held(_ID, profile)
    if silent is not None:
        return silent
    live = context.holdings.live_uses(profile.gpus, profile.window)
    if not live:
        kind = SilenceKind.NOT_APPLICABLE if profile.pods_now == 0 else SilenceKind.UNKNOWN
        held = noted("GPUs now", 0, unit="gpus", profile=profile, formula=HELD_NOW)
        return silence(_ID, profile, kind, message("idle.not_running"), (held,))
    devices = tuple(idleness(use, profile.window, context, limits) for use in live)
    standing = standing_of(profile, devices, limits)
    answer = _silence(profile, standing, limits)
    if answer is not None:
        return answer
    return _finding(profile, context, standing, limits)


def _silence(profile: Profile, standing: Standing, limits: Limits) -> Silence | None:
    evidence = idle_evidence(profile, standing, limits)
    count = len(standing.devices)
    if standing.active:
        return _working(profile, standing, evidence)
    if standing.doubted:
        key = f"idle.unknown_{standing.doubt(standing.doubted[0])}"
        why = message(key, gpus=count, unknown=len(standing.doubted))
        missing = tuple(sorted({device.signal for device in standing.doubted}))
        return silence(_ID, profile, SilenceKind.UNKNOWN, why, evidence, missing_signals=missing)
    if standing.seconds < standing.warn_seconds:
        ready = standing.since + standing.warn_seconds
        why = message("idle.too_early", idle=standing.seconds, ready=ready)
        return silence(_ID, profile, SilenceKind.WATCHING, why, evidence, ready_at=ready)
    asked = asked_within(profile)
    if asked is not None and asked < limits["standby_hours"] * _HOUR:
        why = message("idle.standby_requests", ago=asked)
        return silence(_ID, profile, SilenceKind.FINE, why, evidence)
    if (
        profile.workload.task_class == TaskClass.INFERENCE
        and not standing.from_start
        and standing.seconds <= limits["standby_hours"] * _HOUR
        and _loaded(profile, limits)
    ):
        why = message("idle.standby", ago=standing.seconds)
        return silence(_ID, profile, SilenceKind.FINE, why, evidence)
    return None


def _working(profile: Profile, standing: Standing, evidence: tuple[Evidence, ...]) -> Silence:
    count, active = len(standing.devices), len(standing.active)
    if active == count:
        longest = max(device.seconds for device in standing.devices)
        why = message("idle.active", gpus=count, idle=longest)
        if longest < 1:
            why = message("idle.active_now", gpus=count)
    else:
        why = message("idle.some_active", gpus=count, idle_gpus=count - active)
    return silence(_ID, profile, SilenceKind.FINE, why, evidence)


def _loaded(profile: Profile, limits: Limits) -> bool:
    """Whether a model is in memory; taken for granted where memory is not known."""
    peak, total = profile.memory_peak_bytes, profile.memory_total_bytes
    return peak is None or total is None or peak >= limits["loaded_ratio"] * total


def _finding(profile: Profile, context: Context, standing: Standing, limits: Limits) -> Finding:
    task = profile.workload.task_class
    soft = task in {TaskClass.NOTEBOOK, TaskClass.INFERENCE} and (
        task == TaskClass.NOTEBOOK or _loaded(profile, limits)
    )
    outlook = idle_outlook(standing.seconds, from_start=standing.from_start)
    confidence, reason = _confidence(standing)
    return found(
        _ID,
        profile,
        _message(task, standing, outlook, soft=soft),
        Advice(
            severity=_severity(acts=standing.acts, soft=soft),
            confidence=confidence,
            reason=reason,
            change=changes.release(profile, context),
            saving=_saving(profile, context, standing),
            risks=_risks(task, standing),
        ),
        (
            *idle_evidence(profile, standing, limits),
            held_against(
                "idle time, to act", standing.seconds, ">=", standing.act_seconds, unit="seconds",
                profile=profile, formula=f"the same idle time; from there on {_SURE}",
            ),
            *(() if outlook is None else outlook_evidence(profile, outlook)),
        ),
    )  # fmt: skip


def _confidence(standing: Standing) -> tuple[Confidence, str]:
    """How sure, and why; low until it has been idle for as long as action takes."""
    if not standing.acts:
        return Confidence.LOW, "of GPUs idle for so short a time, too many are at work again soon"
    unknown = [
        name
        for name, known in (
            ("video engines", standing.video_known),
            ("power", standing.power_known),
        )
        if not known
    ]
    if unknown:
        return Confidence.MEDIUM, f"idle for long enough; not known: {', '.join(unknown)}"
    return Confidence.HIGH, "idle for long enough, and all that could be at work was measured"


def _saving(profile: Profile, context: Context, standing: Standing) -> Saving:
    month = monthly(profile, context)
    if not standing.acts:
        return not_counted(month.formula)
    return month.saving(_share(profile, standing))


def _share(profile: Profile, standing: Standing) -> float:
    """Share of a month that is saved: of a notebook's what it has done nothing in, not all of it.

    Its person comes back and starts it again.
    """
    if profile.workload.task_class != TaskClass.NOTEBOOK or standing.from_start:
        return 1.0
    quiet = quiet_time(by_pod(profile.gpus), 0.0)
    held = max(use.allocated_seconds for use in profile.gpus)
    return min(1.0, max(quiet.quiet_share, standing.seconds / held if held > 0 else 0.0))


def _severity(*, acts: bool, soft: bool) -> Severity:
    if not acts:
        return Severity.LOW
    return Severity.MEDIUM if soft else Severity.HIGH


def _message(
    task: TaskClass, standing: Standing, outlook: IdleStep | None, *, soft: bool
) -> Message:
    key = "from_start" if standing.from_start else "went_idle"
    if soft:
        key = "notebook" if task == TaskClass.NOTEBOOK else "inference"
    elif not standing.acts:
        key = f"notice_{key}"
    words = {} if outlook is None else outlook_words(outlook)
    key = f"{key}_outlook" if words else key
    idle, since = standing.seconds, standing.since
    return message(f"idle.{key}", gpus=len(standing.devices), idle=idle, since=since, **words)


def _risks(task: TaskClass, standing: Standing) -> tuple[Message, ...]:
    risks = [message("idle.risk_reload" if task == TaskClass.INFERENCE else "idle.risk_unsaved")]
    if not standing.video_known:
        risks.append(message("idle.risk_no_video"))
    if not standing.power_known:
        risks.append(message("idle.risk_no_power"))
    return tuple(risks)


RULE: Final = Rule(
    id=_ID,
    title="Idle GPUs",
    summary="Every GPU of every pod has done nothing for so long that it should be given back.",
    signals=("kernel", "encoder", "decoder"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=10,
)
