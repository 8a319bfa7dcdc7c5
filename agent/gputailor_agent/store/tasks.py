"""How the agent's jobs went, one row a job: read by people, decides nothing."""

from collections.abc import Iterable

import msgspec
from sqlalchemy import delete, func, select

from gputailor_agent.store.ledger_tables import tasks
from gputailor_agent.store.outbox_tables import outbox
from gputailor_agent.store.tables import periods
from gputailor_agent.store.writing import Transaction


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A job's last run. Times are Unix seconds; None: never, or not known."""

    job: str
    started_at: float | None = None
    seconds: float | None = None  # what the last run took
    outcome: str = ""  # "done", "failed" or '' before the first run
    reason: str = ""  # why the last run failed, or was not begun
    done_at: float | None = None  # when the last run that went well began
    failures: int = 0  # in a row
    missed: int = 0  # runs that did not begin, since the agent's start
    runs: int = 0  # since the agent's start
    next_at: float | None = None  # when it wakes next


def put_tasks(tx: Transaction, cluster: str, changed: Iterable[Task]) -> None:
    """Write how jobs went over what was there."""
    rows = [msgspec.structs.asdict(task) | {"cluster": cluster} for task in changed]
    tx.upsert(tasks, rows)


def kept_tasks(tx: Transaction, cluster: str) -> list[Task]:
    """Every job that ever ran on this store, by name."""
    names = Task.__struct_fields__
    query = select(tasks).where(tasks.c.cluster == cluster).order_by(tasks.c.job)
    return [
        Task(**{name: getattr(row, name) for name in names}) for row in tx.connection.execute(query)
    ]


def drop_old_periods(tx: Transaction, cluster: str, before: float) -> None:
    """Forget how periods went that nobody asks for any more; when an agent first ran is kept."""
    own = periods.c.job.startswith(f"{cluster}/", autoescape=True)
    old = periods.c.changed_at < before
    first = periods.c.job == f"{cluster}/start"
    tx.connection.execute(delete(periods).where(own, old, ~first))


def letters_by_state(tx: Transaction, *clusters: str) -> dict[str, int]:
    """How many messages wait, were sent or were given up."""
    query = select(outbox.c.state, func.count()).where(outbox.c.cluster.in_(clusters))
    found = tx.connection.execute(query.group_by(outbox.c.state))
    return {row[0]: row[1] for row in found}
