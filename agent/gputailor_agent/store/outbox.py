"""The outbox: what is to be sent, each message to each recipient once.

A message is keyed by (period, scope, channel, recipient) and put in the transaction that keeps what
it tells of, so a crash never loses it and making a report again never doubles it. One agent at a
time may send for a cluster: it holds a lease with a fencing token that rises whenever the lease
changes hands, and every step before sending is refused to an older token.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Table, and_, delete, exists, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from gputailor_agent.store.outbox_tables import contents, faults, holders, outbox, spells
from gputailor_agent.store.writing import Transaction

WAITING: Final = "waiting"
SENDING: Final = "sending"
SENT: Final = "sent"
GIVEN_UP: Final = "given_up"

_OPEN: Final = (WAITING, SENDING)
_KEEP_SECONDS: Final = 400 * 86400.0  # as long as reports are kept


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """One message to one recipient; the first four fields are its key. Times are Unix seconds."""

    period: str
    scope: str
    channel: str
    recipient: str
    cluster: str
    settings_hash: str
    message_id: str
    made_at: float
    state: str = WAITING
    attempts: int = 0
    next_try: float = 0.0
    reason: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is known by."""
        return self.period, self.scope, self.channel, self.recipient


class Spell(msgspec.Struct, frozen=True, kw_only=True):
    """A workload's newest idle spell: ``told`` when its notice was put into the outbox."""

    workload_id: str
    since: float
    lasting: bool
    told: bool
    told_at: float | None
    seen_at: float


class FaultSpell(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of devices of a workload, while it lasts. Times are Unix seconds.

    ``level``: errors counted when it was last told of; 0 where nothing is counted. ``told_at``
    None: not yet.
    """

    workload_id: str
    fault: str  # "xid/79", "throttled"
    since: float
    lasting: bool
    level: float
    told_at: float | None
    seen_at: float


class Outbox:
    """The outbox inside one transaction of the store."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    def put(self, letters: Iterable[Letter], body: bytes) -> int:
        """Add letters that share one content; those already known stay as they are.

        Returns how many are new. ``body`` is kept once per (scope, period).
        """
        new = 0
        for letter in letters:
            row = msgspec.structs.asdict(letter)
            added = self._insert(outbox, row | {"changed_at": letter.made_at, "token": 0})
            if added:
                content = {"period": letter.period, "scope": letter.scope}
                self._insert(contents, content | {"made_at": letter.made_at, "body": body})
            new += added
        return new

    def letters(self, cluster: str) -> list[Letter]:
        """Every letter of a cluster, oldest first."""
        query = select(outbox).where(outbox.c.cluster == cluster)
        return self._letters(query.order_by(outbox.c.made_at, outbox.c.recipient))

    def due(self, cluster: str, now: float) -> list[Letter]:
        """Letters to be tried at ``now``, oldest first."""
        query = select(outbox).where(
            outbox.c.cluster == cluster, outbox.c.state.in_(_OPEN), outbox.c.next_try <= now
        )
        return self._letters(query.order_by(outbox.c.made_at, outbox.c.recipient))

    def body(self, letter: Letter) -> bytes | None:
        """What the letter says; None when it is gone."""
        found: bytes | None = self._connection.scalar(
            select(contents.c.body).where(
                contents.c.period == letter.period, contents.c.scope == letter.scope
            )
        )
        return found

    def hold(
        self, cluster: str, holder: str, *, now: float, until: float, gone: Callable[[str], bool]
    ) -> int | None:
        """Take or renew the right to send; the fencing token, or None while another holds it.

        ``gone`` tells of another holder whether it certainly lives no more.
        """
        known = self._connection.execute(
            select(holders).where(holders.c.cluster == cluster).with_for_update()
        ).one_or_none()
        if known is None:
            row = {"cluster": cluster, "holder": holder, "token": 1, "until": until}
            return 1 if self._insert(holders, row) else None
        same = known.holder == holder
        if not same and known.until > now and not gone(known.holder):
            return None
        token = int(known.token) + (not same)
        self._connection.execute(
            update(holders)
            .where(holders.c.cluster == cluster)
            .values(holder=holder, token=token, until=until)
        )
        return token

    def holder(self, cluster: str) -> str | None:
        """Who holds the right to send, or held it last."""
        return self._connection.scalar(select(holders.c.holder).where(holders.c.cluster == cluster))

    def release(self, cluster: str, token: int) -> None:
        """Give the right to send back, where it is still held by ``token``."""
        self._connection.execute(
            update(holders)
            .where(holders.c.cluster == cluster, holders.c.token == token)
            .values(until=0.0)
        )

    def claim(self, letter: Letter, token: int, *, now: float, next_try: float) -> bool:
        """Note that the letter is being sent; False when it, or the right to send, is gone."""
        changed = self._connection.execute(
            update(outbox)
            .where(_of(letter), outbox.c.state.in_(_OPEN), _held(letter.cluster, token, now))
            .values(
                state=SENDING,
                attempts=outbox.c.attempts + 1,
                token=token,
                changed_at=now,
                next_try=next_try,
            )
        )
        return changed.rowcount == 1

    def sent(self, letter: Letter, now: float) -> None:
        """Note that the receiver has taken it: true whoever holds the right to send by now."""
        self._connection.execute(
            update(outbox).where(_of(letter)).values(state=SENT, changed_at=now, reason="")
        )
        self._tidy(letter)

    def failed(self, letter: Letter, token: int, *, now: float, next_try: float, why: str) -> None:
        """Note why it was not taken and when it is tried again; ``letter`` as it was before."""
        own = or_(outbox.c.state == WAITING, outbox.c.token == token)
        self._connection.execute(
            update(outbox)
            .where(_of(letter), outbox.c.state.in_(_OPEN), own)
            .values(
                state=WAITING,
                attempts=letter.attempts + 1,
                changed_at=now,
                next_try=next_try,
                reason=why,
            )
        )

    def give_up(self, letter: Letter, *, now: float, why: str) -> None:
        """Note that it will not be tried again."""
        self._connection.execute(
            update(outbox)
            .where(_of(letter), outbox.c.state.in_(_OPEN))
            .values(state=GIVEN_UP, changed_at=now, reason=why)
        )
        self._tidy(letter)

    def drop_old(self, cluster: str, now: float) -> None:
        """Forget letters, and faults that ended, as old as the oldest reports."""
        old = and_(outbox.c.cluster == cluster, outbox.c.made_at < now - _KEEP_SECONDS)
        self._connection.execute(delete(outbox).where(old))
        gone = and_(faults.c.cluster == cluster, faults.c.seen_at < now - _KEEP_SECONDS)
        self._connection.execute(delete(faults).where(gone))

    def spells(self, cluster: str) -> dict[str, Spell]:
        """The newest idle spell of every workload that ever had one."""
        found = self._connection.execute(select(spells).where(spells.c.cluster == cluster))
        return {
            row.workload_id: Spell(
                workload_id=row.workload_id,
                since=row.since,
                lasting=row.lasting,
                told=row.told,
                told_at=row.told_at,
                seen_at=row.seen_at,
            )
            for row in found
        }

    def put_spells(self, cluster: str, changed: Iterable[Spell]) -> None:
        """Write spells over the former ones of their workloads."""
        for spell in changed:
            row = msgspec.structs.asdict(spell) | {"cluster": cluster}
            key = and_(spells.c.cluster == cluster, spells.c.workload_id == spell.workload_id)
            if not self._insert(spells, row):
                self._connection.execute(update(spells).where(key).values(**row))

    def faults(self, cluster: str) -> dict[tuple[str, str], FaultSpell]:
        """What is known of faults, by workload and fault."""
        found = self._connection.execute(select(faults).where(faults.c.cluster == cluster))
        names = FaultSpell.__struct_fields__
        return {
            (row.workload_id, row.fault): FaultSpell(**{name: getattr(row, name) for name in names})
            for row in found
        }

    def put_faults(self, cluster: str, changed: Iterable[FaultSpell]) -> None:
        """Write faults over what was known of them."""
        for one in changed:
            row = msgspec.structs.asdict(one) | {"cluster": cluster}
            key = [faults.c[name] == row[name] for name in ("cluster", "workload_id", "fault")]
            if not self._insert(faults, row):
                self._connection.execute(update(faults).where(and_(*key)).values(**row))

    def _letters(self, query: Any) -> list[Letter]:
        names = Letter.__struct_fields__
        return [
            Letter(**{name: getattr(row, name) for name in names})
            for row in self._connection.execute(query)
        ]

    def _tidy(self, letter: Letter) -> None:
        """Drop a content that nobody waits for any more."""
        waiting = exists().where(
            outbox.c.period == letter.period,
            outbox.c.scope == letter.scope,
            outbox.c.state.in_(_OPEN),
        )
        self._connection.execute(
            delete(contents).where(
                contents.c.period == letter.period, contents.c.scope == letter.scope, ~waiting
            )
        )

    def _insert(self, table: Table, row: dict[str, Any]) -> bool:
        """Insert a row unless its key is there; whether it was inserted."""
        other = self._connection.dialect.name == "postgresql"
        insert = postgresql.insert(table) if other else sqlite.insert(table)
        key = next(iter(table.primary_key.columns))  # returned by an insert that took place
        added = insert.values(row).on_conflict_do_nothing().returning(key)
        return self._connection.execute(added).first() is not None


def _of(letter: Letter) -> ColumnElement[bool]:
    return and_(
        outbox.c.period == letter.period,
        outbox.c.scope == letter.scope,
        outbox.c.channel == letter.channel,
        outbox.c.recipient == letter.recipient,
    )


def _held(cluster: str, token: int, now: float) -> ColumnElement[bool]:
    return exists().where(
        holders.c.cluster == cluster, holders.c.token == token, holders.c.until > now
    )
