"""Several on one card: what rule ``share`` asks of them, and the trial it proposes.

MPS for pods of one workload (one tenant), time-slicing for notebooks. How much those that share
disturb each other is not measured here, so both are trials without a saving.
"""

import math
from dataclasses import dataclass
from typing import Final

import msgspec

from gputailor_agent.catalog import DeviceSpec
from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Interval,
    Message,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.profiles import busy_signal
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case
from gputailor_agent.rules.base import held_against, message
from gputailor_agent.rules.gates import GATE_MESSAGES
from gputailor_agent.rules.jointly import highest
from gputailor_agent.rules.needs import start_unseen
from gputailor_agent.rules.pricing import MONEY_MESSAGES, not_counted

_TURNS: Final = "[1, 1 - G + G k]: k take turns at worst, G: share of time active"
_LABEL: Final = "nvidia.com/gpu.sharing-strategy"
_PAGE: Final = (
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html"
)
#: Clients of one MPS server on Volta and later (NVIDIA's MPS documentation).
_CLIENTS: Final = 48

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


def trial(case: Case, way: str, tenants: int, active: float, said: tuple[Message, ...]) -> Advice:
    """Return the advice to let ``tenants`` share a card: ``way`` is "mps" or "turns"."""
    strategy, key = ("mps", "mps") if way == "mps" else ("time-slicing", "timeSlicing")
    labels = {_LABEL: strategy}
    change = changes.select_nodes(case.profile, "share_gpu", labels, {"tenants": tenants})
    code = (
        "# configuration of NVIDIA's device plugin on the nodes that share\n"
        f"version: v1\nsharing:\n  {key}:\n    resources:\n"
        f"    - name: nvidia.com/gpu\n      replicas: {tenants}\n"
    )
    risks = [message("share.risk_memory")]
    if way == "mps":
        risks += [message("share.risk_faults"), message("share.risk_metrics")]
        other = (message("share.not_turns"),)
    else:
        risks.append(message("share.risk_interactive"))
        other = (message("share.not_mps"),)
    return Advice(
        severity=Severity.LOW,
        confidence=Confidence.LOW,
        reason="how much those that share disturb each other was not measured",
        change=msgspec.structs.replace(change, code=code, links=(_PAGE,)),
        saving=not_counted(_TURNS),
        slowdown=Interval(low=1.0, high=1.0 - active + active * tenants),
        risks=(*risks, *start_risk(case)),
        not_chosen=(*said, *other),
    )


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
    return case.found(why, trial(case, "turns", tenants, max(means), ()), (busy, fits))
