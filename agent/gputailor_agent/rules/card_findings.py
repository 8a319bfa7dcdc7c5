"""What is said of a smaller card or slice: numbers, risks, saving, and the words.

``smaller_gpu`` and ``mig_slice`` say the same in their own names, hence messages by the rule's id.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Message,
    Saving,
    Scalar,
    Severity,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, found
from gputailor_agent.rules.base import (
    Context,
    Limits,
    held_against,
    message,
    noted,
)
from gputailor_agent.rules.candidates import Candidate, slice_shares
from gputailor_agent.rules.fitting import FITTING_MESSAGES, Fit, Need, unconfirmed
from gputailor_agent.rules.gates import GATE_MESSAGES, Basis
from gputailor_agent.rules.jointly import WIDTH, p98
from gputailor_agent.rules.margins import margin_words
from gputailor_agent.rules.needs import oom_seen, start_unseen
from gputailor_agent.rules.pricing import MONEY_MESSAGES, is_service, monthly, not_counted
from gputailor_agent.rules.slowdown import HIGH_FORMULA, LOW_FORMULA
from gputailor_agent.rules.stated_memory import StatedMemory, stated_evidence, stated_memory

SHOWN: Final = 3
_MIG_PAGE: Final = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html"
_HALF: Final = 0.5

_WORDS: Final = {
    "fits": "{candidate} would hold it: needs {need:bytes} of {usable:bytes}, costs "
    "{cost_ratio:ratio} of {now} with the slowdown ({low:factor} to {high:factor}) included",
    "try_price": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "the work may take {low:factor} to {high:factor} the time, and towards the upper end it saves "
    "nothing",
    "try_slow": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "it saves, but the work may take {high:factor} the time",
    "try_activity": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "how full its kernels make the card is not known, so the work may take {low:factor} to "
    "{high:factor} the time",
    "try_bfloat16": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "it saves, but it has no bfloat16",
    "try_links": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "it saves, but its GPUs have slower links between them or none",
    "try_memory": "try one run on {candidate}: needs {need:bytes} of {usable:bytes}; "
    "only averages of the memory used are known",
    "preallocates": "unknown: it takes memory in advance ({evidence}), so the memory "
    "used is not the memory needed; the engine's own metrics would tell",
    "no_memory": "unknown: the memory used cannot be read here",
    "no_model": "unknown: {model} is not in the catalogue",
    "shared": "it shares its GPU with others already",
    "nothing_ran": "nothing ran, so nothing is known of what it needs: see idle",
    "fp64": "unknown: it computes in FP64, for which the catalogue has no figures",
    "risk_sampled": "the memory peak is the highest of samples; a short higher one may "
    "have been missed",
    "risk_mean": "only averages of the memory used are known",
    "risk_start": "no pod of it was watched from its start: where the exporter came "
    "later, a higher peak while it started may be missing",
    "risk_architecture": "the architecture differs ({now} to {then}): the image must "
    "have kernels for it, and number formats of the present card may be missing",
    "risk_unknown": "not measured, and therefore taken as fully used in the upper end: {signals}",
    "risk_video": "it uses the video engines; the catalogue does not tell whether "
    "{candidate} has as many",
    "risk_interactive": "a person works in it: tomorrow may need more than the window saw",
    "risk_estimate": "a price is an estimate (the median over providers)",
    "risk_stated": "by arithmetic {model} needs {least:bytes} at least, more than {candidate} has: "
    "the peak that was seen may not be that of all runs",
    "risk_width": "how much of the card its kernels fill is not known second by second, or is more "
    "than {fill:ratio} of the slice at times: then it takes as long as the upper end says",
}


def card_messages(rule: str, own: dict[str, str]) -> dict[str, str]:
    """Return the messages of one of the rules; ``own``: by their whole key."""
    words = {f"{rule}.{name}": text for name, text in _WORDS.items()}
    return {**GATE_MESSAGES, **MONEY_MESSAGES, **FITTING_MESSAGES, **words, **own}


@dataclass(frozen=True)
class CardCase:
    """Everything about one workload that the answer is made of; ``rule``: who speaks."""

    rule: str
    profile: Profile
    context: Context
    basis: Basis
    need: Need
    limits: Limits

    @cached_property
    def stated(self) -> StatedMemory | None:
        """What the model that the arguments name needs by arithmetic."""
        return stated_memory(self.profile, self.context)

    def say(self, name: str, **params: Scalar) -> Message:
        """Return a message in the rule's own name."""
        return message(f"{self.rule}.{name}", **params)


def memory_evidence(profile: Profile, need: Need | None, limits: Limits) -> tuple[Evidence, ...]:
    """Return what is known of the memory needed; without ``need`` the peak alone."""
    peak = noted(
        "memory peak",
        profile.memory_peak_bytes,
        unit="bytes",
        profile=profile,
        formula=f"highest on any one device, warm-up included ({profile.memory_peak_kind})",
    )
    if need is None:
        return (peak,)
    killed = oom_seen(profile, need.present, limits)
    factor = limits["memory_headroom"]
    if killed:
        factor = max(factor, limits["oom_headroom"])
    return (
        peak,
        noted("out of memory seen", killed, profile=profile,
              formula="a pod was OOM-killed, or a failed run peaked at 95 % of the memory or more"),
        noted("memory needed", need.memory_bytes, unit="bytes", profile=profile,
              formula=f"peak x {factor:g}"),
        noted("share of time active", need.active_share, unit="ratio", profile=profile,
              formula="mean of the busiest GPU of each run"),
    )  # fmt: skip


def _compared(profile: Profile, need: Need, best: Fit, limits: Limits) -> tuple[Evidence, ...]:
    """The numbers of the chosen candidate."""
    one, interval = best.candidate, best.slowdown
    items = [
        held_against("memory needed", need.memory_bytes, "<=", one.usable_memory_bytes or 0,
                     unit="bytes", profile=profile, formula=f"usable memory of {one.name}"),
        noted("price now", need.price, unit=f"{need.currency.lower()}_per_hour", profile=profile,
              formula="own price, else list price of the node's instance type, per GPU"),
        noted(f"price of {one.name}", one.price, unit=f"{one.currency.lower()}_per_hour",
              profile=profile, formula="likewise; of a MIG slice, the card's price by its share"),
        *(noted(f"rho of {name}", rho, unit="factor", profile=profile,
                formula="figure of the present card / figure of the candidate")
          for name, rho in best.rhos),
    ]  # fmt: skip
    if interval is not None:
        wider = ""
        if best.margins is not None:
            wider = f"; {margin_words(best.margins, 'rho at the high end')}"
        items += [
            noted("slowdown at least", interval.low, unit="factor", profile=profile,
                  formula=LOW_FORMULA + wider),
            noted("slowdown at most", interval.high, unit="factor", profile=profile,
                  formula=HIGH_FORMULA + wider),
        ]  # fmt: skip
    for name, cost in (("least cost", best.cost_low), ("most cost", best.cost_high)):
        items.append(
            held_against(f"{name} of the present one", cost, "<=", limits["cost_ratio"],
                         unit="ratio", profile=profile,
                         formula="price_c x max(1, slowdown) / price")
        )  # fmt: skip
    if need.latency:
        items.append(
            held_against("p99 load of the busiest resource", best.load, "<=",
                         limits["latency_load"], unit="ratio", profile=profile,
                         formula="p99(u) P_now / P_c, upper bucket edge, busiest device")
        )  # fmt: skip
    return tuple(items)


def _risks(case: CardCase, best: Fit) -> tuple[Message, ...]:
    profile, basis, need, one = case.profile, case.basis, case.need, best.candidate
    risks = []
    if profile.memory_peak_kind == "sampled":
        risks.append(case.say("risk_sampled"))
    if profile.memory_peak_kind == "mean":
        risks.append(case.say("risk_mean"))
    if start_unseen(profile, case.context):
        risks.append(case.say("risk_start"))
    if one.compute_capability != need.present.compute_capability:
        now, then = need.present.spec.compute_capability, one.spec.compute_capability
        risks.append(case.say("risk_architecture", now=now, then=then))
    unknown = [resource.signal for resource in need.resources if resource.use is None]
    if unknown:
        risks.append(case.say("risk_unknown", signals=", ".join(unknown)))
    if any(basis.use(name).active_seconds > 0 for name in ("encoder", "decoder")):
        risks.append(case.say("risk_video", candidate=one.name))
    if profile.workload.task_class == TaskClass.NOTEBOOK:
        risks.append(case.say("risk_interactive"))
    if one.estimate:
        risks.append(case.say("risk_estimate"))
    if case.stated is not None and not _holds_stated(case, one):
        least = round(case.stated.bytes.low)
        told = case.say("risk_stated", model=case.stated.model, least=least, candidate=one.name)
        risks.append(told)
    if not all(burst.passed for burst in _bursts(case, one)):
        risks.append(case.say("risk_width", fill=case.limits["fill"]))
    return tuple(risks)


def _holds_stated(case: CardCase, one: Candidate) -> bool:
    """Whether it holds what the stated model needs at least by arithmetic; true of none stated."""
    return case.stated is None or case.stated.bytes.low <= (one.usable_memory_bytes or 0)


def _bursts(case: CardCase, one: Candidate) -> tuple[Evidence, ...]:
    """How full kernels of the whole card would make a slice of it, by one-second values.

    Unknown, and not passed, where there are none; nothing for anything but a slice of the present
    card. The interval holds without them: they tell how near its upper end the truth lies.
    """
    now = case.need.present
    slice_of = next((known for known in one.spec.mig if known.name == one.mig), None)
    if slice_of is None or now.mig or now.spec.key != one.spec.key:
        return ()
    shares = zip((WIDTH, "dram"), slice_shares(one.spec, slice_of), strict=True)
    # Without kernels nobody knows which seconds to look at.
    told = case.basis.use("kernel").observed_seconds > 0
    return tuple(
        held_against(f"p98 of {signal}",
                     p98(case.basis.uses, signal) if told else None, "<=",
                     case.limits["fill"] * share, unit="ratio", profile=case.profile,
                     formula=f"{case.limits['fill']:g} x the slice's share, while kernels ran")
        for signal, share in shares
    )  # fmt: skip


def _not_chosen(best: Fit, fits: list[Fit], far: tuple[Message, ...]) -> tuple[Message, ...]:
    others = [one for one in fits if one.candidate.name != best.candidate.name]
    said = [
        one.why
        or message("fitting.chosen_is_better", model=one.candidate.name, cost_ratio=one.cost_high)
        for one in others[:SHOWN]
    ]
    return (*said, *far)


def _change(profile: Profile, one: Candidate) -> Change:
    change = changes.set_gpu_type(profile, one.name, one.product, one.spec.vendor, one.mig)
    return msgspec.structs.replace(change, links=(_MIG_PAGE,)) if one.mig else change


def card_finding(
    case: CardCase, best: Fit, fits: list[Fit], far: tuple[Message, ...], *, sure: bool
) -> Finding:
    """Return the finding for one card or slice.

    ``sure``: the upper end passes and the saving counts; else one run would tell.
    """
    profile, need, interval = case.profile, case.need, best.slowdown
    saving, severity = not_counted(f"{LOW_FORMULA}; {HIGH_FORMULA}"), Severity.LOW
    if sure:
        share, saving = _saving(case, best)
        severity = Severity.HIGH if share >= _HALF else Severity.MEDIUM
    confidence, reason = Confidence.LOW, "one run would tell: see the message"
    if sure:
        confidence, reason = _confidence(case, best.candidate)
    advice = Advice(
        severity=severity,
        confidence=confidence,
        reason=reason,
        change=_change(profile, best.candidate),
        saving=saving,
        slowdown=interval,
        risks=_risks(case, best),
        not_chosen=_not_chosen(best, fits, far),
    )
    evidence = (
        *case.basis.evidence,
        *memory_evidence(profile, need, case.limits),
        *stated_evidence(profile, case.stated),
        *_compared(profile, need, best, case.limits),
        *_bursts(case, best.candidate),
    )
    why = _say(case, "fits" if sure else f"try_{best.doubt or 'memory'}", best)
    return found(case.rule, profile, why, advice, evidence)


def _saving(case: CardCase, best: Fit) -> tuple[float, Saving]:
    """Share of the cost saved, and the saving.

    A service runs all month however fast it is; a batch pays for its slowdown.
    """
    one, need = best.candidate, case.need
    longer = 1.0
    if best.slowdown is not None and not is_service(case.profile):
        longer = best.slowdown.high
    share = 1.0 - (one.price or 0.0) * longer / need.price
    part = max(0.0, 1.0 - one.fraction * longer / need.present.fraction)
    return share, monthly(case.profile, case.context).saving(share, gpu_share=part)


def _say(case: CardCase, name: str, best: Fit) -> Message:
    one, interval, need = best.candidate, best.slowdown, case.need
    return case.say(
        name,
        candidate=one.name,
        now=need.present.name,
        need=need.memory_bytes,
        usable=one.usable_memory_bytes,
        cost_ratio=best.cost_high,
        low=interval.low if interval is not None else None,
        high=interval.high if interval is not None else None,
    )


def _confidence(case: CardCase, one: Candidate) -> tuple[Confidence, str]:
    """How sure, and why: high only with a true peak, every resource measured, and real prices.

    What a person does in a notebook tomorrow no window tells, nor how one that was not watched from
    its start began.
    """
    profile = case.profile
    doubts = {
        "the peak of memory is of samples": profile.memory_peak_kind != "peak",
        "its start was not watched": start_unseen(profile, case.context),
        "not every resource was measured": any(r.use is None for r in case.need.resources),
        "a price is an estimate": one.estimate,
        "a figure of the catalogue was not confirmed": unconfirmed(case.need, one),
        "a person's work differs from day to day": profile.workload.task_class
        == TaskClass.NOTEBOOK,
        "its bursts fill more of the slice, or are not known": not all(
            burst.passed for burst in _bursts(case, one)
        ),
        "by arithmetic its model needs more memory": not _holds_stated(case, one),
    }
    told = [doubt for doubt, holds in doubts.items() if holds]
    if told:
        return Confidence.MEDIUM, "; ".join(told)
    return Confidence.HIGH, "a true peak, every resource measured, and prices of a list"
