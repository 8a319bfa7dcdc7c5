"""One workload's verdict: the primary finding, the alternatives, the silences, what it cost."""

from collections.abc import Iterable
from typing import Final

from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Silence,
    SilenceKind,
    Verdict,
)
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.profiles import busy_signal
from gputailor_agent.rules import Context, evaluate_all, registry
from gputailor_agent.rules.pricing import cost_of, equivalent

_HOUR: Final = 3600.0
_SURE: Final = {Confidence.LOW: 0, Confidence.MEDIUM: 1, Confidence.HIGH: 2}


def counts(finding: Finding) -> bool:
    """Whether the finding's saving may be added up."""
    return finding.confidence != Confidence.LOW


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Best first: by saving in money, then GPU-hours, then confidence, then the rules' order."""
    order = {rule.id: place for place, rule in enumerate(registry())}

    def key(finding: Finding) -> tuple[float, float, int, int]:
        saving = finding.saving
        money = saving.money_per_month.amount if saving.money_per_month is not None else 0.0
        return (
            -(money if counts(finding) else 0.0),
            -((saving.gpu_hours_per_month or 0.0) if counts(finding) else 0.0),
            -_SURE[finding.confidence],
            order.get(finding.rule, len(order)),
        )

    return sorted(findings, key=key)


def gpu_hours(context: Context, profile: Profile) -> list[tuple[GpuUse, float]]:
    """Hours of whole GPUs that each device of the workload was held inside the window."""
    return [(use, equivalent(context, use) * use.allocated_seconds / _HOUR) for use in profile.gpus]


def verdict(profile: Profile, context: Context) -> Verdict:
    """Ask every rule and choose."""
    answers = evaluate_all(profile, context)
    findings = ranked(answer for answer in answers if isinstance(answer, Finding))
    silences = tuple(answer for answer in answers if isinstance(answer, Silence))
    taken = gpu_hours(context, profile)
    cost, why = cost_of(context, taken)
    live = context.holdings.live_uses(profile.gpus, profile.window)
    kernel, sm = profile.use("kernel"), profile.use("sm")
    return Verdict(
        workload=profile.workload,
        primary=findings[0] if findings else None,
        alternatives=tuple(findings[1:]),
        silences=silences,
        gpu_hours=sum(hours for _, hours in taken),
        cost=cost,
        cost_why=why,
        coverage=profile.coverage(busy_signal(profile.signals)),
        mean_kernel=kernel.mean,
        mean_sm=sm.mean,
        memory_peak_bytes=profile.memory_peak_bytes,
        memory_total_bytes=profile.memory_total_bytes,
        device_models=profile.device_models,
        gpus_now=sum(equivalent(context, use) for use in live),
        spread_seconds=profile.spread_seconds,
        state=_state(findings, silences),
        dialects=profile.dialects,
        filled=profile.filled,
    )


def _state(findings: list[Finding], silences: tuple[Silence, ...]) -> str:
    """Word for the whole: a finding, else unknown where data is missing, else watching, else ok.

    A rule that cannot tell for a reason of its own (memory taken in advance, no price) does not
    make the whole workload unknown while another rule looked and found it fine.
    """
    if findings:
        return "finding"
    kinds = {silence.kind for silence in silences}
    unknown = {s.message.key for s in silences if s.kind == SilenceKind.UNKNOWN}
    missing = any(key.startswith(("gate.", "idle.unknown")) for key in unknown)
    if missing or (unknown and not kinds & {SilenceKind.FINE, SilenceKind.WATCHING}):
        return "unknown"
    return "watching" if SilenceKind.WATCHING in kinds else "ok"
