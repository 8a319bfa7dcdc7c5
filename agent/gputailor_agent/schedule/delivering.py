"""Puts reports and notices into the outbox, and sends what is there.

Sending is a job of its own: scrapes and plans never wait for a mail server. A letter is noted as
being sent before, and as sent after the server has taken it; both notes are commits. A crash
between them sends it again with the same Message-ID, a crash anywhere else does not. Only the agent
that holds the lease of its cluster sends at all.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from typing import Final, Self

import msgspec

from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.delivery import channels, content, mail, webhook
from gputailor_agent.reports.delivery.content import Content
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.mail import SendError
from gputailor_agent.reports.delivery.settings import DeliverySettings, Receivers
from gputailor_agent.reports.delivery.teams import parts
from gputailor_agent.schedule import bundling, holding, noticing
from gputailor_agent.schedule.bundling import CHAT, MAIL, WEBHOOK, Bundle
from gputailor_agent.schedule.noticing import Notice
from gputailor_agent.store import Letter, Outbox, Store, Transaction

__all__ = ["CHAT", "MAIL", "WEBHOOK", "Delivery"]

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

log = logging.getLogger(__name__)

Send = Callable[[Letter, Content], None]
#: Opens what carries messages: a mail server, a web address, a chat.
Way = Callable[[], AbstractContextManager[Send]]


class Delivery:
    """One cluster's outbox and the channels out of it. Safe to use from several threads.

    ``count`` hears (job, outcome) as ``Telemetry.ran`` does; ``clock`` returns Unix seconds.
    """

    def __init__(
        self,
        settings: DeliverySettings,
        store: Store,
        cluster: str,
        *,
        clock: Callable[[], float],
        count: Callable[[str, str], None] = lambda _job, _outcome: None,
        holder: str = "",
    ) -> None:
        self.settings = settings
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._count = count
        self._holder = holder or holding.own_name()
        self._sending = threading.Lock()
        self._stopping = threading.Event()
        self._token: int | None = None
        self.trouble = ""  # why the last round failed, or ''
        self._refused = ""  # the holder that kept us from sending, as last told
        self._accepted: list[Letter] = []  # taken by the receiver, not noted yet

    @classmethod
    def nowhere(cls, store: Store, cluster: str, clock: Callable[[], float]) -> Self:
        """A delivery without a channel: it keeps nothing and sends nothing."""
        return cls(DeliverySettings(), store, cluster, clock=clock)

    def report(
        self, plan: Plan, period: str, *, late: bool = False, beside: Beside = NOTHING
    ) -> Callable[[Transaction], None]:
        """Make the report of a period, and return what puts it into the outbox.

        One that is ``late`` says so in its subject; the plan's problems say why.

        Call that in the transaction that keeps the report; the making is done before, so that
        nobody waits for it with the store locked.
        """
        put: list[tuple[list[Letter], bytes]] = []
        for part in parts(plan, beside, self.settings) if self.settings.wanted else ():
            made = content.report_content(
                part.plan, period, public_url=self.settings.public_url, beside=part.beside
            )
            if late:
                made = msgspec.structs.replace(made, subject=f"Late: {made.subject}")
            whole = not part.about
            letters = self._letters(made, part.receivers, webhook=whole, about=part.about)
            put.append((list(letters), content.pack(made)))

        def keep(tx: Transaction) -> None:
            outbox = Outbox(tx)
            for letters, body in put:
                outbox.put(letters, body)
            outbox.drop_old(self._cluster, plan.made_at)

        return keep

    def keep_notices(self, tx: Transaction, plan: Plan) -> None:
        """Put a notice of every workload that went idle into the outbox, with the plan."""
        if not (self.settings.wanted and self.settings.notices):
            return
        outbox = Outbox(tx)
        changed, notices = noticing.follow_spells(
            plan, outbox.spells(self._cluster), self.settings.cool_down_seconds
        )
        untold = {
            notice.spell.workload_id
            for notice in notices
            if not self._keep_notice(outbox, notice, plan.made_at)
        }
        outbox.put_spells(
            self._cluster, [spell for spell in changed if spell.workload_id not in untold]
        )

    def _keep_notice(self, outbox: Outbox, notice: Notice, now: float) -> bool:
        """Whether the notice could be made; a fault in one must not cost the plan."""
        workload = notice.verdict.workload
        team = self.settings.for_team(workload.team)
        route = noticing.route(workload, team)
        if route.problem:
            log.warning("%s: %s; others are told", workload.id, route.problem)
        try:
            with speaking(self.settings.language):
                made = content.notice_content(
                    notice.verdict,
                    notice.finding,
                    period=notice.period,
                    since=notice.spell.since,
                    made_at=now,
                    public_url=self.settings.public_url,
                )
            body = content.pack(made)
        except Exception:
            log.exception("no notice of %s", workload.id)
            self._count("notice", "failed")
            return False
        chats = tuple(team.channels) if route.webhook else ()
        receivers = Receivers(mail_to=route.mail_to, channels=chats)
        quiet = self.settings.quiet
        held = None if quiet is None else quiet.held_until(now)
        letters = self._letters(made, receivers, webhook=route.webhook, about=workload.id)
        outbox.put([msgspec.structs.replace(one, next_try=held or 0.0) for one in letters], body)
        return True

    def _letters(
        self, made: Content, receivers: Receivers, *, webhook: bool, about: str = ""
    ) -> Iterator[Letter]:
        settings = self.settings
        ways = [(MAIL, one) for one in receivers.mail_to] if settings.server is not None else []
        if webhook and settings.webhook_url:
            ways.append((WEBHOOK, settings.webhook_name))
        ways += [(CHAT, one) for one in receivers.channels]
        scope = "/".join(part for part in (self._cluster, made.kind, about) if part)
        for channel, recipient in ways:
            key = (made.period, scope, channel, recipient)
            yield Letter(
                period=made.period,
                scope=scope,
                channel=channel,
                recipient=recipient,
                cluster=self._cluster,
                settings_hash=settings.fingerprint,
                message_id=mail.message_id(key, settings.mail_from),
                made_at=made.made_at,
            )

    def run(self, now: float) -> int:
        """Send what is due at ``now`` and return how many were taken; errors are counted."""
        if not self.settings.wanted or self._stopping.is_set():
            return 0
        with self._sending:
            self.trouble = ""
            try:
                taken, failures = self._round(now)
            except Exception as error:
                log.exception("the outbox cannot be worked on")
                self.trouble = str(error)
                self._count("deliver", "failed")
                return 0
        if taken or failures:
            self._count("deliver", "failed" if failures else "done")
        return taken

    def stop(self) -> None:
        """Begin no further message; one that is under way is finished."""
        self._stopping.set()

    def release(self) -> None:
        """Let another agent send from now on."""
        with self._sending:
            token, self._token = self._token, None
            if token is None:
                return
            try:
                with self._store.transaction() as tx:
                    Outbox(tx).release(self._cluster, token)
            except Exception:
                log.exception("the right to send could not be given back; it ends by itself")

    def _round(self, now: float) -> tuple[int, int]:
        self._note_accepted()
        token = self._hold(now, LEASE_SECONDS)
        if token is None:
            return 0, 0
        with self._store.transaction() as tx:
            due = Outbox(tx).due(self._cluster, now)
        due = [letter for letter in due if not self._given_up(letter, now)]
        taken = failures = 0
        for way, letters in self._by_way(due).items():
            bundles = bundling.bundled(letters, self.settings.notices_at_once)
            more, bad = self._through(way, bundles, token)
            taken, failures = taken + more, failures + bad
        return taken, failures

    def _by_way(self, letters: Iterable[Letter]) -> dict[Way, list[Letter]]:
        """Letters by what carries them. Each way fails for itself; those that wait long go last."""
        ways: dict[str, Way] = {WEBHOOK: self._calling} if self.settings.webhook_url else {}
        for name in self.settings.channels:
            ways[f"{CHAT}/{name}"] = partial(self._chatting, name)
        if self.settings.server is not None:
            ways[MAIL] = self._mailing
        carried: dict[str, list[Letter]] = {}
        for one in letters:
            way = f"{CHAT}/{one.recipient}" if one.channel == CHAT else one.channel
            carried.setdefault(way, []).append(one)
        return {way: carried[name] for name, way in ways.items() if name in carried}

    def _hold(self, now: float, seconds: float) -> int | None:
        with self._store.transaction() as tx:
            outbox = Outbox(tx)
            token = outbox.hold(
                self._cluster,
                self._holder,
                now=now,
                until=now + seconds,
                gone=holding.certainly_gone,
            )
            other = outbox.holder(self._cluster) if token is None else ""
        self._token = token
        if other and other != self._refused:
            log.warning(
                "another agent on this store sends for %s; this one does not", self._cluster
            )
        self._refused = other or ""
        return token

    def _given_up(self, letter: Letter, now: float) -> bool:
        why = ""
        if now - letter.made_at > GIVE_UP_SECONDS and letter.attempts >= GIVE_UP_TRIES:
            why = f"given up after {letter.attempts} tries; last: {letter.reason or 'none'}"
        elif letter.channel == WEBHOOK and letter.recipient != self.settings.webhook_name:
            why = "its web address is no longer in the settings"
        elif letter.channel == CHAT and letter.recipient not in self.settings.channels:
            why = "its channel is no longer in the settings"
        if not why:
            return False
        log.error("%s to %s: %s", letter.scope, letter.recipient, why)
        self._count("deliver", "failed")
        with self._store.transaction() as tx:
            Outbox(tx).give_up(letter, now=now, why=why)
        return True

    def _through(self, channel: Way, bundles: Sequence[Bundle], token: int) -> tuple[int, int]:
        """Send messages by one channel; what holds for all of them ends the round for all.

        Returns how many were taken and how many failed.
        """
        taken, failures = 0, 0
        waiting = list(bundles)
        try:
            with channel() as send:
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
        with self._store.transaction() as tx:
            outbox = Outbox(tx)
            until = now + SENDING_SECONDS
            mine = outbox.hold(
                self._cluster, self._holder, now=now, until=until, gone=holding.certainly_gone
            )
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
        send(*bundling.message(read, self.settings))
        self._accepted += [letter for letter, _made in read]
        for letter, _made in read:
            log.info("%s %s was sent to %s", letter.scope, letter.period, letter.recipient)
        self._note_accepted()
        return True

    def _note_accepted(self) -> None:
        """Commit what receivers have taken; what cannot be noted now is noted before the next."""
        while self._accepted:
            with self._store.transaction() as tx:
                Outbox(tx).sent(self._accepted[0], self._clock())
            self._accepted.pop(0)

    def _postpone(self, letters: Iterable[Letter], token: int, why: str) -> None:
        now = self._clock()
        with self._store.transaction() as tx:
            self.trouble = why
            for letter in letters:
                log.warning("%s to %s was not sent: %s", letter.scope, letter.recipient, why)
                wait = FIRST_RETRY_SECONDS * 2 ** min(letter.attempts, 10)
                next_try = now + min(LONGEST_RETRY_SECONDS, wait)
                Outbox(tx).failed(letter, token, now=now, next_try=next_try, why=why)

    @contextmanager
    def _mailing(self) -> Iterator[Send]:
        server = self.settings.server
        if server is None:
            raise SendError("no mail server is set", everyone=True)
        with mail.connected(server) as session:

            def send(letter: Letter, made: Content) -> None:
                built = mail.build(
                    made,
                    mail_from=self.settings.mail_from,
                    recipient=letter.recipient,
                    identity=letter.message_id,
                )
                mail.send(session, built, server)

            yield send

    @contextmanager
    def _calling(self) -> Iterator[Send]:
        def send(letter: Letter, made: Content) -> None:
            url, name = self.settings.webhook_url, self.settings.webhook_name
            secrets, at = self.settings.webhook_secrets, self._clock()
            webhook.post(url, name, made, letter.message_id, secrets=secrets, at=at)

        yield send

    @contextmanager
    def _chatting(self, name: str) -> Iterator[Send]:
        try:
            chat = channels.opened(name, self.settings.channels[name])
        except DeliveryError as error:
            raise SendError(str(error), everyone=True) from None

        def send(_letter: Letter, made: Content) -> None:
            channels.post(chat, name, made)

        yield send
