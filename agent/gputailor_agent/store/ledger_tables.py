"""Tables of the ledger and of how jobs went; the migrations make them, like those of ``tables``."""

from typing import Final

from sqlalchemy import BigInteger, Column, Double, Integer, LargeBinary, Table, Text

from gputailor_agent.store.tables import metadata


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


#: Each finding's life, as the agent follows it. ``detail`` is the whole entry (msgpack).
entries: Final = Table(
    "ledger",
    metadata,
    _key("cluster"),
    _key("workload_id"),
    _key("rule"),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("changed_at", Double, nullable=False),
    Column("detail", LargeBinary, nullable=False),
)

#: What people decided about findings. The agent reads it and never writes it.
decisions: Final = Table(
    "decisions",
    metadata,
    _key("cluster"),
    _key("workload_id"),
    _key("rule"),
    Column("kind", Text, nullable=False),  # "dismissed" or "acknowledged"
    Column("reason", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
    Column("decided_at", Double, nullable=False),
    Column("until", Double),
)

#: The last run of each job.
tasks: Final = Table(
    "tasks",
    metadata,
    _key("cluster"),
    _key("job"),
    Column("started_at", Double),
    Column("seconds", Double),
    Column("outcome", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("done_at", Double),
    Column("failures", Integer, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("next_at", Double),
)
