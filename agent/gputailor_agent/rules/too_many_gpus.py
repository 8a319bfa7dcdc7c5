"""Too many GPUs: some of a pod's GPUs never worked (replicas: ``too_many_replicas``).

k GPUs never active of N: N - k would have done. Slowdown of N -> k GPUs with the work fixed:
[max(1, N mean(SM) / k), N / k]; with runs of other sizes, fitted from them inside that interval;
then widened by what measured runs strayed from this arithmetic (``margins``; docs/accuracy.md says
how often the stated interval holds). So it may begin below 1: some jobs are faster on fewer GPUs.
N counts GPUs that worked: those that never did take nothing with them when they go, so there the
interval is [1, 1], without a margin.
All active but the sum of p95(SM) at most N / 4, batch only: "verify scaling", with low confidence
and no saving counted, since ordinary training has a median SM activity of 34-50 %. GPUs that were
never measured count as needed.
"""

import math
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
from gputailor_agent.rules.gates import (
    GATE_MESSAGES,
    SIZING_THRESHOLDS,
    Basis,
    run_seconds,
    sizing,
    steady_mean,
)
from gputailor_agent.rules.margins import fewer_gpus_margins, margin_words, widened
from gputailor_agent.rules.members import Member, members_of, sure_of_zero
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
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "too_many_gpus.never_active": "{unused:count} of {gpus:count} GPUs per pod never worked in "
    "any run of the window: ask for {needed:count}",
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
    "too_many_gpus.risk_scaling": "runs may take up to {high:factor} the time",
    "too_many_gpus.kernel_only": "SM activity cannot be read here; {signal} stands in for it, "
    "which is higher",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether fewer GPUs per pod would have done."""
    limits = RULE.limits(context)
    basis = sizing(_ID, profile, context, limits)
    if isinstance(basis, Silence):
        return basis
    pods = members_of(profile, context, limits["coverage"])
    per_pod = round(profile.gpus_per_pod)
    if per_pod <= 1:
        why = message("too_many_gpus.one_gpu")
        return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, why, basis.evidence)
    needed = max(pod.needed for pod in pods)
    if needed == 0:
        why = message("too_many_gpus.none_active")
        return silence(_ID, profile, SilenceKind.FINE, why, basis.evidence)
    if needed < per_pod:
        return _never_active(profile, context, basis, per_pod, needed)
    return _by_load(profile, basis, pods, per_pod, limits)


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
    if then == now:  # nothing that works is taken away
        return interval, _numbers(profile, signal, mean, interval, formula)
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
    margins = fewer_gpus_margins()
    formula += f"; {margin_words(margins)}"
    wide = widened(interval, margins)
    return wide, _numbers(profile, signal, mean, wide, formula)


def _numbers(
    profile: Profile, signal: str, mean: float, interval: Interval, formula: str
) -> tuple[Evidence, ...]:
    return (
        noted(f"mean {signal}", mean, unit="ratio", profile=profile, signal=signal,
              formula="active / observed seconds without warm-up"),
        noted("slowdown at least", interval.low, unit="factor", profile=profile, formula=formula),
        noted("slowdown at most", interval.high, unit="factor", profile=profile, formula=formula),
    )  # fmt: skip


def _length(started: float | None, finished: float | None, otherwise: float) -> float:
    return otherwise if started is None or finished is None else finished - started


def _never_active(
    profile: Profile, context: Context, basis: Basis, per_pod: int, needed: int
) -> Finding:
    interval, evidence = _slowdown(profile, basis, needed, needed)
    share = (per_pod - needed) / per_pod
    sure, reason = sure_of_zero(basis, "GPUs")
    advice = Advice(
        severity=Severity.HIGH if share >= _HALF else Severity.MEDIUM,
        confidence=sure,
        reason=reason,
        change=changes.set_gpus(profile, needed),
        saving=monthly(profile, context).saving(share),
        slowdown=interval,
        risks=(*_risks(basis, per_pod, needed), message("too_many_gpus.risk_visible")),
    )
    why = message(
        "too_many_gpus.never_active", unused=per_pod - needed, gpus=per_pod, needed=needed
    )
    worked = held_against("GPUs that worked, most of any pod", needed, "<", per_pod, unit="gpus",
                          profile=profile, signal=basis.busy,
                          formula="GPUs with any activity, or not measured")  # fmt: skip
    return found(_ID, profile, why, advice, (*basis.evidence, worked, *evidence))


def _risks(basis: Basis, now: int, then: int) -> tuple[Message, ...]:
    risks = []
    if now % then:
        divisor = next(size for size in range(then, now + 1) if now % size == 0)
        risks.append(message("too_many_gpus.risk_divisor", needed=then, divisor=divisor))
    signal, _ = _mean(basis)
    if signal != "sm":
        risks.append(message("too_many_gpus.kernel_only", signal=signal))
    return tuple(risks)


def _by_load(
    profile: Profile, basis: Basis, pods: list[Member], per_pod: int, limits: Limits
) -> Finding | Silence:
    """All GPUs worked: fewer are worth a try only where a batch's sum of p95 is a quarter of N."""
    signal, _ = _mean(basis)
    fine = message("too_many_gpus.all_active")
    if is_service(profile):
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
    why = message(
        "too_many_gpus.verify_scaling", gpus=per_pod, needed=needed, sum_p95=sum_p95, signal=signal
    )
    advice = Advice(
        severity=Severity.LOW,
        confidence=Confidence.LOW,
        reason="how the job scales was not measured: all of its GPUs worked, if little",
        change=changes.set_gpus(profile, needed),
        saving=not_counted(FEWER_FORMULA),
        slowdown=interval,
        risks=(
            *_risks(basis, per_pod, needed),
            message("too_many_gpus.risk_scaling", high=interval.high),
        ),
    )
    return found(_ID, profile, why, advice, (*evidence, *more))


RULE: Final = Rule(
    id=_ID,
    title="Too many GPUs",
    summary="Some GPUs of each pod never work.",
    signals=("kernel", "sm", "encoder", "decoder"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=20,
)
