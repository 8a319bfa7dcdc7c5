"""``gputailor acknowledge WORKLOAD RULE``: somebody takes a finding on."""

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
from gputailor_agent.ledger import ACKNOWLEDGED

_EPILOG: Final = """Examples:

  gputailor acknowledge team-a/Deployment/web/main smaller_gpu --note "in the next sprint"

  gputailor acknowledge web smaller_gpu --withdraw
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(acknowledge)


def acknowledge(
    workload: WorkloadArgument,
    rule: RuleArgument,
    *,
    note: Annotated[
        str, typer.Option("--note", help="What is planned; shown in the ledger.")
    ] = "taken on",
    withdraw: Withdraw = False,
    anyway: Anyway = False,
    store: options.Store = None,
    cluster: options.Cluster = options.DEFAULT_CLUSTER,
) -> None:
    """Say that somebody takes a finding on; it goes on being reported until the change is made."""
    made = None if withdraw else decision(ACKNOWLEDGED, note)
    decide(store, cluster, workload, rule, made, anyway=anyway)
