"""What is known and what is not, and why: the doctor's page of a running agent.

Counted over the newest plan: how much of the held time was observed, which signals no source tells
and which rules are silent for it, what went wrong while reading, and how the agent's jobs go.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gputailor_agent.api.listing import Index
from gputailor_agent.model.judgement import Message, SilenceKind, Verdict
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Column,
    Facts,
    Heading,
    Paragraph,
    Table,
)
from gputailor_agent.reports.explain import rule_title
from gputailor_agent.reports.translating import translated
from gputailor_agent.reports.wording import say, sentence
from gputailor_agent.store.tasks import Task

#: Enough to judge idleness by (``rules.idle``), and to size by.
WELL: Final = 0.9
_EXAMPLES: Final = 3
_REASONS: Final = 20


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that was not told, and what that silences."""

    signal: str
    workloads: int
    rules: tuple[str, ...]
    examples: tuple[str, ...]


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why something is unknown, and of how many workloads."""

    reason: str
    workloads: int
    rules: tuple[str, ...]
    examples: tuple[str, ...]


class Map(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a plan's workloads is known. ``observed_share`` is of the held GPU time."""

    workloads: int
    well_observed: int
    partly_observed: int
    not_measured_yet: int
    unknown: int
    observed_share: float | None
    dialects: dict[str, int]
    missing_signals: tuple[Missing, ...]
    reasons: tuple[Unknown, ...]
    problems: tuple[str, ...]


def coverage_map(index: Index) -> Map:
    """Count what is known of a plan; texts in the language spoken."""
    plan = index.plan
    kinds = Counter(map(_kind, plan.verdicts))
    return Map(
        workloads=len(plan.verdicts),
        well_observed=kinds["well"],
        partly_observed=kinds["partly"],
        not_measured_yet=kinds[overview.NOT_YET],
        unknown=kinds[overview.UNKNOWN],
        observed_share=index.totals.observed_share,
        dialects=dict(Counter(name for one in plan.verdicts for name in one.dialects)),
        missing_signals=tuple(_missing(plan.verdicts)),
        reasons=tuple(_reasons(plan.verdicts)),
        problems=overview.problems(plan),
    )


def _kind(verdict: Verdict) -> str:
    use = overview.use_of(verdict)
    if use != overview.MEASURED:
        return use
    return "well" if (verdict.coverage or 0.0) >= WELL else "partly"


def _missing(verdicts: Iterable[Verdict]) -> list[Missing]:
    rules, seen = defaultdict[str, set[str]](set), defaultdict[str, dict[str, None]](dict)
    for verdict in verdicts:
        for silence in verdict.silences:
            for signal in silence.missing_signals:
                rules[signal].add(silence.rule)
                seen[signal].setdefault(verdict.workload.id)
    return [
        Missing(
            signal=signal,
            workloads=len(seen[signal]),
            rules=tuple(sorted(rules[signal])),
            examples=tuple(seen[signal])[:_EXAMPLES],
        )
        for signal in sorted(seen, key=lambda one: (-len(seen[one]), one))
    ]


def _reasons(verdicts: Iterable[Verdict]) -> list[Unknown]:
    """Kinds of unknown; one of them is a message's key, since its figures differ each time."""
    rules, seen = defaultdict[str, set[str]](set), defaultdict[str, dict[str, None]](dict)
    first = dict[str, Message]()
    for verdict in verdicts:
        for silence in verdict.silences:
            if silence.kind is SilenceKind.UNKNOWN:
                key = silence.message.key
                first.setdefault(key, silence.message)
                rules[key].add(silence.rule)
                seen[key].setdefault(verdict.workload.id)
    order = sorted(seen, key=lambda one: (-len(seen[one]), one))[:_REASONS]
    return [
        Unknown(
            reason=sentence(say(first[key])),
            workloads=len(seen[key]),
            rules=tuple(sorted(rules[key])),
            examples=tuple(seen[key])[:_EXAMPLES],
        )
        for key in order
    ]


def blocks(told: Map) -> list[Block]:
    """The map as a page."""
    made: list[Block] = [
        Facts(
            pairs=(
                (_("observed of the allocated GPU time"), units.ratio(told.observed_share)),
                (_("workloads observed well (90 % or more)"), units.count(told.well_observed)),
                (_("observed in part"), units.count(told.partly_observed)),
                (_("not measured yet"), units.count(told.not_measured_yet)),
                (_("unknown"), units.count(told.unknown)),
                (_("measured by"), _dialects(told)),
            )
        ),
        Heading(text=_("Signals that are missing")),
    ]
    if told.missing_signals:
        missing = ((one.signal, one) for one in told.missing_signals)
        made += [
            _silenced(Column(title="signal"), missing),
            Paragraph(text=_advice(), tone="muted"),
        ]
    else:
        made.append(Paragraph(text=_("None: every signal that a rule asked for is there.")))
    if told.reasons:
        reasons = ((one.reason, one) for one in told.reasons)
        made += [
            Heading(text=_("Why something is unknown")),
            _silenced(Column(title="reason", least=24), reasons),
        ]
    if told.problems:
        made += [
            Heading(text=_("Assumptions, problems and missing data")),
            Bullets(lines=told.problems, tone="warn"),
        ]
    return made


def _advice() -> str:
    return _(
        "gputailor doctor, beside an exporter or a Prometheus, prints what to switch on to have a "
        "signal."
    )


def _dialects(told: Map) -> str:
    named = (f"{name} ({units.count(number)})" for name, number in sorted(told.dialects.items()))
    return _(", ").join(named) or units.unknown()


def _silenced(first: Column, told: Iterable[tuple[str, Missing | Unknown]]) -> Table:
    """What stands behind each signal or reason: how many workloads, rules, examples."""
    columns = (
        first,
        Column(title="workloads", numeric=True),
        Column(title="rules that say less", least=20),
        Column(title="for example", least=20),
    )
    rows = tuple(
        (
            name,
            units.count(one.workloads),
            _(", ").join(map(rule_title, one.rules)),
            _(", ").join(one.examples),
        )
        for name, one in told
    )
    return Table(columns=columns, rows=rows)


def jobs(tasks: Iterable[Task], troubles: Sequence[str]) -> list[Block]:
    """How the agent itself does."""
    columns = (
        Column(title="job"),
        Column(title="last run"),
        Column(title="began"),
        Column(title="took", numeric=True),
        Column(title="next"),
        Column(title="failures", numeric=True),
        Column(title="reason", least=20),
    )
    outcomes = {"done": _("done"), "failed": _("failed"), "": _("not yet")}
    rows = tuple(
        (
            task.job,
            outcomes.get(task.outcome, task.outcome),
            units.utc(task.started_at) if task.started_at is not None else _("not yet"),
            units.duration(task.seconds) if task.seconds is not None else "-",
            units.utc(task.next_at) if task.next_at is not None else "-",
            units.count(task.failures),
            translated(task.reason) or "-",
        )
        for task in tasks
    )
    made: list[Block] = [Heading(text=_("The agent's jobs"))]
    if troubles:
        made.append(Bullets(lines=tuple(map(translated, troubles)), tone="warn"))
    if rows:
        made.append(Table(columns=columns, rows=rows))
    return made
