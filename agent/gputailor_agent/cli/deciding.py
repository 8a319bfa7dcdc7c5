"""What ``gputailor dismiss`` and ``gputailor acknowledge`` share."""

import difflib
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.keeping import kept_store, who, workload_id
from gputailor_agent.cli.terminal import tell
from gputailor_agent.ledger import ALL
from gputailor_agent.model.ledger import Decision
from gputailor_agent.reports import units
from gputailor_agent.rules import registry
from gputailor_agent.store.ledger import Ledger

WorkloadArgument = Annotated[
    str, typer.Argument(help="A workload's id, or a part only one has.", show_default=False)
]
RuleArgument = Annotated[
    str, typer.Argument(help="The rule whose finding is meant, or all.", show_default=False)
]
Withdraw = Annotated[bool, typer.Option("--withdraw", help="Take the former word back.")]


def decide(
    store: str | None, cluster: str, workload: str, rule: str, decision: Decision | None
) -> None:
    """Keep a decision about a workload's findings of a rule; None takes the former one back."""
    known = rule_id(rule)
    with kept_store(store) as opened:
        named = workload_id(opened, cluster, workload)
        with opened.transaction() as tx:
            book = Ledger(tx)
            if decision is None:
                there = book.withdraw(cluster, named, known)
                done = "taken back" if there else "there was nothing to take back"
                tell(f"{named}, {known}: {done}")
                return
            book.decide(cluster, _about(decision, named, known))
    until = "" if decision.until is None else f" until {units.utc(decision.until)}"
    tell(f"{named}, {known}: {decision.kind}{until}; the agent's next plan minds it")


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
    near = difflib.get_close_matches(named, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}, all"
    raise UsageError(f"RULE: there is no rule {text!r}; {hint}")
