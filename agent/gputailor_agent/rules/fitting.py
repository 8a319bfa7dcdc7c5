"""Holding one candidate against what a workload needs: memory, features, slowdown, price.

rho = P_now / P_candidate for each resource that the workload uses or of which it is not known
whether it does; one that was watched and never used is left out. See ``slowdown`` for the interval.
"""

from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.judgement import Interval, Message, Scalar
from gputailor_agent.model.usage import SignalUse
from gputailor_agent.rules.base import Limits, message
from gputailor_agent.rules.candidates import Candidate
from gputailor_agent.rules.slowdown import smaller_gpu

#: bfloat16 needs compute capability 8.0 (CUDA C++ Programming Guide, "Compute Capabilities").
_BFLOAT16: Final = (8, 0)

FITTING_MESSAGES: Final = {
    "fitting.memory": "{model}: needs {need:bytes}, {usable:bytes} can be used",
    "fitting.no_memory": "{model}: its usable memory is not known",
    "fitting.no_price": "{model}: no price is known",
    "fitting.currency": "{model}: its price is in another currency",
    "fitting.no_figure": "{model}: the catalogue has no {resource} figure for it or for the "
    "present card",
    "fitting.no_tensor_cores": "{model}: it has no tensor cores, and they are used or may be",
    "fitting.vendor": "{model}: another vendor",
    "fitting.peers": "{model}: GPUs of one pod cannot talk to each other across MIG slices",
    "fitting.price": "{model}: at {price_ratio:ratio} of the price and {high:factor} the time it "
    "saves too little",
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
    gpus_per_pod: float
    latency: bool  # a service with requests that wait
    price: float
    currency: str


@dataclass(frozen=True, slots=True)
class Fit:
    """One candidate's judgement. ``cost_*``: of the present cost. ``why``: what speaks against."""

    candidate: Candidate
    slowdown: Interval | None
    cost_low: float | None
    cost_high: float | None
    rhos: tuple[tuple[str, float], ...]
    load: float | None  # p99(u) rho of the busiest resource
    verdict: str  # "recommend", "try" or "no"
    why: Message | None


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
    nothing = SignalUse(observed_seconds=0.0, active_seconds=0.0)
    interval = smaller_gpu(
        [(resource.use or nothing, rho) for resource, rho in rhos], need.active_share
    )
    ratio = (one.price or 0.0) / need.price
    load = _load(rhos)
    verdict, why = _verdict(need, one, limits, interval=interval, ratio=ratio, load=load)
    named = tuple((resource.name, rho) for resource, rho in rhos)
    return Fit(
        one, interval, ratio * interval.low, ratio * interval.high, named, load, verdict, why
    )


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


def _verdict(
    need: Need,
    one: Candidate,
    limits: Limits,
    *,
    interval: Interval,
    ratio: float,
    load: float | None,
) -> tuple[str, Message | None]:
    most = limits["cost_ratio"]
    if ratio * interval.low > most:
        why = message("fitting.price", model=one.name, price_ratio=ratio, high=interval.high)
        return "no", why
    if need.latency and load is None:
        signal = next(r.signal for r in need.resources if r.p99 is None)
        return "no", message("fitting.no_latency", model=one.name, signal=signal)
    if need.latency and load is not None and load > limits["latency_load"]:
        limit = limits["latency_load"]
        return "no", message("fitting.latency", model=one.name, load=load, limit=limit)
    if ratio * interval.high <= most and not _may_lack_bfloat16(need, one):
        return "recommend", None
    return "try", None


def _may_lack_bfloat16(need: Need, one: Candidate) -> bool:
    """Whether tensor cores are (or may be) used on a card with bfloat16, and this one has none."""
    now, then = need.present.compute_capability, one.compute_capability
    tensor = any(resource.figure == "tensor_flops" for resource in need.resources)
    if now is None or then is None:
        return tensor
    return tensor and now >= _BFLOAT16 > then
