"""What was told at objects of a cluster, so that each thing is told once and taken back in time.

A row is written in the transaction that puts the message into the outbox. What ``detail`` holds is
the business of whoever tells.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import Column, LargeBinary, Table, Text, and_, delete, select

from gputailor_agent.store.tables import metadata
from gputailor_agent.store.writing import Transaction


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


#: By the object's UID; ``about`` tells several things at one object apart. The migrations make it.
table: Final = Table(
    "told",
    metadata,
    _key("cluster"),
    _key("channel"),
    _key("object"),
    _key("about"),
    Column("detail", LargeBinary, nullable=False),
)


class ToldKey(NamedTuple):
    """What a row is known by beside its cluster."""

    channel: str
    object: str  # UID
    about: str


def all_told(tx: Transaction, cluster: str) -> dict[ToldKey, bytes]:
    """Everything that was told and is not forgotten."""
    query = select(table).where(table.c.cluster == cluster)
    return {
        ToldKey(row.channel, row.object, row.about): row.detail
        for row in tx.connection.execute(query)
    }


def put_told(tx: Transaction, cluster: str, rows: Iterable[tuple[ToldKey, bytes]]) -> None:
    """Write rows over the former ones."""
    tx.upsert(
        table, [{"cluster": cluster, **key._asdict(), "detail": detail} for key, detail in rows]
    )


def forget(tx: Transaction, cluster: str, keys: Iterable[ToldKey]) -> None:
    """Drop rows: their objects are gone."""
    for key in keys:
        one = and_(*(table.c[name] == value for name, value in key._asdict().items()))
        tx.connection.execute(delete(table).where(table.c.cluster == cluster, one))
