"""What a workload needs of a card: memory, resources, and how much of its time it is active.

Peaks include the warm-up; what is not measured counts as fully used in the slowdown's upper end.
"""

import math
from collections import defaultdict
from typing import Final

from gputailor_agent.model.inventory import Outcome, TaskClass
from gputailor_agent.model.judgement import Message
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.model.usage import NO_USE, SignalUse
from gputailor_agent.profiles import busy_signal
from gputailor_agent.profiles.holding import held_from
from gputailor_agent.rules.base import Context, Limits, Threshold, message
from gputailor_agent.rules.candidates import Candidate, candidate
from gputailor_agent.rules.fitting import Need, Resource
from gputailor_agent.rules.gates import Basis
from gputailor_agent.rules.jointly import WIDTH, p98
from gputailor_agent.rules.pricing import cost_of, is_service, spec_of
from gputailor_agent.rules.slowdown import raised

_HOUR: Final = 3600.0
MEMORY_THRESHOLDS: Final = (
    Threshold("memory_headroom", 1.15, "factor", "memory needed, of the peak"),
    Threshold("oom_headroom", 1.25, "factor", "memory needed, of the peak, after an OOM kill"),
    Threshold(
        "suspected_oom",
        0.95,
        "ratio",
        "a failed run whose peak reached this share of the usable memory ran out of it",
    ),
)
_RESOURCES: Final = (
    ("compute", "sm", "fp32_flops"),
    ("tensor", "tensor", "tensor_flops"),
    ("memory bandwidth", "dram", "bandwidth"),
)


def need_of(
    rule: str, profile: Profile, context: Context, basis: Basis, limits: Limits
) -> Need | Message:
    """What candidates are held against, or why that is unknown, in the words of ``rule``."""
    now, uses = present_card(context, basis)
    if now is None:
        models = ", ".join(profile.device_models)
        return message(f"{rule}.no_model", model=models or "the GPU's model")
    whole, why = cost_of(
        context, [(use, use.allocated_seconds / _HOUR * now.fraction) for use in uses]
    )
    hours = sum(use.allocated_seconds for use in uses) / _HOUR
    if whole is None or hours <= 0 or whole.amount <= 0:
        return why or message("money.no_price", model=now.name)
    resources = _resources(basis, now, uses, limits)
    share = active_share(profile, basis)
    return Need(
        present=now,
        memory_bytes=needed_bytes(profile, now, limits),
        resources=resources,
        active_share=share,
        raised_share=raised(share, (one.use for one in resources if one.use is not None)),
        gpus_per_pod=profile.gpus_per_pod,
        latency=profile.workload.task_class == TaskClass.INFERENCE,
        links=profile.gpus_per_pod > 1 and _links_used(basis),
        price=whole.amount / hours,
        currency=whole.currency,
        activity=_activity_known(basis, limits),
        joint=all(p98(basis.uses, signal) is not None for signal in (WIDTH, "dram")),
    )


def _activity_known(basis: Basis, limits: Limits) -> bool:
    """Whether any signal that tells how full kernels make the card was read for long enough."""
    least = limits["coverage"] * basis.total.allocated_seconds
    return any(basis.use(signal).observed_seconds >= least for _, signal, _ in _RESOURCES)


def present_card(context: Context, basis: Basis) -> tuple[Candidate | None, tuple[GpuUse, ...]]:
    """Return the card (or slice) most of the time was spent on, and the devices of that kind."""
    by_card: dict[tuple[str, str], list[GpuUse]] = defaultdict(list)
    for use in basis.uses:
        spec = spec_of(context, use)
        if spec is not None and use.device is not None:
            by_card[spec.key, use.device.mig_profile].append(use)
    if not by_card:
        return None, ()
    key = max(by_card, key=lambda k: (sum(u.allocated_seconds for u in by_card[k]), k))
    uses = tuple(by_card[key])
    spec = spec_of(context, uses[0])
    assert spec is not None
    return candidate(spec, key[1], None), uses


def oom_seen(profile: Profile, now: Candidate, limits: Limits) -> bool:
    """An OOM kill, or a failed run that had filled the card (a CUDA OOM shows only so)."""
    usable = now.usable_memory_bytes
    full = limits["suspected_oom"] * usable if usable is not None else math.inf
    suspected = any(
        run.outcome == Outcome.FAILED and (run.memory_peak_bytes or 0) >= full
        for run in profile.runs
    )
    return profile.oom_seen or suspected


def needed_bytes(profile: Profile, now: Candidate, limits: Limits) -> int:
    """Memory (bytes) that a card must have: the peak with headroom, more after an OOM kill."""
    peak = profile.memory_peak_bytes or 0
    factor = limits["memory_headroom"]
    if oom_seen(profile, now, limits):
        factor = max(factor, limits["oom_headroom"])
    return math.ceil(peak * factor)


def _resources(
    basis: Basis, now: Candidate, uses: tuple[GpuUse, ...], limits: Limits
) -> tuple[Resource, ...]:
    """Resources that are used, or of which it is not known whether they are."""
    held = basis.total.allocated_seconds
    found = []
    for name, signal, figure in _RESOURCES:
        if figure == "tensor_flops" and now.spec.tensor_cores is False:
            continue
        use: SignalUse | None = basis.use(signal)
        if use is None or use.observed_seconds < limits["coverage"] * held:
            use = None
        elif use.active_seconds == 0:
            continue
        # Where the signal itself is not known, the device cannot have used it for longer than
        # anything ran: the busy signal bounds it from above.
        measured = signal if use is not None else basis.busy
        p99 = _highest_p99(uses, measured)
        found.append(Resource(name, signal, use, p99, getattr(now, figure), figure))
    return tuple(found)


def start_unseen(profile: Profile, context: Context) -> bool:
    """Whether every pod began before its first row: a peak while it started may be missing.

    A source that was there before the window kept that peak; nothing in the window tells. Where the
    inventory does not say when pods began, the rows are taken to be all there is.
    """
    pods = (
        (use, context.holdings.find(use.namespace, use.pod, use.pod_uid)) for use in profile.gpus
    )
    starts = [(use, None if pod is None else held_from(pod)) for use, pod in pods if use.hours]
    told = [(use, start) for use, start in starts if start is not None]
    return bool(told) and all(start < use.first_hour for use, start in told)


def _links_used(basis: Basis) -> bool:
    """Whether bytes went between cards; where that was not measured, they may have."""
    sent = [n for link, n in basis.total.link_bytes.items() if link.startswith("nvlink/")]
    return not sent or sum(sent) > 0


def _highest_p99(uses: tuple[GpuUse, ...], signal: str) -> float | None:
    highest = 0.0
    for use in uses:
        histogram = use.signals.get(signal, NO_USE).histogram
        quantile = histogram.quantile(0.99) if histogram is not None else None
        if quantile is None:
            return None
        highest = max(highest, quantile.high)
    return highest


def active_share(profile: Profile, basis: Basis) -> float:
    """G: share of time active. GPUs of one run wait for each other, so its busiest one counts.

    Replicas of a service do not: there each pod is on its own. Groups weigh by their time.
    """
    groups: dict[tuple[str, ...], list[GpuUse]] = defaultdict(list)
    for use in basis.uses:
        key = (use.pod, use.pod_uid) if is_service(profile) else (use.run_id,)
        groups[key].append(use)
    weighted = seconds = 0.0
    for uses in groups.values():
        length = max(use.allocated_seconds for use in uses)
        weighted += max(map(_active_share, uses)) * length
        seconds += length
    return min(1.0, weighted / seconds) if seconds > 0 else 1.0


def _active_share(use: GpuUse) -> float:
    """Share of time in which one device was active.

    SM activity is a share of the SMs: where it stands in for kernels, each second in which any SM
    was busy counts, lest less knowledge make a smaller G.
    """
    name = busy_signal(use.signals)
    told = use.signals.get(name, NO_USE)
    mean = told.mean or 0.0
    if name != "sm" or told.observed_seconds <= 0:
        return mean
    zero = told.histogram.zero_seconds if told.histogram is not None else 0.0
    return max(mean, 1.0 - zero / told.observed_seconds)
