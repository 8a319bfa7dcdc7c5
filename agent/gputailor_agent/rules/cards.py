"""Which smaller card or MIG slice would do: the choice that two rules share.

All cards and slices of the cluster are judged together, and the best one decides who speaks:
``mig_slice`` of a slice, ``smaller_gpu`` of a whole card. So there is one advice and not two, and
each says of what the other would have offered why it was not chosen.
"""

import math
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from gputailor_agent.model.judgement import Finding, Message, Silence, SilenceKind
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import Context, Limits, Threshold, message, silence
from gputailor_agent.rules.candidates import elsewhere, present
from gputailor_agent.rules.card_findings import (
    SHOWN,
    CardCase,
    card_finding,
    memory_evidence,
)
from gputailor_agent.rules.fitting import Fit, Need, fit, may_fit
from gputailor_agent.rules.gates import SIZING_THRESHOLDS, Basis, sizing
from gputailor_agent.rules.needs import MEMORY_THRESHOLDS, need_of
from gputailor_agent.rules.stated_memory import stated_evidence, stated_memory

CARD_THRESHOLDS: Final = (
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
_CARD_VALUES: Final = itemgetter(*(one.name for one in CARD_THRESHOLDS))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Candidates of this cluster, best first, and what others could be had."""

    fits: list[Fit]
    far: tuple[Message, ...]
    best: Fit | None
    sure: bool


def judged(rule: str, profile: Profile, context: Context, limits: Limits) -> Finding | Silence:
    """Say whether a cheaper card or slice would hold the workload, if it is the rule's to say."""
    basis = sizing(rule, profile, context, limits)
    if isinstance(basis, Silence):
        return basis
    why = _not_judged(rule, profile, basis)
    if why is not None:
        kind = SilenceKind.UNKNOWN
        if why.key.endswith((".shared", ".nothing_ran")):
            kind = SilenceKind.NOT_APPLICABLE
        known = (
            *basis.evidence,
            *memory_evidence(profile, None, limits),
            *stated_evidence(profile, stated_memory(profile, context)),
        )
        missing = ("memory",) if why.key == f"{rule}.no_memory" else ()
        return silence(rule, profile, kind, why, known, missing_signals=missing)
    need = _need(rule, profile, context, basis, limits)
    if isinstance(need, Message):
        known = (*basis.evidence, *memory_evidence(profile, None, limits))
        return silence(rule, profile, SilenceKind.UNKNOWN, need, known)
    case = CardCase(rule, profile, context, basis, need, limits)
    choice = _choice(case)
    best = choice.best
    if best is not None and bool(best.candidate.mig) == (rule == "mig_slice"):
        return card_finding(case, best, choice.fits, choice.far, sure=choice.sure)
    return _fine(case, choice)


def _not_judged(rule: str, profile: Profile, basis: Basis) -> Message | None:
    workload = profile.workload
    if any(use.share < 1 for use in basis.uses):
        return message(f"{rule}.shared")
    if basis.use(basis.busy).active_seconds == 0:
        return message(f"{rule}.nothing_ran")
    if workload.preallocates:
        evidence = workload.preallocates_evidence or workload.framework or "detected"
        return message(f"{rule}.preallocates", evidence=evidence)
    if profile.memory_peak_bytes is None:
        return message(f"{rule}.no_memory")
    if basis.use("fp64").active_seconds > 0:
        return message(f"{rule}.fp64")
    return None


def _need(
    rule: str, profile: Profile, context: Context, basis: Basis, limits: Limits
) -> Need | Message:
    """What candidates are held against; remembered for one profile and the same limits."""
    known, key = context.about(profile), ("card need", _CARD_VALUES(limits))
    need: Need | Message | None = known.get(key)
    if not isinstance(need, Need):  # a reason is in the rule's own words
        need = known[key] = need_of(rule, profile, context, basis, limits)
    return need


def _choice(case: CardCase) -> _Choice:
    """Judge every candidate; the answer for one profile and the same limits is remembered."""
    known, key = case.context.about(case.profile), ("card choice", _CARD_VALUES(case.limits))
    if key not in known:
        known[key] = _chosen(case)
    choice: _Choice = known[key]
    return choice


def _chosen(case: CardCase) -> _Choice:
    need, limits = case.need, case.limits
    candidates = [one for one in present(case.context) if one.name != need.present.name]
    fits = sorted((fit(need, one, limits) for one in candidates), key=_rank)
    averages = case.profile.memory_peak_kind == "mean"
    sure = [] if averages else [one for one in fits if one.verdict == "recommend"]
    trial = sorted((one for one in fits if one.verdict != "no"), key=lambda one: bool(one.doubt))
    best = next(iter(sure or trial), None)
    return _Choice(fits, _if_you_can_get_it(case.context, need, limits), best, bool(sure))


def _fine(case: CardCase, choice: _Choice) -> Silence:
    """The silence of a rule that has nothing to offer, or less than the other."""
    slices = case.rule == "mig_slice"
    own = [one for one in choice.fits if bool(one.candidate.mig) == slices]
    why = case.say("no_other")
    if choice.best is not None:
        why = case.say("see_other", candidate=choice.best.candidate.name)
    elif own:
        why = case.say("none_here", count=len(own))
    blind = choice.best is None and any(
        one.why is not None and one.why.key == "fitting.no_joint" for one in own
    )
    if blind:
        why = case.say("no_joint")
    evidence = (
        *case.basis.evidence,
        *memory_evidence(case.profile, case.need, case.limits),
    )
    others = tuple(one.why for one in own[:SHOWN] if one.why is not None)
    kind = SilenceKind.FINE if own or not slices else SilenceKind.NOT_APPLICABLE
    said = (*others, *(() if slices else choice.far))
    return silence(
        case.rule,
        case.profile,
        SilenceKind.UNKNOWN if blind else kind,
        why,
        evidence,
        not_chosen=said,
        missing_signals=("width", "dram") if blind else (),
    )


def _rank(one: Fit) -> tuple[float, float, str]:
    """Cheapest with the slowdown's upper end first; then the roomier one."""
    cost = math.inf if one.cost_high is None else one.cost_high
    return (cost, -(one.candidate.usable_memory_bytes or 0), one.candidate.name)


def _if_you_can_get_it(context: Context, need: Need, limits: Limits) -> tuple[Message, ...]:
    """Cards that this cluster does not have; the slower checks only for those cheap enough."""
    most = limits["cost_ratio"] * need.price
    near = [one for one in elsewhere(context) if one.price is not None and one.price <= most]
    fits = [fit(need, one, limits) for one in near if may_fit(need, one, limits)]
    good = sorted((one for one in fits if one.verdict == "recommend"), key=_rank)
    return tuple(
        message(
            "fitting.if_you_can_get_it",
            candidate=one.candidate.name,
            cost_ratio=one.cost_high,
            high=one.slowdown.high if one.slowdown is not None else None,
        )
        for one in good[:SHOWN]
    )
