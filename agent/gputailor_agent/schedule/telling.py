"""Tells objects of the cluster what is recommended for them: Events and an annotation.

What is to be told is put into the outbox in the transaction that notes it as told, keyed by object
and by how often it was told, and sent from there: a crash loses nothing and doubles nothing. It has
an outbox of its own (``lane``) beside that of reports, so that neither waits for the other. Without
the right to write, nothing is put there at all: what stands is told once the right is given.

It is a job of its own that reads the newest plan: whatever fails here, plans know nothing of it.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from gputailor_agent.inventory.live import writing_rights
from gputailor_agent.model.inventory import OwnerReference
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.delivery import kubernetes_words as words
from gputailor_agent.reports.delivery.kubernetes_words import Target
from gputailor_agent.reports.delivery.kubernetes_writing import WriteError
from gputailor_agent.schedule import holding
from gputailor_agent.schedule.standing import (
    ANNOTATION,
    EVENT,
    Step,
    Told,
    forgotten,
    steps,
    wanted,
)
from gputailor_agent.store import Letter, Outbox, Store, StoreError, ToldKey
from gputailor_agent.store.told import all_told, forget, put_told

__all__ = ["Telling", "Writer", "lane"]

LEASE_SECONDS: Final = 120.0
FIRST_RETRY_SECONDS: Final = 60.0
LONGEST_RETRY_SECONDS: Final = 3600.0
#: What could not be written for so long is left to a later plan, as if it had never been told.
GIVE_UP_SECONDS: Final = 7 * 86400.0
#: A plan that is older is not told of: after a long pause the next one is due at once anyway.
OLD_SECONDS: Final = 3600.0
#: Requests of one round: a first plan of a large cluster is told over several. So many are kept in
#: one transaction, too: nobody waits long for the store.
AT_ONCE: Final = 200

#: Settings by channel: each needs rights of its own.
FEATURES: Final = {EVENT: writing_rights.EVENTS, ANNOTATION: writing_rights.ANNOTATIONS}

Roots = Mapping[str, OwnerReference]

log = logging.getLogger(__name__)


class Writer(Protocol):
    """What writes into the cluster, such as ``kubernetes_writing.ObjectWriter``."""

    def missing(self, feature: str, target: Target, now: float) -> str:
        """Which right a feature lacks at an object; '' where none is missing."""
        ...

    def put_event(self, made: dict[str, Any]) -> None:
        """Write an Event; raises ``WriteError``."""
        ...

    def annotate(self, target: Target, value: str | None) -> None:
        """Write the annotation or (None) take it away; raises ``WriteError``."""
        ...


class _Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent: an Event, or the annotation's value ('' takes it away)."""

    target: Target
    event: dict[str, Any] | None = None
    value: str = ""


_ERRAND: Final = msgspec.msgpack.Decoder(_Errand)
_TOLD: Final = msgspec.msgpack.Decoder(Told)


def lane(cluster: str) -> str:
    """The name under which the outbox keeps what a cluster's objects are told."""
    return f"{cluster}/kubernetes"


class Telling:
    """One cluster's. Called by one thread, but for ``stop``; ``clock`` returns Unix seconds."""

    def __init__(
        self,
        channels: Collection[str],
        store: Store,
        cluster: str,
        writer: Writer,
        *,
        clock: Callable[[], float],
        count: Callable[[str, str], None] = lambda _job, _outcome: None,
        holder: str = "",
    ) -> None:
        """``channels``: EVENT, ANNOTATION or both; ``count`` hears (job, outcome)."""
        self._channels = frozenset(channels)
        self._store = store
        self._cluster = cluster
        self._lane = lane(cluster)
        self._writer = writer
        self._clock = clock
        self._count = count
        self._holder = holder or holding.own_name()
        self._stopping = threading.Event()
        self._followed: float | None = None  # when the plan was made that was followed last
        self._again_at = 0.0  # before that no plan is followed: the last time failed
        self._lacking = ""  # the right that kept us from telling of that plan
        self.trouble = ""  # what is wrong as of the last run, or ''

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()

    def run(self, plan: Plan, roots: Callable[[], Roots], public_url: str, now: float) -> int:
        """Follow the newest plan, once, and send what is due; returns how much was taken.

        ``roots``: the objects above workloads, asked for where a plan is followed. Texts are made
        in the language spoken. Errors are counted and told in ``trouble``.
        """
        if self._stopping.is_set():
            return 0
        waits = 0 < self._again_at - now <= FIRST_RETRY_SECONDS
        self.trouble = self.trouble if waits else ""
        try:
            if plan.made_at != self._followed and _is_young(plan, now) and not waits:
                self._again_at = now + FIRST_RETRY_SECONDS  # should it fail
                self._follow(plan, roots(), public_url, now)
                self._followed, self._again_at = plan.made_at, now
            taken, failures = self._round(now)
        except Exception as error:
            if not isinstance(error, WriteError | StoreError):
                log.exception("objects of the cluster cannot be told")
            self.trouble = str(error)
            self._count("tell", "failed")
            return 0
        if taken or failures:
            self._count("tell", "failed" if failures else "done")
        self.trouble = self.trouble or self._lacking
        return taken

    def _follow(self, plan: Plan, roots: Roots, public_url: str, now: float) -> None:
        """Put what the plan asks for into the outbox."""
        with self._store.transaction() as tx:
            kept = all_told(tx, self._cluster)
        known = {key: _TOLD.decode(detail) for key, detail in kept.items()}
        asked = wanted(plan, roots, self._channels)
        made = self._permitted(steps(plan, asked, known, self._channels), now)
        # a crash between two parts is as good as one before the second: the next plan asks again
        for begin in range(0, len(made), AT_ONCE):
            self._keep(made[begin : begin + AT_ONCE], public_url)
        old = forgotten(known, now)
        if made or old:
            with self._store.transaction() as tx:
                Outbox(tx).drop_old(self._lane, plan.made_at)
                forget(tx, self._cluster, old)

    def _keep(self, made: Sequence[Step], public_url: str) -> None:
        """Put what is to be told into the outbox, and note it as told: both or neither."""
        letters = [
            (self._letter(step), msgspec.msgpack.encode(self._errand(step, public_url)))
            for step in made
            if step.told.stands or step.key.channel == ANNOTATION  # Events go by themselves
        ]
        details = [(step.key, msgspec.msgpack.encode(step.told)) for step in made]
        with self._store.transaction() as tx:
            for letter, body in letters:
                Outbox(tx).put([letter], body)
            put_told(tx, self._cluster, details)

    def _permitted(self, made: Iterable[Step], now: float) -> list[Step]:
        """Those that we may do; what is missing is told once, and again when it changes."""
        found: list[Step] = []
        lacking: dict[str, None] = {}
        for step in made:
            feature = FEATURES[step.key.channel]
            why = self._writer.missing(feature, step.told.target, now)
            if why:
                lacking[f"{feature}: {why}"] = None
            else:
                found.append(step)
        told = "; ".join(lacking)
        if told and told != self._lacking:
            log.warning("objects are not told: %s", told)
        self._lacking = told
        return found

    def _letter(self, step: Step) -> Letter:
        told = step.told
        minute = datetime.fromtimestamp(told.at, UTC).strftime("%Y-%m-%dT%H:%M")
        key = step.key
        return Letter(
            period=f"{minute}.{told.number}",
            scope=f"{self._lane}/{key.channel}/{key.object}/{key.about}",
            channel=key.channel,
            recipient=f"{told.target.namespace}/{told.target.kind}/{told.target.name}",
            cluster=self._lane,
            settings_hash="",
            message_id=key.object,
            made_at=told.at,
        )

    def _errand(self, step: Step, public_url: str) -> _Errand:
        target, said = step.told.target, step.told.said
        if step.key.channel == EVENT:
            made = words.event(target, said, step.told.series, cluster=self._cluster)
            return _Errand(target=target, event=made)
        value = words.annotation(said, public_url) if step.told.stands else ""
        return _Errand(target=target, value=value)

    def _round(self, now: float) -> tuple[int, int]:
        """Send what is due; how much was taken and how much failed."""
        with self._store.transaction() as tx:
            outbox = Outbox(tx)
            due = outbox.due(self._lane, now)
            token = None
            if due:
                token = outbox.hold(
                    self._lane,
                    self._holder,
                    now=now,
                    until=now + LEASE_SECONDS,
                    gone=holding.certainly_gone,
                )
        if token is None:
            return 0, 0
        taken = failures = 0
        for letters in _by_object(due)[:AT_ONCE]:
            if self._stopping.is_set():
                break
            why = self._tried(letters, token)
            taken += why is None
            if why is not None:
                failures += 1
                self.trouble = str(why)
                self._refused(letters, token, why)
                if why.everyone:
                    break
        return taken, failures

    def _tried(self, letters: list[Letter], token: int) -> WriteError | None:
        """Why letters were not sent, if so; a fault of ours in one must not keep the others."""
        try:
            self._send(letters, token)
        except WriteError as error:
            return error
        except StoreError:
            raise
        except Exception as error:
            log.exception("%s of %s", letters[-1].channel, letters[-1].recipient)
            return WriteError(f"{type(error).__name__}: {error}")
        return None

    def _send(self, letters: list[Letter], token: int) -> None:
        """Send the newest of an object's letters, which overtakes those before it."""
        newest, now = letters[-1], self._clock()
        with self._store.transaction() as tx:
            outbox = Outbox(tx)
            until = now + LEASE_SECONDS
            mine = outbox.hold(
                self._lane, self._holder, now=now, until=until, gone=holding.certainly_gone
            )
            if mine != token or not outbox.claim(newest, token, now=now, next_try=now):
                raise WriteError(
                    "another agent on this store tells for this cluster", everyone=True
                )
            body = outbox.body(newest)
        if body is None:
            raise WriteError("what it said is gone from the store", final=True)
        try:
            errand = _ERRAND.decode(body)
        except msgspec.DecodeError as error:
            raise WriteError(f"what it said cannot be read: {error}", final=True) from error
        if errand.event is not None:
            self._writer.put_event(errand.event)
        else:
            self._writer.annotate(errand.target, errand.value or None)
        with self._store.transaction() as tx:
            for letter in letters:
                Outbox(tx).sent(letter, self._clock())

    def _refused(self, letters: list[Letter], token: int, error: WriteError) -> None:
        """Try again later, or never where it would be refused for ever."""
        now, why = self._clock(), str(error)
        with self._store.transaction() as tx:
            outbox = Outbox(tx)
            for letter in letters:
                log.warning("%s of %s was not written: %s", letter.channel, letter.recipient, why)
                if error.final or now - letter.made_at > GIVE_UP_SECONDS:
                    outbox.give_up(letter, now=now, why=why)
                    if not error.final:
                        forget(tx, self._cluster, [_key_of(letter)])
                    continue
                wait = FIRST_RETRY_SECONDS * 2 ** min(letter.attempts, 10)
                next_try = now + min(LONGEST_RETRY_SECONDS, wait)
                outbox.failed(letter, token, now=now, next_try=next_try, why=why)


def _is_young(plan: Plan, now: float) -> bool:
    """Whether a plan still tells how things are: the last one of a former agent may not."""
    return now - plan.made_at <= OLD_SECONDS


def _key_of(letter: Letter) -> ToldKey:
    """What a letter tells: its scope ends with channel, object and what it is about."""
    _, _, tail = letter.scope.partition(f"/{letter.channel}/{letter.message_id}/")
    return ToldKey(letter.channel, letter.message_id, tail)


def _by_object(due: Iterable[Letter]) -> list[list[Letter]]:
    """Letters that overtake each other, oldest first: those of one annotation; Events never do."""
    found: dict[tuple[str, str], list[Letter]] = {}
    for letter in due:
        own = letter.period if letter.channel == EVENT else ""
        found.setdefault((letter.scope, own), []).append(letter)
    return list(found.values())
