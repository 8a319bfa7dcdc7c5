"""What changed since the last report, what came of advice that was followed, and the trend."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Money, Plan, Verdict
from gputailor_agent.model.ledger import Entry, Result, State
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.beside import Beside, Former, FormerFinding, Week
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Column,
    Facts,
    Heading,
    Paragraph,
    Table,
    headed,
)
from gputailor_agent.reports.explain import rule_title
from gputailor_agent.reports.plurals import counted

#: A finding is worse when it would save this much more than it would have before.
WORSE: Final = 1.1
_NAMED: Final = 5
_SHOWN: Final = 10
_JUDGED: Final = frozenset({Result.REAL, Result.PARTLY, Result.NONE, Result.SLOWER, Result.FAILED})
_HOURS_PER_MONTH: Final = 730.0

_TREND_COLUMNS: Final = (
    Column(title="up to"),
    Column(title="GPUs", numeric=True),
    Column(title="mean kernel activity", numeric=True),
    Column(title="observed", numeric=True),
    Column(title="cost of the window", numeric=True),
    Column(title="can be saved per month", numeric=True),
    Column(title="workloads to change", numeric=True),
)
_ADVICE_COLUMNS: Final = (
    Column(title="workload", least=24),
    Column(title="advice", least=14),
    Column(title="applied on"),
    Column(title="foretold per month", numeric=True),
    Column(title="realised per month", numeric=True),
    Column(title="run time", numeric=True),
    Column(title="what came of it", least=12),
)


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Findings since a former report, by workload id; what is gone has its reason or is unknown."""

    since: float
    new: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    dismissed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def changes(plan: Plan, beside: Beside) -> Changes | None:
    """What changed since the last report; None where there was none.

    New: not recommended first then. Worse: the same advice would save a tenth more. Fixed: the
    change was made, as the ledger saw it. Expired: not found any more although nothing was changed.
    Gone: not found any more, and the ledger does not tell why.
    """
    former = beside.former
    if former is None:
        return None
    now = {one.workload.id: one for one in plan.verdicts if one.primary is not None}
    ended = _ended(beside.entries or (), former.made_at)
    left = [known for known in former.findings.values() if not _still(known, now)]
    by_end: dict[State | None, list[str]] = {}
    for known in left:
        end = ended.get((known.workload_id, known.rule))
        by_end.setdefault(end, []).append(known.workload_id)
    return Changes(
        since=former.made_at,
        new=tuple(name for name, one in now.items() if _is_new(one, former)),
        worse=tuple(name for name, one in now.items() if _is_worse(one, former)),
        fixed=tuple(by_end.get(State.APPLIED, ())),
        expired=tuple(by_end.get(State.EXPIRED, ())),
        dismissed=tuple(by_end.get(State.DISMISSED, ())),
        gone=tuple(by_end.get(None, ())),
    )


def _ended(entries: Iterable[Entry], since: float) -> dict[tuple[str, str], State]:
    """How findings came to their end since then."""
    ends = {State.APPLIED, State.EXPIRED, State.DISMISSED}
    return {one.key: one.state for one in entries if one.changed_at >= since and one.state in ends}


def _still(known: FormerFinding, now: dict[str, Verdict]) -> bool:
    one = now.get(known.workload_id)
    if one is None:
        return False
    every = (one.primary, *one.alternatives)
    return any(finding is not None and finding.rule == known.rule for finding in every)


def _is_new(one: Verdict, former: Former) -> bool:
    known = former.findings.get(one.workload.id)
    return known is None or (one.primary is not None and one.primary.rule != known.rule)


def _is_worse(one: Verdict, former: Former) -> bool:
    known, finding = former.findings.get(one.workload.id), one.primary
    if known is None or finding is None or finding.rule != known.rule:
        return False
    before, after = known.saving, finding.saving.money_per_month
    if before is not None and after is not None and before.currency == after.currency:
        return before.amount > 0 and after.amount > WORSE * before.amount
    hours, then = finding.saving.gpu_hours_per_month, known.gpu_hours_per_month
    return hours is not None and then is not None and then > 0 and hours > WORSE * then


def changes_blocks(plan: Plan, beside: Beside) -> tuple[Block, ...]:
    """The part on what changed since the last report."""
    found = changes(plan, beside)
    if found is None:
        return ()
    heading = Heading(text=_("Since the report of {day}", day=units.day(found.since)))
    told = (
        (_("new"), found.new),
        (_("worse"), found.worse),
        (_("fixed: the change was made"), found.fixed),
        (_("expired: not found any more, without a change"), found.expired),
        (_("dismissed"), found.dismissed),
        (_("not found any more, why is not known"), found.gone),
    )
    lines = [_line(label, names) for label, names in told if names]
    if not lines:
        return (heading, Paragraph(text=_("Nothing changed."), tone="muted"))
    return (heading, Bullets(lines=tuple(lines)))


def _line(label: str, names: tuple[str, ...]) -> str:
    shown = _(", ").join(names[:_NAMED])
    if len(names) > _NAMED:
        shown = _("{names} and {number} more", names=shown, number=len(names) - _NAMED)
    return _("{label}: {number} ({names})", label=label, number=len(names), names=shown)


def advice_blocks(beside: Beside) -> tuple[Block, ...]:
    """The ledger's part: changes that were made, what they were to save, and what they did."""
    if beside.entries is None:
        return ()
    made = [one for one in beside.entries if one.state == State.APPLIED]
    if not made:
        return ()
    made.sort(key=lambda one: one.applied_at or 0.0, reverse=True)
    caption = ""
    if len(made) > _SHOWN:
        caption = _("{number} older ones: gputailor ledger.", number=len(made) - _SHOWN)
    rows = tuple(map(_life, made[:_SHOWN]))
    links = tuple(one.workload_id for one in made[:_SHOWN])
    return (
        Heading(text=_("What came of advice that was followed")),
        Facts(pairs=tuple(_outcome(made))),
        Table(columns=headed(_ADVICE_COLUMNS), rows=rows, links=links, caption=caption),
    )


def _outcome(made: list[Entry]) -> Iterator[tuple[str, str]]:
    judged = [one for one in made if one.result in _JUDGED]
    yield _("changes made"), units.count(len(made))
    yield _("of these judged"), units.count(len(judged))
    if not judged:
        return
    yield _("saved per month"), _sums(one.realised_money_per_month for one in judged)
    known = [one.realised_gpu_hours_per_month for one in judged]
    hours = [value for value in known if value is not None]
    yield _("GPU-hours saved per month"), units.count(round(sum(hours)) if hours else None)
    real = sum(1 for one in judged if one.result == Result.REAL)
    yield (
        _("saving as foretold, and nothing worse"),
        _("{part} of {whole}", part=units.count(real), whole=units.count(len(judged))),
    )


def _sums(amounts: Iterable[Money | None]) -> str:
    """Sums by currency; unknown where no amount is known."""
    sums: dict[str, float] = {}
    for one in amounts:
        if one is not None:
            sums[one.currency] = sums.get(one.currency, 0.0) + one.amount
    return _(", ").join(units.amount(sums[name], name) for name in sorted(sums)) or units.unknown()


def _life(one: Entry) -> tuple[str, ...]:
    foretold = one.prediction
    return (
        one.workload_id,
        rule_title(one.rule),
        units.day(one.applied_at),
        _month(foretold.money_per_month, foretold.gpu_hours_per_month),
        _month(one.realised_money_per_month, one.realised_gpu_hours_per_month),
        units.factor(one.slowdown),
        result_word(one.result),
    )


def _month(money: Money | None, hours: float | None) -> str:
    if money is not None:
        return units.money(money)
    if hours is None:
        return units.unknown()
    return _("{number} GPU-hours", number=units.count(round(hours)))


def result_word(result: Result | None) -> str:
    """What a change that was made came to, in words."""
    words = {
        Result.WAITING: _("too little has run since"),
        Result.REAL: _("as foretold"),
        Result.PARTLY: _("less than half of it"),
        Result.NONE: _("nothing saved"),
        Result.SLOWER: _("runs take longer than foretold"),
        Result.FAILED: _("runs fail since"),
        Result.UNKNOWN: _("nothing to compare with"),
    }
    return units.unknown() if result is None else words[result]


def trend_blocks(plan: Plan, beside: Beside) -> tuple[Block, ...]:
    """The last reports' totals beside this one's."""
    if not beside.weeks:
        return ()
    now = overview.totals(plan)
    current = Week(
        window=plan.window,
        gpus=now.gpus,
        mean_kernel=now.mean_kernel_of_observed,
        observed_share=now.observed_share,
        cost=now.window_cost,
        saving=now.saving,
        findings=now.states.get("finding", 0),
    )
    rows = tuple(map(_week, (*beside.weeks, current)))
    return (
        Heading(text=_("From report to report")),
        Table(columns=headed(_TREND_COLUMNS), rows=rows),
    )


def _week(one: Week) -> tuple[str, ...]:
    return (
        units.day(one.window.end),
        units.count(one.gpus),
        units.ratio(one.mean_kernel),
        units.ratio(one.observed_share),
        units.money(one.cost),
        units.money(one.saving),
        units.count(one.findings),
    )


def headline(plan: Plan) -> str:
    """The report in one line: money, GPU-hours, and how many workloads it takes."""
    return headline_of(plan, overview.totals(plan), len(overview.counted_findings(plan)))


def headline_of(plan: Plan, summary: overview.Totals, found: int) -> str:
    """The same of a plan whose totals and counted findings are known; '' where there are none."""
    if not found:
        return ""
    share = None
    if not summary.other_money:
        share = _share(plan, summary.saving, summary.window_cost)
    told = {
        "saving": overview.saving_of(summary),
        "changed": units.count(found),
        "workloads": counted(len(plan.verdicts), "workload"),
    }
    if share is None:
        return _("{saving} can be saved by changing {changed} of {workloads}.", **told)
    return _(
        "{saving} can be saved by changing {changed} of {workloads}: {share} of the GPUs' cost.",
        share=units.ratio(share),
        **told,
    )


def _share(plan: Plan, saving: Money | None, cost: Money | None) -> float | None:
    """The saving as a share of a month's cost, at the rate of the window."""
    if saving is None or cost is None or saving.currency != cost.currency or cost.amount <= 0:
        return None
    month = cost.amount / (plan.window.seconds / 3600.0) * _HOURS_PER_MONTH
    return min(1.0, saving.amount / month)
