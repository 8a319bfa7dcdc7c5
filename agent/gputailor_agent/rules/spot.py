"""Spot: a batch that saves its state could run on capacity that may be taken away.

E = p_spot T (1 + d / tau + (tau / 2 + R) / M): T the run time, d the seconds one checkpoint takes,
tau the time between two, R the time to start again, M the mean time between interruptions. With
tau* = sqrt(2 d M) (Young, 1974) it must be at most 0.7 of the cost on demand. Asked are a batch
whose kind starts lost pods again, a sign of checkpoints in its arguments, variables or annotation
``gputailor.io/checkpoints``, nodes that are known to be on demand, and a GPU-hour of use. Spot
prices come from the catalogue (own prices), M from the setting ``hours_between_interruptions``;
where either is not known the saving is not quantified, and M that would pay is named.
"""

import math
from dataclasses import dataclass
from typing import Final

import msgspec

from gputailor_agent.catalog import Price
from gputailor_agent.inventory.kinds import known_kind
from gputailor_agent.model.inventory import Node, Outcome
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Saving,
    Scalar,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, containers_of, found
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
from gputailor_agent.rules.checkpoints import ANNOTATION, checkpoint_sign
from gputailor_agent.rules.gates import GATE_MESSAGES, never_held
from gputailor_agent.rules.interruptions import best_interval, pays_from, time_factor
from gputailor_agent.rules.pricing import (
    MONEY_MESSAGES,
    equivalent,
    is_service,
    monthly,
    node_of,
    node_spec,
    price_of,
    spec_of,
)

_ID: Final = "spot"
_HOUR: Final = 3600.0
_SPOT: Final = "spot"
_FORMULA: Final = "p_spot / p x (1 + d / tau + (tau / 2 + R) / M), tau = sqrt(2 d M)"
#: A label that on-demand nodes carry -> label and value of the spot nodes beside them.
_SELECT: Final = {
    "karpenter.sh/capacity-type": ("karpenter.sh/capacity-type", "spot"),
    "eks.amazonaws.com/capacityType": ("eks.amazonaws.com/capacityType", "SPOT"),
    "cloud.google.com/gke-nodepool": ("cloud.google.com/gke-spot", "true"),
    "kubernetes.azure.com/agentpool": ("kubernetes.azure.com/scalesetpriority", "spot"),
    "node.kubernetes.io/lifecycle": ("node.kubernetes.io/lifecycle", "spot"),
}

_THRESHOLDS: Final = (
    Threshold("least_gpu_hours", 1, "hours", "GPU-hours in the window below which it is not worth"),
    Threshold("cost_ratio", 0.7, "ratio", "most of the cost on demand, interruptions included"),
    Threshold("checkpoint_seconds", 60, "seconds", "time one checkpoint takes (d); own default"),
    Threshold("restart_seconds", 600, "seconds", "time to start again (R); own default"),
    Threshold(
        "hours_between_interruptions",
        0,
        "hours",
        "mean time between interruptions of one run (M); 0: not known",
    ),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "spot.pays": "it could run on spot GPUs at {cost:ratio} of the cost, interruptions every "
    "{between:seconds} included: save its state every {tau:seconds} ({sign})",
    "spot.try_no_price": "it could run on spot GPUs, since it saves its state ({sign}); what that "
    "saves is not known without prices of {model}",
    "spot.try_no_rate": "it could run on spot GPUs at {ratio:ratio} of the price, since it saves "
    "its state ({sign}); that pays if they are taken away less often than every {between:seconds}",
    "spot.no_price": "no spot price is known for {model}: give one in a file of own prices "
    "(capacity_type spot)",
    "spot.no_rate": "how often spot GPUs are taken away here is not known (setting "
    "hours_between_interruptions); at {ratio:ratio} of the price it pays if that is less often "
    "than every {between:seconds}",
    "spot.dear": "spot would cost {cost:ratio} of the present price, interruptions included",
    "spot.service": "it answers requests or a person works in it: interruptions would be noticed",
    "spot.bare_pod": "nothing starts it again when its node goes: {kind} is not restartable",
    "spot.already": "it runs on spot GPUs already",
    "spot.reserved": "its nodes are paid for in advance ({capacity}): leaving them saves nothing",
    "spot.unknown_capacity": "unknown: whether its nodes are spot or on demand is not told by "
    "their labels",
    "spot.small": "{hours:count} GPU-hours in the window: too little to be worth a change",
    "spot.no_checkpoints": "unknown: nothing in its arguments or variables says that it saves its "
    "state; add checkpoints first, or say that it has them by the annotation {annotation}",
    "spot.no_pod": "unknown: the inventory has none of its pods, so its arguments are not known",
    "spot.risk_capacity": "spot GPUs may not be there when wanted: a deadline needs a way back",
    "spot.risk_taint": "spot nodes may carry a taint that the pods must tolerate",
    "spot.risk_estimate": "the spot price is an estimate (the median over providers)",
    "spot.risk_assumed": "the time of a checkpoint ({checkpoint:seconds}) and of a start "
    "({restart:seconds}) are settings, not measured",
    "spot.not_all_replicas": "only some of its pods on spot: a run that needs all of them stops "
    "with the first that goes",
    "spot.not_reserved": "reserved GPUs: for what runs all the time",
}


@dataclass(frozen=True, slots=True)
class _Offer:
    """What spot costs of the present price (None: not known) and what it takes."""

    node: Node
    ratio: float | None
    why: Message | None
    estimate: bool


@dataclass(frozen=True, slots=True)
class _Case:
    """One workload that could run on spot; ``sign``: of its checkpoints."""

    profile: Profile
    context: Context
    limits: Limits
    evidence: tuple[Evidence, ...]
    offer: _Offer
    sign: str


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the workload could run on spot capacity."""
    limits = RULE.limits(context)
    silent = never_held(_ID, profile) or _not_about(profile)
    if silent is not None:
        return silent
    hours = held_against(
        "GPU-hours in the window",
        sum(equivalent(context, use) * use.allocated_seconds / _HOUR for use in profile.gpus),
        ">=", limits["least_gpu_hours"], unit="count", profile=profile,
        formula="whole GPUs x hours held",
    )  # fmt: skip
    if not hours.passed:
        why = message("spot.small", hours=hours.value)
        return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, why, (hours,))
    nodes = [node_of(context, use) for use in profile.gpus]
    known = [node for node in nodes if node is not None]
    others = {node.capacity_type for node in known} - {"", "on-demand"}
    if others:
        why = message("spot.reserved", capacity=", ".join(sorted(others)))
        why = message("spot.already") if _SPOT in others else why
        return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, why, (hours,))
    if len(known) < len(nodes) or any(not node.capacity_type for node in known):
        why = message("spot.unknown_capacity")
        return silence(_ID, profile, SilenceKind.UNKNOWN, why, (hours,))
    return _with_checkpoints(profile, context, limits, hours, known)


def _not_about(profile: Profile) -> Silence | None:
    kind = profile.workload.kind
    why = None
    if is_service(profile):
        why = message("spot.service")
    elif kind == "Pod" or known_kind(kind).life == "service":
        why = message("spot.bare_pod", kind=kind)
    elif profile.runs and all(r.outcome == Outcome.FAILED or r.oom for r in profile.runs):
        why = message("gate.only_failed")
    if why is None:
        return None
    kind_of = noted("kind", kind, profile=profile, formula="the root owner's kind")
    return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, why, (kind_of,))


def _with_checkpoints(
    profile: Profile, context: Context, limits: Limits, hours: Evidence, nodes: list[Node]
) -> Finding | Silence:
    pods = containers_of(profile, context)
    signs = [
        checkpoint_sign(spec, {**pod.annotations, **profile.workload.annotations})
        for pod, spec in pods
    ]
    missing = not pods or not all(signs)
    sign = signs[0] if signs else ""
    told = noted(
        "sign of checkpoints", None if missing else sign, profile=profile,
        formula="arguments and variables of every known pod, or the annotation",
    )  # fmt: skip
    if missing:
        key = "spot.no_checkpoints" if pods else "spot.no_pod"
        why = message(key, annotation=ANNOTATION)
        return silence(_ID, profile, SilenceKind.UNKNOWN, why, (hours, told))
    offers = [_offer(context, profile, node) for node in nodes]
    offer = max(offers, key=lambda one: math.inf if one.ratio is None else one.ratio)
    price = noted(
        "spot price of the present one", offer.ratio, unit="ratio", profile=profile,
        formula="spot / present price of a GPU hour: same card, instance type and region",
    )  # fmt: skip
    return _priced(_Case(profile, context, limits, (hours, told, price), offer, sign))


def _offer(context: Context, profile: Profile, node: Node) -> _Offer:
    """Spot against the present price on the node's own instance type and region."""
    spec = node_spec(context, node) or spec_of(context, profile.gpus[0])
    model = spec.key if spec is not None else ", ".join(profile.device_models) or "the GPU"
    now = price_of(context, spec, node)
    spot = price_of(context, spec, msgspec.structs.replace(node, capacity_type=_SPOT))
    if now is None or now.amount_per_gpu_hour <= 0:
        return _Offer(node, None, message("money.no_price", model=model), estimate=False)
    if spot is None or spot.currency != now.currency:
        return _Offer(node, None, message("spot.no_price", model=model), estimate=False)
    ratio = spot.amount_per_gpu_hour / now.amount_per_gpu_hour
    return _Offer(node, ratio, None, _guessed(spot, now))


def _guessed(*prices: Price) -> bool:
    return any(price.estimate for price in prices)


def _priced(case: _Case) -> Finding | Silence:
    limits, offer, profile = case.limits, case.offer, case.profile
    d, restart = limits["checkpoint_seconds"], limits["restart_seconds"]
    between = limits["hours_between_interruptions"] * _HOUR
    if offer.ratio is None:
        return _trial(case, "spot.try_no_price", offer.why)
    least = pays_from(d, restart, offer.ratio, limits["cost_ratio"])
    if least is None:
        why = message("spot.dear", cost=offer.ratio)
        return silence(_ID, profile, SilenceKind.FINE, why, case.evidence)
    if between <= 0:
        why = message("spot.no_rate", ratio=offer.ratio, between=least)
        return _trial(case, "spot.try_no_rate", why)
    tau = best_interval(d, between)
    longer = time_factor(d, restart, between, tau)
    cost = held_against(
        "cost on spot", offer.ratio * longer, "<=", limits["cost_ratio"], unit="ratio",
        profile=profile, formula=_FORMULA,
    )  # fmt: skip
    seconds = noted("time between checkpoints", tau, unit="seconds", profile=profile,
                    formula="tau* = sqrt(2 d M), d and M from the settings")  # fmt: skip
    evidence = (*case.evidence, seconds, cost)
    if not cost.passed:
        why = message("spot.dear", cost=cost.value)
        return silence(_ID, profile, SilenceKind.FINE, why, evidence)
    why = message("spot.pays", cost=cost.value, between=between, tau=tau, sign=case.sign)
    advice = Advice(
        severity=Severity.MEDIUM,
        confidence=Confidence.MEDIUM,
        reason="price and rate are told; the time of a checkpoint is a setting",
        change=_change(profile, offer.node, tau),
        saving=monthly(profile, case.context).saving(1.0 - offer.ratio * longer, gpu_share=0.0),
        slowdown=Interval(low=1.0 + d / tau if tau > 0 else 1.0, high=longer),
        risks=_risks(case),
        not_chosen=_NOT_CHOSEN,
    )
    return found(_ID, profile, why, advice, evidence)


def _trial(case: _Case, key: str, why: Message | None) -> Finding:
    """Something of the price is not known: what to do, and no saving."""
    params = why.params if why is not None else {}
    advice = Advice(
        severity=Severity.LOW,
        confidence=Confidence.LOW,
        reason="a price or the rate of interruptions is not known",
        change=_change(case.profile, case.offer.node, None),
        saving=Saving(why=why, formula=_FORMULA),
        risks=_risks(case),
        not_chosen=_NOT_CHOSEN,
    )
    return found(_ID, case.profile, message(key, sign=case.sign, **params), advice, case.evidence)


_NOT_CHOSEN: Final = (message("spot.not_all_replicas"), message("spot.not_reserved"))


def _change(profile: Profile, node: Node, tau: float | None) -> Change:
    """Select spot nodes by the label that tells of them here; without one there is no patch."""
    there = next((pair for name, pair in _SELECT.items() if name in node.labels), None)
    params: dict[str, Scalar] = {"checkpoint_every_seconds": tau}
    if there is None:
        return Change(kind="use_spot", target=changes.target_of(profile.workload), params=params)
    return changes.select_nodes(profile, "use_spot", dict([there]), params)


def _risks(case: _Case) -> tuple[Message, ...]:
    assumed = message(
        "spot.risk_assumed",
        checkpoint=case.limits["checkpoint_seconds"],
        restart=case.limits["restart_seconds"],
    )
    risks = [message("spot.risk_capacity"), message("spot.risk_taint"), assumed]
    if case.offer.estimate:
        risks.append(message("spot.risk_estimate"))
    return tuple(risks)


RULE: Final = Rule(
    id=_ID,
    title="Spot capacity",
    summary="A batch that saves its state could run on GPUs that may be taken away.",
    signals=(),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=70,
)
