"""Another vendor: a note that accelerators of other makers would hold the work. Off by default.

Supply and export limits may leave no choice; otherwise this is seldom worth it, so it says nothing
until somebody allows it (setting ``allowed``: 1). Asked are memory that is known as needed (a peak,
not what is taken in advance), a build of the workload's framework or engine for that maker
(``vendors.yaml``), and figures of memory, bandwidth and arithmetic in the catalogue. The slowdown
is an interval by those figures alone: how well the software uses them is not known, so the
confidence is low, and no saving is counted.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import msgspec
import yaml

from gputailor_agent.catalog import DeviceSpec
from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import (
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.model.usage import NO_USE
from gputailor_agent.rules.advising import Advice, Case, edit_code, opened
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
    silence,
)
from gputailor_agent.rules.candidates import Candidate
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS, never_held
from gputailor_agent.rules.needs import (
    MEMORY_THRESHOLDS,
    active_share,
    needed_bytes,
    present_card,
)
from gputailor_agent.rules.pricing import MONEY_MESSAGES, not_counted, price_of
from gputailor_agent.rules.slowdown import HIGH_FORMULA, smaller_gpu
from gputailor_agent.rules.snippets import Lines, Snippet, family

_ID: Final = "other_vendor"
_SHOWN: Final = 3

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    *MEMORY_THRESHOLDS,
    Threshold("allowed", 0, "count", "1: other vendors may be named; 0: never"),
    Threshold("slowdown_most", 1.5, "factor", "most that the work may take by the cards' figures"),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "other_vendor.note": "{models} of {vendor} would hold it ({need:bytes} needed), and {software} "
    "is built for that: worth a trial where supply or rules ask for it",
    "other_vendor.not_allowed": "not looked at: other vendors are named only where that is allowed "
    "(setting other_vendor.allowed: 1)",
    "other_vendor.nothing_ran": "nothing ran: see idle",
    "other_vendor.preallocates": "unknown: it takes memory in advance ({evidence}), so the memory "
    "used is not the memory needed",
    "other_vendor.no_memory": "unknown: the memory used cannot be read here",
    "other_vendor.no_model": "unknown: {model} is not in the catalogue",
    "other_vendor.no_software": "unknown: which framework it runs is not known, so neither is who "
    "else has a build of it",
    "other_vendor.none": "no card of another vendor whose figures are known holds it, has a build "
    "of {software} and takes at most {most:factor} the time",
    "other_vendor.risk_kernels": "kernels of its own (CUDA, Triton, inline PTX) must be ported",
    "other_vendor.risk_software": "drivers, libraries and monitoring are others; not every "
    "operator and number format is there",
    "other_vendor.risk_result": "results differ in the last digits: compare one run",
    "other_vendor.no_price": "what {model} costs here is not known",
    "other_vendor.not_now": "moving everything: one run first",
    "other_vendor.also": "{model} of {vendor} holds it as well, at up to {high:factor} the time",
}


@cache
def vendor_table() -> dict[str, dict[str, Lines]]:
    """The whole table: vendor -> framework or engine -> lines."""
    text = resources.files(__package__).joinpath("vendors.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), dict[str, dict[str, Lines]])


def build_for(workload: Workload, vendor: str) -> tuple[str, Lines] | None:
    """Framework or engine of the workload, and its lines, if the vendor has a build of it."""
    known = vendor_table().get(vendor, {})
    for name in (workload.framework, family(workload)):
        if name in known:
            return name, known[name]
    return None


@dataclass(frozen=True, slots=True)
class _Other:
    """One card of another vendor that would do; ``high``: most times the present run time."""

    spec: DeviceSpec
    slowdown: Interval


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Name cards of other vendors that would hold the workload, where that is allowed."""
    waits = never_held(_ID, profile)
    if waits is not None:
        return waits
    if RULE.limits(context)["allowed"] < 1:
        off = message("other_vendor.not_allowed")
        return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, off)
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    if basis.use(basis.busy).active_seconds == 0:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("other_vendor.nothing_ran"))
    now, _ = present_card(context, basis)
    why = _unknown(profile, now)
    if why is not None or now is None:
        why = why or message("other_vendor.no_model", model="")
        missing = ("memory",) if why.key == "other_vendor.no_memory" else ()
        return case.silent(SilenceKind.UNKNOWN, why, missing=missing)
    return _judged(case, now)


def _unknown(profile: Profile, now: Candidate | None) -> Message | None:
    workload = profile.workload
    if now is None:
        models = ", ".join(profile.device_models) or "the GPU's model"
        return message("other_vendor.no_model", model=models)
    if workload.preallocates:
        evidence = workload.preallocates_evidence or workload.framework or "detected"
        return message("other_vendor.preallocates", evidence=evidence)
    if profile.memory_peak_bytes is None:
        return message("other_vendor.no_memory")
    known = any(build_for(workload, vendor) for vendor in vendor_table())
    return None if known else message("other_vendor.no_software")


def _judged(case: Case, now: Candidate) -> Finding | Silence:
    need = needed_bytes(case.profile, now, case.limits)
    active = active_share(case.profile, case.basis)
    most = case.limits["slowdown_most"]
    others = [
        _Other(spec, slowdown)
        for spec in case.context.catalogue.devices
        if spec.vendor != now.spec.vendor
        and build_for(case.profile.workload, spec.vendor) is not None
        and (spec.usable_memory_bytes or 0) >= need
        and (slowdown := _slowdown(now, spec, active)) is not None
        and slowdown.high <= most
    ]
    others.sort(key=_smallest_first)
    needed = noted("memory needed", need, unit="bytes", profile=case.profile,
                   formula="peak x headroom (more after an out-of-memory kill)")  # fmt: skip
    if not others:
        software = family(case.profile.workload) or case.profile.workload.framework
        why = message("other_vendor.none", software=software, most=most)
        return case.silent(SilenceKind.FINE, why, (needed,))
    return _finding(case, others, needed)


def _smallest_first(one: _Other) -> tuple[int, float, str]:
    return one.spec.usable_memory_bytes or 0, one.slowdown.high, one.spec.key


def _slowdown(now: Candidate, then: DeviceSpec, active: float) -> Interval | None:
    """By bandwidth and arithmetic of the cards; None where a figure is missing."""
    arithmetic = (now.tensor_flops, then.fp16_tensor_flops)
    if now.tensor_flops is None:
        arithmetic = (now.fp32_flops, then.fp32_flops)
    rhos = []
    for mine, other in (arithmetic, (now.bandwidth, then.bandwidth_bytes_per_second)):
        if not mine or not other:
            return None
        rhos.append(mine / other)
    return smaller_gpu([(NO_USE, rho) for rho in rhos], active)


def _finding(case: Case, others: list[_Other], needed: Evidence) -> Finding:
    first = others[0]
    vendor = first.spec.vendor
    same = [one for one in others if one.spec.vendor == vendor][:_SHOWN]
    built = build_for(case.profile.workload, vendor)
    assert built is not None
    software, lines = built
    names = ", ".join(one.spec.key for one in same)
    worst = max(one.slowdown.high for one in same)
    bound = held_against(
        "most time", worst, "<=", case.limits["slowdown_most"], unit="factor",
        profile=case.profile, formula=f"{HIGH_FORMULA}; by the cards' figures alone",
    )  # fmt: skip
    why = message(
        "other_vendor.note", models=names, vendor=vendor, need=needed.value, software=software
    )
    advice = Advice(
        severity=Severity.INFO,
        confidence=Confidence.LOW,
        reason="figures of cards are compared; how well the software uses them is not known",
        change=edit_code(case.profile, Snippet(software, lines.code, (lines.link,))),
        saving=not_counted("price and time on another vendor's card are known after one run"),
        slowdown=Interval(low=1.0, high=worst),
        risks=(
            message("other_vendor.risk_kernels"),
            message("other_vendor.risk_software"),
            message("other_vendor.risk_result"),
            *_unpriced(case, same),
        ),
        not_chosen=(message("other_vendor.not_now"), *_elsewhere(others, vendor)),
    )
    return case.found(why, advice, (needed, bound))


def _unpriced(case: Case, same: list[_Other]) -> tuple[Message, ...]:
    names = [one.spec.key for one in same if price_of(case.context, one.spec, None) is None]
    return (message("other_vendor.no_price", model=", ".join(names)),) if names else ()


def _elsewhere(others: list[_Other], vendor: str) -> tuple[Message, ...]:
    """The first card of each further vendor."""
    found: dict[str, _Other] = {}
    for one in others:
        if one.spec.vendor != vendor:
            found.setdefault(one.spec.vendor, one)
    return tuple(
        message("other_vendor.also", model=one.spec.key, vendor=name, high=one.slowdown.high)
        for name, one in sorted(found.items())
    )[:_SHOWN]


RULE: Final = Rule(
    id=_ID,
    title="Another vendor",
    summary="Cards of other makers would hold the work; said only where that is allowed.",
    signals=("kernel",),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=95,
)
