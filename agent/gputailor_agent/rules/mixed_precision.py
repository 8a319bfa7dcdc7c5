"""Mixed precision: the card computes in FP32 while its tensor cores do nothing.

A second counts where SM >= 0.40, tensor < 0.05, FP32 >= 0.20 and FP64 < 0.05 all held in it (the
exporter's condition ``amp_candidate``; means cannot show that). Needed: the card has tensor cores
by the catalogue (a GTX 16xx has none), at least 30 minutes of such seconds (the busiest GPU of each
run), a fifth of the time held, a mean of the tensor cores below 0.05 (TF32 would show there), and a
program that does not wait for its input. Time not observed counts as time without them. CPU
and I/O that nobody told of leave a doubt: then the confidence is low; so it is where all this held
for less than half of the time. Vendors and papers claim 1.5 to 3 times the speed; of recorded jobs
measured both ways about as many got slower as faster (docs/accuracy.md). So the finding asks for
one run, states the least and the most of those jobs, and counts no saving.
"""

from collections import defaultdict
from typing import Final

from gputailor_agent.catalog import DeviceSpec
from gputailor_agent.model.inventory import TaskClass
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
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.rules.advising import Advice, Case, edit_code, opened
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
)
from gputailor_agent.rules.calibrated import calibrated
from gputailor_agent.rules.feeding import FEEDING_THRESHOLDS, Feeding, feeding
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS, steady_mean
from gputailor_agent.rules.pricing import spec_of
from gputailor_agent.rules.snippets import family, snippet

_ID: Final = "mixed_precision"
_CONDITION: Final = "amp_candidate"
_SIGNALS: Final = ("sm", "tensor", "fp32", "fp64")
_MINUTE: Final = 60.0
_HALF: Final = 0.5
#: bfloat16 and TF32 need compute capability 8.0 (CUDA C++ Programming Guide).
_AMPERE: Final = 8
_SPEEDS: Final = calibrated().mixed_precision
_LEAST_SPEED: Final = 0.1  # a setting of 0 must not divide
_FACTOR: Final = (
    "1 - p + p / speed-up, p: share of the time held; speed-up: the most and the least of "
    f"{_SPEEDS.cases} {_SPEEDS.source}"
)

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    Threshold("least_minutes", 30, "minutes", "least time in which all conditions held"),
    Threshold(
        "least_share",
        0.2,
        "ratio",
        "least share of the time held in which they did; this project's own default",
    ),
    Threshold("tensor_below", 0.05, "ratio", "mean tensor activity from which they are in use"),
    Threshold(
        "speed_up_low",
        _SPEEDS.least,
        "factor",
        "speed-up to reckon with, lower end: the least of recorded jobs (docs/accuracy.md)",
    ),
    Threshold(
        "speed_up_high", _SPEEDS.most, "factor", "likewise, upper end: the most of recorded jobs"
    ),
    *FEEDING_THRESHOLDS,
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "mixed_precision.candidate": "for {candidate:seconds} ({share:ratio} of the time held) it "
    "computed in FP32 while the tensor cores of {model} did nothing: try mixed precision "
    "({dtype}) in one run",
    "mixed_precision.unquantified": "how much faster it gets is known only after one run: of "
    "{cases:count} recorded jobs of all kinds the speed went to {low:factor} to {high:factor} of "
    "what it was, {median:factor} in the median",
    "mixed_precision.no_model": "unknown: the catalogue does not know whether {model} has tensor "
    "cores",
    "mixed_precision.no_tensor_cores": "{model} has no tensor cores",
    "mixed_precision.no_signal": "unknown: {signals}: not read here, or for less than "
    "{threshold:ratio} of the time; the GPU Tailor exporter reads them on Hopper and later "
    "cards, before that DCGM's profiling fields do",
    "mixed_precision.no_condition": "unknown: nobody counted the seconds in which all conditions "
    "held, and means cannot show them; the GPU Tailor exporter counts them",
    "mixed_precision.in_use": "its tensor cores work already ({mean:ratio}): TF32 or mixed "
    "precision is on",
    "mixed_precision.asked": "it asks for {precision} already ({evidence}), and the tensor cores "
    "still do nothing: a profiler would tell why",
    "mixed_precision.input_bound": "it waits for its input, so faster arithmetic gains nothing: "
    "see input_bound",
    "mixed_precision.not_enough": "there is too little for tensor cores: {candidate:seconds} of "
    "FP32 work without them ({share:ratio} of the time held)",
    "mixed_precision.risk_accuracy": "the result may differ: compare the loss or the accuracy of "
    "one run with that of a former one",
    "mixed_precision.risk_nothing": "small layers and sizes that are no multiples of 8 may gain "
    "nothing, and casts may make it slower",
    "mixed_precision.risk_scaling": "FP16 needs its loss scaled, or small gradients become zero",
    "mixed_precision.risk_unknown": "whether it waits for its input is not known for certain; not "
    "told: {signs}",
    "mixed_precision.not_tf32": "TF32: one switch and no change of number formats in memory, but "
    "it gains less and frees no memory",
    "mixed_precision.not_smaller": "a card without tensor cores: it would lock this way out",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether mixed precision is worth a try."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    cards = [spec_of(context, use) for use in basis.uses]
    return _no_cores(case, cards) or _unseen(case) or _judged(case, cards)


def _no_cores(case: Case, cards: list[DeviceSpec | None]) -> Silence | None:
    models = ", ".join(case.profile.device_models) or "the GPU"
    if any(card is not None and card.tensor_cores is False for card in cards):
        why = message("mixed_precision.no_tensor_cores", model=models)
        return case.silent(SilenceKind.NOT_APPLICABLE, why)
    if any(card is None or card.tensor_cores is None for card in cards):
        return case.silent(SilenceKind.UNKNOWN, message("mixed_precision.no_model", model=models))
    return None


def _unseen(case: Case) -> Silence | None:
    """Return the silence where what is needed was not read, or not second by second."""
    least = case.limits["coverage"]
    unread = case.missing(*_SIGNALS) or _contradicted(case)
    if unread:
        why = message("mixed_precision.no_signal", signals=", ".join(unread), threshold=least)
        return case.silent(SilenceKind.UNKNOWN, why, missing=unread)
    counted = sum(use.allocated_seconds for use in case.basis.uses if _CONDITION in use.conditions)
    share = held_against(
        "seconds counted one by one",
        counted / case.basis.total.allocated_seconds,
        ">=",
        least,
        unit="ratio",
        profile=case.profile,
        formula=f"seconds held by GPUs of which {_CONDITION} is told / seconds held by all",
    )
    if share.passed:
        return None
    why = message("mixed_precision.no_condition")
    return case.silent(SilenceKind.UNKNOWN, why, (share,), missing=(_CONDITION,))


def _contradicted(case: Case) -> tuple[str, ...]:
    """SM activity that was never seen, though seconds were counted that cannot be without it.

    Where kernels are told the gate finds a counter that stands still; here nothing else would.
    """
    total = case.basis.total
    sm = total.signals().get("sm")
    counted = total.conditions.get(_CONDITION, 0.0) > 0
    return ("sm",) if counted and sm is not None and sm.active_seconds == 0 else ()


def _seconds(uses: tuple[GpuUse, ...]) -> float:
    """Wall time of the condition: GPUs of a run work at once, so the busiest one counts."""
    by_run: dict[tuple[str, str, str], float] = defaultdict(float)
    for use in uses:
        key = (use.run_id, "", "") if use.run_id else (use.namespace, use.pod, use.pod_uid)
        by_run[key] = max(by_run[key], use.conditions.get(_CONDITION, 0.0))
    return sum(by_run.values())


def _judged(case: Case, cards: list[DeviceSpec | None]) -> Finding | Silence:
    profile, limits, basis = case.profile, case.limits, case.basis
    seconds = held_against(
        "FP32 work beside idle tensor cores", _seconds(basis.uses), ">=",
        limits["least_minutes"] * _MINUTE, unit="seconds", profile=profile, signal="tensor",
        formula="seconds with SM >= 0.40, tensor < 0.05, FP32 >= 0.20, FP64 < 0.05, all at once; "
        "busiest GPU of each run, all runs",
    )  # fmt: skip
    held = basis.total.allocated_seconds
    share = held_against(
        "share of the time held", basis.total.conditions.get(_CONDITION, 0.0) / held, ">=",
        limits["least_share"], unit="ratio", profile=profile, signal="tensor",
        formula="such seconds of all GPUs / GPU-seconds held, observed or not",
    )  # fmt: skip
    tensor = held_against(
        "mean tensor", steady_mean(basis.uses, "tensor"), "<", limits["tensor_below"],
        unit="ratio", profile=profile, signal="tensor",
        formula="active / observed seconds without warm-up",
    )  # fmt: skip
    fed = feeding(case)
    evidence = (seconds, share, tensor, *fed.evidence)
    why = _against(case, seconds, share, tensor, fed)
    if why is not None:
        return case.silent(SilenceKind.FINE, why, evidence)
    return _finding(case, cards, evidence, fed)


def _against(
    case: Case, seconds: Evidence, share: Evidence, tensor: Evidence, fed: Feeding
) -> Message | None:
    workload = case.profile.workload
    if not tensor.passed:
        return message("mixed_precision.in_use", mean=tensor.value)
    if not (seconds.passed and share.passed):
        return message("mixed_precision.not_enough", candidate=seconds.value, share=share.value)
    if workload.precision not in {"", "fp32"}:
        return message(
            "mixed_precision.asked",
            precision=workload.precision,
            evidence=workload.precision_evidence or "as it says",
        )
    return message("mixed_precision.input_bound") if fed.bound else None


def _finding(
    case: Case, cards: list[DeviceSpec | None], evidence: tuple[Evidence, ...], fed: Feeding
) -> Finding:
    profile = case.profile
    seconds, share = evidence[0].value, evidence[1].value
    assert isinstance(share, float)
    dtype = "bfloat16" if all(map(_ampere, cards)) else "float16"
    confidence, reason = _confidence(profile, fed, share)
    interval, numbers = _time_left(case, share)
    why = message(
        "mixed_precision.unquantified",
        cases=_SPEEDS.cases,
        low=case.limits["speed_up_low"],
        high=case.limits["speed_up_high"],
        median=_SPEEDS.median,
    )
    return case.found(
        message(
            "mixed_precision.candidate",
            candidate=seconds,
            share=share,
            model=", ".join(profile.device_models),
            dtype=dtype,
        ),
        Advice(
            severity=Severity.LOW if confidence is Confidence.LOW else Severity.MEDIUM,
            confidence=confidence,
            reason=reason,
            change=edit_code(profile, snippet(f"{_ID}_{dtype}", profile.workload)),
            saving=Saving(why=why, formula=_FACTOR),
            slowdown=interval,
            risks=_risks(profile, fed, dtype),
            not_chosen=_not_chosen(dtype),
        ),
        (*evidence, *numbers),
    )


def _time_left(case: Case, share: float) -> tuple[Interval, tuple[Evidence, ...]]:
    """Time of a run with it over that without: what recorded jobs did, in ``share`` of the time."""
    slow, fast = case.limits["speed_up_low"], case.limits["speed_up_high"]
    interval = Interval(
        low=1.0 - share + share / max(1.0, fast),
        high=1.0 - share + share / min(1.0, max(_LEAST_SPEED, slow)),
    )
    numbers = (("at least", interval.low), ("at most", interval.high))
    return interval, tuple(
        noted(f"time left {end}", value, unit="factor", profile=case.profile, formula=_FACTOR)
        for end, value in numbers
    )


def _ampere(card: DeviceSpec | None) -> bool:
    """Whether the card has bfloat16; where its capability is not known, FP16 is the safe word."""
    major = card.compute_capability.partition(".")[0] if card is not None else ""
    return major.isdigit() and int(major) >= _AMPERE


def _doubted(fed: Feeding) -> bool:
    """SM below a half and some sign of waiting not told: then it is not known whether it waits."""
    return bool(fed.low.passed) and bool(fed.unknown)


def _confidence(profile: Profile, fed: Feeding, share: float) -> tuple[Confidence, str]:
    if _doubted(fed):
        return Confidence.LOW, f"whether it waits for input is not known: {', '.join(fed.unknown)}"
    if not family(profile.workload):
        return Confidence.LOW, "the framework is not known, so neither is what computes in FP32"
    if share < _HALF:
        return (
            Confidence.LOW,
            "it held for less than half of the time; the median of recorded jobs gained nothing",
        )
    return (
        Confidence.MEDIUM,
        "every condition was measured second by second; the speed-up was not, so not high",
    )


def _risks(profile: Profile, fed: Feeding, dtype: str) -> tuple[Message, ...]:
    risks = [message("mixed_precision.risk_accuracy"), message("mixed_precision.risk_nothing")]
    if dtype == "float16" and profile.workload.task_class != TaskClass.INFERENCE:
        risks.append(message("mixed_precision.risk_scaling"))
    if _doubted(fed):
        risks.append(message("mixed_precision.risk_unknown", signs=", ".join(fed.unknown)))
    return tuple(risks)


def _not_chosen(dtype: str) -> tuple[Message, ...]:
    smaller = message("mixed_precision.not_smaller")
    return (message("mixed_precision.not_tf32"), smaller) if dtype == "bfloat16" else (smaller,)


RULE: Final = Rule(
    id=_ID,
    title="Mixed precision",
    summary="Tensor cores do nothing while the card computes in FP32.",
    signals=("tensor", "sm", "fp32", "fp64"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=60,
)
