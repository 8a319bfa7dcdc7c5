"""Several on one card: what rule ``share`` asks of them, and the trial it proposes.

MPS for pods of one workload (one tenant), time-slicing for notebooks. How much those that share
disturb each other is not measured here, so both are trials without a saving. What to expect is told
by pairs of jobs that were recorded on one card (``interference``), by the time they run alone: of
these none is called safe, however little they run, since some fight over the host. Who tolerates a
larger slowdown (a setting) is advised where recorded pairs seldom exceeded it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from gputailor_agent.catalog import DeviceSpec
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
from gputailor_agent.model.usage import NO_USE
from gputailor_agent.profiles import busy_signal
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case
from gputailor_agent.rules.base import held_against, message, noted
from gputailor_agent.rules.calibrated import SharingBin, calibrated
from gputailor_agent.rules.gates import GATE_MESSAGES
from gputailor_agent.rules.interference import sharing_outlook
from gputailor_agent.rules.jointly import highest
from gputailor_agent.rules.members import by_pod
from gputailor_agent.rules.needs import start_unseen
from gputailor_agent.rules.pricing import MONEY_MESSAGES, monthly, not_counted

_TURNS: Final = (
    "[1, 1 - G + G k]: k take turns at worst, G: share of time active; at most what 95 of 100 "
    "recorded pairs as busy stayed below, if that is more"
)
_LABEL: Final = "nvidia.com/gpu.sharing-strategy"
_PAGE: Final = (
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html"
)
#: Clients of one MPS server on Volta and later (NVIDIA's MPS documentation).
_CLIENTS: Final = 48
_PAIR: Final = 2  # what was recorded

SHARE_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "share.slice": "a {slice} slice would do, {part:ratio} of {model}: needs {need:bytes} of "
    "{usable:bytes} and {width:ratio} of the SMs in all but 2 % of the time it runs",
    "share.try_slice": "try one run on a {slice} slice, {part:ratio} of {model}: needs "
    "{need:bytes} of {usable:bytes} and {width:ratio} of the SMs in all but 2 % of the time it "
    "runs, but may take {high:factor} the time",
    "share.mps": "try {tenants:count} of its {pods:count} pods on one {model} by MPS: each needs "
    "{need:bytes} and {width:ratio} of the SMs in all but 2 % of the time it runs",
    "share.pair": "try 2 of its {pods:count} pods on one {model} by MPS: each needs {need:bytes} "
    "and runs kernels up to {busy:ratio} of the time; how full they make the card is not known",
    "share.pair_within": "2 of its {pods:count} pods could share one {model} by MPS: each needs "
    "{need:bytes} and runs kernels up to {busy:ratio} of the time; of recorded pairs as busy, at "
    "most {risk:ratio} took more than {bound:factor} the time",
    "share.turns": "the notebook runs something {busy:ratio} of the time: {tenants:count} like it "
    "could take turns on one {model} (time-slicing)",
    "share.rest": "money is saved once others take the rest of the card, or fewer cards are kept",
    "share.see_mig_slice": "this cluster has {slice} slices, which would do: see mig_slice",
    "share.too_large": "it is too large for a part of {model}: p98 of its width is {width:ratio}, "
    "of DRAM {dram:ratio}, and it needs {need:bytes}",
    "share.alone": "it is small enough to share {model}, but {model} cannot be cut into slices "
    "that hold it, and it has no second pod to share with",
    "share.busy_notebook": "it runs something {busy:ratio} of the time, or needs too much memory "
    "for another on the same card ({need:bytes})",
    "share.unknown": "unknown: {signals} not known second by second; the GPU Tailor exporter tells "
    "on Hopper and later cards, before that no exporter does",
    "share.preallocates": "unknown: it takes memory in advance ({evidence}), so the memory used is "
    "not the memory needed; the engine's own metrics would tell",
    "share.no_memory": "unknown: the memory peak cannot be read here (averages do not tell it)",
    "share.no_model": "unknown: {model} is not in the catalogue",
    "share.shared": "it has a part of a GPU already",
    "share.several": "each pod holds {gpus:count} GPUs: how many it needs comes first",
    "share.nothing_ran": "nothing ran, so nothing is known of what it needs: see idle",
    "share.risk_rest": "the whole card is cut: pods that need it whole must go elsewhere, and "
    "those on it must end first",
    "share.risk_memory": "there is no wall between memories: one that takes too much makes the "
    "others fail",
    "share.risk_faults": "a fault of one client of MPS can end the others",
    "share.risk_pairs": "of recorded pairs that wanted one card at once as often, {risk:ratio} had "
    "a job that took more than 10 % longer; the slower one took {median:factor} the time in the "
    "median, and in 95 of 100 at most {most:factor}",
    "share.risk_metrics": "dcgm-exporter cannot name the pods that share a GPU by MPS",
    "share.risk_start": "no pod of it was watched from its start: a higher peak while it started "
    "may be missing",
    "share.risk_interactive": "a person works in it: tomorrow may need more than the window saw",
    "share.not_memory": "{slice}: it has {usable:bytes}, and {need:bytes} are needed",
    "share.not_sms": "{slice}: its SMs would be full ({part:ratio} of the card's)",
    "share.not_bandwidth": "{slice}: its bandwidth would be full ({part:ratio} of the card's)",
    "share.not_turns": "taking turns (time-slicing): no isolation at all, for notebooks only",
    "share.not_mps": "MPS: its memory and its faults are shared with the others",
}


@dataclass(frozen=True, slots=True)
class Need:
    """What a part of the card must hold; shares are of the whole card."""

    spec: DeviceSpec
    model: str
    memory_bytes: int
    usable_bytes: int | None
    width: float
    dram: float


def start_risk(case: Case) -> tuple[Message, ...]:
    """Return the risk of a peak that nobody saw."""
    unseen = start_unseen(case.profile, case.context)
    return (message("share.risk_start"),) if unseen else ()


def tenants_of(case: Case, need: Need) -> int:
    """Return how many like it share one card by MPS: by memory, by p95(DRAM), by p98(width)."""
    dram = highest(case.basis.uses, "dram", 0.95)
    usable = need.usable_bytes
    if dram is None or usable is None or need.spec.vendor.lower() != "nvidia":
        return 0
    most = [usable / need.memory_bytes if need.memory_bytes else math.inf]
    most.append(case.limits["mps_dram"] / dram if dram > 0 else math.inf)
    most.append(case.limits["fill"] / need.width if need.width > 0 else math.inf)
    # A quantile of 0.1 is 0.1 of the card: no rounding error may cost a tenant.
    return min(math.floor(min(most) + 1e-9), _CLIENTS)


def expected(busy: Sequence[float]) -> SharingBin | None:
    """Return what recorded pairs did that wanted one card at once as often as these would.

    ``busy``: share of time (0..1) with a kernel, of each. None: busier than any pair.
    """
    return sharing_outlook(busy).expected


def expected_evidence(case: Case, busy: Sequence[float]) -> tuple[Evidence, ...]:
    """Return the figures of those pairs, with their source."""
    outlook, source = sharing_outlook(busy), calibrated().sharing.source
    told = outlook.expected
    rows: tuple[tuple[str, float | None, str, str], ...] = (
        (f"{calibrated().sharing.score} of {len(busy)}", outlook.score, "ratio",
         "share of time in which two or more want the card at once, were they independent"),
        ("recorded pairs with one 10 % slower or more", told.risk if told else None, "ratio",
         f"pairs up to that score and above the one before it; {source}"),
        ("slowdown of recorded pairs, median", told.slowdown_median if told else None, "factor",
         "the slower one of each, likewise"),
        ("slowdown of recorded pairs, 95 of 100", told.slowdown_most if told else None, "factor",
         "the slower one of each, likewise"),
    )  # fmt: skip
    bound = outlook.bound if len(busy) == _PAIR else None
    if bound is not None:
        rows += (
            ("slowdown that pairs exceed too seldom to count", bound.slowdown, "factor",
             (f"least one that of recorded pairs up to a score of {bound.score_most:g} so few "
             f"exceeded ({bound.exceeded} of {bound.pairs}) that the 95 % upper bound of the risk "
             f"is {bound.risk_most:.1%}; {source}")),
        )  # fmt: skip
    return tuple(
        noted(name, value, unit=unit, profile=case.profile, signal=case.basis.busy, formula=formula)
        for name, value, unit, formula in rows
    )


def trial(case: Case, way: str, busy: Sequence[float], said: tuple[Message, ...]) -> Advice:
    """Return the advice to let some share a card, each ``busy`` so much of the time (0..1).

    ``way`` is "mps" or "turns".
    """
    tenants, active = len(busy), max(busy)
    strategy, key = ("mps", "mps") if way == "mps" else ("time-slicing", "timeSlicing")
    labels = {_LABEL: strategy}
    change = changes.select_nodes(case.profile, "share_gpu", labels, {"tenants": tenants})
    code = (
        "# configuration of NVIDIA's device plugin on the nodes that share\n"
        f"version: v1\nsharing:\n  {key}:\n    resources:\n"
        f"    - name: nvidia.com/gpu\n      replicas: {tenants}\n"
    )
    told = expected(busy)
    worst = 1.0 - active + active * tenants
    return Advice(
        severity=Severity.LOW,
        confidence=Confidence.LOW,
        reason="how much those that share disturb each other was not measured here",
        change=msgspec.structs.replace(change, code=code, links=(_PAGE,)),
        saving=not_counted(_TURNS),
        slowdown=Interval(low=1.0, high=max(worst, told.slowdown_most if told else worst)),
        risks=(*_risks(way, told), *start_risk(case)),
        not_chosen=(*said, message("share.not_turns" if way == "mps" else "share.not_mps")),
    )


def _risks(way: str, told: SharingBin | None) -> tuple[Message, ...]:
    keys = ["share.risk_memory"]
    keys += ["share.risk_faults", "share.risk_metrics"] if way == "mps" else []
    keys += [] if way == "mps" else ["share.risk_interactive"]
    risks = [message(key) for key in keys]
    if told is not None:
        pairs = message(
            "share.risk_pairs",
            risk=told.risk,
            median=told.slowdown_median,
            most=told.slowdown_most,
        )
        risks.insert(0, pairs)
    return tuple(risks)


def try_pair(
    case: Case, spec: DeviceSpec, model: str, memory: int, usable: int | None
) -> Finding | None:
    """Two pods of one workload on one card, of which kernel time alone is known; None: no trial.

    Their memory must fit, and recorded pairs as busy must have gone well often enough.
    """
    fits = usable is not None and _PAIR * memory <= usable
    if case.profile.pods_now < _PAIR or not fits or spec.vendor.lower() != "nvidia":
        return None
    busy = _busiest(case)
    told = expected(busy)
    if told is None or told.risk > case.limits["try_risk"]:
        return None
    pods, numbers = case.profile.pods_now, expected_evidence(case, busy)
    outlook = sharing_outlook(busy)
    bound = outlook.bound
    if bound is None or not outlook.advised(case.limits["tolerated_slowdown"]):
        why = message("share.pair", pods=pods, model=model, need=memory, busy=max(busy))
        return case.found(why, trial(case, "mps", busy, ()), numbers)
    why = message(
        "share.pair_within", pods=pods, model=model, need=memory, busy=max(busy),
        risk=calibrated().sharing.risk_goal, bound=bound.slowdown,
    )  # fmt: skip
    advice = replace(
        trial(case, "mps", busy, ()),
        severity=Severity.MEDIUM,
        confidence=Confidence.MEDIUM,
        reason="recorded pairs as busy seldom took longer; these two were not measured together",
        saving=freed(case, 1 - (_PAIR - bound.slowdown) / pods),
        slowdown=Interval(low=1.0, high=bound.slowdown),
    )
    return case.found(why, advice, numbers)


def freed(case: Case, left: float) -> Saving:
    """GPU-hours that others can have: all but the share ``left`` (0..1) of what is taken now."""
    month = monthly(case.profile, case.context)
    known = month.gpu_hours is not None
    return Saving(
        gpu_hours_per_month=month.gpu_hours * (1 - left) if month.gpu_hours is not None else None,
        why=message("share.rest") if known else month.why,
        formula=f"({month.formula}) x (1 - {left:.4g})",
    )


def _busiest(case: Case) -> tuple[float, ...]:
    """Shares of time with a kernel of the two busiest pods; of a single one twice."""
    means = sorted(
        max(use.signals.get(case.basis.busy, NO_USE).mean or 0.0 for use in uses)
        for uses in by_pod(case.basis.uses)
    )
    return tuple((means * _PAIR)[-_PAIR:])


def take_turns(case: Case, model: str, memory: int, usable: int | None) -> Finding | Silence:
    """Notebooks take turns: what counts is the time they are busy, not how full the card is."""
    means = [use.signals[busy_signal(use.signals)].mean or 0.0 for use in case.basis.uses]
    busy = held_against(
        "share of time active", max(means), "<=", case.limits["notebook_busy"], unit="ratio",
        profile=case.profile, signal=case.basis.busy,
        formula=f"active / observed seconds of {case.basis.busy}, busiest GPU",
    )  # fmt: skip
    room = math.floor((usable or 0) / memory) if memory else 0
    tenants = min(room, int(case.limits["notebook_turns"]))
    fits = held_against(
        "notebooks that fit", tenants, ">=", 2, unit="count", profile=case.profile,
        formula="usable memory / memory needed, at most the setting",
    )  # fmt: skip
    if not (busy.passed and fits.passed):
        why = message("share.busy_notebook", busy=busy.value, need=memory)
        return case.silent(SilenceKind.FINE, why, (busy, fits))
    why = message("share.turns", busy=busy.value, tenants=tenants, model=model)
    together = (max(means),) * tenants
    numbers = (busy, fits, *expected_evidence(case, together))
    return case.found(why, trial(case, "turns", together, ()), numbers)
