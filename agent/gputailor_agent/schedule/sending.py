"""Sends what is in the outbox: each way for itself, several at a time.

A letter is noted as being sent before, and as sent after the receiver has taken it; both notes are
commits. A crash between them sends it again with the same Message-ID, a crash anywhere else does
not. Only the agent that holds the lease of its cluster sends at all.

Ways (a mail server, a web address, each chat) are worked on by a bounded pool, each by one thread
at a time and its letters in their order. A round waits for them only so long: one that hangs stays
under way, keeps its letters, and is left alone by the rounds until it ends; the others go on.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain
from typing import Final

from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.delivery.mail import SendError
from gputailor_agent.reports.delivery.settings import DeliverySettings
from gputailor_agent.schedule import bundling, holding
from gputailor_agent.schedule.bundling import Bundle
from gputailor_agent.schedule.ways import Send, Way, gone, way_of, ways
from gputailor_agent.store import Letter, Outbox, Store

#: How long the right to send lasts without being renewed, at rest and while a message is under way
#: (longer than a mail server may take at each of its steps).
LEASE_SECONDS: Final = 60.0
SENDING_SECONDS: Final = 600.0
FIRST_RETRY_SECONDS: Final = 60.0
LONGEST_RETRY_SECONDS: Final = 3600.0
#: A weekly report that could not be sent for so long is overtaken by the next one; what was not
#: tried so often waited for an agent that did not run, and is sent late.
GIVE_UP_SECONDS: Final = 7 * 86400.0
GIVE_UP_TRIES: Final = 24
#: Ways that are worked on at a time, and how long a round waits for them.
WAYS_AT_ONCE: Final = 8
ROUND_SECONDS: Final = 10.0

log = logging.getLogger(__name__)

Tally = tuple[int, int]  # messages that were taken, letters that failed


class Sending:
    """One cluster's outbox on its way out. ``round`` and ``end`` are called by one at a time."""

    def __init__(
        self,
        settings: Callable[[], DeliverySettings],
        store: Store,
        cluster: str,
        *,
        clock: Callable[[], float],
        count: Callable[[str, str], None],
        holder: str,
    ) -> None:
        """``settings`` gives those in force; ``count`` hears (job, outcome)."""
        self._settings = settings
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._count = count
        self._holder = holder
        self._stopping = threading.Event()
        self._storing = threading.Lock()  # one of our threads at a time has the store
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: dict[str, Future[Tally]] = {}
        self._token: int | None = None
        self.trouble = ""  # why a message was not taken, or ''
        self._refused = ""  # the holder that kept us from sending, as last told
        self._accepted: list[Letter] = []  # taken by the receiver, not noted yet

    @property
    def stopping(self) -> bool:
        """Whether no further message is begun."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Begin no further message; those that are under way are finished."""
        self._stopping.set()

    def round(self, now: float) -> Tally:
        """Send what is due at ``now`` by every way that is free.

        What was taken and what failed since the last round; one that hangs is counted when it ends.
        """
        ended = self._ended()
        self._note_accepted()
        token = self._hold(now, SENDING_SECONDS if self._under_way else LEASE_SECONDS)
        if token is None:
            return ended
        with self._outbox() as outbox:
            due = outbox.due(self._cluster, now)
        waiting = [one for one in due if way_of(one) not in self._under_way]
        self._begin([one for one in waiting if not self._given_up(one, now)], token)
        wait(self._under_way.values(), timeout=ROUND_SECONDS)
        more = self._ended()
        return ended[0] + more[0], ended[1] + more[1]

    def end(self) -> None:
        """Wait for what is under way, and let another agent send from now on."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        token, self._token = self._token, None
        try:
            self._ended()
            self._note_accepted()
            if token is not None:
                with self._outbox() as outbox:
                    outbox.release(self._cluster, token)
        except Exception:
            log.exception("the right to send could not be given back; it ends by itself")

    def _begin(self, due: Iterable[Letter], token: int) -> None:
        settings = self._settings()
        carried: dict[str, list[Letter]] = {}
        for one in due:
            carried.setdefault(way_of(one), []).append(one)
        for name, way in ways(settings, self._clock).items():
            if name not in carried:
                continue
            if self._pool is None:
                self._pool = ThreadPoolExecutor(WAYS_AT_ONCE, thread_name_prefix="deliver")
            bundles = bundling.bundled(carried[name], settings.notices_at_once)
            self._under_way[name] = self._pool.submit(self._through, way, bundles, token)

    def _ended(self) -> Tally:
        """Take in the ways that ended; raises what one of them raised, when all are taken in."""
        ended = [name for name, work in self._under_way.items() if work.done()]
        taken = failures = 0
        fault: BaseException | None = None
        for name in ended:
            work = self._under_way.pop(name)
            fault = fault or work.exception()
            if work.exception() is None:
                more, bad = work.result()
                taken, failures = taken + more, failures + bad
        if fault is not None:
            raise fault
        return taken, failures

    @contextmanager
    def _outbox(self) -> Iterator[Outbox]:
        with self._storing, self._store.transaction() as tx:
            yield Outbox(tx)

    def _hold(self, now: float, seconds: float) -> int | None:
        with self._outbox() as outbox:
            token = self._held(outbox, now, seconds)
            other = outbox.holder(self._cluster) if token is None else ""
        self._token = token
        if other and other != self._refused:
            log.warning(
                "another agent on this store sends for %s; this one does not", self._cluster
            )
        self._refused = other or ""
        return token

    def _held(self, outbox: Outbox, now: float, seconds: float) -> int | None:
        return outbox.hold(
            self._cluster,
            self._holder,
            now=now,
            until=now + seconds,
            gone=holding.certainly_gone,
        )

    def _given_up(self, letter: Letter, now: float) -> bool:
        why = gone(letter, self._settings())
        if now - letter.made_at > GIVE_UP_SECONDS and letter.attempts >= GIVE_UP_TRIES:
            why = f"given up after {letter.attempts} tries; last: {letter.reason or 'none'}"
        if not why:
            return False
        log.error("%s to %s: %s", letter.scope, letter.recipient, why)
        self._count("deliver", "failed")
        with self._outbox() as outbox:
            outbox.give_up(letter, now=now, why=why)
        return True

    def _through(self, way: Way, bundles: Sequence[Bundle], token: int) -> Tally:
        """Send messages by one way; what holds for all of them ends the round for all.

        Returns how many were taken and how many failed.
        """
        taken, failures = 0, 0
        waiting = list(bundles)
        if self._stopping.is_set():  # it waited for its turn meanwhile
            return taken, failures
        try:
            with speaking(self._settings().language), way() as send:
                while waiting and not self._stopping.is_set():
                    try:
                        taken += self._send(waiting[0], send, token)
                    except SendError as error:
                        if error.everyone:
                            raise
                        failures += 1
                        self._postpone(waiting[0], token, str(error))
                    waiting.pop(0)
        except SendError as error:
            failures += len(waiting)
            self._postpone(chain.from_iterable(waiting), token, str(error))
        return taken, failures

    def _send(self, bundle: Bundle, send: Send, token: int) -> bool:
        """Whether the message was taken; raises ``SendError`` when it was not."""
        now = self._clock()
        unread: list[tuple[Letter, str]] = []
        with self._outbox() as outbox:
            mine = self._held(outbox, now, SENDING_SECONDS)
            claimed = [
                one
                for one in bundle
                if mine == token and outbox.claim(one, token, now=now, next_try=now)
            ]
            read = bundling.opened(outbox, claimed, lambda one, why: unread.append((one, why)))
        if not claimed:
            return False
        if not read:
            raise SendError(unread[0][1], everyone=False)
        for letter, why in unread:
            self._postpone([letter], token, why)
        send(*bundling.message(read, self._settings()))
        self._note_accepted(letter for letter, _made in read)
        for letter, _made in read:
            log.info("%s %s was sent to %s", letter.scope, letter.period, letter.recipient)
        return True

    def _note_accepted(self, more: Iterable[Letter] = ()) -> None:
        """Commit what receivers have taken; what cannot be noted now is noted before the next."""
        with self._storing:
            self._accepted += more
            if not self._accepted:
                return
            with self._store.transaction() as tx:
                for letter in self._accepted:
                    Outbox(tx).sent(letter, self._clock())
            self._accepted.clear()

    def _postpone(self, letters: Iterable[Letter], token: int, why: str) -> None:
        now = self._clock()
        with self._outbox() as outbox:
            self.trouble = why
            for letter in letters:
                log.warning("%s to %s was not sent: %s", letter.scope, letter.recipient, why)
                delay = FIRST_RETRY_SECONDS * 2 ** min(letter.attempts, 10)
                next_try = now + min(LONGEST_RETRY_SECONDS, delay)
                outbox.failed(letter, token, now=now, next_try=next_try, why=why)
