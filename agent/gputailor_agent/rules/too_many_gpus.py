"""Too many GPUs: some of a pod's GPUs, or some replicas, never worked.

k GPUs never active of N: N - k would have done. Slowdown of N -> k GPUs with the work fixed:
[max(1, N mean(SM) / k), N / k]; with runs of other sizes, fitted from them inside that interval.
N counts GPUs that worked: those that never did take nothing with them when they go, so there the
interval is [1, 1].
All active but the sum of p95(SM) at most N / 4, batch only: "verify scaling", with low confidence
and no saving counted, since ordinary training has a median SM activity of 34-50 %. GPUs that were
never measured count as needed.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.judgement import (
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.model.usage import NO_USE
from gputailor_agent.profiles import busy_signal
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
from gputailor_agent.rules.gates import (
    GATE_MESSAGES,
    SIZING_THRESHOLDS,
    Basis,
    run_seconds,
    sizing,
    steady_mean,
)
from gputailor_agent.rules.idleness import VIDEO_SIGNALS
from gputailor_agent.rules.pricing import MONEY_MESSAGES, is_service, monthly, not_counted
from gputailor_agent.rules.slowdown import FEWER_FORMULA, fewer_gpus, fitted

_ID: Final = "too_many_gpus"
_HALF: Final = 0.5

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    Threshold(
        "sum_p95_share",
        0.25,
        "ratio",
        "sum of p95(SM) of a pod's GPUs, as a share of their number, at or below which fewer are "
        "worth a try",
    ),
    Threshold("replica_hours", 24, "hours", "a replica younger than this is not called unused"),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "too_many_gpus.never_active": "{unused:count} of {gpus:count} GPUs per pod never worked in "
    "any run of the window: ask for {needed:count}",
    "too_many_gpus.too_many_replicas": "{unused:count} of {replicas:count} replicas never worked "
    "in the window: {needed:count} would do",
    "too_many_gpus.verify_scaling": "all {gpus:count} GPUs worked, but together as much as "
    "{sum_p95:count} full ones (sum of p95 of {signal}): try {needed:count} and compare the run "
    "time",
    "too_many_gpus.one_gpu": "it holds one GPU; fewer is none",
    "too_many_gpus.none_active": "no GPU worked at all: see idle",
    "too_many_gpus.all_active": "every GPU worked, and fewer would have to be busier than is wise",
    "too_many_gpus.no_quantile": "every GPU worked; how much fewer would be busy is unknown, since "
    "{signal} has no histogram",
    "too_many_gpus.risk_divisor": "tensor- and pipeline-parallel sizes divide the number of GPUs: "
    "if {needed:count} does not fit the model, take {divisor:count}",
    "too_many_gpus.risk_visible": "the program must not count on the GPUs taken away (device ids, "
    "world size)",
    "too_many_gpus.risk_load": "the load may need the spare replicas at times the window did not "
    "see",
    "too_many_gpus.risk_scaling": "runs may take up to {high:factor} the time",
    "too_many_gpus.kernel_only": "SM activity cannot be read here; {signal} stands in for it, "
    "which is higher",
}


@dataclass(frozen=True, slots=True)
class _Pod:
    """All GPUs of one pod; ``idle`` are those that surely never worked."""

    uses: tuple[GpuUse, ...]
    idle: int
    live: bool

    @property
    def needed(self) -> int:
        return len(self.uses) - self.idle


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether fewer GPUs per pod, or fewer replicas, would have done."""
    limits = RULE.limits(context)
    basis = sizing(_ID, profile, context, limits)
    if isinstance(basis, Silence):
        return basis
    pods = _pods(profile, context, limits)
    per_pod = round(profile.gpus_per_pod)
    live = [pod for pod in pods if pod.live]
    replicas = is_service(profile) and len(live) > 1
    if per_pod <= 1 and not replicas:
        why = message("too_many_gpus.one_gpu")
        return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, why, basis.evidence)
    needed = max(pod.needed for pod in pods)
    if needed == 0:
        why = message("too_many_gpus.none_active")
        return silence(_ID, profile, SilenceKind.FINE, why, basis.evidence)
    if per_pod > 1 and needed < per_pod:
        return _never_active(profile, context, basis, per_pod, needed)
    if replicas:
        used = [pod for pod in live if not _unused_replica(pod, limits)]
        if 0 < len(used) < len(live):
            return _replicas(profile, context, basis, len(live), len(used))
    return _by_load(profile, basis, pods, per_pod, limits)


def _pods(profile: Profile, context: Context, limits: Limits) -> list[_Pod]:
    by_pod: dict[tuple[str, str, str], list[GpuUse]] = defaultdict(list)
    for use in profile.gpus:
        by_pod[use.namespace, use.pod, use.pod_uid].append(use)
    return [
        _Pod(
            uses=tuple(uses),
            idle=sum(1 for use in uses if _never_worked(use, limits["coverage"])),
            live=context.holdings.holds_now(uses[0], profile.window),
        )
        for _, uses in sorted(by_pod.items())
    ]


def _never_worked(use: GpuUse, coverage: float) -> bool:
    """Whether the device was watched for long enough and every signal stayed at zero."""
    busy = use.signals.get(busy_signal(use.signals), NO_USE)
    if use.allocated_seconds <= 0 or busy.observed_seconds < coverage * use.allocated_seconds:
        return False
    names = ("kernel", "sm", "tensor", "graphics", *VIDEO_SIGNALS)
    return all(use.signals.get(name, NO_USE).active_seconds == 0 for name in names)


def _unused_replica(pod: _Pod, limits: Limits) -> bool:
    held = max(use.allocated_seconds for use in pod.uses)
    return pod.needed == 0 and held >= limits["replica_hours"] * 3600


def _mean(basis: Basis) -> tuple[str, float]:
    """Name and steady mean of SM activity, or of what stands in for it."""
    signal = "sm" if basis.use("sm").observed_seconds > 0 else basis.busy
    return signal, steady_mean(basis.uses, signal) or 0.0


def _slowdown(
    profile: Profile, basis: Basis, now: int, then: int
) -> tuple[Interval, tuple[Evidence, ...]]:
    signal, mean = _mean(basis)
    interval = fewer_gpus(now, then, mean)
    formula = FEWER_FORMULA.replace("u", signal)
    sizes = [
        (run.gpus, _length(run.started, run.finished, run_seconds(run)))
        for run in profile.runs
        if run.outcome == Outcome.SUCCEEDED and not run.oom and run.gpus > 0
    ]
    fit = None if is_service(profile) else fitted(sizes, now, then)
    if fit is not None:
        low = min(max(fit.low, interval.low), interval.high)
        interval = Interval(low=low, high=max(low, min(fit.high, interval.high)))
        formula += "; inside it a + b / GPUs fitted to the runs' times"
    evidence = (
        noted(f"mean {signal}", mean, unit="ratio", profile=profile, signal=signal,
              formula="active / observed seconds without warm-up"),
        noted("slowdown at least", interval.low, unit="factor", profile=profile, formula=formula),
        noted("slowdown at most", interval.high, unit="factor", profile=profile, formula=formula),
    )  # fmt: skip
    return interval, evidence


def _length(started: float | None, finished: float | None, otherwise: float) -> float:
    return otherwise if started is None or finished is None else finished - started


def _never_active(
    profile: Profile, context: Context, basis: Basis, per_pod: int, needed: int
) -> Finding:
    interval, evidence = _slowdown(profile, basis, needed, needed)
    share = (per_pod - needed) / per_pod
    return Finding(
        id=finding_id(profile, _ID),
        cluster=profile.workload.cluster,
        workload_id=profile.workload.id,
        rule=_ID,
        severity=Severity.HIGH if share >= _HALF else Severity.MEDIUM,
        message=message(
            "too_many_gpus.never_active", unused=per_pod - needed, gpus=per_pod, needed=needed
        ),
        confidence=_confidence(basis),
        evidence=(
            *basis.evidence,
            held_against("GPUs that worked, most of any pod", needed, "<", per_pod, unit="gpus",
                         profile=profile, signal=basis.busy,
                         formula="GPUs with any activity, or not measured"),
            *evidence,
        ),
        change=changes.set_gpus(profile, needed),
        saving=monthly(profile, context).saving(share),
        slowdown=interval,
        risks=(*_risks(basis, per_pod, needed), message("too_many_gpus.risk_visible")),
        window=profile.window,
    )  # fmt: skip


def _confidence(basis: Basis) -> Confidence:
    video = all(basis.use(name).observed_seconds > 0 for name in VIDEO_SIGNALS)
    return Confidence.HIGH if video else Confidence.MEDIUM


def _risks(basis: Basis, now: int, then: int) -> tuple[Message, ...]:
    risks = []
    if now % then:
        divisor = next(size for size in range(then, now + 1) if now % size == 0)
        risks.append(message("too_many_gpus.risk_divisor", needed=then, divisor=divisor))
    signal, _ = _mean(basis)
    if signal != "sm":
        risks.append(message("too_many_gpus.kernel_only", signal=signal))
    return tuple(risks)


def _replicas(profile: Profile, context: Context, basis: Basis, now: int, used: int) -> Finding:
    interval, evidence = _slowdown(profile, basis, used, used)
    share = (now - used) / now
    return Finding(
        id=finding_id(profile, _ID),
        cluster=profile.workload.cluster,
        workload_id=profile.workload.id,
        rule=_ID,
        severity=Severity.HIGH if share >= _HALF else Severity.MEDIUM,
        message=message(
            "too_many_gpus.too_many_replicas", unused=now - used, replicas=now, needed=used
        ),
        confidence=_confidence(basis),
        evidence=(
            *basis.evidence,
            held_against("replicas that worked", used, "<", now, unit="count", profile=profile,
                         signal=basis.busy, formula="pods of which some GPU was active"),
            *evidence,
        ),
        change=changes.set_replicas(profile, used),
        saving=monthly(profile, context).saving(share),
        slowdown=interval,
        risks=(message("too_many_gpus.risk_load"),),
        window=profile.window,
    )  # fmt: skip


def _by_load(
    profile: Profile, basis: Basis, pods: list[_Pod], per_pod: int, limits: Limits
) -> Finding | Silence:
    """All GPUs worked: fewer are worth a try only where a batch's sum of p95 is a quarter of N."""
    signal, _ = _mean(basis)
    fine = message("too_many_gpus.all_active")
    if is_service(profile) or per_pod <= 1:
        return silence(_ID, profile, SilenceKind.FINE, fine, basis.evidence)
    judged = set(map(id, basis.uses))
    sums = [_sum_p95([use for use in pod.uses if id(use) in judged], signal) for pod in pods]
    known = [total for total in sums if total is not None]
    if not known or len(known) < sum(1 for pod in pods if id(pod.uses[0]) in judged):
        why = message("too_many_gpus.no_quantile", signal=signal)
        return silence(_ID, profile, SilenceKind.FINE, why, basis.evidence)
    low = held_against(
        f"sum of p95({signal}), most of any pod",
        max(known),
        "<=",
        limits["sum_p95_share"] * per_pod,
        unit="gpus",
        profile=profile,
        signal=signal,
        formula=f"sum over a pod's GPUs of the 95th percentile of {signal}, upper bucket edges",
    )
    evidence = (*basis.evidence, low)
    needed = _fewer(per_pod, max(known))
    if not low.passed or needed >= per_pod:
        return silence(_ID, profile, SilenceKind.FINE, fine, evidence)
    return _verify_scaling(
        profile, basis, evidence, per_pod=per_pod, needed=needed, sum_p95=max(known)
    )


def _sum_p95(uses: list[GpuUse], signal: str) -> float | None:
    total = 0.0
    for use in uses:
        histogram = use.signals.get(signal, NO_USE).histogram
        quantile = histogram.quantile(0.95) if histogram is not None else None
        if quantile is None:
            return None
        total += quantile.high
    return total if uses else None


def _fewer(now: int, sum_p95: float) -> int:
    """Twice what is needed at p95, rounded up to a divisor of ``now`` if there is one."""
    least = max(1, math.ceil(2 * sum_p95))
    divisor = next(size for size in range(min(least, now), now + 1) if now % size == 0)
    return divisor if divisor < now else least


def _verify_scaling(
    profile: Profile,
    basis: Basis,
    evidence: tuple[Evidence, ...],
    *,
    per_pod: int,
    needed: int,
    sum_p95: float,
) -> Finding:
    interval, more = _slowdown(profile, basis, per_pod, needed)
    signal, _ = _mean(basis)
    return Finding(
        id=finding_id(profile, _ID),
        cluster=profile.workload.cluster,
        workload_id=profile.workload.id,
        rule=_ID,
        severity=Severity.LOW,
        message=message(
            "too_many_gpus.verify_scaling",
            gpus=per_pod,
            needed=needed,
            sum_p95=sum_p95,
            signal=signal,
        ),
        confidence=Confidence.LOW,
        evidence=(*evidence, *more),
        change=changes.set_gpus(profile, needed),
        saving=not_counted(FEWER_FORMULA),
        slowdown=interval,
        risks=(
            *_risks(basis, per_pod, needed),
            message("too_many_gpus.risk_scaling", high=interval.high),
        ),
        window=profile.window,
    )


RULE: Final = Rule(
    id=_ID,
    title="Too many GPUs",
    summary="Some GPUs of each pod, or some replicas, never work.",
    signals=("kernel", "sm", "encoder", "decoder"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=20,
)
