"""Who works for a cluster, as the row of ``outbox_holders`` says it, read inside a transaction.

On PostgreSQL the row is locked until the transaction ends, on SQLite writers queue anyway: a
take-over either comes before a transaction, which then sees it, or after it.
"""

import msgspec
from sqlalchemy import Connection, select

from gputailor_agent.store.outbox_tables import holders
from gputailor_agent.store.writing import Transaction


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A holder, its token, and until when (Unix seconds, by its own clock); 0 once given back."""

    holder: str
    token: int
    until: float


def held(connection: Connection, cluster: str) -> Held | None:
    """Return who works for the cluster; None where nobody ever did."""
    query = select(holders).where(holders.c.cluster == cluster)
    row = connection.execute(query).one_or_none()
    return None if row is None else Held(holder=row.holder, token=row.token, until=row.until)


def still_held(tx: Transaction, cluster: str, token: int) -> bool:
    """Whether the cluster is held by ``token``; until the transaction ends it stays so."""
    query = select(holders.c.token).where(holders.c.cluster == cluster).with_for_update()
    return tx.connection.scalar(query) == token
