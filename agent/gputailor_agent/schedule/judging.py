"""From the store to a plan: the inventory as last known, the window, and the whole judgement."""

import logging
import time
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

import msgspec

from gputailor_agent.assessment import Assessment, assess, assess_store
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.judgement import Plan
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageRow
from gputailor_agent.profiles.edges import snapped
from gputailor_agent.rules.base import Catalogue
from gputailor_agent.schedule.backfill import Backfill
from gputailor_agent.schedule.settings import InventoryReader, ServiceSettings
from gputailor_agent.schedule.telemetry import Telemetry
from gputailor_agent.store import Store, Transaction
from gputailor_agent.store.ledger import Ledger

_DAY_SECONDS: Final = 86400
#: A plan may cost a twentieth of the time, whatever the settings say.
_PAUSE_PER_PLAN: Final = 20.0

log = logging.getLogger(__name__)


class Judging:
    """Makes plans of one cluster; keeps the newest one. Called by one thread at a time."""

    def __init__(
        self,
        settings: ServiceSettings,
        store: Store,
        reader: InventoryReader,
        catalogue: Catalogue,
        telemetry: Telemetry,
        *,
        backfill: Backfill | None,
        measured_since: float | None,
    ) -> None:
        """``reader`` may raise: then the last known inventory is used and the plan says so."""
        self.settings = settings
        self.newest: Assessment | None = None  # of this process
        self.seconds = 0.0  # what the last plan took
        self._store = store
        self._reader = reader
        self._catalogue = catalogue
        self._telemetry = telemetry
        self._backfill = backfill
        self._measured_since = measured_since
        self._namespaces: dict[str, dict[str, str]] = {}  # as last read: no store keeps them
        self._plan = store.latest_plan(settings.cluster)
        if self._plan is not None:
            telemetry.planned(self._plan)

    def change(self, settings: ServiceSettings, catalogue: Catalogue | None) -> None:
        """Go on by other settings and, where given, another catalogue."""
        self.settings = settings
        self._catalogue = self._catalogue if catalogue is None else catalogue

    @property
    def plan(self) -> Plan | None:
        """The newest plan; None before the first one."""
        return self._plan

    def pause(self, now: float, first_start: float) -> float:
        """How old a plan has to be before the next one is made, in seconds.

        As the settings say; while the store is young half its age, so that what is measured first
        shows within a minute; but never so that plans take over the agent.
        """
        young = max(0.0, now - first_start) / 2
        pause = min(self.settings.recommend_seconds, young)
        return max(pause, _PAUSE_PER_PLAN * self.seconds)

    def recommend(
        self, now: float, keep: Callable[[Transaction, Assessment], None] | None = None
    ) -> Plan:
        """Make a plan from everything there is at ``now`` and keep it; ``keep`` adds to that."""
        began = time.perf_counter()
        inventory, problems = self.inventory(now)
        end = now if self._backfill is None else self._backfill.end(now)
        assessment = self.assess(inventory, end, now, problems)
        with self._store.transaction() as tx:
            tx.put_resolution(self.settings.cluster, assessment.resolution, now)
            tx.put_plan(assessment.plan)
            if keep is not None:
                keep(tx, assessment)
        self.seconds = time.perf_counter() - began
        self.newest = assessment
        self._plan = assessment.plan
        self._telemetry.planned(assessment.plan)
        return assessment.plan

    def assess(
        self,
        inventory: Inventory,
        end: float,
        now: float,
        problems: Iterable[str],
        *,
        start: float | None = None,
        strangers: bool = True,
    ) -> Assessment:
        """Judge the window that ends at ``end`` as of ``now``; it begins as settings say.

        Without ``strangers`` only what the inventory knows.
        """
        window = self.window(end) if start is None else Window(start=start, end=end)
        with self._store.transaction() as tx:
            decisions = Ledger(tx).decisions(self.settings.cluster)
        return assess_store(
            self._store,
            self.settings.cluster,
            inventory,
            window,
            now=now,
            catalogue=self._catalogue,
            settings=self.settings.assessment,
            measured_since=self._measured_since,
            problems=(*problems, *self._backfill.problems) if self._backfill else tuple(problems),
            sources=self._sources(),
            decisions=decisions,
            strangers=strangers,
        )

    def assess_open(
        self,
        inventory: Inventory,
        young: tuple[list[UsageRow], list[Device]],
        start: float,
        now: float,
        problems: Iterable[str],
    ) -> Assessment:
        """Judge the pods of ``inventory`` from ``start`` to ``now``.

        ``young``: rows and devices of hours that are too young to be in the store.
        """
        names = sorted({(pod.namespace, pod.name) for pod in inventory.pods})
        wanted, (rows, devices) = set(names), young
        with self._store.transaction() as tx:
            decisions = Ledger(tx).decisions(self.settings.cluster)
        known = self._store.devices(self.settings.cluster)
        with self._store.reading_usage(self.settings.cluster) as usage:
            return assess(
                chain(
                    usage.parts(start, now, names),
                    (row for row in rows if (row.key.namespace, row.key.pod) in wanted),
                ),
                (*known, *devices),
                inventory,
                window=Window(start=start, end=now),
                now=now,
                catalogue=self._catalogue,
                settings=self.settings.assessment,
                problems=tuple(problems),
                sources=self._sources(),
                decisions=decisions,
            )

    def _sources(self) -> tuple[str, ...]:
        if self._backfill is not None:
            return ("Prometheus",)
        return () if self._measured_since is None else ("exporters scraped by the agent",)

    def window(self, end: float) -> Window:
        """The window of plans that ends at ``end``; it begins at a whole hour, or a whole day."""
        start = end - self.settings.window_days * _DAY_SECONDS
        asked = Window(start=float(start // HOUR_SECONDS * HOUR_SECONDS), end=end)
        return snapped(asked, end, self.settings.assessment.hourly_days)

    def inventory(self, now: float) -> tuple[Inventory, tuple[str, ...]]:
        """Return what was asked for as last known, after trying to read it anew."""
        cluster, problems = self.settings.cluster, list[str]()
        try:
            seen = self._reader(now)
            problems.extend(seen.problems)
            with self._store.transaction() as tx:
                tx.put_inventory(seen)
            self._namespaces = seen.namespaces
            self._telemetry.saying.well("reading the inventory", now)
        except Exception as error:  # noqa: BLE001 - whatever it is, the last known one serves
            self._telemetry.saying.failed("reading the inventory", now, error)
            self._telemetry.ran("inventory", "failed")
            problems.append(
                f"the inventory could not be read ({error}); pods and nodes are as last known"
            )
        since = self.window(now).start
        known = self._store.inventory(cluster, now, since=since)
        return msgspec.structs.replace(known, namespaces=self._namespaces), tuple(problems)
