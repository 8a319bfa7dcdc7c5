"""From pages to rows in the store: the rollup, its checkpoint, and who was active last.

Rows and the checkpoint they come from are written in one transaction, so a kill at any moment
doubles nothing: after a restart the exporters' counters tell what living pods used meanwhile.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gputailor_agent.model.usage import Page, UsageRow
from gputailor_agent.rollup import encode_state
from gputailor_agent.schedule.keeping import job_name, restored
from gputailor_agent.schedule.reliving import Reliving
from gputailor_agent.schedule.settings import PageSource, ServiceSettings
from gputailor_agent.schedule.telemetry import Telemetry
from gputailor_agent.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class ScrapeRound:
    """How the last round of scrapes went: its Unix time and how many targets did what."""

    at: float
    answered: int
    failed: int


@dataclass(frozen=True, slots=True)
class Holding:
    """A device that a container held on the last page that told of it."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    last_active: float | None  # Unix seconds; None: not known
    gpu_uuid: str = ""
    at: float = 0.0  # Unix seconds: when the page was read
    device: Mapping[str, float] = field(default_factory=dict)  # counters of faults


class Measuring:
    """The rollup of one cluster. Safe to use from several threads."""

    def __init__(
        self,
        settings: ServiceSettings,
        store: Store,
        source: PageSource | None,
        telemetry: Telemetry,
    ) -> None:
        self.source = source
        self.last_round: ScrapeRound | None = None
        self._settings = settings
        self._store = store
        self._telemetry = telemetry
        self._rolling = threading.RLock()  # the rollup and what is written from it
        self._scraping = threading.Lock()  # rounds, so that pages come in order
        self._checkpointed = float("-inf")
        self._reliving = Reliving(settings.spread_after_seconds)
        self._rollup = restored(store, settings, telemetry)
        self._held: dict[str, tuple[Holding, ...]] = {}  # by exporter

    def change(self, settings: ServiceSettings, source: PageSource | None) -> None:
        """Go on by other settings and, where given, another source."""
        with self._scraping:
            self._settings = settings
            if source is not None:
                self.source = source
                self._held.clear()

    def scrape(self, now: float) -> bool:
        """Scrape every target once and keep what came of it; False when that failed."""
        # one that waited for the round before it would be dated by when it began to wait
        if self.source is None or not self._scraping.acquire(blocking=False):
            return False
        try:
            return self._round(self.source, now)
        finally:
            self._scraping.release()

    def _round(self, source: PageSource, now: float) -> bool:
        with self._telemetry.run("scrape", now) as run:
            result = source.scrape(now)
            with self._rolling:
                self._rollup.mind_clock(now)
                self._reliving.look(now)
                answered = [self._add(page) for page in result.pages]
                self._telemetry.rollup_problems(self._rollup.problems)
                if not 0 <= now - self._checkpointed < self._settings.checkpoint_seconds:
                    self._write(self._rollup.take_rows(before=now), now)
            self.last_round = ScrapeRound(now, len(answered), len(result.failures))
            self._telemetry.scraped(answered, result.failures)
            if answered:
                self._telemetry.measured_up_to(now)
        return run.went_well

    def _add(self, page: Page) -> str:
        self._rollup.add(page)
        self._held[page.exporter] = tuple(
            Holding(
                *(one.namespace, one.pod, one.pod_uid, one.container, one.last_active),
                gpu_uuid=one.gpu_uuid,
                at=page.at,
                device=one.device,
            )
            for one in page.containers
            if one.allocated
        )
        return page.exporter

    def holdings(self) -> list[Holding]:
        """What containers held on the last pages of all exporters."""
        with self._rolling:
            return [one for page in self._held.values() for one in page]

    def flush(self, now: float) -> bool:
        """Write every row, the open hours' too, and the checkpoint; False when that failed."""
        with self._telemetry.run("flush", now) as run:
            self.write(now)
        return run.went_well

    def write(self, now: float, more: Callable[[Transaction], None] | None = None) -> None:
        """Write every row with the checkpoint, and ``more`` in the same transaction."""
        with self._rolling:
            self._write(self._rollup.take_rows(), now, more)

    def _write(
        self,
        rows: Iterable[UsageRow],
        now: float,
        more: Callable[[Transaction], None] | None = None,
    ) -> None:
        """Write rows, devices and the checkpoint as one; on failure the rows stay to be written."""
        rows = list(rows)
        try:
            body = encode_state(self._rollup.state())
            kept = list(self._reliving.kept(rows, self._store, self._settings.cluster))
            with self._store.transaction() as tx:
                tx.put_usage(kept)
                tx.put_devices(self._rollup.devices())
                tx.put_checkpoint(job_name(self._settings, "rollup"), body)
                if more is not None:
                    more(tx)
        except BaseException:
            self._rollup.give_back(rows)
            raise
        self._checkpointed = now
        self._telemetry.wrote_rows(len(kept))
