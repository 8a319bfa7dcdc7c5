"""Idle: every GPU of every pod has been at zero for so long that it should be given back.

Kernels, encoder and decoder count, and bytes over the link where they are known. What was not
observed is unknown, never idle; a card that draws more than an idle one is unknown as well. One
idle GPU of eight or one idle replica of ten is not this rule's business (see ``too_many_gpus``).
The times of the defaults are those of Job Defense Shield (60/120, 240/300 minutes).
"""

from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Confidence,
    Evidence,
    Finding,
    Message,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.base import (
    Context,
    Limits,
    Rule,
    Threshold,
    finding_id,
    held_against,
    message,
    noted,
    silence,
)
from gputailor_agent.rules.gates import GATE_MESSAGES, never_held
from gputailor_agent.rules.idleness import VIDEO_SIGNALS, DeviceIdleness, Doubt, idleness
from gputailor_agent.rules.power import POWER_THRESHOLDS
from gputailor_agent.rules.pricing import MONEY_MESSAGES, monthly
from gputailor_agent.rules.requesting import asked_within, request_evidence

_ID: Final = "idle"
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_HELD_NOW: Final = "devices of pods that hold them at the window's end"
_IDLE_POWER: Final = "(energy - board power x seconds of busy hours) / seconds of hours at zero"

_THRESHOLDS: Final = (
    Threshold("coverage", 0.98, "ratio", "least share of the idle time that was observed"),
    Threshold("start_warn_minutes", 60, "minutes", "idle since its start: warn"),
    Threshold("start_act_minutes", 120, "minutes", "idle since its start: act"),
    Threshold("warn_minutes", 240, "minutes", "went idle after some work: warn"),
    Threshold("act_minutes", 300, "minutes", "went idle after some work: act"),
    Threshold("notebook_minutes", 30, "minutes", "a notebook without work: warn, softly"),
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

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "idle.from_start": "{gpus:count} GPU(s) held for {idle:seconds} and never used: release them",
    "idle.went_idle": "{gpus:count} GPU(s) without any work for {idle:seconds}, since "
    "{since:time}: release them",
    "idle.notebook": "the notebook has held {gpus:count} GPU(s) without any work for "
    "{idle:seconds}; stop it if nobody needs it now",
    "idle.inference": "the service has a model loaded on {gpus:count} GPU(s) and has worked on "
    "nothing for {idle:seconds}; scale it to zero if nobody calls it",
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


@dataclass(frozen=True, slots=True)
class _Standing:
    """All devices of a workload together; it is idle for as long as its least idle device."""

    devices: tuple[DeviceIdleness, ...]
    warn_seconds: float
    act_seconds: float

    @property
    def seconds(self) -> float:
        return min(device.seconds for device in self.devices)

    @property
    def since(self) -> float:
        return max(device.since for device in self.devices)

    @property
    def from_start(self) -> bool:
        return all(device.from_start for device in self.devices)

    @property
    def doubted(self) -> tuple[DeviceIdleness, ...]:
        """Devices of which it cannot be said whether they were idle for long enough."""
        return tuple(device for device in self.devices if self.doubt(device) is not None)

    def doubt(self, device: DeviceIdleness) -> Doubt | None:
        """Why not; a gap that is too near leaves too short a time that was observed."""
        if device.doubt is None and device.cut and device.seconds < self.warn_seconds:
            return Doubt.COVERAGE
        return device.doubt

    @property
    def active(self) -> tuple[DeviceIdleness, ...]:
        """Devices that certainly worked too lately to be idle.

        Within the last hour that is certain; before that only if nothing stopped since.
        """
        return tuple(
            device
            for device in self.devices
            if device.seconds < self.warn_seconds
            and not device.from_start
            and device.doubt not in {Doubt.NEVER_MEASURED, Doubt.VIDEO_TIME}
            and not device.cut
            and (device.doubt is None or device.seconds < _HOUR)
        )

    @property
    def video_known(self) -> bool:
        return all(device.video_known for device in self.devices)

    @property
    def power_known(self) -> bool:
        return all(d.watts is not None and d.watts_limit is not None for d in self.devices)


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the workload is idle at the window's end."""
    limits = RULE.limits(context)
    silent = never_held(_ID, profile)
    if silent is not None:
        return silent
    live = context.holdings.live_uses(profile.gpus, profile.window)
    if not live:
        kind = SilenceKind.NOT_APPLICABLE if profile.pods_now == 0 else SilenceKind.UNKNOWN
        held = noted("GPUs now", 0, unit="gpus", profile=profile, formula=_HELD_NOW)
        return silence(_ID, profile, kind, message("idle.not_running"), (held,))
    devices = tuple(idleness(use, profile.window, context, limits) for use in live)
    standing = _standing(profile, devices, limits)
    answer = _silence(profile, standing, limits)
    if answer is not None:
        return answer
    return _finding(profile, context, standing, limits)


def _standing(profile: Profile, devices: tuple[DeviceIdleness, ...], limits: Limits) -> _Standing:
    if profile.workload.task_class == TaskClass.NOTEBOOK:
        minutes = (limits["notebook_minutes"], limits["notebook_minutes"])
    elif all(device.from_start for device in devices):
        minutes = (limits["start_warn_minutes"], limits["start_act_minutes"])
    else:
        minutes = (limits["warn_minutes"], limits["act_minutes"])
    return _Standing(devices, minutes[0] * _MINUTE, minutes[1] * _MINUTE)


def _silence(profile: Profile, standing: _Standing, limits: Limits) -> Silence | None:
    evidence = _evidence(profile, standing, limits)
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
        and standing.seconds < limits["standby_hours"] * _HOUR
        and _loaded(profile, limits)
    ):
        why = message("idle.standby", ago=standing.seconds)
        return silence(_ID, profile, SilenceKind.FINE, why, evidence)
    return None


def _working(profile: Profile, standing: _Standing, evidence: tuple[Evidence, ...]) -> Silence:
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


def _evidence(profile: Profile, standing: _Standing, limits: Limits) -> tuple[Evidence, ...]:
    """The least idle, least covered device decides; each number is that of the worst one."""
    devices = standing.devices
    signal = devices[0].signal
    hottest = max(
        (d for d in devices if d.watts is not None and d.watts_limit is not None),
        key=lambda d: (d.watts or 0.0) / (d.watts_limit or 1.0),
        default=None,
    )
    rates = [d.link_bytes_per_second for d in devices if d.link_bytes_per_second is not None]
    items = [
        noted("GPUs now", len(devices), unit="gpus", profile=profile, formula=_HELD_NOW),
        held_against(
            "idle time",
            standing.seconds,
            ">=",
            standing.warn_seconds,
            unit="seconds",
            profile=profile,
            signal=signal,
            formula="window's end - last active time (or start), least of all GPUs",
        ),
        held_against(
            "coverage of the idle time",
            min(device.coverage for device in devices),
            ">=",
            limits["coverage"],
            unit="ratio",
            profile=profile,
            signal=signal,
            formula=f"observed seconds of {signal} / idle seconds, least of all GPUs",
        ),
    ]
    items += [
        noted(
            f"{name} active",
            profile.use(name).active_seconds if profile.use(name).observed_seconds > 0 else None,
            unit="seconds",
            profile=profile,
            signal=name,
            formula="integral of the signal over the window, all GPUs",
        )
        for name in ("kernel", *VIDEO_SIGNALS)
    ]
    if hottest is None:
        items.append(
            noted(
                "least mean power while idle",
                None,
                unit="watts",
                profile=profile,
                formula=_IDLE_POWER,
            )
        )
    else:
        items.append(
            held_against(
                "least mean power while idle",
                hottest.watts,
                "<=",
                hottest.watts_limit or 0.0,
                unit="watts",
                profile=profile,
                formula=_IDLE_POWER,
            )
        )
    if rates:
        items.append(
            held_against(
                "link traffic while idle",
                max(rates),
                "<=",
                limits["link_bytes_per_second"],
                unit="bytes per second",
                profile=profile,
                formula="bytes over PCIe and NVLink / seconds held, most of all GPUs",
            )
        )
    return (*items, *request_evidence(profile))


def _finding(profile: Profile, context: Context, standing: _Standing, limits: Limits) -> Finding:
    task = profile.workload.task_class
    soft = task in {TaskClass.NOTEBOOK, TaskClass.INFERENCE} and (
        task == TaskClass.NOTEBOOK or _loaded(profile, limits)
    )
    acts = standing.seconds >= standing.act_seconds
    sure = standing.video_known and standing.power_known
    month = monthly(profile, context)
    return Finding(
        id=finding_id(profile, _ID),
        cluster=profile.workload.cluster,
        workload_id=profile.workload.id,
        rule=_ID,
        severity=_severity(acts=acts, soft=soft),
        message=_message(task, standing, soft=soft),
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        evidence=_evidence(profile, standing, limits),
        change=changes.release(profile, context),
        saving=month.saving(1.0),
        risks=_risks(task, standing),
        window=profile.window,
    )


def _severity(*, acts: bool, soft: bool) -> Severity:
    if soft:
        return Severity.MEDIUM if acts else Severity.LOW
    return Severity.HIGH if acts else Severity.MEDIUM


def _message(task: TaskClass, standing: _Standing, *, soft: bool) -> Message:
    gpus, idle = len(standing.devices), standing.seconds
    if soft:
        key = "idle.notebook" if task == TaskClass.NOTEBOOK else "idle.inference"
        return message(key, gpus=gpus, idle=idle)
    if standing.from_start:
        return message("idle.from_start", gpus=gpus, idle=idle)
    return message("idle.went_idle", gpus=gpus, idle=idle, since=standing.since)


def _risks(task: TaskClass, standing: _Standing) -> tuple[Message, ...]:
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
