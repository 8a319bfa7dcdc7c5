"""Bandwidth-bound: the card's memory is the wall, its SMs wait for it.

DRAM >= 0.5 and SM < 0.5, both means over the time in which anything ran: fewer and larger kernels
(compiled, fused, flash attention) move less. A card or slice with less bandwidth is never the
answer, so those of this cluster are named as not chosen. How much faster it gets is not measured,
so no saving is counted; the least time left is that of the SMs' work packed perfectly.
"""

from typing import Final

from gputailor_agent.model.judgement import (
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.advising import Advice, Case, edit_code, opened
from gputailor_agent.rules.base import Context, Rule, Threshold, message
from gputailor_agent.rules.candidates import present
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS, steady_mean
from gputailor_agent.rules.needs import present_card
from gputailor_agent.rules.running import RUNNING, held_while_running
from gputailor_agent.rules.snippets import family, snippet

_ID: Final = "bandwidth_bound"
_SHOWN: Final = 3
_MUCH: Final = 0.7
_FORMULA: Final = "[1 - G + G SM, 1], G: share of time active; SM: mean while it runs"

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "bandwidth_bound.found": "while it runs, its memory is busy for {dram:ratio} and its SMs for "
    "{sm:ratio}: compile or fuse what it does, and use flash attention",
    "bandwidth_bound.unquantified": "how much faster it gets is known only after one run",
    "bandwidth_bound.no_signal": "unknown: {signals}: not read here, or for less than "
    "{threshold:ratio} of the time; dcgm-exporter has DRAM by default and SM activity once "
    "it is switched on, the GPU Tailor exporter has both on Hopper and later cards",
    "bandwidth_bound.nothing_ran": "nothing ran: see idle",
    "bandwidth_bound.fine": "its memory is busy for {dram:ratio} of the time it runs, its SMs for "
    "{sm:ratio}: bandwidth is not what it waits for",
    "bandwidth_bound.risk_compile": "the first steps take longer while they are compiled; changing "
    "shapes compile again",
    "bandwidth_bound.risk_result": "fused kernels add in another order: results differ in the last "
    "digits",
    "bandwidth_bound.less_bandwidth": "{model}: it has {ratio:ratio} of the bandwidth, and that is "
    "what this waits for",
    "bandwidth_bound.not_batch": "a larger batch: it moves as much per sample unless weights are "
    "what is read",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the card's memory bandwidth is the wall."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    limits = case.limits
    if basis.use(basis.busy).active_seconds == 0:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("bandwidth_bound.nothing_ran"))
    unread = case.missing("dram", "sm")
    if basis.busy not in RUNNING:
        unread += ("kernel",)
    if unread:
        why = message(
            "bandwidth_bound.no_signal", signals=", ".join(unread), threshold=limits["coverage"]
        )
        return case.silent(SilenceKind.UNKNOWN, why, missing=unread)
    return _judged(case)


def _judged(case: Case) -> Finding | Silence:
    dram = held_while_running(case, "dram", ">=", "dram_least")
    sm = held_while_running(case, "sm", "<", "sm_below")
    evidence = (dram, sm)
    if not (dram.passed and sm.passed):
        why = message("bandwidth_bound.fine", dram=dram.value, sm=sm.value)
        return case.silent(SilenceKind.FINE, why, evidence)
    return _finding(case, evidence)


def _finding(case: Case, evidence: tuple[Evidence, Evidence]) -> Finding:
    profile = case.profile
    dram, sm = (float(item.value or 0.0) for item in evidence)
    running = steady_mean(case.basis.uses, case.basis.busy) or 0.0
    known = bool(family(profile.workload))
    reason = "both activities were measured; what a rewrite brings was not"
    return case.found(
        message("bandwidth_bound.found", dram=dram, sm=sm),
        Advice(
            severity=Severity.MEDIUM if dram >= _MUCH else Severity.LOW,
            confidence=Confidence.MEDIUM if known else Confidence.LOW,
            reason=reason if known else f"{reason}, and the framework is not known",
            change=edit_code(profile, snippet("compile", profile.workload)),
            saving=Saving(why=message("bandwidth_bound.unquantified"), formula=_FORMULA),
            slowdown=Interval(low=1.0 - running + running * sm, high=1.0),
            risks=(message("bandwidth_bound.risk_compile"), message("bandwidth_bound.risk_result")),
            not_chosen=(*_narrower(case), message("bandwidth_bound.not_batch")),
        ),
        evidence,
    )


def _narrower(case: Case) -> tuple[Message, ...]:
    """Cards and slices of this cluster with less bandwidth than the present one."""
    now, _ = present_card(case.context, case.basis)
    if now is None or not now.bandwidth:
        return ()
    ratios = [
        (one.bandwidth / now.bandwidth, one.name)
        for one in present(case.context)
        if one.bandwidth and one.bandwidth < now.bandwidth
    ]
    return tuple(
        message("bandwidth_bound.less_bandwidth", model=name, ratio=ratio)
        for ratio, name in sorted(ratios, reverse=True)[:_SHOWN]
    )


RULE: Final = Rule(
    id=_ID,
    title="Bandwidth-bound",
    summary="The card's memory is busy while its SMs wait for it.",
    signals=("dram", "sm", "kernel"),
    thresholds=(
        *SIZING_THRESHOLDS,
        Threshold("dram_least", 0.5, "ratio", "mean DRAM activity while it runs"),
        Threshold("sm_below", 0.5, "ratio", "mean SM activity while it runs"),
    ),
    messages=_MESSAGES,
    evaluate=evaluate,
    order=65,
)
