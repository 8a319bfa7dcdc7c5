"""Share: the work is small enough for a part of its card.

Width is SM activity / kernel activity in each second in which kernels ran. A MIG slice does where
the memory needed (peak x 1.15, x 1.25 after an OOM kill) fits, p98(width) x SMs <= 0.8 x SMs of the
slice and p98(DRAM) <= 0.8 x its share of the bandwidth; the slowdown is the interval of
``smaller_gpu``. It is offered only where this cluster has no such slice yet: those it has are other
devices, and ``mig_slice`` speaks of them. Several pods of one workload may share by MPS where
their memory fits, the sum of p95(DRAM) is at most 0.5 and that of p98(width) at most 0.8: a trial,
for how they disturb each other is not measured. Notebooks take turns (time-slicing).

Where only the time with a kernel is known, two pods of one workload are worth a trial if recorded
pairs as busy went well often enough. That is never called safe: of recorded pairs too many lost a
tenth of their speed, however little they ran (docs/accuracy.md). Where more may be lost
(``tolerated_slowdown``) it is advised as far as recorded pairs bear it out. Without one-second
values nothing else is said. The rest of a card is worth money only once others take it, so
GPU-hours are counted and money is not.
"""

from typing import Final

import msgspec

from gputailor_agent.catalog import MigProfile
from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
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
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case, opened
from gputailor_agent.rules.base import Context, Rule, Threshold, held_against, message, noted
from gputailor_agent.rules.candidates import present, slice_shares
from gputailor_agent.rules.gates import SIZING_THRESHOLDS
from gputailor_agent.rules.jointly import WIDTH, p98, unread
from gputailor_agent.rules.needs import (
    MEMORY_THRESHOLDS,
    active_share,
    needed_bytes,
    present_card,
)
from gputailor_agent.rules.pricing import (
    is_service,
    mig_fraction,
    not_counted,
)
from gputailor_agent.rules.sharing import (
    SHARE_MESSAGES,
    Need,
    expected_evidence,
    freed,
    start_risk,
    take_turns,
    tenants_of,
    trial,
    try_pair,
)
from gputailor_agent.rules.slowdown import HIGH_FORMULA, LOW_FORMULA, smaller_gpu

_ID: Final = "share"
_SHOWN: Final = 3
_MEASURED: Final = (
    "memory, width and bandwidth were measured second by second; whether others take the rest of "
    "the card was not"
)
_PAGE: Final = (
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html"
)

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    *MEMORY_THRESHOLDS,
    Threshold("fill", 0.8, "ratio", "most p98 load of a part's SMs and of its bandwidth"),
    Threshold("mps_dram", 0.5, "ratio", "most sum of p95(DRAM) of those that share by MPS"),
    Threshold("cost_ratio", 0.85, "ratio", "most of the card's cost, slowdown included"),
    Threshold(
        "try_risk",
        0.3,
        "ratio",
        "recorded pairs with a job that took more than 10 % longer, up to which a trial by kernel "
        "time alone is worth it; this project's own default",
    ),
    Threshold(
        "tolerated_slowdown",
        1.12,
        "factor",
        "most time, times that alone, which two that share may take: where recorded pairs seldom "
        "exceeded it, it is advice and no trial; 1.12: a tenth of the speed; own default",
    ),
    Threshold("notebook_busy", 0.25, "ratio", "most active time of a notebook that takes turns"),
    Threshold("notebook_turns", 4, "count", "most notebooks on one GPU"),
)


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a part of the card would do."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    limits = case.limits
    silent = _not_about(case) or _unknown(case)
    if silent is not None:
        return silent
    card, _ = present_card(context, basis)
    if card is None:
        models = ", ".join(profile.device_models) or "the GPU's model"
        return case.silent(SilenceKind.UNKNOWN, message("share.no_model", model=models))
    memory = needed_bytes(profile, card, limits)
    if profile.workload.task_class == TaskClass.NOTEBOOK:
        return take_turns(case, card.name, memory, card.usable_memory_bytes)
    missing = unread(case)
    width, dram = (p98(basis.uses, signal) for signal in (WIDTH, "dram"))
    usable = card.usable_memory_bytes
    if missing or width is None or dram is None:
        why = message("share.unknown", signals=", ".join(missing))
        unknown = case.silent(SilenceKind.UNKNOWN, why, missing=missing)
        return try_pair(case, card.spec, card.name, memory, usable) or unknown
    return _parts(case, Need(card.spec, card.name, memory, usable, width, dram))


def _not_about(case: Case) -> Silence | None:
    profile, uses = case.profile, case.basis.uses
    if any(use.share < 1 or (use.device is not None and use.device.mig_profile) for use in uses):
        return case.silent(SilenceKind.NOT_APPLICABLE, message("share.shared"))
    if profile.gpus_per_pod > 1:
        why = message("share.several", gpus=profile.gpus_per_pod)
        return case.silent(SilenceKind.NOT_APPLICABLE, why)
    if case.basis.use(case.basis.busy).active_seconds == 0:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("share.nothing_ran"))
    return None


def _unknown(case: Case) -> Silence | None:
    profile, workload = case.profile, case.profile.workload
    if workload.preallocates:
        evidence = workload.preallocates_evidence or workload.framework or "detected"
        why = message("share.preallocates", evidence=evidence)
        return case.silent(SilenceKind.UNKNOWN, why)
    # A peak that lacks a device is the peak of the others: it may be too low.
    known = all(use.memory_peak_bytes is not None for use in case.basis.uses)
    if not known or profile.memory_peak_kind == "mean":
        why = message("share.no_memory")
        return case.silent(SilenceKind.UNKNOWN, why, missing=("memory",))
    return None


def _numbers(case: Case, need: Need) -> tuple[Evidence, ...]:
    def number(name: str, value: float | None, unit: str, signal: str, formula: str) -> Evidence:
        return noted(name, value, unit=unit, profile=case.profile, signal=signal, formula=formula)

    most = "of the seconds in which kernels ran, busiest GPU, upper bucket edge"
    return (
        number("memory needed", need.memory_bytes, "bytes", "", "peak with headroom"),
        number("p98 of width", need.width, "ratio", "sm", f"98th percentile of SM / kernel {most}"),
        number("p98 of DRAM", need.dram, "ratio", "dram", f"98th percentile of DRAM {most}"),
        number("SMs needed", None if need.spec.sm_count is None
               else need.width * need.spec.sm_count, "count", "sm", "p98(width) x SMs of the card"),
    )  # fmt: skip


def _parts(case: Case, need: Need) -> Finding | Silence:
    numbers = _numbers(case, need)
    slices = sorted(
        (one for one in need.spec.mig if mig_fraction(need.spec, one.name) < 1),
        key=lambda one: (mig_fraction(need.spec, one.name), one.usable_memory_bytes, one.name),
    )
    fits = [one for one in slices if _why_not(case, need, one) is None]
    here = {one.mig for one in present(case.context) if one.spec.key == need.spec.key}
    ready = next((one for one in fits if one.name in here), None)
    if ready is not None:
        why = message("share.see_mig_slice", slice=ready.name)
        return case.silent(SilenceKind.FINE, why, numbers)
    for one in fits:
        finding = _slice(case, need, one, slices, numbers)
        if finding is not None:
            return finding
    return _mps(case, need, slices, numbers)


def _why_not(case: Case, need: Need, one: MigProfile) -> Message | None:
    compute, bandwidth = slice_shares(need.spec, one)
    fill, usable = case.limits["fill"], one.usable_memory_bytes
    if need.memory_bytes > usable:
        return message("share.not_memory", slice=one.name, usable=usable, need=need.memory_bytes)
    if need.width > fill * compute:
        return message("share.not_sms", slice=one.name, part=compute)
    if need.dram > fill * bandwidth:
        return message("share.not_bandwidth", slice=one.name, part=bandwidth)
    return None


def _said(case: Case, need: Need, slices: list[MigProfile]) -> tuple[Message, ...]:
    against = (_why_not(case, need, one) for one in slices)
    return tuple(why for why in against if why is not None)[-_SHOWN:]


def _slice(
    case: Case,
    need: Need,
    one: MigProfile,
    slices: list[MigProfile],
    numbers: tuple[Evidence, ...],
) -> Finding | None:
    """The finding for a slice that holds the work; None where its slowdown eats the saving."""
    profile = case.profile
    compute, bandwidth = slice_shares(need.spec, one)
    part = mig_fraction(need.spec, one.name)
    interval = smaller_gpu(
        [(case.basis.use("sm"), 1 / compute), (case.basis.use("dram"), 1 / bandwidth)],
        active_share(profile, case.basis),
    )
    longer = Interval(low=1.0, high=1.0) if is_service(profile) else interval
    least = case.limits["cost_ratio"]
    if part * longer.low > least:
        return None
    sure = part * longer.high <= least
    why = message(
        "share.slice" if sure else "share.try_slice",
        slice=one.name,
        part=part,
        model=need.model,
        need=need.memory_bytes,
        usable=one.usable_memory_bytes,
        width=need.width,
        high=interval.high,
    )
    told = _held(case, need, one, part * longer.high)
    others = (message("share.not_mps"), message("share.not_turns"))
    advice = Advice(
        severity=Severity.MEDIUM if sure else Severity.LOW,
        confidence=Confidence.MEDIUM if sure else Confidence.LOW,
        reason=_MEASURED if sure else "it may take so long that nothing is saved",
        change=_cut(profile, need, one),
        saving=freed(case, part * longer.high)
        if sure
        else not_counted(f"{LOW_FORMULA}; {HIGH_FORMULA}"),
        slowdown=interval,
        risks=(message("share.risk_rest"), *start_risk(case)),
        not_chosen=(*_said(case, need, slices), *others),
    )
    return case.found(why, advice, (*numbers, *told))


def _cut(profile: Profile, need: Need, one: MigProfile) -> Change:
    """The pods ask for a slice, and NVIDIA's MIG manager cuts a node's cards into such slices."""
    change = changes.set_gpu_type(profile, need.model, "", need.spec.vendor, one.name)
    return msgspec.structs.replace(
        change,
        code=f"kubectl label node NODE nvidia.com/mig.config=all-{one.name} --overwrite\n",
        links=(_PAGE,),
        undo=f"{change.undo}; label the node nvidia.com/mig.config=all-disabled",
    )


def _held(case: Case, need: Need, one: MigProfile, cost: float) -> tuple[Evidence, ...]:
    compute, bandwidth = slice_shares(need.spec, one)
    fill = case.limits["fill"]
    rows = (
        ("memory needed", need.memory_bytes, one.usable_memory_bytes, "bytes",
         f"usable memory of {one.name}"),
        ("p98 of width", need.width, fill * compute, "ratio",
         f"{fill:g} x SMs of {one.name} / SMs of the card"),
        ("p98 of DRAM", need.dram, fill * bandwidth, "ratio",
         f"{fill:g} x {one.name}'s share of the bandwidth"),
        ("most cost of the present one", cost, case.limits["cost_ratio"], "ratio",
         "part of the card x slowdown of a batch"),
    )  # fmt: skip
    return tuple(
        held_against(name, value, "<=", limit, unit=unit, profile=case.profile, formula=formula)
        for name, value, limit, unit, formula in rows
    )


def _mps(
    case: Case, need: Need, slices: list[MigProfile], numbers: tuple[Evidence, ...]
) -> Finding | Silence:
    """Pods of one workload on one card: one tenant, so that MPS is safe enough for a trial."""
    fits = tenants_of(case, need)
    said = _said(case, need, slices)
    if fits < 2:  # noqa: PLR2004 - fewer than two share nothing
        why = message(
            "share.too_large",
            model=need.model,
            width=need.width,
            dram=need.dram,
            need=need.memory_bytes,
        )
        return case.silent(SilenceKind.FINE, why, numbers, not_chosen=said)
    pods = case.profile.pods_now
    tenants = min(fits, pods)
    if tenants < 2:  # noqa: PLR2004 - fewer than two share nothing
        why = message("share.alone", model=need.model)
        return case.silent(SilenceKind.FINE, why, numbers, not_chosen=said)
    together = (active_share(case.profile, case.basis),) * tenants
    return case.found(
        message(
            "share.mps",
            tenants=tenants,
            pods=pods,
            model=need.model,
            need=need.memory_bytes,
            width=need.width,
        ),
        trial(case, "mps", together, said),
        (*numbers, noted("pods now", pods, unit="count", profile=case.profile,
                         formula="pods that hold devices at the window's end"),
         *expected_evidence(case, together)),
    )  # fmt: skip


RULE: Final = Rule(
    id=_ID,
    title="Share a GPU",
    summary="A MIG slice, or a place beside others on one card, would do.",
    signals=("sm", "kernel", "dram"),
    thresholds=_THRESHOLDS,
    messages=SHARE_MESSAGES,
    evaluate=evaluate,
    order=35,
)
