"""``gputailor dismiss WORKLOAD RULE``: a finding is not made again, and why."""

from typing import Annotated, Final

import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.deciding import (
    Anyway,
    RuleArgument,
    Withdraw,
    WorkloadArgument,
    decide,
    decision,
)
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.ledger import DISMISSED

_EPILOG: Final = """Examples:

  gputailor dismiss team-a/Deployment/web/main smaller_gpu --reason "bought for two years"

  gputailor dismiss web idle --reason "on call for the fair" --until 2027-03-01

  gputailor dismiss web idle --withdraw
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(dismiss)


def dismiss(
    workload: WorkloadArgument,
    rule: RuleArgument,
    *,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; shown in reports.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Until this date or UTC time; else for good.")
    ] = None,
    withdraw: Withdraw = False,
    anyway: Anyway = False,
    store: options.Store = None,
    cluster: options.Cluster = options.DEFAULT_CLUSTER,
) -> None:
    """Say that a finding is not wanted: the rule is silent on the workload from the next plan on.

    The ledger keeps the reason. The annotation gputailor.io/ignore on the workload does the same
    from the side of its owner.
    """
    if withdraw:
        decide(store, cluster, workload, rule, None)
        return
    if reason is None:
        raise UsageError("--reason is missing: say why the finding is not wanted")
    decide(store, cluster, workload, rule, decision(DISMISSED, reason, until), anyway=anyway)
