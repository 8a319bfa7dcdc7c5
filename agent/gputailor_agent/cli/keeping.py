"""What commands about an agent's store share: opening it, and finding a workload in it."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.settings import AgentSettings
from gputailor_agent.cli.stored import check_there
from gputailor_agent.reports.explain import find_verdict
from gputailor_agent.store import Store

OUTPUTS: Final = ("table", "json")

Output = Annotated[str, typer.Option("--output", "-o", help="table or json.")]


@contextmanager
def kept_store(url: str | None) -> Iterator[Store]:
    """The store that an agent writes; raises ``CommandError`` where there is none."""
    where = url or str(AgentSettings.model_fields["store"].default)
    check_there(where)
    with Store.open(where) as store:
        yield store


def workload_id(store: Store, cluster: str, named: str) -> str:
    """The id of a workload in the newest plan by its id, or a part that only one has.

    Raises ``UnknownWorkloadError`` or, before the first plan, ``CommandError``.
    """
    plan = store.latest_plan(cluster)
    if plan is None:
        raise CommandError(
            f"the store holds no plan of cluster {cluster!r} yet; is --cluster right, has the "
            "agent run?"
        )
    return find_verdict(plan, named).workload.id


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
