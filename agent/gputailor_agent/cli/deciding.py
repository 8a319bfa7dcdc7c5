"""What ``gputailor dismiss`` and ``gputailor acknowledge`` share."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.keeping import kept_store, verdict_of, who
from gputailor_agent.cli.terminal import tell
from gputailor_agent.ledger import ACKNOWLEDGED, ALL, DISMISSED, decidable
from gputailor_agent.model.ledger import Decision
from gputailor_agent.model.nearest import did_you_mean, meant_or_known
from gputailor_agent.reports import units
from gputailor_agent.rules import registry
from gputailor_agent.store.ledger import Ledger

WorkloadArgument = Annotated[
    str, typer.Argument(help="A workload's id, or a part only one has.", show_default=False)
]
RuleArgument = Annotated[
    str, typer.Argument(help="The rule whose finding is meant, or all.", show_default=False)
]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Also where there is no such finding yet, or in the place of another decision.",
    ),
]
Withdraw = Annotated[bool, typer.Option("--withdraw", help="Take the former word back.")]


def decide(
    store: str | None,
    cluster: str,
    workload: str,
    rule: str,
    decision: Decision | None,
    *,
    anyway: bool = False,
) -> None:
    """Keep a decision about a workload's findings of a rule; None takes the former one back.

    Raises ``UsageError`` where there is no such finding, or where it would undo another decision,
    unless ``anyway``.
    """
    known = rule_id(rule)
    with kept_store(store, changing=True) as opened:
        verdict = verdict_of(opened, cluster, workload)
        named = verdict.workload.id
        with opened.transaction() as tx:
            book = Ledger(tx)
            if decision is None:
                there = book.withdraw(cluster, named, known)
                done = "taken back" if there else "there was nothing to take back"
                tell(f"{named}, {known}: {done}")
                return
            made = _about(decision, named, known)
            before = [one for one in book.decisions(cluster) if one.workload_id == named]
            if not anyway:
                entries = book.newest(cluster, named).values()
                _check_there(made, decidable(verdict, entries, before))
                _check_undone(made, before)
            book.decide(cluster, made)
    until = "" if decision.until is None else f" until {units.utc(decision.until)}"
    tell(f"{named}, {known}: {decision.kind}{until}; the agent's next plan minds it")


def _check_there(made: Decision, found: frozenset[str]) -> None:
    """Raise ``UsageError`` unless the rule is one with something to decide about."""
    if made.rule in {ALL, *found}:
        return
    there = f"there are: {', '.join(sorted(found))}" if found else "it has none"
    hint = did_you_mean(made.rule, found)
    raise UsageError(
        f"RULE: {made.workload_id} has no finding of {made.rule}; {there}{hint} "
        "(--anyway decides of one that may come)"
    )


def _check_undone(made: Decision, before: Iterable[Decision]) -> None:
    """Raise ``UsageError`` where an acknowledgement would take the place of a dismissal."""
    if made.kind != ACKNOWLEDGED:
        return
    for one in before:
        holds = one.kind == DISMISSED and one.holds(made.decided_at)
        if holds and one.rule in {made.rule, ALL}:
            by = f" by {one.decided_by}" if one.decided_by else ""
            raise UsageError(
                f"{one.workload_id}, {one.rule}: it was dismissed{by} on "
                f"{units.utc(one.decided_at)}: {one.reason}. Take that back first (gputailor "
                f"dismiss {one.workload_id} {one.rule} --withdraw), or give --anyway"
            )


def decision(kind: str, reason: str, until: str | None = None) -> Decision:
    """A decision of this user now, about nothing yet; raises ``UsageError``."""
    now = time.time()
    if not reason.strip():
        raise UsageError("--reason: expected words; whoever looks next will want to know why")
    return Decision(
        workload_id="",
        rule="",
        kind=kind,
        reason=reason.strip(),
        decided_by=who(),
        decided_at=now,
        until=None if until is None else moment(until, now),
    )


def _about(made: Decision, workload: str, rule: str) -> Decision:
    return Decision(
        workload_id=workload,
        rule=rule,
        kind=made.kind,
        reason=made.reason,
        decided_by=made.decided_by,
        decided_at=made.decided_at,
        until=made.until,
    )


def moment(text: str, now: float) -> float:
    """Unix seconds of a date (its first second) or time in UTC that is to come."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"--until: expected a date such as 2027-06-30 or a UTC time, found {text!r}"
        ) from error
    at = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if at <= now:
        raise UsageError(f"--until: {text} is over")
    return at


def rule_id(text: str) -> str:
    """A rule's id, by underscores or dashes; raises ``UsageError`` with the nearest names."""
    named = text.replace("-", "_")
    known = [rule.id for rule in registry()]
    if named in {*known, ALL}:
        return named
    raise UsageError(f"RULE: there is no rule {text!r}{meant_or_known(text, [*known, ALL])}")
