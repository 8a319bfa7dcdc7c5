"""A Prometheus as a source: which exporters it has scraped, and what they said, hour by hour."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Self

import httpx

from gputailor_agent.dialects import gputailor
from gputailor_agent.dialects.gauges import gauge_dialects
from gputailor_agent.dialects.gputailor_series import ALLOCATED_SECONDS, DEVICE_INFO, PREFIX
from gputailor_agent.model.usage import HOUR_SECONDS, Page
from gputailor_agent.sources.prometheus.client import (
    LOOKS,
    Access,
    Budget,
    Cost,
    PrometheusClient,
)
from gputailor_agent.sources.prometheus.container_readings import AskedContainer
from gputailor_agent.sources.prometheus.containers import ContainerReader
from gputailor_agent.sources.prometheus.counters import LOOK_BACK_SECONDS, CounterReader
from gputailor_agent.sources.prometheus.gauges import GaugeReader, Present, present_gauges
from gputailor_agent.sources.prometheus.promql import equal, quoted, selector
from gputailor_agent.sources.prometheus.readings import BLOCK_SECONDS, GaugeHour, HourReading

_OURS: Final = frozenset({ALLOCATED_SECONDS, DEVICE_INFO})
_SKEW_SECONDS: Final = 5.0  # that a slow answer may make of equal clocks


class PrometheusSource:
    """One cluster's history in a Prometheus or what speaks like it.

    ``labels`` narrow every query where one server holds several clusters (``cluster="prod"``).
    ``accelerators`` and ``asked``: whose CPU, memory and engine are read though no exporter names
    them, as for ``ContainerReader``.
    ``transport`` and ``sleep`` stand in for the network and the clock in tests.
    """

    def __init__(
        self,
        url: str,
        cluster: str,
        *,
        access: Access | None = None,
        budget: Budget | None = None,
        labels: Mapping[str, str] | None = None,
        look_back_seconds: float = LOOK_BACK_SECONDS,
        accelerators: str = "",
        asked: Callable[[], Collection[AskedContainer]] = tuple,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.cluster = cluster
        self.budget = budget or Budget()
        self.labels = dict(labels or {})
        self._client = PrometheusClient(
            url,
            access or Access(),
            budget=self.budget,
            transport=transport,
            sleep=sleep,
        )
        self._matchers = equal(self.labels)
        self._differing = False  # it was told that servers behind the address differ
        self._counters = CounterReader(self._client, cluster, self._matchers, look_back_seconds)
        self._containers = ContainerReader(
            self._client, self._matchers, accelerators=accelerators, asked=asked
        )
        self._gauges = {
            dialect.name: GaugeReader(self._client, dialect, cluster, self._matchers)
            for dialect in gauge_dialects()
        }

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of connections and threads."""
        self._client.close()

    @property
    def address(self) -> str:
        """The server's address without a password."""
        return self._client.shown

    @property
    def client(self) -> PrometheusClient:
        """The server itself."""
        return self._client

    @property
    def cost(self) -> Cost:
        """What was asked of the server so far."""
        return self._client.cost

    def ahead_seconds(self) -> float:
        """How far our clock is ahead of the server's; 0 where it is not, or nobody can tell.

        What has not happened yet by the server's clock must not count as missing. Raises
        ``PrometheusError``.
        """
        if self._client.skew_seconds is None:
            self._client.status("buildinfo", dict)
        skew = self._client.skew_seconds or 0.0
        return skew if skew > _SKEW_SECONDS else 0.0

    def dialects(self, start: float, end: float) -> tuple[str, ...]:
        """Names of the exporters that the server has metrics of in the time."""
        return tuple(sorted(self.present(start, end)))

    def hours(
        self,
        start: float,
        end: float,
        *,
        known: Collection[str] | None = None,
        complete: bool = True,
    ) -> Iterator[HourReading]:
        """Read every hour of [start, end), the oldest first, and stop when the budget is used up.

        ``start`` is taken down to a whole hour; the last reading is of a part of an hour where
        ``end`` lies inside one. ``known``: nodes whose counters as of ``start`` the caller has
        (from an earlier call); None: they are read first. Histograms of our exporter are read
        where a block ends, and at the very end where that shall be ``complete``: nothing comes
        after. The budget is looked at where blocks begin. Raises ``PrometheusError``.
        """
        first = math.floor(start / HOUR_SECONDS) * HOUR_SECONDS
        present = self.present(first, end)
        self._containers.look(first, end)
        seen: set[str] | None = None if known is None else set(known)
        spent = self.cost.samples
        for hour in range(first, math.ceil(end), HOUR_SECONDS):
            if self.cost.samples - spent >= self.budget.samples and not hour % BLOCK_SECONDS:
                return
            stop = min(hour + HOUR_SECONDS, math.floor(end))
            histograms = not stop % BLOCK_SECONDS or (complete and stop == math.floor(end))
            reading = self._hour((hour, stop), present, seen, histograms=histograms)
            seen = (seen or set()) | {page.exporter for page in reading.pages}
            yield reading

    def present(self, start: float, end: float) -> dict[str, tuple[Present, ...]]:
        """Dialects on the server; those of gauges with the gauges there are."""
        dialects = gauge_dialects()
        prefixes = [PREFIX, *(prefix for one in dialects for prefix in one.prefixes)]
        pattern = f"__name__=~{quoted('(' + '|'.join(prefixes) + ').*')}"
        named = f"{{{','.join((pattern, *self._matchers))}}}"
        names = self._client.metric_names(named, start, end)
        found: dict[str, tuple[Present, ...]] = {}
        if _OURS & set(names):
            found[gputailor.NAME] = ()
        for dialect in dialects:
            gauges = present_gauges(dialect, names)
            if gauges:
                found[dialect.name] = gauges
        return found

    def _hour(
        self,
        span: tuple[int, int],
        present: Mapping[str, tuple[Present, ...]],
        seen: Collection[str] | None,
        *,
        histograms: bool,
    ) -> HourReading:
        before, (hour, end) = self.cost.samples, span
        problems = self.look_closer(hour, end, present)
        pages = []
        if gputailor.NAME in present:
            first = self._counters.boundary(hour) if seen is None else []
            known = {page.exporter for page in first} if seen is None else seen
            pages = [*first, *self._counters.hour(hour, end, known, histograms=histograms)]
        gauges: list[GaugeHour] = []
        for name, reader in self._gauges.items():
            if name in present:
                found = reader.hour(hour, end, present[name])
                if found is not None:
                    gauges.append(found)
        beside = self._containers.hour(hour, end, _holding(pages, gauges))
        return HourReading(
            hour=hour,
            end=end,
            pages=tuple(pages),
            gauges=tuple(gauges),
            beside=beside,
            problems=(*problems, *beside.problems, *self._counters.placer.take_faults()),
            partial=self._client.take_partial(),
            samples=self.cost.samples - before,
        )

    def look_closer(
        self, hour: int, end: int, present: Mapping[str, tuple[Present, ...]]
    ) -> tuple[str, ...]:
        """Ask everything several times from here on, where two answers to one question differ."""
        if self._differing:
            return ()
        for name, gauges in present.items():
            metric = DEVICE_INFO if name == gputailor.NAME else gauges[0].name
            if self._client.looks == 1 and self._client.agrees(
                selector((metric,), *self._matchers), hour, end
            ):
                continue
            self._differing, self._client.looks = True, LOOKS
            differ = (
                f"several servers answer at {self.address} and tell different things of "
                f"{metric}: each question is asked {LOOKS} times and what any of them tells "
                "is taken; look which of them misses scrapes, or read one that merges them"
            )
            return (differ,)
        return ()


def _holding(pages: Iterable[Page], gauges: Iterable[GaugeHour]) -> set[tuple[str, str]]:
    """Namespace and pod of everybody who held a device."""
    told = {(one.namespace, one.pod) for page in pages for one in page.containers}
    for hour in gauges:
        holders = [one.holder for one in hour.series] + [one.holder for one in hour.counts]
        told |= {(one.namespace, one.pod) for one in holders if one is not None}
    return {(namespace, pod) for namespace, pod in told if pod}
