"""Input-bound: the GPU waits for data, and a few lines or a larger limit would feed it.

SM < 0.5, and the CPU at 0.9 of its limit or more, or throttled in a quarter of its periods, or
stalled on I/O for a fifth of the time, or a fifth of the one-second samples at zero inside active
minutes (see ``feeding``). A study of low-utilisation jobs found 46 % of the causes in data
operations and 85 % of the fixes a few lines long (ICSE 2024). How much faster it gets is not
measured, so no saving is counted; the time cannot fall by more than the zeros are.
"""

import math
from typing import Final

import msgspec

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Finding,
    Interval,
    Message,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case, containers_of, edit_code, opened
from gputailor_agent.rules.base import Context, Rule, message
from gputailor_agent.rules.feeding import FEEDING_THRESHOLDS, ZEROS, Feeding, feeding
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS
from gputailor_agent.rules.snippets import snippet

_ID: Final = "input_bound"
#: Workers of a data loader where the container's CPUs are not known.
_WORKERS: Final = 4
_SHARED_GIB: Final = 8
_FORMULA: Final = "1 - seconds at zero inside active minutes / GPU-seconds held; at most 1"

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "input_bound.cpu": "the GPU waits for its CPUs ({signal} {mean:ratio} on average, CPU at "
    "{cpu:ratio} of its limit, throttled in {throttled:ratio} of the periods): give it more CPUs",
    "input_bound.io": "the GPU waits for storage ({signal} {mean:ratio} on average, stalled on I/O "
    "for {io:ratio} of the time): read ahead, in more workers, or from nearer storage",
    "input_bound.zeros": "the GPU pauses again and again while it works ({signal} {mean:ratio} on "
    "average, {zeros:ratio} of the seconds of active minutes at zero): read ahead, in more workers",
    "input_bound.unquantified": "how much faster it gets is known only after one run",
    "input_bound.busy": "the GPU is busy enough ({signal} {mean:ratio} on average)",
    "input_bound.no_sign": "the GPU is not busy ({signal} {mean:ratio} on average), and nothing "
    "that is known says that it waits for its input; not told: {signs}",
    "input_bound.unknown": "unknown: the GPU is not busy ({signal} {mean:ratio} on average), and "
    "nobody told why; CPU and throttling come from cAdvisor, stalls on I/O from PSI in cAdvisor, "
    "samples at zero from the GPU Tailor exporter",
    "input_bound.nothing_ran": "nothing ran: see idle",
    "input_bound.notebook": "a person works in it, so pauses are no fault of its input",
    "input_bound.risk_node": "the node must have the CPUs free, or the pod waits",
    "input_bound.risk_memory": "what lies in /dev/shm counts as memory of the container: raise its "
    "memory limit by as much",
    "input_bound.risk_workers": "each worker holds its own part of the data in memory",
    "input_bound.not_workers": "more workers alone: without CPUs to run on they only wait",
    "input_bound.not_cpu": "more CPUs: those it has are not used up",
    "input_bound.not_smaller": "a smaller GPU: worth a look only once this one is fed",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the GPU waits for its input, and for what."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    if profile.workload.task_class == TaskClass.NOTEBOOK:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("input_bound.notebook"))
    if basis.use(basis.busy).active_seconds == 0:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("input_bound.nothing_ran"))
    fed = feeding(case)
    return _finding(case, fed) if fed.bound else _silence(case, fed)


def _silence(case: Case, fed: Feeding) -> Silence:
    mean, signs = fed.low.value, fed.signs.values()
    if not fed.low.passed:
        why = message("input_bound.busy", signal=fed.signal, mean=mean)
        return case.silent(SilenceKind.FINE, why, fed.evidence)
    if all(sign.value is None for sign in signs):
        why = message("input_bound.unknown", signal=fed.signal, mean=mean)
        return case.silent(SilenceKind.UNKNOWN, why, fed.evidence, missing=tuple(fed.signs))
    why = message(
        "input_bound.no_sign", signal=fed.signal, mean=mean, signs=", ".join(fed.unknown) or "-"
    )
    missing = tuple(key for key, sign in fed.signs.items() if sign.value is None)
    return case.silent(SilenceKind.FINE, why, fed.evidence, missing=missing)


def _cause(fed: Feeding) -> str:
    passed = [key for key, sign in fed.signs.items() if sign.passed]
    if {"cpu", "throttled"} & set(passed):
        return "cpu"
    return "io" if "io_pressure" in passed else "zeros"


def _say(fed: Feeding, cause: str) -> Message:
    values = {key: sign.value for key, sign in fed.signs.items()}
    return message(
        f"input_bound.{cause}",
        signal=fed.signal,
        mean=fed.low.value,
        cpu=values.get("cpu"),
        throttled=values.get("throttled"),
        io=values.get("io_pressure"),
        zeros=values.get("zeros"),
    )


def _finding(case: Case, fed: Feeding) -> Finding:
    cause = _cause(fed)
    change, risks = _change(case, cause)
    signs = [sign.name for sign in fed.signs.values() if sign.passed]
    confidence, reason = Confidence.MEDIUM, f"one sign says so: {signs[0]}"
    if len(signs) > 1 and fed.signal == "sm":
        confidence, reason = Confidence.HIGH, f"several signs agree: {', '.join(signs)}"
    why = message("input_bound.unquantified")
    other = "input_bound.not_workers" if cause == "cpu" else "input_bound.not_cpu"
    return case.found(
        _say(fed, cause),
        Advice(
            severity=Severity.MEDIUM if len(signs) > 1 else Severity.LOW,
            confidence=confidence,
            reason=reason,
            change=change,
            saving=Saving(why=why, formula=_FORMULA),
            slowdown=_interval(case),
            risks=risks,
            not_chosen=(message(other), message("input_bound.not_smaller")),
        ),
        fed.evidence,
    )


def _interval(case: Case) -> Interval | None:
    """The time falls at most by the seconds at zero; unknown where they were not counted."""
    zeros = case.basis.total.conditions.get(ZEROS)
    if zeros is None:
        return None
    return Interval(low=max(0.0, 1.0 - zeros / case.basis.total.allocated_seconds), high=1.0)


def _change(case: Case, cause: str) -> tuple[Change, tuple[Message, ...]]:
    """A larger CPU limit, a larger /dev/shm, or a data loader that reads ahead."""
    profile = case.profile
    known = containers_of(profile, case.context)
    limit = max((spec.cpu_limit or 0.0 for _, spec in known), default=0.0)
    if cause == "cpu" and limit > 0:
        change = changes.set_cpu_limit(profile, math.ceil(2 * limit), limit)
        return change, (message("input_bound.risk_node"),)
    cpus = max((spec.cpu_limit or spec.cpu_request or 0.0 for _, spec in known), default=0.0)
    workers = max(2, int(cpus / max(1.0, profile.gpus_per_pod))) if cpus else _WORKERS
    lines = snippet("loading", profile.workload, workers=workers)
    small = bool(known) and all(pod.shared_memory_bytes is None for pod, _ in known)
    if lines.framework != "PyTorch" or not small:
        return edit_code(profile, lines), (message("input_bound.risk_workers"),)
    # PyTorch's workers hand batches over in shared memory: they fail where it is 64 MiB.
    mounted = changes.mount_shared_memory(profile, _SHARED_GIB)
    change = msgspec.structs.replace(mounted, code=lines.code, links=lines.links)
    return change, (message("input_bound.risk_memory"), message("input_bound.risk_workers"))


RULE: Final = Rule(
    id=_ID,
    title="Input-bound",
    summary="The GPU waits for data: CPUs, storage or the data loader hold it up.",
    signals=("kernel", "sm"),
    thresholds=(*SIZING_THRESHOLDS, *FEEDING_THRESHOLDS),
    messages=_MESSAGES,
    evaluate=evaluate,
    order=50,
)
