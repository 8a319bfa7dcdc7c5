"""The store as others see it: one object to open, write in transactions, and read."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from gputailor_agent.model.collecting import rare_collections
from gputailor_agent.model.inventory import Inventory, Resolution
from gputailor_agent.model.judgement import Finding, Plan
from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.store import checking, reading
from gputailor_agent.store.backing_up import backup
from gputailor_agent.store.checking import Checkup
from gputailor_agent.store.database import (
    MEMORY,
    StoreError,
    explained,
    named,
    snapshots,
    vacuum,
    writer,
)
from gputailor_agent.store.lease import Held, held
from gputailor_agent.store.opening import open_engine
from gputailor_agent.store.presence import MovedError
from gputailor_agent.store.reading import KeptReport, Period
from gputailor_agent.store.usage import StoredUse, UsageReading
from gputailor_agent.store.writing import Transaction

#: What of the database's is told in words; the second: every connection of the pool is in use.
_FAILURES: Final = (DBAPIError, NoConnectionError, MovedError)


class Store:
    """An open store. Safe to use from several threads; raises ``StoreError`` with a clear text."""

    def __init__(self, engine: Engine, *, reading: bool = False) -> None:
        self._engine = engine
        self._writer = engine if reading else writer(engine)
        #: Called at the beginning of each transaction; raises where this process may not write.
        self.fence: Callable[[Transaction], None] | None = None
        #: Within each transaction; hears its errors, and how long it takes.
        self.watched: Callable[[], AbstractContextManager[object]] = nullcontext

    @classmethod
    def open(
        cls, where: str | Path = MEMORY, *, checked: bool = False, reading: bool = False
    ) -> Self:
        """Open, make or migrate the store at a file path or database URL.

        ``checked``: an SQLite file is read once, to find damage before anything is written to it.
        ``reading``: nothing is made or written, to the byte; a read-only file or a role that may
        only SELECT will do. Raises ``StoreError`` for a damaged, foreign, newer or unwritable
        database, and where it is only read, for an older one.
        """
        store = cls(open_engine(where, reading=reading), reading=reading)
        try:
            found = store.damage() if checked else []
        except StoreError:
            store.close()
            raise
        if found:
            store.close()
            raise StoreError(
                f"the store {named(where)} is damaged: {found[0]}"
                + (f" and {len(found) - 1} more" if found[1:] else "")
                + "; move it away and restore a copy (gputailor store backup makes copies)"
            )
        return store

    def __enter__(self) -> Self:
        """Return the store itself; leaving closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Let go of every connection."""
        self._engine.dispose()

    @contextmanager
    def transaction(self, *, snapshot: bool = False) -> Iterator[Transaction]:
        """Write several things as one: all are there after it, or none when it raised.

        With ``snapshot`` it sees one state throughout, and fails where another changed what it
        changes; SQLite's transactions are always so.
        """
        engine = snapshots(self._writer) if snapshot else self._writer
        with self.watched():
            try:
                with engine.begin() as connection:
                    made = Transaction(connection)
                    if self.fence is not None:
                        self.fence(made)
                    yield made
            except _FAILURES as error:
                raise explained(error, self._engine) from error

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with snapshots(self._engine).begin() as connection:
                yield connection
        except _FAILURES as error:
            raise explained(error, self._engine) from error

    def damage(self) -> list[str]:
        """Return what the database's own quick check finds; nothing where it is sound."""
        with self._reading() as connection:
            return checking.damage(connection, quick=True)

    def check(self) -> Checkup:
        """Read everything once and tell what is there and what is wrong with it."""
        with self._reading() as connection:
            return checking.check(connection)

    def backup(self, target: Path) -> None:
        """Copy an SQLite store to a new file while others go on reading and writing it.

        Raises ``StoreError`` where that cannot be done; nothing half-made is left.
        """
        backup(self._engine, target)

    def vacuum(self) -> None:
        """Give free space back to the disk: needs as much again meanwhile, makes writers wait."""
        vacuum(self._engine)

    def clusters(self) -> list[str]:
        """Return every cluster that the store has something of."""
        with self._reading() as connection:
            return reading.clusters(connection)

    @contextmanager
    def reading_usage(self, cluster: str) -> Iterator[UsageReading]:
        """Read a cluster's use in several goes; all of them see what was there at the first."""
        with self._reading() as connection:
            yield UsageReading(connection, cluster)

    def usage(self, cluster: str, start: float, end: float) -> Iterator[UsageRow]:
        """Yield hourly rows that touch [start, end) (Unix seconds), a few thousand in memory."""
        with self.reading_usage(cluster) as reading:
            yield from reading.rows(start, end)

    def usage_parts(self, cluster: str, start: float, end: float) -> Iterator[StoredUse]:
        """Yield the same use, days that are over summed up: what profiles are built from."""
        with self.reading_usage(cluster) as reading:
            yield from reading.parts(start, end)

    def holder(self, cluster: str) -> Held | None:
        """Return who works for a cluster, whoever is in the middle of writing; None: nobody yet."""
        with self._reading() as connection:
            return held(connection, cluster)

    def usage_span(self, cluster: str) -> tuple[int, int] | None:
        """Return the first and the last hour with a row (their starts); None without any."""
        with self._reading() as connection:
            return reading.usage_span(connection, cluster)

    def devices(self, cluster: str) -> list[Device]:
        """Return every device ever seen, by UUID."""
        with self._reading() as connection:
            return reading.devices(connection, cluster)

    def inventory(self, cluster: str, at: float, *, since: float | None = None) -> Inventory:
        """Return what was asked for as last known at ``at``; ``since`` leaves older things out."""
        with rare_collections(), self._reading() as connection:
            return reading.inventory(connection, cluster, at, since)

    def resolution(self, cluster: str) -> Resolution:
        """Return where every pod belonged when it was last resolved."""
        with self._reading() as connection:
            return reading.resolution(connection, cluster)

    def checkpoint(self, name: str) -> bytes | None:
        """Return a named state; None when there is none."""
        with self._reading() as connection:
            return reading.checkpoint(connection, name)

    def latest_plan(self, cluster: str) -> Plan | None:
        """Return the plan made last; None before the first one."""
        with self._reading() as connection:
            return reading.latest_plan(connection, cluster)

    def findings(self, cluster: str, day: str) -> list[Finding]:
        """Return what was found on a UTC day (``2026-01-05``), by id."""
        with self._reading() as connection:
            return reading.findings(connection, cluster, day)

    def reports(self, cluster: str) -> list[KeptReport]:
        """Return which reports are kept, newest first."""
        with self._reading() as connection:
            return reading.reports(connection, cluster)

    def report(self, cluster: str, period: str) -> tuple[str, str] | None:
        """Return a period's report as (JSON, Markdown); None when it is not kept."""
        with self._reading() as connection:
            return reading.report(connection, cluster, period)

    def period(self, job: str, period: str) -> Period | None:
        """Return how a job's period stands; None when it was never tried."""
        with self._reading() as connection:
            return reading.period(connection, job, period)

    def period_done(self, job: str, period: str) -> bool:
        """Whether a job's period was done."""
        found = self.period(job, period)
        return found is not None and found.state == "done"
