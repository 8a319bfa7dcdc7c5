"""Memory-bound: the card's memory is full, or a run seems to have died for want of it.

Full: a peak of 0.92 of the device's memory or more by a program that does not take memory in
advance. PyTorch keeps what it has freed and asks for more before it uses that up, so a full card
says nothing there: only a failed run does. Suspected CUDA out-of-memory: a failed run whose peak
was 0.95 or more; it counts however short the run was and whether any other got through.
Kubernetes' OOMKilled is host memory and says nothing here. An average is below the peak, so a high
one counts as well. Where the arguments name a known model, its need by arithmetic stands beside the
peak. Training is told to recompute activations (about one more forward pass: at most 4/3 of the
time, a backward pass taking two forward ones), and of the other ways what they cost; a server to
keep its weights or its cache in fewer bits. What the freed memory is worth is not known, so no
saving is counted.
"""

from typing import Final

from gputailor_agent.model.inventory import Outcome, TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Saving,
    Scalar,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.rules.advising import Advice, edit_code, found
from gputailor_agent.rules.base import (
    Context,
    Limits,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
    silence,
)
from gputailor_agent.rules.changes import target_of
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS, never_held, sizing
from gputailor_agent.rules.pricing import spec_of
from gputailor_agent.rules.snippets import family, snippet
from gputailor_agent.rules.stated_memory import stated_evidence, stated_memory

_ID: Final = "memory_bound"
_RECOMPUTED: Final = Interval(low=1.0, high=4.0 / 3.0)
_FORMULA: Final = "(1 + 1 + 2) / (1 + 2): one more forward pass, a backward pass being two"

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "memory_bound.failed": "{runs:count} run(s) failed with the GPU's memory at {peak:ratio}, so "
    "it probably ran out of it: recompute activations instead of keeping them",
    "memory_bound.failed_serving": "{runs:count} run(s) failed with the GPU's memory at "
    "{peak:ratio}, so it probably ran out of it: keep weights or cache in fewer bits (FP8, INT8), "
    "or shorten the context",
    "memory_bound.full": "the GPU's memory was at {peak:ratio}, so there is no room for more: "
    "recompute activations instead of keeping them",
    "memory_bound.full_serving": "the GPU's memory was at {peak:ratio}, so there is no room for "
    "more: keep weights or cache in fewer bits (FP8, INT8), or shorten the context",
    "memory_bound.unquantified": "what the freed memory is worth (a larger batch, a smaller card) "
    "is known only after one run",
    "memory_bound.fine": "at most {peak:ratio} of the GPU's memory was in use",
    "memory_bound.no_memory": "unknown: the memory used, or how much the GPU has, cannot be read "
    "here; every exporter that is understood has both",
    "memory_bound.preallocates": "unknown: it takes memory in advance ({evidence}), so that it is "
    "full says nothing; the engine's own metrics would tell",
    "memory_bound.cached": "unknown: PyTorch keeps the memory that it has freed, so that "
    "{peak:ratio} of the GPU's is in use says nothing, and no run failed for want of it; "
    "torch.cuda.memory_stats() would tell (num_alloc_retries, num_ooms)",
    "memory_bound.shared": "it shares its GPU, so the memory in use is not its own",
    "memory_bound.risk_cache": "PyTorch keeps what it has freed: torch.cuda.max_memory_allocated() "
    "says how much was needed",
    "memory_bound.risk_failed": "the log of the failed run says whether it really was memory",
    "memory_bound.risk_sampled": "the peak is the highest of samples or an average: the true one "
    "is higher",
    "memory_bound.risk_accuracy": "fewer bits may change the answers: compare them",
    "memory_bound.not_accumulation": "gradient accumulation: fits a batch that is too large, in "
    "more steps; it does not help where one sample is too much",
    "memory_bound.not_sharding": "ZeRO or FSDP: parameters, gradients and optimizer states are "
    "spread over the GPUs; more goes over the links",
    "memory_bound.not_sharding_alone": "ZeRO or FSDP: they spread over several GPUs, and it has "
    "one",
    "memory_bound.not_sharding_done": "ZeRO or FSDP: it uses {sharding} already",
    "memory_bound.not_lora": "LoRA: for fine-tuning, gradients and optimizer states of a few "
    "adapters only; the result is another model",
    "memory_bound.not_larger": "a GPU with more memory: it costs more every hour",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the GPU's memory is the wall."""
    limits = RULE.limits(context)
    silent = never_held(_ID, profile) or _not_judged(profile, context)
    if silent is not None:
        return silent
    failed, lost = _failed(profile, context, limits)
    if failed.passed:
        return _finding(profile, context, (failed,), failed.value, lost)
    basis = sizing(_ID, profile, context, limits)
    if isinstance(basis, Silence):
        return basis
    full = _full(profile, context, (*basis.uses, *basis.unused), limits)
    evidence = (*basis.evidence, failed, full)
    if full.passed and family(profile.workload) != "PyTorch":
        return _finding(profile, context, evidence, full.value, 0)
    return _not_full(profile, context, evidence, full)


def _not_full(
    profile: Profile, context: Context, evidence: tuple[Evidence, ...], full: Evidence
) -> Silence:
    """Return the silence where no run died of it, and a full card is not seen or says nothing."""
    if full.value is None:
        why = message("memory_bound.no_memory")
        return silence(
            _ID, profile, SilenceKind.UNKNOWN, why, evidence, missing_signals=("memory",)
        )
    if not full.passed:
        why = message("memory_bound.fine", peak=full.value)
        return silence(_ID, profile, SilenceKind.FINE, why, evidence)
    why = message("memory_bound.cached", peak=full.value)
    told = (*evidence, *stated_evidence(profile, stated_memory(profile, context)))
    return silence(_ID, profile, SilenceKind.UNKNOWN, why, told)


def _not_judged(profile: Profile, context: Context) -> Silence | None:
    workload = profile.workload
    if any(use.share < 1 for use in profile.gpus):
        why = message("memory_bound.shared")
        return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, why, (_peak(profile),))
    if workload.preallocates:
        evidence = workload.preallocates_evidence or workload.framework or "detected"
        why = message("memory_bound.preallocates", evidence=evidence)
        told = (_peak(profile), *stated_evidence(profile, stated_memory(profile, context)))
        return silence(_ID, profile, SilenceKind.UNKNOWN, why, told)
    return None


def _peak(profile: Profile) -> Evidence:
    return noted(
        "memory peak",
        profile.memory_peak_bytes,
        unit="bytes",
        profile=profile,
        formula=f"highest on any one device ({profile.memory_peak_kind})",
    )


def _usable(context: Context, use: GpuUse) -> int | None:
    """What the driver says the device has, else what the catalogue says of it."""
    if use.memory_total_bytes:
        return use.memory_total_bytes
    spec = spec_of(context, use)
    sliced = use.device is not None and use.device.mig_profile
    return None if spec is None or sliced else spec.usable_memory_bytes


def _filled(context: Context, uses: tuple[GpuUse, ...]) -> float | None:
    """Highest peak of any device by its memory; None where no device tells both."""
    shares = []
    for use in uses:
        usable = _usable(context, use)
        if use.memory_peak_bytes is not None and usable:
            shares.append(min(1.0, use.memory_peak_bytes / usable))
    return max(shares, default=None)


def _failed(profile: Profile, context: Context, limits: Limits) -> tuple[Evidence, int]:
    """Highest peak of any failed run, and how many of them were as full as that is suspicious.

    A run that Kubernetes killed for host memory says nothing of the GPU's.
    """
    filled = []
    for run in profile.runs:
        if run.outcome == Outcome.FAILED and not run.oom:
            uses = tuple(use for use in profile.gpus if use.run_id == run.id)
            filled.append(_filled(context, uses))
    known = [share for share in filled if share is not None]
    peak = held_against(
        "memory peak of failed runs", max(known, default=None), ">=", limits["suspected_oom"],
        unit="ratio", profile=profile,
        formula="highest peak on a device of a failed run / its memory",
    )  # fmt: skip
    return peak, sum(1 for share in known if share >= limits["suspected_oom"])


def _full(profile: Profile, context: Context, uses: tuple[GpuUse, ...], limits: Limits) -> Evidence:
    return held_against(
        "memory peak of other runs", _filled(context, uses), ">=", limits["full"],
        unit="ratio", profile=profile,
        formula="highest peak on a device of a run that did not fail / its memory",
    )  # fmt: skip


def _finding(
    profile: Profile, context: Context, evidence: tuple[Evidence, ...], peak: Scalar, lost: int
) -> Finding:
    """``lost``: runs that seem to have died for want of memory; 0 where it was only full."""
    serves = profile.workload.task_class == TaskClass.INFERENCE
    confidence, reason = _confidence(profile, lost=lost > 0)
    key = f"memory_bound.{'failed' if lost else 'full'}{'_serving' if serves else ''}"
    return found(
        _ID,
        profile,
        message(key, runs=lost, peak=peak),
        Advice(
            severity=Severity.HIGH if lost else Severity.LOW,
            confidence=confidence,
            reason=reason,
            change=_change(profile, serves=serves),
            saving=Saving(why=message("memory_bound.unquantified"), formula=_FORMULA),
            slowdown=None if serves else _RECOMPUTED,
            risks=_risks(profile, lost=lost > 0, serves=serves),
            not_chosen=_not_chosen(profile, serves=serves),
        ),
        (
            *evidence,
            _peak(profile),
            *stated_evidence(profile, stated_memory(profile, context)),
        ),
    )


def _confidence(profile: Profile, *, lost: bool) -> tuple[Confidence, str]:
    if lost:
        return Confidence.MEDIUM, "the run failed with its memory full; the log would say why"
    if not profile.workload.framework:
        return Confidence.LOW, "the framework is not known; most keep what they have freed"
    return Confidence.MEDIUM, "memory used is not always memory needed"


def _change(profile: Profile, *, serves: bool) -> Change:
    if serves:
        return Change(kind="reduce_precision", target=target_of(profile.workload))
    return edit_code(profile, snippet("checkpointing", profile.workload))


def _risks(profile: Profile, *, lost: bool, serves: bool) -> tuple[Message, ...]:
    told = (
        (lost, "memory_bound.risk_failed"),
        (family(profile.workload) == "PyTorch", "memory_bound.risk_cache"),
        (profile.memory_peak_kind != "peak", "memory_bound.risk_sampled"),
        (serves, "memory_bound.risk_accuracy"),
    )
    return tuple(message(key) for holds, key in told if holds)


def _not_chosen(profile: Profile, *, serves: bool) -> tuple[Message, ...]:
    larger = message("memory_bound.not_larger")
    if serves:
        return (larger,)
    spread = profile.workload.distribution
    if spread is not None and spread.sharding:
        sharding = message("memory_bound.not_sharding_done", sharding=spread.sharding)
    elif max((run.gpus for run in profile.runs), default=profile.gpus_per_pod) > 1:
        sharding = message("memory_bound.not_sharding")
    else:
        sharding = message("memory_bound.not_sharding_alone")
    accumulation = message("memory_bound.not_accumulation")
    return (accumulation, sharding, message("memory_bound.not_lora"), larger)


RULE: Final = Rule(
    id=_ID,
    title="Memory-bound",
    summary="The GPU's memory is full, or runs die for want of it.",
    signals=(),
    thresholds=(
        *SIZING_THRESHOLDS,
        Threshold("full", 0.92, "ratio", "peak, of the device's memory, from which it is full"),
        Threshold(
            "suspected_oom",
            0.95,
            "ratio",
            "a failed run whose peak reached this share of the memory ran out of it",
        ),
    ),
    messages=_MESSAGES,
    evaluate=evaluate,
    order=45,
)
