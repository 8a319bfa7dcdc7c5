"""Which changes reach a saving: as a page, and as values."""

from typing import Final

import msgspec

from gputailor_agent.model.judgement import Change, Interval, Plan
from gputailor_agent.planner.targeting import Allowed, Course, Step
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.cluster import demand_text
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Code,
    Column,
    Document,
    Facts,
    Heading,
    Paragraph,
    Table,
    headed,
)
from gputailor_agent.reports.plurals import counted
from gputailor_agent.reports.wording import say, sentence

_COLUMNS: Final = (
    Column(title="", numeric=True),
    Column(title="workload", least=24),
    Column(title="rule"),
    Column(title="saves per month", numeric=True),
    Column(title="up to here", numeric=True),
    Column(title="slowdown", numeric=True),
    Column(title="confidence"),
    Column(title="what to do", least=24),
)


class StepValues(msgspec.Struct, frozen=True, kw_only=True):
    """One change with what it saves per month, in the course's currency."""

    workload: str
    rule: str
    saving: float
    running: float
    slowdown: Interval | None
    confidence: str
    what: str
    change: Change


class CourseValues(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. ``present``: what the plan's own choice saves, all rules allowed."""

    cluster: str
    currency: str
    target: float | None
    saved: float
    reached: bool
    present: float
    steps: tuple[StepValues, ...]
    left: tuple[StepValues, ...]
    unpriced: int
    allow: tuple[str, ...]
    deny: tuple[str, ...]


def values(plan: Plan, found: Course, allowed: Allowed) -> CourseValues:
    """The course as values."""
    return CourseValues(
        cluster=plan.cluster,
        currency=found.currency,
        target=found.target,
        saved=found.saved,
        reached=found.reached,
        present=found.present,
        steps=tuple(map(_step, found.steps)),
        left=tuple(map(_step, found.left)),
        unpriced=found.unpriced,
        allow=tuple(sorted(allowed.allow)),
        deny=tuple(sorted(allowed.deny)),
    )


def _step(step: Step) -> StepValues:
    finding = step.finding
    money = finding.saving.money_per_month
    return StepValues(
        workload=step.verdict.workload.id,
        rule=finding.rule,
        saving=money.amount if money is not None else 0.0,
        running=step.running,
        slowdown=finding.slowdown,
        confidence=finding.confidence.value,
        what=sentence(say(finding.message)),
        change=finding.change,
    )


def compose(plan: Plan, found: Course, allowed: Allowed) -> Document:
    """The page of a course."""
    title = _("Changes in cluster {name}", name=plan.cluster)
    blocks: list[Block] = [
        Heading(text=title, level=1),
        Paragraph(text=overview.window_text(plan.window), tone="muted"),
        Facts(pairs=tuple(_facts(plan, found, allowed))),
        Paragraph(text=_outcome(found), tone="good" if found.reached else "warn"),
    ]
    if found.steps:
        blocks += [Heading(text=_("In this order")), _table(found)]
        blocks += _commands(found)
    blocks += _rest(found)
    return Document(title=title, blocks=tuple(blocks))


def _facts(plan: Plan, found: Course, allowed: Allowed) -> list[tuple[str, str]]:
    pairs = [
        (
            _("target"),
            _money(found, found.target) if found.target is not None else _("none set"),
        ),
        (_("these changes save"), _money(found, found.saved)),
        (_("the plan's own choice saves"), _money(found, found.present)),
    ]
    if allowed.allow:
        pairs.append((_("rules allowed"), ", ".join(sorted(allowed.allow))))
    if allowed.deny:
        pairs.append((_("rules denied"), ", ".join(sorted(allowed.deny))))
    waits = demand_text(plan)
    return [*pairs, (_("pods that wait"), waits)] if waits else pairs


def _money(found: Course, amount: float | None) -> str:
    return units.amount(amount, found.currency, per="month")


def _outcome(found: Course) -> str:
    changes = counted(len(found.steps), "change")
    if not found.steps:
        return _("No change with a counted saving may be made by these rules.")
    if found.target is None:
        return _(
            "{changes} in all, {money} together.",
            changes=changes,
            money=_money(found, found.saved),
        )
    if found.reached:
        return _(
            "The target is reached by {changes}: {money}.",
            changes=changes,
            money=_money(found, found.saved),
        )
    return _(
        "The target is not reached: {changes}, and {money} are missing.",
        changes=changes,
        money=_money(found, found.target - found.saved),
    )


def _table(found: Course) -> Table:
    rows = tuple(
        (
            str(place),
            step.verdict.workload.id,
            step.finding.rule,
            overview.saving_text(step.finding, per=""),
            units.amount(step.running, found.currency),
            overview.slowdown_text(step.finding) or "-",
            _(step.finding.confidence.value),
            sentence(say(step.finding.message)),
        )
        for place, step in enumerate(found.steps, 1)
    )
    return Table(
        columns=headed(_COLUMNS),
        rows=rows,
        caption=_("One change per workload; alternatives are never added up."),
    )


def _commands(found: Course) -> list[Block]:
    lines = [step.finding.change.command for step in found.steps if step.finding.change.command]
    if not lines:
        return []
    text = "\n".join(dict.fromkeys(lines))
    return [Heading(text=_("Commands"), level=3), Code(text=text, language="sh")]


def _rest(found: Course) -> list[Block]:
    lines = []
    if found.left:
        amount = sum(_step(step).saving for step in found.left)
        lines.append(
            _(
                "{changes} would save {money} beyond the target.",
                changes=counted(len(found.left), "more change"),
                money=_money(found, amount),
            )
        )
    if found.unpriced:
        lines.append(
            _(
                "{changes} would save GPU-hours whose price is not known, or is not in {currency}.",
                changes=counted(found.unpriced, "more change"),
                currency=found.currency,
            )
        )
    return [Bullets(lines=tuple(lines))] if lines else []
