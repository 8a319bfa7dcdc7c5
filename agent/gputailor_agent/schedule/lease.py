"""One agent per cluster and store: a lock row with a heartbeat, and a fence for every write.

The row says who works and until when; its token rises whenever it changes hands. A second agent
watches the row: it refuses when the row moves, and takes over when nobody moved it for the whole
lease by its own monotonic clock, so clocks that differ or jump decide nothing. An agent that was
stopped and goes on after that finds another token at the beginning of each transaction and writes
nothing any more.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from gputailor_agent.schedule import holding
from gputailor_agent.store import Outbox, Store, StoreError, StoreLockedError, Transaction
from gputailor_agent.store.lease import Held, held, still_held

LEASE_SECONDS: Final = 40.0
#: A holder is heard of so many times within its lease.
BEATS_PER_LEASE: Final = 4
#: A row that ended longer ago than clocks of machines differ is nobody's.
_LONG_OVER_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 0.5
#: So long a store that another process keeps locked is waited for at the start.
_LOCKED_PATIENCE_SECONDS: Final = 300.0

log = logging.getLogger(__name__)


class LeaseError(StoreError):
    """Another agent works on the store; the text says which."""


class Lease:
    """The right of one process to write for a cluster. ``clock`` returns Unix seconds."""

    def __init__(
        self,
        store: Store,
        cluster: str,
        *,
        clock: Callable[[], float] = time.time,
        seconds: float = LEASE_SECONDS,
        holder: str = "",
        lost: Callable[[], object] = lambda: None,
    ) -> None:
        """``lost`` is called once when another agent has taken over."""
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._seconds = seconds
        self._holder = holder or holding.own_name()
        self._tell_lost = lost
        self._token: int | None = None
        self._lost = False
        self._told_locked = False

    @property
    def lost(self) -> bool:
        """Whether another agent has taken over."""
        return self._lost

    def take(
        self,
        *,
        pause: Callable[[float], object] = time.sleep,
        passed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the lease, and fence the store with it; raises ``LeaseError`` where another lives.

        A row of an agent that was killed elsewhere is watched for the whole lease first. ``pause``
        waits so many seconds, ``passed`` returns seconds of a clock that nobody sets.
        """
        began = passed()
        first = self._store.holder(self._cluster)
        token = self._try(first, 0.0) if first is None or self._free(first) else None
        if token is None and first is not None:
            log.info(
                "%s may still work on this store; watching for %g s", _words(first), self._seconds
            )
        while token is None:
            pause(_LOOK_SECONDS)
            seen, waited = self._store.holder(self._cluster), passed() - began
            if seen != first and not (seen is None or self._free(seen)):
                raise LeaseError(self._refusal(seen))
            if seen is None or self._free(seen) or waited >= self._seconds:
                token = self._try(seen, waited)
        self._token = token
        self._store.fence = self.check

    def beat(self, tx: Transaction) -> None:
        """Say in a transaction that we live; its fence has looked at the token already."""
        now = self._clock()
        until = now + self._seconds
        Outbox(tx).hold(self._cluster, self._holder, now=now, until=until, gone=_nobody)

    def check(self, tx: Transaction) -> None:
        """Raise ``LeaseError`` unless the lease is ours, within the transaction's lock."""
        if self._token is None or still_held(tx, self._cluster, self._token):
            return
        if not self._lost:
            self._lost = True
            log.error("another agent has taken over cluster %s; this one stops", self._cluster)
            self._tell_lost()
        raise LeaseError(
            f"another agent has taken over cluster {self._cluster} on this store: this one was "
            f"silent for more than {self._seconds:g} s, and writes nothing any more"
        )

    def release(self) -> None:
        """Let another agent begin at once."""
        token, self._token = self._token, None
        self._store.fence = None
        if token is None or self._lost:
            return
        try:
            with self._store.transaction() as tx:
                Outbox(tx).release(self._cluster, token)
        except StoreError as error:
            log.warning("the lease could not be given back, and ends by itself: %s", error)

    def _free(self, seen: Held) -> bool:
        over = self._clock() - seen.until
        mine = seen.holder == self._holder
        return mine or over > _LONG_OVER_SECONDS or holding.certainly_gone(seen.holder)

    def _try(self, seen: Held | None, waited: float) -> int | None:
        """Take the row as it was ``seen``; None when somebody else was quicker, or is writing."""
        now = self._clock()
        try:
            with self._store.transaction() as tx:
                if held(tx.connection, self._cluster) != seen:
                    return None
                return Outbox(tx).hold(
                    self._cluster, self._holder, now=now, until=now + self._seconds, gone=_anybody
                )
        except StoreLockedError as error:
            told = _locked(seen)
            if waited >= _LOCKED_PATIENCE_SECONDS:
                raise LeaseError(f"{told}; this one waited {waited:.0f} s and gives up") from error
            if not self._told_locked:
                self._told_locked = True
                log.warning("%s; waiting for it", told)
            return None

    def _refusal(self, seen: Held) -> str:
        return (
            f"another agent works on this store for cluster {self._cluster}: {_words(seen)}, which "
            "gave a sign of life while this one waited. Two agents would count everything twice: "
            "stop that one, or give this one another --store or --cluster"
        )


def _locked(seen: Held | None) -> str:
    """Why nobody can write, in words: a frozen process keeps its lock for as long as it is."""
    who = "another process" if seen is None else f"another process (the last was {_words(seen)})"
    return (
        f"{who} holds the store in the middle of writing and does not go on: it is stopped, or "
        "very slow. Let it go on (kill -CONT) or end it; nothing is lost by that"
    )


def _words(seen: Held) -> str:
    return holding.described(seen.holder)


def _nobody(_holder: str) -> bool:
    return False


def _anybody(_holder: str) -> bool:
    return True
