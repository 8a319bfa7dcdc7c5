"""Link-bound: PCIe or NVLink is full for a good part of the time in which anything runs.

A second counts where the link carried at least 0.6 of what it can (the exporter's condition
``link_saturated``); a fifth of the active time must. Active time is taken as the most it can have
been, so the share is never overstated. Which link it was is told by the bytes of each. A link that
runs below its width or generation is not seen here: profiles do not carry it. How much faster it
gets is not measured, so no saving is counted.
"""

from typing import Final

import msgspec

from gputailor_agent.model.judgement import (
    Change,
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
from gputailor_agent.rules.advising import Advice, Case, edit_code, opened, running_seconds
from gputailor_agent.rules.base import Context, Rule, Threshold, held_against, message, noted
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS
from gputailor_agent.rules.snippets import snippet

_ID: Final = "link_bound"
_CONDITION: Final = "link_saturated"
_FORMULA: Final = "1 - seconds with a full link / GPU-seconds held; at most 1"
_HALF: Final = 0.5
_LINKS: Final = ("pcie", "nvlink")
_TOPOLOGY: Final = "https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/"

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "link_bound.pcie": "PCIe is full for {share:ratio} of the active time: move less between CPU "
    "and GPU, and move it while the GPU computes",
    "link_bound.nvlink": "NVLink is full for {share:ratio} of the active time: exchange less often "
    "or in a smaller format",
    "link_bound.some": "a link of the GPU is full for {share:ratio} of the active time; which one "
    "is not known",
    "link_bound.unquantified": "how much faster it gets is known only after one run",
    "link_bound.fine": "its links are full for {share:ratio} of the active time",
    "link_bound.nothing_ran": "nothing ran: see idle",
    "link_bound.unknown": "unknown: nobody counted the seconds in which a link was full; the GPU "
    "Tailor exporter does where the driver tells of the link's bytes",
    "link_bound.risk_overlap": "transfers beside computation need memory for two batches",
    "link_bound.risk_compression": "gradients in a smaller format may change the result",
    "link_bound.not_faster_card": "a faster GPU: it would wait for the same link",
    "link_bound.not_spread": "more GPUs: they would exchange more",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a link is the wall."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    running = running_seconds(basis)
    if basis.use(basis.busy).active_seconds == 0 or not running:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("link_bound.nothing_ran"))
    return _judged(case, running)


def _judged(case: Case, running: float) -> Finding | Silence:
    total, profile = case.basis.total, case.profile
    full = total.conditions.get(_CONDITION)
    share = held_against(
        "active time with a full link",
        None if full is None else min(1.0, full / running),
        ">=",
        case.limits["full_share"],
        unit="ratio",
        profile=profile,
        formula="seconds with a link at 0.6 or more / most seconds in which anything ran",
    )
    if share.passed:
        return _finding(case, share, full or 0.0)
    counted = sum(use.allocated_seconds for use in case.basis.uses if _CONDITION in use.conditions)
    if counted < case.limits["coverage"] * total.allocated_seconds:
        why = message("link_bound.unknown")
        return case.silent(SilenceKind.UNKNOWN, why, (share,), missing=(_CONDITION,))
    return case.silent(SilenceKind.FINE, message("link_bound.fine", share=share.value), (share,))


def _link(case: Case) -> str:
    """The link that carried more; 'some' where that is not told or both carried as much."""
    sent = case.basis.total.link_bytes
    by = {name: sum(n for key, n in sent.items() if key.startswith(f"{name}/")) for name in _LINKS}
    if by["pcie"] == by["nvlink"]:
        return "some"
    return max(_LINKS, key=lambda name: by[name])


def _finding(case: Case, share: Evidence, full: float) -> Finding:
    profile, link = case.profile, _link(case)
    held = case.basis.total.allocated_seconds
    sent = sum(case.basis.total.link_bytes.values())
    risk = "link_bound.risk_compression" if link == "nvlink" else "link_bound.risk_overlap"
    known = link != "some"
    value = share.value
    return case.found(
        message(f"link_bound.{link}", share=value),
        Advice(
            severity=Severity.MEDIUM if isinstance(value, float) and value >= _HALF
            else Severity.LOW,
            confidence=Confidence.MEDIUM if known else Confidence.LOW,
            reason="the link was watched second by second; whether the program could wait less "
            "was not" if known else "which link was full is not known",
            change=_change(profile, link),
            saving=Saving(why=message("link_bound.unquantified"), formula=_FORMULA),
            slowdown=Interval(low=max(0.0, 1.0 - full / held), high=1.0),
            risks=(message(risk),),
            not_chosen=_not_chosen(profile),
        ),
        (
            share,
            noted("bytes over its links", sent if case.basis.total.link_bytes else None,
                  unit="bytes", profile=profile, formula="PCIe and NVLink, both directions"),
        ),
    )  # fmt: skip


def _change(profile: Profile, link: str) -> Change:
    if link != "nvlink":
        change = edit_code(profile, snippet("transfers", profile.workload))
        return msgspec.structs.replace(change, links=(*change.links, _TOPOLOGY))
    return edit_code(profile, snippet("exchange", profile.workload))


def _not_chosen(profile: Profile) -> tuple[Message, ...]:
    faster = message("link_bound.not_faster_card")
    return (faster, message("link_bound.not_spread")) if profile.gpus_per_pod > 1 else (faster,)


RULE: Final = Rule(
    id=_ID,
    title="Link-bound",
    summary="PCIe or NVLink is full while the GPU works.",
    signals=("kernel",),
    thresholds=(
        *SIZING_THRESHOLDS,
        Threshold("full_share", 0.2, "ratio", "active time with a full link"),
    ),
    messages=_MESSAGES,
    evaluate=evaluate,
    order=55,
)
