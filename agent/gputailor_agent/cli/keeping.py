"""What commands about an agent's store share: opening it, and finding a workload in it."""

import getpass
from typing import Annotated, Final

import typer

from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.settings import AgentSettings
from gputailor_agent.cli.stored import reading, writing
from gputailor_agent.model.judgement import Verdict
from gputailor_agent.reports.explain import find_verdict
from gputailor_agent.store import Store

OUTPUTS: Final = ("table", "json")

Output = Annotated[str, typer.Option("--output", "-o", help="table or json.")]


def kept_store(url: str | None, *, changing: bool = False) -> Store:
    """The store that an agent writes, to read or to change; raises ``StoreError`` without one."""
    where = url or str(AgentSettings.model_fields["store"].default)
    return writing(where) if changing else reading(where)


def verdict_of(store: Store, cluster: str, named: str) -> Verdict:
    """A workload's verdict in the newest plan by its id, or a part that only one has.

    Raises ``UnknownWorkloadError`` or, before the first plan, ``CommandError``.
    """
    plan = store.latest_plan(cluster)
    if plan is None:
        raise CommandError(
            f"the store holds no plan of cluster {cluster!r} yet; is --cluster right, has the "
            "agent run?"
        )
    return find_verdict(plan, named)


def check_output(output: str) -> None:
    """Raise ``UsageError`` for a format that there is not."""
    if output not in OUTPUTS:
        raise UsageError(f"--output: expected {' or '.join(OUTPUTS)}, found {output!r}")


def who() -> str:
    """The user that gives the command; '' where the system does not tell."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
