"""A workload's page: use against request, runs, every rule's word with its numbers, the ledger."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from gputailor_agent.api import timeline
from gputailor_agent.api.kept import Kept, Told
from gputailor_agent.ledger import ALL, DISMISSED
from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import Plan, Verdict
from gputailor_agent.model.ledger import Decision, Entry
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import Column, Table
from gputailor_agent.reports.explain import Number, Section, explain
from gputailor_agent.rules.base import RuleSettings

#: Runs and devices that are shown; a workload may have thousands.
MOST_RUNS: Final = 50
MOST_STRIPS: Final = 32


def values(plan: Plan, verdict: Verdict, rules: RuleSettings) -> dict[str, Any]:
    """What the template shows of a verdict, without what the store adds."""
    told = explain(plan, verdict, rules)
    line = overview.line_of(verdict)
    return {
        "id": verdict.workload.id,
        "state": line.state,
        "state_text": overview.state_word(line.state),
        "headline": line.headline,
        "facts": [(fact.label, fact.text) for fact in told.facts],
    }


def sections(
    plan: Plan, verdict: Verdict, rules: RuleSettings, decisions: Iterable[Decision]
) -> list[dict[str, Any]]:
    """Every rule's word, findings first; ``decision`` tells that somebody dismissed one."""
    told = explain(plan, verdict, rules)
    found = {one.rule for one in (verdict.primary, *verdict.alternatives) if one is not None}
    made = {
        one.rule: one
        for one in decisions
        if one.workload_id == verdict.workload.id
        and one.kind == DISMISSED
        and one.holds(plan.made_at)
    }
    return [
        _section(section, found, made.get(section.rule) or made.get(ALL))
        for section in told.sections
    ]


def _section(section: Section, found: set[str], decision: Decision | None) -> dict[str, Any]:
    return {
        "rule": section.rule,
        "title": section.title,
        "standing": section.standing,
        "text": section.text,
        "facts": [(fact.label, fact.text) for fact in section.facts],
        "codes": [text for text in (section.patch, section.command, section.code) if text],
        "numbers": _numbers(section.numbers) if section.numbers else None,
        "thresholds": [(fact.label, fact.text) for fact in section.thresholds],
        "found": section.rule in found or decision is not None,
        "decision": "" if decision is None else _decided(decision),
    }


def _decided(decision: Decision) -> str:
    until = (
        _("for good")
        if decision.until is None
        else _("until {time}", time=units.utc(decision.until))
    )
    return _(
        "Dismissed by {who} at {time}, {until}: {reason}. The next plan minds it.",
        who=decision.decided_by or units.unknown(),
        time=units.utc(decision.decided_at),
        until=until,
        reason=decision.reason,
    )


def _numbers(numbers: tuple[Number, ...]) -> Table:
    columns = (
        Column(title="number", least=24),
        Column(title="value", numeric=True),
        Column(title="held against", numeric=True),
        Column(title="passed"),
        Column(title="samples", numeric=True),
        Column(title="coverage", numeric=True),
        Column(title="window", least=14),
        Column(title="formula", least=24),
    )
    rows = tuple(
        (
            one.name,
            one.value,
            one.held_against,
            one.passed,
            one.samples,
            one.coverage,
            one.window,
            one.formula,
        )
        for one in numbers
    )
    return Table(columns=columns, rows=rows)


def of_store(kept: Kept | None, plan: Plan, workload: Workload) -> dict[str, Any]:
    """Timeline and runs; where nothing is kept, why there is none."""
    if kept is None:
        return {
            "strips": [],
            "no_strips": _("This agent keeps no use by the hour."),
            "left_out": "",
            "runs": None,
            "links": [],
            "ticks": "",
            "width": timeline.WIDTH,
            "height": timeline.HEIGHT,
        }
    strips, pods = kept.strips(workload, plan.window)
    runs = kept.runs(workload)
    more = len(strips) - MOST_STRIPS
    left = [_("{number} older pods", number=units.count(pods))] if pods else []
    left += [_("{number} more devices", number=units.count(more))] if more > 0 else []
    return {
        "strips": timeline.draw(strips[:MOST_STRIPS], plan.window),
        "no_strips": _("No use of it is kept of this window: unknown, which is not zero."),
        "left_out": _("Not drawn: {what}.", what=_(", ").join(left)) if left else "",
        "runs": _runs(runs) if runs else None,
        "links": _links(runs),
        "ticks": overview.window_text(plan.window),
        "width": timeline.WIDTH,
        "height": timeline.HEIGHT,
    }


def _runs(runs: list[Told]) -> Table:
    columns = (
        Column(title="run", least=20),
        Column(title="began"),
        Column(title="ended"),
        Column(title="outcome"),
        Column(title="GPUs", numeric=True),
        Column(title="GPU-hours", numeric=True),
        Column(title="kernel", numeric=True),
        Column(title="memory peak", numeric=True),
    )
    shown = runs[:MOST_RUNS]
    more = len(runs) - len(shown)
    caption = _("{number} older runs are not shown.", number=units.count(more)) if more else ""
    return Table(columns=columns, rows=tuple(map(_run, shown)), caption=caption)


def _run(run: Told) -> tuple[str, ...]:
    use = run.use
    ended = _("not yet") if run.outcome == "running" else units.utc(run.finished)
    return (
        run.id,
        units.utc(run.started),
        ended,
        _outcome(run.outcome),
        units.count(None if use is None else use.gpus),
        units.count(None if use is None else use.gpu_seconds / 3600.0),
        units.ratio(None if use is None else use.mean_kernel),
        units.size(None if use is None else use.memory_peak_bytes),
    )


def _outcome(outcome: str) -> str:
    """How a run ended, in words."""
    words = {
        "running": _("running"),
        "succeeded": _("succeeded"),
        "failed": _("failed"),
        "unknown": units.unknown(),
    }
    return words.get(outcome, outcome)


def _links(runs: list[Told]) -> list[tuple[str, str]]:
    """Addresses that trackers gave, of the web only: ``javascript:`` is an address, too."""
    found = dict.fromkeys(
        (f"{tracker}: {address}", address)
        for run in runs[:MOST_RUNS]
        for tracker, address in run.links
        if urlsplit(address).scheme in {"http", "https"}
    )
    return list(found)


def ledger(entries: Iterable[Entry]) -> Table | None:
    """What became of a workload's findings; None where there were none."""
    columns = (
        Column(title="rule"),
        Column(title="state"),
        Column(title="since"),
        Column(title="found"),
        Column(title="foretold", numeric=True),
        Column(title="came true", numeric=True),
        Column(title="result"),
        Column(title="reason", least=20),
    )
    rows = tuple(map(_entry, entries))
    return Table(columns=columns, rows=rows) if rows else None


def _entry(entry: Entry) -> tuple[str, ...]:
    foretold = entry.prediction
    return (
        entry.rule,
        _(entry.state.value),
        units.utc(entry.changed_at),
        units.utc(entry.opened_at),
        _worth(foretold.money_per_month, foretold.gpu_hours_per_month),
        _worth(entry.realised_money_per_month, entry.realised_gpu_hours_per_month)
        if entry.result is not None
        else "-",
        _(entry.result.value) if entry.result is not None else "-",
        entry.reason or "-",
    )


def _worth(money: Any, hours: float | None) -> str:
    """Money a month, else GPU-hours, else unknown."""
    if money is not None:
        return units.money(money, per="month")
    if hours is None:
        return units.unknown()
    return _("{number} GPU-hours", number=units.count(hours))
