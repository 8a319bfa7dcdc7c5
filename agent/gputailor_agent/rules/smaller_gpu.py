"""Smaller GPU: a cheaper card or MIG slice that is present here would hold the work.

need = peak memory x 1.15, or x 1.25 where an out-of-memory kill was seen: the larger, never
multiplied. A candidate must hold the need, have the features, and cost at most 0.85 of the present
price after its slowdown's upper end; where only the lower end passes it is "try one run" and no
saving is counted. So it is where the work may take longer than ``slowdown_most``, or the candidate
lacks bfloat16 or fast links between cards that may be in use. Services that answer requests must
also stay at p99(u) P_now / P_c <= 0.8. Peaks include the warm-up; a true peak counts since the
device was handed out, even where that was before the window. Programs that take memory in advance
are not judged by memory.
"""

import math
from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
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
from gputailor_agent.rules.candidates import Candidate, elsewhere, present
from gputailor_agent.rules.fitting import FITTING_MESSAGES, Fit, Need, fit
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS, Basis, sizing
from gputailor_agent.rules.needs import MEMORY_THRESHOLDS, need_of, oom_seen, start_unseen
from gputailor_agent.rules.pricing import MONEY_MESSAGES, is_service, monthly, not_counted
from gputailor_agent.rules.slowdown import HIGH_FORMULA, LOW_FORMULA

_ID: Final = "smaller_gpu"
_SHOWN: Final = 3
_HALF: Final = 0.5

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    *MEMORY_THRESHOLDS,
    Threshold("cost_ratio", 0.85, "ratio", "most of the present price, slowdown included"),
    Threshold(
        "slowdown_most",
        3.0,
        "factor",
        "most times as long as now that anybody is asked to wait, however cheap the card is; this "
        "project's own default",
    ),
    Threshold("latency_load", 0.8, "ratio", "most p99 load of a resource of a service"),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    **FITTING_MESSAGES,
    "smaller_gpu.fits": "{candidate} would hold it: needs {need:bytes} of {usable:bytes}, costs "
    "{cost_ratio:ratio} of {now} with the slowdown ({low:factor} to {high:factor}) included",
    "smaller_gpu.try_price": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "it pays at {low:factor} the time but perhaps not at {high:factor}",
    "smaller_gpu.try_slow": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "it pays, but the work may take {high:factor} the time",
    "smaller_gpu.try_bfloat16": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "it pays, but it has no bfloat16",
    "smaller_gpu.try_links": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "it pays, but its GPUs have slower links between them or none",
    "smaller_gpu.try_memory": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "only averages of the memory used are known",
    "smaller_gpu.none_here": "none of {count:count} other kinds of GPU in this cluster holds it "
    "for enough less",
    "smaller_gpu.no_other": "this cluster has no other kind of GPU to compare with",
    "smaller_gpu.preallocates": "unknown: it takes memory in advance ({evidence}), so the memory "
    "used is not the memory needed; the engine's own metrics would tell",
    "smaller_gpu.no_memory": "unknown: the memory used cannot be read here",
    "smaller_gpu.no_model": "unknown: {model} is not in the catalogue",
    "smaller_gpu.shared": "it shares its GPU with others already",
    "smaller_gpu.nothing_ran": "nothing ran, so nothing is known of what it needs: see idle",
    "smaller_gpu.fp64": "unknown: it computes in FP64, for which the catalogue has no figures",
    "smaller_gpu.if_you_can_get_it": "if you can get it: {candidate}, at {cost_ratio:ratio} of the "
    "present cost (slowdown up to {high:factor})",
    "smaller_gpu.risk_sampled": "the memory peak is the highest of samples; a short higher one may "
    "have been missed",
    "smaller_gpu.risk_mean": "only averages of the memory used are known",
    "smaller_gpu.risk_start": "no pod of it was watched from its start: where the exporter came "
    "later, a higher peak while it started may be missing",
    "smaller_gpu.risk_architecture": "the architecture differs ({now} to {then}): the image must "
    "have kernels for it, and number formats of the present card may be missing",
    "smaller_gpu.risk_unknown": "not measured, and therefore taken as fully used in the upper end: "
    "{signals}",
    "smaller_gpu.risk_video": "it uses the video engines; the catalogue does not tell whether "
    "{candidate} has as many",
    "smaller_gpu.risk_interactive": "a person works in it: tomorrow may need more than the window "
    "saw",
    "smaller_gpu.risk_estimate": "a price is an estimate (the median over providers)",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a cheaper card or slice would hold the workload."""
    limits = RULE.limits(context)
    basis = sizing(_ID, profile, context, limits)
    if isinstance(basis, Silence):
        return basis
    why = _not_judged(profile, basis)
    if why is not None:
        kind = SilenceKind.UNKNOWN
        if why.key in {"smaller_gpu.shared", "smaller_gpu.nothing_ran"}:
            kind = SilenceKind.NOT_APPLICABLE
        return silence(_ID, profile, kind, why, (*basis.evidence, *_memory(profile, None, limits)))
    need = need_of(profile, context, basis, limits)
    if isinstance(need, Message):
        missing = (*basis.evidence, *_memory(profile, None, limits))
        return silence(_ID, profile, SilenceKind.UNKNOWN, need, missing)
    return _choose(_Case(profile, context, basis, need, limits))


def _not_judged(profile: Profile, basis: Basis) -> Message | None:
    workload = profile.workload
    if any(use.share < 1 for use in basis.uses):
        return message("smaller_gpu.shared")
    if basis.use(basis.busy).active_seconds == 0:
        return message("smaller_gpu.nothing_ran")
    if workload.preallocates:
        evidence = workload.preallocates_evidence or workload.framework or "detected"
        return message("smaller_gpu.preallocates", evidence=evidence)
    if profile.memory_peak_bytes is None:
        return message("smaller_gpu.no_memory")
    if basis.use("fp64").active_seconds > 0:
        return message("smaller_gpu.fp64")
    return None


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything about one workload that the answer is made of."""

    profile: Profile
    context: Context
    basis: Basis
    need: Need
    limits: Limits


def _choose(case: _Case) -> Finding | Silence:
    profile, need = case.profile, case.need
    candidates = [one for one in present(case.context) if one.name != need.present.name]
    fits = sorted((fit(need, one, case.limits) for one in candidates), key=_rank)
    far = _if_you_can_get_it(case.context, need, case.limits)
    averages = profile.memory_peak_kind == "mean"
    sure = [] if averages else [one for one in fits if one.verdict == "recommend"]
    trial = sorted((one for one in fits if one.verdict != "no"), key=lambda one: bool(one.doubt))
    if sure or trial:
        return _finding(case, (sure or trial)[0], fits, far, sure=bool(sure))
    why = message("smaller_gpu.no_other")
    if fits:
        why = message("smaller_gpu.none_here", count=len(fits))
    evidence = (*case.basis.evidence, *_memory(profile, need, case.limits))
    others = tuple(one.why for one in fits[:_SHOWN] if one.why is not None)
    return silence(_ID, profile, SilenceKind.FINE, why, evidence, not_chosen=(*others, *far))


def _rank(one: Fit) -> tuple[float, float, str]:
    """Cheapest with the slowdown's upper end first; then the roomier one."""
    cost = math.inf if one.cost_high is None else one.cost_high
    return (cost, -(one.candidate.usable_memory_bytes or 0), one.candidate.name)


def _if_you_can_get_it(context: Context, need: Need, limits: Limits) -> list[Message]:
    """Cards that this cluster does not have; the slower checks only for those cheap enough."""
    most = limits["cost_ratio"] * need.price
    near = [one for one in elsewhere(context) if one.price is not None and one.price <= most]
    fits = [fit(need, one, limits) for one in near]
    good = sorted((one for one in fits if one.verdict == "recommend"), key=_rank)
    return [
        message(
            "smaller_gpu.if_you_can_get_it",
            candidate=one.candidate.name,
            cost_ratio=one.cost_high,
            high=one.slowdown.high if one.slowdown is not None else None,
        )
        for one in good[:_SHOWN]
    ]


def _memory(profile: Profile, need: Need | None, limits: Limits) -> tuple[Evidence, ...]:
    peak = noted(
        "memory peak",
        profile.memory_peak_bytes,
        unit="bytes",
        profile=profile,
        formula=f"highest on any one device, warm-up included ({profile.memory_peak_kind})",
    )
    if need is None:
        return (peak,)
    killed = oom_seen(profile, need.present, limits)
    factor = limits["memory_headroom"]
    if killed:
        factor = max(factor, limits["oom_headroom"])
    return (
        peak,
        noted("out of memory seen", killed, profile=profile,
              formula="a pod was OOM-killed, or a failed run peaked at 95 % of the memory or more"),
        noted("memory needed", need.memory_bytes, unit="bytes", profile=profile,
              formula=f"peak x {factor:g}"),
        noted("share of time active", need.active_share, unit="ratio", profile=profile,
              formula="mean of the busiest GPU of each run"),
    )  # fmt: skip


def _compared(profile: Profile, need: Need, best: Fit, limits: Limits) -> tuple[Evidence, ...]:
    """The numbers of the chosen candidate."""
    one, interval = best.candidate, best.slowdown
    items = [
        held_against("memory needed", need.memory_bytes, "<=", one.usable_memory_bytes or 0,
                     unit="bytes", profile=profile, formula=f"usable memory of {one.name}"),
        noted("price now", need.price, unit=f"{need.currency.lower()}_per_hour", profile=profile,
              formula="own price, else list price of the node's instance type, per GPU"),
        noted(f"price of {one.name}", one.price, unit=f"{one.currency.lower()}_per_hour",
              profile=profile, formula="likewise; of a MIG slice, the card's price by its share"),
        *(noted(f"rho of {name}", rho, unit="factor", profile=profile,
                formula="figure of the present card / figure of the candidate")
          for name, rho in best.rhos),
    ]  # fmt: skip
    if interval is not None:
        items += [
            noted("slowdown at least", interval.low, unit="factor", profile=profile,
                  formula=LOW_FORMULA),
            noted("slowdown at most", interval.high, unit="factor", profile=profile,
                  formula=HIGH_FORMULA),
        ]  # fmt: skip
    for name, cost in (("least cost", best.cost_low), ("most cost", best.cost_high)):
        items.append(
            held_against(f"{name} of the present one", cost, "<=", limits["cost_ratio"],
                         unit="ratio", profile=profile, formula="price_c x slowdown / price")
        )  # fmt: skip
    if need.latency:
        items.append(
            held_against("p99 load of the busiest resource", best.load, "<=",
                         limits["latency_load"], unit="ratio", profile=profile,
                         formula="p99(u) P_now / P_c, upper bucket edge, busiest device")
        )  # fmt: skip
    return tuple(items)


def _risks(case: _Case, best: Fit) -> tuple[Message, ...]:
    profile, basis, need, one = case.profile, case.basis, case.need, best.candidate
    risks = []
    if profile.memory_peak_kind == "sampled":
        risks.append(message("smaller_gpu.risk_sampled"))
    if profile.memory_peak_kind == "mean":
        risks.append(message("smaller_gpu.risk_mean"))
    if start_unseen(profile, case.context):
        risks.append(message("smaller_gpu.risk_start"))
    if one.compute_capability != need.present.compute_capability:
        now, then = need.present.spec.compute_capability, one.spec.compute_capability
        risks.append(message("smaller_gpu.risk_architecture", now=now, then=then))
    unknown = [resource.signal for resource in need.resources if resource.use is None]
    if unknown:
        risks.append(message("smaller_gpu.risk_unknown", signals=", ".join(unknown)))
    if any(basis.use(name).active_seconds > 0 for name in ("encoder", "decoder")):
        risks.append(message("smaller_gpu.risk_video", candidate=one.name))
    if profile.workload.task_class == TaskClass.NOTEBOOK:
        risks.append(message("smaller_gpu.risk_interactive"))
    if one.estimate:
        risks.append(message("smaller_gpu.risk_estimate"))
    return tuple(risks)


def _not_chosen(best: Fit, fits: list[Fit], far: list[Message]) -> tuple[Message, ...]:
    others = [one for one in fits if one.candidate.name != best.candidate.name]
    said = [
        one.why
        or message("fitting.chosen_is_better", model=one.candidate.name, cost_ratio=one.cost_high)
        for one in others[:_SHOWN]
    ]
    return (*said, *far)


def _change(profile: Profile, one: Candidate) -> Change:
    return changes.set_gpu_type(profile, one.name, one.product, one.spec.vendor, one.mig)


def _finding(case: _Case, best: Fit, fits: list[Fit], far: list[Message], *, sure: bool) -> Finding:
    """``sure``: the upper end passes and the saving counts; else one run would tell."""
    profile, need, interval = case.profile, case.need, best.slowdown
    saving, severity = not_counted(f"{LOW_FORMULA}; {HIGH_FORMULA}"), Severity.LOW
    if sure:
        share, saving = _saving(case, best)
        severity = Severity.HIGH if share >= _HALF else Severity.MEDIUM
    return Finding(
        id=finding_id(profile, _ID),
        cluster=profile.workload.cluster,
        workload_id=profile.workload.id,
        rule=_ID,
        severity=severity,
        message=_say("fits" if sure else f"try_{best.doubt or 'memory'}", need, best),
        confidence=_confidence(case, best.candidate) if sure else Confidence.LOW,
        evidence=(
            *case.basis.evidence,
            *_memory(profile, need, case.limits),
            *_compared(profile, need, best, case.limits),
        ),
        change=_change(profile, best.candidate),
        saving=saving,
        slowdown=interval,
        risks=_risks(case, best),
        not_chosen=_not_chosen(best, fits, far),
        window=profile.window,
    )


def _saving(case: _Case, best: Fit) -> tuple[float, Saving]:
    """Share of the cost saved, and the saving.

    A service runs all month however fast it is; a batch pays for its slowdown.
    """
    one, need = best.candidate, case.need
    longer = 1.0
    if best.slowdown is not None and not is_service(case.profile):
        longer = best.slowdown.high
    share = 1.0 - (one.price or 0.0) * longer / need.price
    part = max(0.0, 1.0 - one.fraction * longer / need.present.fraction)
    return share, monthly(case.profile, case.context).saving(share, gpu_share=part)


def _say(key: str, need: Need, best: Fit) -> Message:
    one, interval = best.candidate, best.slowdown
    return message(
        f"smaller_gpu.{key}",
        candidate=one.name,
        now=need.present.name,
        need=need.memory_bytes,
        usable=one.usable_memory_bytes,
        cost_ratio=best.cost_high,
        low=interval.low if interval is not None else None,
        high=interval.high if interval is not None else None,
    )


def _confidence(case: _Case, one: Candidate) -> Confidence:
    """High only where the peak is a true one, every resource was measured, and prices are real.

    What a person does in a notebook tomorrow no window tells, nor how one that was not watched from
    its start began.
    """
    sure = (
        case.profile.memory_peak_kind == "peak"
        and not start_unseen(case.profile, case.context)
        and all(resource.use is not None for resource in case.need.resources)
        and not one.estimate
        and case.profile.workload.task_class != TaskClass.NOTEBOOK
    )
    return Confidence.HIGH if sure else Confidence.MEDIUM


RULE: Final = Rule(
    id=_ID,
    title="Smaller GPU",
    summary="A cheaper card or MIG slice that this cluster has would hold the work.",
    signals=("kernel", "sm", "tensor", "dram", "fp64"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=30,
)
