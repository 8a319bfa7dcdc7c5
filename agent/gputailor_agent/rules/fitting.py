"""Holding one candidate against what a workload needs: memory, features, slowdown, price.

rho = P_now / P_candidate for each resource that the workload uses or of which it is not known
whether it does; one that was watched and never used is left out. See ``slowdown`` for the interval.
Where nothing is known of how full kernels make the card (no SM, tensor or DRAM activity), the
interval is widened by what measured jobs strayed from it on a card of another architecture, and
another card is never more than worth a try: measured slowdowns lay inside too seldom
(docs/accuracy.md).
"""

from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.judgement import Interval, Message, Scalar
from gputailor_agent.model.usage import NO_USE, SignalUse
from gputailor_agent.rules.base import Limits, message
from gputailor_agent.rules.calibrated import Margins
from gputailor_agent.rules.candidates import Candidate
from gputailor_agent.rules.margins import smaller_gpu_margins, widened_work
from gputailor_agent.rules.slowdown import on_card

#: bfloat16 needs compute capability 8.0 (CUDA C++ Programming Guide, "Compute Capabilities").
_BFLOAT16: Final = (8, 0)
#: Far above what sums of floats stray.
_ROUNDING: Final = 1.0 + 1e-9

FITTING_MESSAGES: Final = {
    "fitting.if_you_can_get_it": "if you can get it: {candidate}, at {cost_ratio:ratio} of the "
    "present cost (slowdown up to {high:factor})",
    "fitting.memory": "{model}: needs {need:bytes}, {usable:bytes} can be used",
    "fitting.no_memory": "{model}: its usable memory is not known",
    "fitting.no_price": "{model}: no price is known",
    "fitting.currency": "{model}: its price is in another currency",
    "fitting.no_joint": "{model}: how much of the card its kernels fill is not known second by "
    "second, so whether a slice holds them cannot be told",
    "fitting.no_figure": "{model}: the catalogue has no {resource} figure for it or for the "
    "present card",
    "fitting.no_tensor_cores": "{model}: it has no tensor cores, and they are used or may be",
    "fitting.vendor": "{model}: another vendor",
    "fitting.peers": "{model}: GPUs of one pod cannot talk to each other across MIG slices",
    "fitting.price": "{model}: at {price_ratio:ratio} of the price and {high:factor} the time it "
    "saves too little",
    "fitting.slow": "{model}: the work would take at least {low:factor} the time, and "
    "{limit:factor} is the most",
    "fitting.latency": "{model}: its busiest resource would be at {load:ratio} in the 99th "
    "percentile, and {limit:ratio} is the most for a service",
    "fitting.no_latency": "{model}: {signal} has no histogram, so the 99th percentile is unknown",
    "fitting.chosen_is_better": "{model}: fits as well, at {cost_ratio:ratio} of the present cost",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource: its use (None: not known whether it is used), and its least upper bound.

    ``p99``: 99th percentile of the busiest device, upper edge; None without a histogram.
    """

    name: str
    signal: str
    use: SignalUse | None
    p99: float | None
    now: float | None  # figure of the present card
    figure: str  # attribute of Candidate


@dataclass(frozen=True, slots=True)
class Need:
    """What a candidate is held against."""

    present: Candidate
    memory_bytes: int
    resources: tuple[Resource, ...]
    active_share: float
    raised_share: float  # that share, at least the mean of every resource
    gpus_per_pod: float
    latency: bool  # a service with requests that wait
    links: bool  # GPUs of one pod talk over links between cards, or may
    price: float
    currency: str
    activity: bool = True  # anything is known of how full kernels make the card
    joint: bool = True  # p98 of width and of DRAM are known, from one-second values


@dataclass(frozen=True, slots=True)
class Fit:
    """One candidate's judgement. ``cost_*``: of the present cost. ``why``: what speaks against.

    ``doubt``: what one run would have to show where the verdict is "try".
    """

    candidate: Candidate
    slowdown: Interval | None
    cost_low: float | None
    cost_high: float | None
    rhos: tuple[tuple[str, float], ...]
    load: float | None  # p99(u) rho of the busiest resource
    verdict: str  # "recommend", "try" or "no"
    why: Message | None
    doubt: str = ""  # "activity", "price", "slow", "bfloat16" or "links"
    margins: Margins | None = None  # by which the slowdown was widened


def fit(need: Need, one: Candidate, limits: Limits) -> Fit:
    """Judge one candidate."""
    why = _unfit(need, one)
    if why is not None:
        return Fit(one, None, None, None, (), None, "no", why)
    rhos: list[tuple[Resource, float]] = []
    for resource in need.resources:
        then = getattr(one, resource.figure)
        if resource.now is None or not then:
            key = "fitting.no_figure"
            if resource.figure == "tensor_flops" and one.spec.tensor_cores is False:
                key = "fitting.no_tensor_cores"
            why = message(key, model=one.name, resource=resource.name)
            return Fit(one, None, None, None, (), None, "no", why)
        rhos.append((resource, resource.now / then))
    interval = on_card([(resource.use or NO_USE, rho) for resource, rho in rhos], need.raised_share)
    margins = _margins(need, one)
    if margins is not None:
        worst = max((rho for _, rho in rhos), default=1.0)
        interval = widened_work(interval, margins, need.raised_share, worst)
    ratio = (one.price or 0.0) / need.price
    load = _load(rhos)
    why = _too_dear_or_slow(need, one, limits, interval=interval, ratio=ratio, load=load)
    if why is None and one.mig and not need.joint:
        why = message("fitting.no_joint", model=one.name)
    doubt = "" if why is not None else _doubt(need, one, limits, interval=interval, ratio=ratio)
    return Fit(
        candidate=one,
        slowdown=interval,
        cost_low=ratio * max(1.0, interval.low),
        cost_high=ratio * interval.high,
        rhos=tuple((resource.name, rho) for resource, rho in rhos),
        load=load,
        verdict="no" if why is not None else "try" if doubt else "recommend",
        why=why,
        doubt=doubt,
        margins=margins,
    )


def unconfirmed(need: Need, one: Candidate) -> bool:
    """Whether a figure that decided was found at no second place: a slice's, or a tensor figure."""
    profile = one.spec.mig_by_name.get(one.mig)
    if profile is not None and profile.unconfirmed:
        return True
    used = any(resource.figure == "tensor_flops" for resource in need.resources)
    other = one.spec.key != need.present.spec.key
    return used and other and (one.spec.tensor_unconfirmed or need.present.spec.tensor_unconfirmed)


def may_fit(need: Need, one: Candidate, limits: Limits) -> bool:
    """Whether ``fit`` could recommend the candidate; quick, and never no where it would.

    The slowdown's upper end is at least what the share of time active makes of the largest rho.
    """
    if one.price is None or need.memory_bytes > (one.usable_memory_bytes or 0):
        return False
    worst = 1.0
    for resource in need.resources:
        then = getattr(one, resource.figure)
        if resource.now is None or not then:
            return False
        worst = max(worst, resource.now / then)
    margins = _margins(need, one)
    active = need.raised_share
    stray = 1.0 if margins is None else margins.high
    high = 1.0 - active + active * worst * stray
    return (
        high * one.price / need.price <= limits["cost_ratio"] * _ROUNDING
        and high <= limits["slowdown_most"] * _ROUNDING
    )


def _margins(need: Need, one: Candidate) -> Margins | None:
    """Margins for a card of another architecture of which only arithmetic tells."""
    if need.activity or one.compute_capability == need.present.compute_capability:
        return None
    return smaller_gpu_margins()


def _unfit(need: Need, one: Candidate) -> Message | None:
    """Return what rules the candidate out before any slowdown is looked at."""
    usable = one.usable_memory_bytes
    hindrances: tuple[tuple[bool, str, dict[str, Scalar]], ...] = (
        (one.spec.vendor != need.present.spec.vendor, "fitting.vendor", {}),
        (one.price is None, "fitting.no_price", {}),
        (one.currency != need.currency, "fitting.currency", {}),
        (usable is None, "fitting.no_memory", {}),
        (
            need.memory_bytes > (usable or 0),
            "fitting.memory",
            {"need": need.memory_bytes, "usable": usable},
        ),
        (bool(one.mig) and need.gpus_per_pod > 1, "fitting.peers", {}),
    )
    for hinders, key, params in hindrances:
        if hinders:
            return message(key, model=one.name, **params)
    return None


def _load(rhos: list[tuple[Resource, float]]) -> float | None:
    """p99(u) rho of the busiest resource; None where a p99 is not known."""
    loads = [None if r.p99 is None else r.p99 * rho for r, rho in rhos]
    known = [load for load in loads if load is not None]
    return max(known, default=0.0) if len(known) == len(loads) else None


def _too_dear_or_slow(
    need: Need,
    one: Candidate,
    limits: Limits,
    *,
    interval: Interval,
    ratio: float,
    load: float | None,
) -> Message | None:
    # A margin may let it end sooner than now; nobody is told to count on that. Where only the
    # margins tell of the slowdown, what might cost more than today is not even worth a run.
    guessed = not need.activity and one.spec.key != need.present.spec.key
    if ratio * max(1.0, interval.low) > limits["cost_ratio"] or (
        guessed and ratio * interval.high > 1.0
    ):
        return message("fitting.price", model=one.name, price_ratio=ratio, high=interval.high)
    if interval.low > limits["slowdown_most"]:
        limit = limits["slowdown_most"]
        return message("fitting.slow", model=one.name, low=interval.low, limit=limit)
    if need.latency and load is None:
        signal = next(r.signal for r in need.resources if r.p99 is None)
        return message("fitting.no_latency", model=one.name, signal=signal)
    if need.latency and load is not None and load > limits["latency_load"]:
        limit = limits["latency_load"]
        return message("fitting.latency", model=one.name, load=load, limit=limit)
    return None


def _doubt(need: Need, one: Candidate, limits: Limits, *, interval: Interval, ratio: float) -> str:
    """What is not sure of a candidate that may do; '' where nothing is."""
    doubts = (
        (not need.activity and one.spec.key != need.present.spec.key, "activity"),
        (ratio * interval.high > limits["cost_ratio"], "price"),
        (interval.high > limits["slowdown_most"], "slow"),
        (_may_lack_bfloat16(need, one), "bfloat16"),
        (need.links and _link(one) < _link(need.present), "links"),
    )
    return next((name for doubted, name in doubts if doubted), "")


def _link(one: Candidate) -> float:
    """Bytes per second between cards; none for a slice, or where no figure is known."""
    return 0.0 if one.mig else one.spec.interconnect_bytes_per_second or 0.0


def _may_lack_bfloat16(need: Need, one: Candidate) -> bool:
    """Whether tensor cores are (or may be) used on a card with bfloat16, and this one has none."""
    now, then = need.present.compute_capability, one.compute_capability
    tensor = any(resource.figure == "tensor_flops" for resource in need.resources)
    if now is None or then is None:
        return tensor
    return tensor and now >= _BFLOAT16 > then
