"""Small worlds for the rules that advise: one job, what one second of it looked like, its host."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gputailor_agent.model.containers import HostUse
from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.model.usage import UsageRow
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import Rule
from tests.agent.factories import HOUR, NOW, context, node, pod, profile, rows, workload


def seconds_told(usage: Iterable[UsageRow], conditions: Mapping[str, float]) -> list[UsageRow]:
    """Rows whose exporter counted conditions: shares of each row's held seconds."""
    return [
        msgspec.structs.replace(
            row,
            conditions={name: part * row.allocated_seconds for name, part in conditions.items()},
        )
        for row in usage
    ]


def host(**told: Any) -> HostUse:
    """What cAdvisor says of the containers; not told unless given."""
    values = dict.fromkeys(HostUse.__struct_fields__)
    return HostUse(
        **{**values, "sources": ("cadvisor",), "pressure": {}, "node_pressure": {}, **told}
    )


def job(
    hours: float = 6, conditions: Mapping[str, float] | None = None, **levels: Any
) -> tuple[list[UsageRow], list[Any]]:
    """One pod with one GPU that ran alike for ``hours`` up to now."""
    start = NOW - int(hours * HOUR)
    usage = rows(start, NOW, **levels)
    return seconds_told(usage, conditions or {}), [pod(start=start)]


def judged(
    rule: Rule,
    usage: Iterable[UsageRow],
    pods: Iterable[Any],
    work: Workload | None = None,
    *,
    with_host: HostUse | None = None,
    thresholds: Mapping[str, float] | None = None,
    catalogue: Any = None,
    **options: Any,
) -> Finding | Silence:
    """What the rule says, after a look at whether every word of it can be said."""
    made, world = profile(usage, pods, work or workload(framework="pytorch"), **options)
    made = msgspec.structs.replace(made, host=with_host)
    own = {rule.id: dict(thresholds)} if thresholds else {}
    answer = rule.evaluate(made, context(world, catalogue, **own))
    check_words(answer)
    return answer


def check_words(answer: Finding | Silence) -> None:
    """Every message has a template that is filled; every number its formula."""
    said = [answer.message, *answer.not_chosen]
    if isinstance(answer, Finding):
        said += [*answer.risks, *([answer.saving.why] if answer.saving.why else [])]
        assert answer.change.undo or answer.change.patch or not answer.change.code
        assert answer.evidence[-1].name == "confidence"
        if answer.slowdown is not None:
            assert answer.slowdown.low <= answer.slowdown.high
    for message in said:
        assert say(message, strict=True)
    assert all(item.formula for item in answer.evidence)


def number(answer: Finding | Silence, name: str) -> Any:
    return next(item for item in answer.evidence if item.name == name)


def key(answer: Finding | Silence) -> str:
    return answer.message.key


def without(made: Profile, signal: str) -> Profile:
    """The same profile of a source that cannot read a signal (or does not count a condition)."""

    def blank(told: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in told.items() if name != signal}

    gpus = tuple(
        msgspec.structs.replace(
            use, signals=blank(use.signals), conditions=blank(use.conditions),
            warmup=blank(use.warmup),
        )
        for use in made.gpus
    )  # fmt: skip
    return msgspec.structs.replace(
        made, gpus=gpus, signals=blank(made.signals), conditions=blank(made.conditions)
    )


STRENGTH: Final = {Confidence.LOW: 0, Confidence.MEDIUM: 1, Confidence.HIGH: 2}
URGENCY: Final = {Severity.INFO: 0, Severity.LOW: 1, Severity.MEDIUM: 2, Severity.HIGH: 3}


def no_stronger(less: Finding | Silence, whole: Finding) -> bool:
    """Less is known: it says no more than before, and a silence of the unknown says what lacks."""
    if isinstance(less, Silence):
        return less.kind != SilenceKind.UNKNOWN or bool(less.missing_signals)
    money, more = less.saving.gpu_hours_per_month, whole.saving.gpu_hours_per_month
    return (
        STRENGTH[less.confidence] <= STRENGTH[whole.confidence]
        and URGENCY[less.severity] <= URGENCY[whole.severity]
        and (money is None or (more is not None and money <= more + 1e-9))
    )


__all__ = [
    "check_words",
    "host",
    "job",
    "judged",
    "key",
    "no_stronger",
    "node",
    "number",
    "seconds_told",
    "without",
]
