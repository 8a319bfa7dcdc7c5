"""What is not known, and why: the map of what was measured, by reason and by namespace."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Message, Plan, Silence, SilenceKind, Verdict
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import Block, Column, Heading, Paragraph, Table, headed
from gputailor_agent.reports.wording import say, sentence

_SHOWN: Final = 12
_REASON_COLUMNS: Final = (
    Column(title="why it is not known", least=40),
    Column(title="workloads", numeric=True),
    Column(title="GPU-hours", numeric=True),
    Column(title="missing signals", least=12),
)
_MAP_COLUMNS: Final = (
    Column(title="namespace", least=16),
    Column(title="workloads", numeric=True),
    Column(title="GPU-hours", numeric=True),
    Column(title="observed", numeric=True),
    Column(title="use unknown", numeric=True),
    Column(title="not measured yet", numeric=True),
)


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why nothing can be said, and of how much."""

    reason: Message | None  # None: not measured yet, or nobody says why
    not_yet: bool
    workloads: int
    gpu_hours: float
    missing_signals: tuple[str, ...] = ()


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a namespace's GPU time was observed."""

    namespace: str
    workloads: int
    gpu_hours: float
    observed_ratio: float | None
    unknown: int  # workloads whose use nobody told
    not_yet: int


def unknowns(plan: Plan) -> list[Unknown]:
    """Why workloads are unknown, what holds most GPU-hours first.

    Workloads with the same kind of reason are told together, in the words of the largest.
    """
    groups: dict[tuple[str, bool], list[tuple[Verdict, Silence | None]]] = defaultdict(list)
    for one in plan.verdicts:
        use = overview.use_of(one)
        if one.state != "unknown" and use == overview.MEASURED:
            continue
        silence = _telling(one)
        not_yet = use == overview.NOT_YET
        key = silence.message.key if silence is not None and not not_yet else ""
        groups[key, not_yet].append((one, silence))
    found = [_together(not_yet, members) for (_key, not_yet), members in groups.items()]
    return sorted(found, key=lambda one: -one.gpu_hours)


def _telling(verdict: Verdict) -> Silence | None:
    """What misses a signal, where something does: that another rule is content is no reason."""
    told = (
        one for one in verdict.silences if one.kind == SilenceKind.UNKNOWN and one.missing_signals
    )
    leading = overview.leading_silence(verdict)
    return leading if verdict.state == "unknown" else next(told, leading)


def _together(not_yet: bool, members: list[tuple[Verdict, Silence | None]]) -> Unknown:
    largest = max(members, key=lambda one: one[0].gpu_hours)[1]
    signals = Counter(
        signal
        for verdict, _silence in members
        for silence in verdict.silences
        if silence.kind == SilenceKind.UNKNOWN
        for signal in silence.missing_signals
    )
    return Unknown(
        reason=None if largest is None or not_yet else largest.message,
        not_yet=not_yet,
        workloads=len(members),
        gpu_hours=sum(verdict.gpu_hours for verdict, _silence in members),
        missing_signals=tuple(signal for signal, _count in signals.most_common(4)),
    )


def observed(plan: Plan) -> list[Observed]:
    """How much was observed by namespace, the largest first."""
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for one in plan.verdicts:
        groups[one.workload.namespace].append(one)
    found = [_namespace(name, members) for name, members in groups.items()]
    return sorted(found, key=lambda one: (-one.gpu_hours, one.namespace))


def _namespace(name: str, members: list[Verdict]) -> Observed:
    uses = Counter(map(overview.use_of, members))
    return Observed(
        namespace=name,
        workloads=len(members),
        gpu_hours=sum(one.gpu_hours for one in members),
        observed_ratio=observed_ratio(members),
        unknown=uses[overview.UNKNOWN],
        not_yet=uses[overview.NOT_YET],
    )


def observed_ratio(members: Iterable[Verdict]) -> float | None:
    """Share of the GPU time held that was observed; None where none was held."""
    seen = held = 0.0
    for one in members:
        held += one.gpu_hours
        seen += one.gpu_hours * (one.coverage or 0.0)
    return seen / held if held > 0 else None


def coverage_blocks(plan: Plan) -> tuple[Block, ...]:
    """The part on what is unknown."""
    if not plan.verdicts:
        return ()
    heading = Heading(text=_("What is unknown, and why"))
    reasons, places = unknowns(plan), observed(plan)
    blocks: list[Block] = [heading]
    if reasons:
        blocks.append(
            Table(
                columns=headed(_REASON_COLUMNS),
                rows=tuple(map(_reason, reasons[:_SHOWN])),
                caption=_more(len(reasons) - _SHOWN),
            )
        )
    else:
        blocks.append(Paragraph(text=_("The use of every workload is known."), tone="good"))
    blocks.append(
        Table(
            columns=headed(_MAP_COLUMNS),
            rows=tuple(map(_place, places[:_SHOWN])),
            caption=_more(len(places) - _SHOWN),
        )
    )
    return tuple(blocks)


def _more(left: int) -> str:
    return _("{number} more are in the JSON report.", number=units.count(left)) if left > 0 else ""


def _reason(one: Unknown) -> tuple[str, ...]:
    told = sentence(say(one.reason))
    if one.not_yet:
        told = _("Not measured yet: use is known an hour after a GPU was handed out.")
    return (
        told or _("Nobody tells why."),
        units.count(one.workloads),
        units.count(round(one.gpu_hours, 1)),
        _(", ").join(one.missing_signals) or "-",
    )


def _place(one: Observed) -> tuple[str, ...]:
    return (
        one.namespace or "-",
        units.count(one.workloads),
        units.count(round(one.gpu_hours)),
        units.ratio(one.observed_ratio),
        units.count(one.unknown),
        units.count(one.not_yet),
    )
