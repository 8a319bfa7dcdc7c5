"""The ledger in the store, and what people decided. One row per entry; the newest number counts."""

from collections.abc import Iterable
from typing import Final

import msgspec
from sqlalchemy import delete, select

from gputailor_agent.model.ledger import Decision, Entry
from gputailor_agent.store.ledger_tables import decisions, entries
from gputailor_agent.store.writing import Transaction

#: Entries that came to their end are kept as long as reports are.
KEEP_SECONDS: Final = 400 * 86_400.0

_ENCODER: Final = msgspec.msgpack.Encoder()
_ENTRY: Final = msgspec.msgpack.Decoder(Entry)


class Ledger:
    """The ledger inside one transaction of the store."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def put(self, changed: Iterable[Entry]) -> None:
        """Write entries over what was there of the same number."""
        rows = [
            {
                "cluster": entry.cluster,
                "workload_id": entry.workload_id,
                "rule": entry.rule,
                "number": entry.number,
                "state": str(entry.state),
                "changed_at": entry.changed_at,
                "detail": _ENCODER.encode(entry),
            }
            for entry in changed
        ]
        self._tx.upsert(entries, rows)

    def entries(self, cluster: str, workload_id: str | None = None) -> list[Entry]:
        """Every entry of a cluster, or of one workload, by workload, rule and number."""
        query = select(entries.c.detail).where(entries.c.cluster == cluster)
        if workload_id is not None:
            query = query.where(entries.c.workload_id == workload_id)
        order = query.order_by(entries.c.workload_id, entries.c.rule, entries.c.number)
        return [_ENTRY.decode(detail) for detail in self._tx.connection.scalars(order)]

    def newest(self, cluster: str, workload_id: str | None = None) -> dict[tuple[str, str], Entry]:
        """The newest entry of each workload, or of one, and rule."""
        return {entry.key: entry for entry in self.entries(cluster, workload_id)}

    def drop_old(self, cluster: str, now: float) -> None:
        """Forget entries that have not changed for as long as reports are kept."""
        old = entries.c.changed_at < now - KEEP_SECONDS
        self._tx.connection.execute(delete(entries).where(entries.c.cluster == cluster, old))

    def decide(self, cluster: str, decision: Decision) -> None:
        """Keep a decision in place of the former one about the same workload and rule."""
        self._tx.upsert(decisions, [msgspec.structs.asdict(decision) | {"cluster": cluster}])

    def withdraw(self, cluster: str, workload_id: str, rule: str) -> bool:
        """Take a decision back; whether there was one."""
        gone = self._tx.connection.execute(
            delete(decisions).where(
                decisions.c.cluster == cluster,
                decisions.c.workload_id == workload_id,
                decisions.c.rule == rule,
            )
        )
        return gone.rowcount > 0

    def decisions(self, cluster: str) -> list[Decision]:
        """What people decided, by workload and rule."""
        names = Decision.__struct_fields__
        query = select(decisions).where(decisions.c.cluster == cluster)
        order = query.order_by(decisions.c.workload_id, decisions.c.rule)
        return [
            Decision(**{name: getattr(row, name) for name in names})
            for row in self._tx.connection.execute(order)
        ]
