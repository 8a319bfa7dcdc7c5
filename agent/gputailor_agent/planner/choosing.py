"""One workload's verdict: the primary finding, the alternatives, the silences, what it cost."""

from collections.abc import Iterable
from functools import cache
from typing import Final

import msgspec

from gputailor_agent.model.judgement import (
    Confidence,
    Evidence,
    Finding,
    Message,
    Silence,
    SilenceKind,
    Verdict,
)
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.planner.interplay import (
    COMMITMENT,
    LAST,
    stage,
    without_early_commitments,
)
from gputailor_agent.profiles import busy_signal
from gputailor_agent.rules import Context, evaluate_all, registry
from gputailor_agent.rules.pricing import cost_of, equivalent

_HOUR: Final = 3600.0
#: Confidences by how sure they are.
SURE: Final = {Confidence.LOW: 0, Confidence.MEDIUM: 1, Confidence.HIGH: 2}


def counts(finding: Finding) -> bool:
    """Whether the finding's saving may be added up."""
    return finding.confidence != Confidence.LOW


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Best first: savings that count by the order of changes (``interplay``), then the rest.

    Within one step of that order by money, then GPU-hours, then confidence, then the rules' order.
    """
    order = _order()

    def key(finding: Finding) -> tuple[int, float, float, int, int]:
        saving = finding.saving
        money = saving.money_per_month.amount if saving.money_per_month is not None else 0.0
        hours = saving.gpu_hours_per_month or 0.0
        saves = counts(finding) and (money > 0 or hours > 0)
        return (
            stage(finding.rule) if saves else LAST,
            -(money if saves else 0.0),
            -(hours if saves else 0.0),
            -SURE[finding.confidence],
            order.get(finding.rule, len(order)),
        )

    return sorted(findings, key=key)


@cache
def _order() -> dict[str, int]:
    return {rule.id: place for place, rule in enumerate(registry())}


def gpu_hours(context: Context, profile: Profile) -> list[tuple[GpuUse, float]]:
    """Hours of whole GPUs that each device was held inside the window; remembered."""
    known = context.about(profile)
    if "gpu hours" not in known:
        known["gpu hours"] = [
            (use, equivalent(context, use) * use.allocated_seconds / _HOUR) for use in profile.gpus
        ]
    taken: list[tuple[GpuUse, float]] = known["gpu hours"]
    return taken


def verdict(profile: Profile, context: Context) -> Verdict:
    """Ask every rule and choose."""
    answers = evaluate_all(profile, context)
    found, held_back = without_early_commitments(
        answer for answer in answers if isinstance(answer, Finding)
    )
    findings = ranked(found)
    quiet = [answer for answer in answers if isinstance(answer, Silence)]
    silences = _sharing([*quiet, *held_back])
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


def _sharing(silences: Iterable[Silence]) -> tuple[Silence, ...]:
    """The silences, equal evidence in them kept once: most rules look at the same figures.

    A plan of a large cluster would otherwise be twice as large.
    """
    known: dict[Evidence, Evidence] = {}
    return tuple(
        silence
        if silence.message.params and not silence.evidence
        else msgspec.structs.replace(
            silence,
            message=silence.message if silence.message.params else _plain(silence.message.key),
            evidence=tuple([known.setdefault(one, one) for one in silence.evidence]),
        )
        for silence in silences
    )


@cache
def _plain(key: str) -> Message:
    """The message without parameters, the same one each time."""
    return Message(key=key)


def _state(findings: list[Finding], silences: tuple[Silence, ...]) -> str:
    """Word for the whole: a finding, else unknown where data is missing, else watching, else ok.

    A rule that cannot tell for a reason of its own (memory taken in advance, no price) does not
    make the whole workload unknown while another rule looked and found it fine. Commitments ask for
    more weeks than all else, and come last: what they wait for is theirs alone.
    """
    if findings:
        return "finding"
    heard = [silence for silence in silences if silence.rule != COMMITMENT]
    kinds = {silence.kind for silence in heard}
    unknown = {s.message.key for s in heard if s.kind == SilenceKind.UNKNOWN}
    missing = any(key.startswith(("gate.", "idle.unknown")) for key in unknown)
    if missing or (unknown and not kinds & {SilenceKind.FINE, SilenceKind.WATCHING}):
        return "unknown"
    return "watching" if SilenceKind.WATCHING in kinds else "ok"
