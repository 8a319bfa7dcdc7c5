"""``gputailor tasks``: the agent's jobs, how each went last and when it comes next."""

from collections.abc import Iterable
from typing import Final

import typer

from gputailor_agent.api.running import tasks_document
from gputailor_agent.cli import options
from gputailor_agent.cli.keeping import Output, check_output, kept_store
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.reports import units
from gputailor_agent.reports.console import draw
from gputailor_agent.reports.document import Column, Document, Heading, Table
from gputailor_agent.schedule.jobs import whens
from gputailor_agent.store.tasks import Task, kept_tasks

_EPILOG: Final = """Examples:

  gputailor tasks --store sqlite:///gputailor.db

  gputailor tasks --store postgresql+psycopg://gputailor@db/gputailor --cluster lab --output json
"""
_COLUMNS: Final = (
    Column(title="job"),
    Column(title="last run"),
    Column(title="took", numeric=True),
    Column(title="outcome"),
    Column(title="last done"),
    Column(title="next"),
    Column(title="when", least=20),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(tasks)


def tasks(
    *,
    store: options.Store = None,
    cluster: options.Cluster = options.DEFAULT_CLUSTER,
    output: Output = "table",
) -> None:
    """List the agent's jobs: when each ran last, how it went, when it comes next.

    As the agent noted it in the store a few seconds ago. What is due is decided by the store's
    periods, never by this.
    """
    check_output(output)
    with kept_store(store) as opened, opened.transaction() as tx:
        found = kept_tasks(tx, cluster)
    answer(tasks_document(found) if output == "json" else table(found, cluster))


def table(found: Iterable[Task], cluster: str) -> str:
    """The jobs as a table for the terminal."""
    rows = tuple(_row(task) for task in found)
    title = Heading(text=f"Jobs of cluster {cluster}", level=1)
    document = Document(title=title.text, blocks=(title, Table(columns=_COLUMNS, rows=rows)))
    return draw(document, look())


def _row(task: Task) -> tuple[str, ...]:
    outcome = task.outcome or "not run yet"
    if task.failures > 1:
        outcome += f" {task.failures} times"
    if task.reason:
        outcome += f": {' '.join(task.reason.split())}"
    if task.missed:
        outcome += f" ({task.missed} missed)"
    return (
        task.job,
        _at(task.started_at),
        units.duration(task.seconds),
        outcome,
        _at(task.done_at),
        _at(task.next_at),
        whens().get(task.job, ""),
    )


def _at(at: float | None) -> str:
    return "never" if at is None else units.utc(at)
