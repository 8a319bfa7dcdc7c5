"""Puts reports and notices into the outbox, and has them sent.

Sending is a job of its own (``sending``): scrapes and plans never wait for a mail server.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Self

import msgspec

from gputailor_agent.model.judgement import Finding, Plan, Verdict
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.delivery import content, mail
from gputailor_agent.reports.delivery.content import IDLE, UNHEALTHY, Content, Occasion
from gputailor_agent.reports.delivery.settings import DeliverySettings, Receivers
from gputailor_agent.reports.delivery.teams import parts
from gputailor_agent.schedule import faulting, holding, noticing
from gputailor_agent.schedule.faulting import FaultNotice
from gputailor_agent.schedule.noticing import Notice
from gputailor_agent.schedule.sending import Sending
from gputailor_agent.schedule.ways import CHAT, FOLDER, MAIL, OBJECTS, WEBHOOK
from gputailor_agent.store import Letter, Outbox, Store, StoreError, Transaction

log = logging.getLogger(__name__)


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
        self._cluster = cluster
        self._count = count
        self._sending = Sending(
            lambda: self.settings,
            store,
            cluster,
            clock=clock,
            count=count,
            holder=holder or holding.own_name(),
        )
        self._round = threading.Lock()

    @classmethod
    def nowhere(cls, store: Store, cluster: str, clock: Callable[[], float]) -> Self:
        """A delivery without a channel: it keeps nothing and sends nothing."""
        return cls(DeliverySettings(), store, cluster, clock=clock)

    @property
    def trouble(self) -> str:
        """Why something could not be sent lately, or ''."""
        return self._sending.trouble

    def report(
        self, plan: Plan, period: str, *, late: bool = False, beside: Beside = NOTHING
    ) -> Callable[[Transaction], None]:
        """Make the report of a period, and return what puts it into the outbox.

        One that is ``late`` says so in its subject; the plan's problems say why.

        Call that in the transaction that keeps the report; the making is done before, so that
        nobody waits for it with the store locked.
        """
        put = [
            (letters, content.pack(made))
            for letters, made in self._reports(plan, period, late=late, beside=beside)
        ]

        def keep(tx: Transaction) -> None:
            outbox = Outbox(tx)
            for letters, body in put:
                outbox.put(letters, body)
            outbox.drop_old(self._cluster, plan.made_at)

        return keep

    def _reports(
        self, plan: Plan, period: str, *, late: bool, beside: Beside
    ) -> Iterator[tuple[list[Letter], Content]]:
        settings = self.settings
        several = list(parts(plan, beside, settings)) if settings.wanted else []
        for part in several:
            made = content.report_content(
                part.plan, period, public_url=settings.public_url, beside=part.beside, late=late
            )
            whole = not part.about
            yield self._letters(made, part.receivers, webhook=whole, about=part.about), made
        kept = [(FOLDER, settings.folder_name), (OBJECTS, settings.objects_name)]
        places = [one for one in kept if one[1]]
        if places:
            made = content.kept_content(plan, period, beside, several[1:])
            yield [self._letter(made, way, "files") for way in places], made

    def keep_notices(self, tx: Transaction, plan: Plan) -> None:
        """Put a notice of every workload that went idle, or unhealthy, into the outbox."""
        self._keep_idle(tx, plan)
        self.keep_faults(tx, plan)

    def _keep_idle(self, tx: Transaction, plan: Plan) -> None:
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

    def keep_faults(self, tx: Transaction, plan: Plan, *, whole: bool = True) -> None:
        """Put a notice of every workload whose devices have new faults into the outbox.

        ``whole``: whether the plan looks as far back as plans do.
        """
        if not (self.settings.wanted and self.settings.notices):
            return
        outbox = Outbox(tx)
        changed, notices = faulting.follow_faults(
            plan, outbox.faults(self._cluster), self.settings.cool_down_seconds, whole=whole
        )
        untold = {
            notice.verdict.workload.id
            for notice in notices
            if not self._keep_fault(outbox, notice, plan.made_at)
        }
        outbox.put_faults(self._cluster, [one for one in changed if one.workload_id not in untold])

    def _keep_notice(self, outbox: Outbox, notice: Notice, now: float) -> bool:
        """Whether the notice could be made; a fault in one must not cost the plan."""
        occasion = Occasion(kind=IDLE, period=notice.period, since=notice.spell.since, made_at=now)
        made = self._noticed(notice.verdict, notice.finding, occasion)
        if made is None:
            return False
        receivers, webhook = self._owner(notice.verdict)
        about = notice.verdict.workload.id
        letters = self._letters(made, receivers, webhook=webhook, about=about)
        outbox.put(self._held(letters, now), content.pack(made))
        return True

    def _keep_fault(self, outbox: Outbox, notice: FaultNotice, now: float) -> bool:
        """The same of a fault, which those who run the cluster are told of in any case."""
        occasion = Occasion(
            kind=UNHEALTHY,
            period=notice.period,
            since=notice.seen,
            made_at=now,
            nodes=notice.nodes,
        )
        made = self._noticed(notice.verdict, notice.finding, occasion)
        if made is None:
            return False
        owner, _webhook = self._owner(notice.verdict)
        admin = self.settings.whole
        receivers = Receivers(
            mail_to=tuple(dict.fromkeys((*owner.mail_to, *admin.mail_to))),
            channels=tuple(dict.fromkeys((*owner.channels, *admin.channels))),
        )
        letters = self._letters(made, receivers, webhook=True, about=notice.about)
        waits = not (notice.severe and self.settings.severe_in_quiet_hours)
        outbox.put(self._held(letters, now) if waits else letters, content.pack(made))
        return True

    def _owner(self, verdict: Verdict) -> tuple[Receivers, bool]:
        """Who is told of a workload, and whether the web address is."""
        workload = verdict.workload
        team = self.settings.for_team(workload.team)
        route = noticing.route(workload, team)
        if route.problem:
            log.warning("%s: %s; others are told", workload.id, route.problem)
        general = tuple(team.channels) if route.webhook else ()
        channels = tuple(dict.fromkeys((*route.channels, *general)))
        return Receivers(mail_to=route.mail_to, channels=channels), route.webhook

    def _noticed(self, verdict: Verdict, finding: Finding, occasion: Occasion) -> Content | None:
        try:
            with speaking(self.settings.language):
                return content.notice_content(
                    verdict, finding, occasion, public_url=self.settings.public_url
                )
        except Exception:
            log.exception("no notice of %s", verdict.workload.id)
            self._count("notice", "failed")
            return None

    def _held(self, letters: list[Letter], now: float) -> list[Letter]:
        quiet = self.settings.quiet
        until = None if quiet is None else quiet.held_until(now)
        return [msgspec.structs.replace(one, next_try=until or 0.0) for one in letters]

    def _letters(
        self, made: Content, receivers: Receivers, *, webhook: bool, about: str = ""
    ) -> list[Letter]:
        settings = self.settings
        ways = [(MAIL, one) for one in receivers.mail_to] if settings.server is not None else []
        if webhook and settings.webhook_url:
            ways.append((WEBHOOK, settings.webhook_name))
        ways += [(CHAT, one) for one in receivers.channels]
        return [self._letter(made, way, about) for way in ways]

    def _letter(self, made: Content, way: tuple[str, str], about: str) -> Letter:
        channel, recipient = way
        scope = "/".join(part for part in (self._cluster, made.kind, about) if part)
        key = (made.period, scope, channel, recipient)
        return Letter(
            period=made.period,
            scope=scope,
            channel=channel,
            recipient=recipient,
            cluster=self._cluster,
            settings_hash=self.settings.fingerprint,
            message_id=mail.message_id(key, self.settings.mail_from),
            made_at=made.made_at,
        )

    def run(self, now: float) -> int:
        """Send what is due at ``now`` and return how many were taken; errors are counted."""
        if not self.settings.wanted or self._sending.stopping:
            return 0
        with self._round:
            self._sending.trouble = ""
            try:
                taken, failures = self._sending.round(now)
            except Exception as error:
                if not isinstance(error, StoreError):  # of which the heartbeat tells, once
                    log.exception("the outbox cannot be worked on")
                self._sending.trouble = str(error)
                self._count("deliver", "failed")
                return 0
        if taken or failures:
            self._count("deliver", "failed" if failures else "done")
        return taken

    def stop(self) -> None:
        """Begin no further message; those that are under way are finished."""
        self._sending.stop()

    def release(self) -> None:
        """Wait for what is under way, and let another agent send from now on."""
        with self._round:
            self._sending.end()
