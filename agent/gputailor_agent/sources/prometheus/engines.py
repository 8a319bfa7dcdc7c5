"""What inference engines say of their requests, hour by hour.

Costs per engine process and hour: one sample of each counter, and of each level two passes over its
samples, made by the server (mean and highest), plus one that counts them. An engine process is a
port of a pod, by the labels that the scrape gave; without them by the pod's address, as
kube-state-metrics has it. Copies that differ in other labels count once.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from gputailor_agent.dialects.engines import COUNTERS, LEVELS, Engine, EngineMetric, Told
from gputailor_agent.dialects.labels import first
from gputailor_agent.model.containers import Amount, Peak, observed
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.sources.prometheus.answers import Matrix, Vector, labels_of
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.sources.prometheus.container_readings import ContainerReading
from gputailor_agent.sources.prometheus.promql import chunks, equal, one_of, selector
from gputailor_agent.sources.prometheus.rises import (
    Boundary,
    Hour,
    SeriesKey,
    boundary,
    samples_after,
)

_LEARN_SECONDS: Final = 900  # of one series, raw, to see how far apart its samples are
_START: Final = "process_start_time_seconds"
_AMOUNTS: Final = {
    Told.REQUESTS: Amount.REQUESTS,
    Told.PROMPT_TOKENS: Amount.PROMPT_TOKENS,
    Told.OUTPUT_TOKENS: Amount.OUTPUT_TOKENS,
    Told.LATENCY: Amount.LATENCY,
    Told.LATENCY_REQUESTS: Amount.LATENCY_REQUESTS,
    Told.RUNNING: Amount.RUNNING,
    Told.WAITING: Amount.WAITING,
    Told.CACHE: Amount.CACHE,
}
_PEAKS: Final = {
    Told.RUNNING: Peak.RUNNING,
    Told.WAITING: Peak.WAITING,
    Told.CACHE: Peak.CACHE,
    Told.MEMORY: Peak.ENGINE_MEMORY,
}


class _Process(NamedTuple):
    """One engine process; without a pod, ``host`` is the address that was scraped."""

    namespace: str
    pod: str
    host: str
    port: str

    @property
    def group(self) -> str:
        return "\n".join(self)


class EngineReader:
    """Reads one engine's processes."""

    def __init__(
        self, client: PrometheusClient, engine: Engine, matchers: tuple[str, ...] = ()
    ) -> None:
        self.engine = engine
        self._client = client
        self._matchers = matchers
        self._kept: tuple[float, Boundary] | None = None
        self._intervals: dict[str, float] = {}  # by job
        self._containers: dict[str, str] = {}  # by process
        self._instances: dict[str, set[str]] = defaultdict(set)  # by process: targets' addresses

    def hour(self, begin: int, end: int, names: Collection[str]) -> list[ContainerReading]:
        """What the engine's processes did in (begin, end]; ``names``: metrics on the server."""
        amounts: dict[str, dict[str, float]] = defaultdict(dict)
        peaks: dict[str, dict[str, float]] = defaultdict(dict)
        seconds = self._seconds(begin, end, names)
        for group, told in self._counted(begin, end, names).items():
            if group in seconds:
                amounts[group] |= told
        for level, group, mean, highest in self._levels(begin, end, names):
            if group not in seconds:
                continue
            peaks[group][_PEAKS[level]] = highest
            if level in _AMOUNTS:
                amounts[group][_AMOUNTS[level]] = mean * seconds[group]
                amounts[group][observed(_AMOUNTS[level])] = seconds[group]
        places = self._places(seconds, end)
        for group in seconds:
            amounts[group][Amount.ENGINE_OBSERVED] = seconds[group]
            if _asked(amounts[group], peaks[group]):
                peaks[group][Peak.LAST_REQUEST] = float(end)
        return [
            ContainerReading(
                source=self.engine.name,
                namespace=place[0],
                pod=place[1],
                container=self._containers.get(group, ""),
                amounts=amounts[group],
                peaks=peaks[group],
                of_engine=True,
            )
            for group, place in places.items()
        ]

    def _select(self, names: tuple[str, ...], *matchers: str) -> str:
        return selector(names, *self._matchers, *matchers)

    def _look(self, labels: Mapping[str, str]) -> str:
        """The process that a series is of."""
        instance = labels.get("instance", "")
        host, _, port = instance.rpartition(":")
        pod = first(labels, "pod", "pod_name", "kubernetes_pod_name")
        namespace = first(labels, "namespace", "kubernetes_namespace")
        port = port if port.isdigit() else ""
        process = _Process(namespace, pod, "" if pod else host or instance, port)
        container = first(labels, "container", "container_name")
        if container:
            self._containers[process.group] = container
        self._instances[process.group].add(instance)
        return process.group

    def _key(self, labels: Mapping[str, str]) -> SeriesKey:
        apart = tuple(labels.get(name, "") for name in self.engine.apart)
        return SeriesKey(self._look(labels), labels.get("__name__", ""), (), apart)

    # -- counters

    def _counted(self, begin: int, end: int, names: Collection[str]) -> dict[str, dict[str, float]]:
        """Amounts by process."""
        metrics = self.engine.of(*COUNTERS)
        there = tuple(sorted({n for metric in metrics for n in metric.names} & set(names)))
        if not there:
            return {}
        after = self._boundary(there, end)
        known = self._kept
        before = known[1] if known and known[0] == begin else self._boundary(there, begin)
        self._kept = (end, after)
        starts = self._starts({key.group for key in after}, end)
        hour = Hour(begin, end, before, after, lambda key: starts.get(key.group))
        doubtful = hour.doubtful()
        if doubtful:
            seen = self._scraped(doubtful, begin)
            doubtful = hour.doubtful(seen)
        read = self._samples(there, doubtful, begin, end)
        rises = hour.rises(read, doubtful)
        return self._by_amount(metrics, {key: rise.amount for key, rise in rises.items()})

    def _by_amount(
        self, metrics: Iterable[EngineMetric], rises: Mapping[SeriesKey, float]
    ) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = defaultdict(dict)
        for metric in metrics:
            one: dict[tuple[str, tuple[str, ...]], float] = {}  # of several names of it the highest
            for key, rise in rises.items():
                value = metric.canonical(rise) if key.name in metric.names else None
                if value is not None:
                    place = (key.group, key.apart)
                    one[place] = max(value, one.get(place, 0.0))
            for (group, _), value in one.items():
                name = _AMOUNTS[metric.told]
                found[group][name] = found[group].get(name, 0.0) + value
        return found

    def _boundary(self, names: tuple[str, ...], at: float) -> Boundary:
        return boundary(self._client.query(self._select(names), at), self._key)

    def _starts(self, groups: Iterable[str], end: float) -> dict[str, float]:
        """When each process began, where it says so."""
        found: dict[str, float] = {}
        for part in chunks(self._addresses(groups)):
            chosen = self._select((_START,), one_of("instance", part))
            for sample in self._client.query(chosen, end).result:
                group = self._look(labels_of(sample.metric))
                found[group] = max(float(sample.value[1]), found.get(group, 0.0))
        return found

    def _scraped(self, groups: Iterable[str], at: float) -> set[str]:
        """Those of the processes whose target answered at that time."""
        found: set[str] = set()
        for part in chunks(self._addresses(groups)):
            chosen = self._select(("up",), one_of("instance", part))
            for sample in self._client.query(chosen, at).result:
                if float(sample.value[1]) == 1:
                    found.add(self._look(labels_of(sample.metric)))
        return found

    def _samples(
        self, names: tuple[str, ...], groups: Collection[str], begin: int, end: int
    ) -> dict[SeriesKey, list[list[tuple[float, float]]]]:
        parts = chunks(self._addresses(groups))
        chosen = [self._select(names, one_of("instance", part)) for part in parts]
        read = self._client.each(lambda s: self._client.samples(s, end - begin, end), chosen)
        return samples_after(read, self._key, begin)

    def _addresses(self, groups: Iterable[str]) -> list[str]:
        return sorted({address for group in groups for address in self._instances[group]})

    # -- levels

    def _levels(
        self, begin: int, end: int, names: Collection[str]
    ) -> Iterator[tuple[Told, str, float, float]]:
        """Yield each level's mean and highest value of each process.

        Requests of models and ranks of one process add up (their highest as if at one moment); of
        caches the mean is the mean of all, and the fullest one is the highest.
        """
        for metric in self.engine.of(*LEVELS, Told.MEMORY):
            means = (
                {} if metric.told is Told.MEMORY else self._over(metric, "avg", begin, end, names)
            )
            tops = self._over(metric, "max", begin, end, names)
            for group, top in tops.items():
                mean = means.get(group, {})
                if metric.told in {Told.CACHE, Told.MEMORY}:
                    average = sum(mean.values()) / len(mean) if mean else 0.0
                    yield metric.told, group, average, max(top.values())
                else:
                    yield metric.told, group, sum(mean.values()), sum(top.values())

    def _over(
        self, metric: EngineMetric, way: str, begin: int, end: int, names: Collection[str]
    ) -> dict[str, dict[tuple[str, ...], float]]:
        """A level over the hour by process and what tells its series apart."""
        found: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
        for name in metric.names:
            if name not in names:
                continue
            vector = self._client.query(
                f"{way}_over_time({self._select((name,))}{_span(begin, end)})", end
            )
            for sample in vector.result:
                key = self._key(labels_of(sample.metric))
                value = metric.canonical(float(sample.value[1]))
                if value is not None:
                    place = found[key.group]
                    place[key.apart] = max(value, place.get(key.apart, 0.0))
        return found

    # -- time and place

    def _seconds(self, begin: int, end: int, names: Collection[str]) -> dict[str, float]:
        """For how long each process was seen: samples of one metric x the time between them."""
        found: dict[str, float] = {}
        for name in self._references(names):
            counted = self._client.query(
                f"count_over_time({self._select((name,))}{_span(begin, end)})", end
            )
            self._learn(name, counted, end)
            for sample in counted.result:
                labels = labels_of(sample.metric)
                group = self._look(labels)
                interval = self._intervals.get(labels.get("job", ""))
                if interval is not None:
                    seconds = min(float(end - begin), float(sample.value[1]) * interval)
                    found[group] = max(seconds, found.get(group, 0.0))
        return found

    def _references(self, names: Collection[str]) -> tuple[str, ...]:
        """Names of the one metric whose samples are counted: the cheapest that tells of all."""
        if self.engine.signature:
            return (self.engine.signature,) if self.engine.signature in names else ()
        there = [[n for n in metric.names if n in names] for metric in self.engine.metrics]
        levels = [[n for n in m.names if n in names] for m in self.engine.of(*LEVELS)]
        return tuple(next((found for found in (*levels, *there) if found), ()))

    def _learn(self, name: str, counted: Vector, end: int) -> None:
        """How far apart each job's samples are: the median distance in its fullest series."""
        fullest: dict[str, tuple[float, dict[str, str]]] = {}
        for sample in counted.result:
            labels, count = labels_of(sample.metric), float(sample.value[1])
            job = labels.get("job", "")
            if job not in fullest or count > fullest[job][0]:
                fullest[job] = (count, labels)
        for job, (_, labels) in fullest.items():
            plain = {key: value for key, value in labels.items() if key != "__name__"}
            chosen = self._select((name,), *equal(plain))
            for span in (_LEARN_SECONDS, HOUR_SECONDS):
                interval = _interval(self._client.query_raw(f"{chosen}[{span}s]", end))
                if interval is not None:
                    self._intervals[job] = interval
                    break

    def _places(self, groups: Iterable[str], end: int) -> dict[str, tuple[str, str]]:
        """Namespace and pod of each process, by the address where the scrape names no pod."""
        found, hosts = {}, defaultdict(list)
        for group in groups:
            process = _Process(*group.split("\n"))
            if process.pod:
                found[group] = (process.namespace, process.pod)
            elif process.host:
                hosts[process.host].append(group)
        for part in chunks(sorted(hosts)):
            chosen = self._select(("kube_pod_info",), one_of("pod_ip", part))
            pods: dict[str, set[tuple[str, str]]] = defaultdict(set)
            for sample in self._client.query(chosen, end).result:
                labels = labels_of(sample.metric)
                place = (
                    first(labels, "exported_namespace", "namespace"),
                    first(labels, "exported_pod", "pod"),
                )
                pods[labels.get("pod_ip", "")].add(place)
            for host, there in pods.items():
                if len(there) == 1:  # several pods share a node's own address
                    found |= dict.fromkeys(hosts[host], next(iter(there)))
        return found


def _asked(amounts: Mapping[str, float], peaks: Mapping[str, float]) -> bool:
    """Whether there was any request in the hour."""
    told = (
        amounts.get(Amount.REQUESTS),
        amounts.get(Amount.LATENCY_REQUESTS),
        peaks.get(Peak.RUNNING),
        peaks.get(Peak.WAITING),
    )
    return any(value for value in told if value is not None)


def _interval(raw: Matrix) -> float | None:
    steps = [
        later - earlier
        for series in raw.result
        for (earlier, _), (later, _) in pairwise(series.values)
        if later > earlier
    ]
    found = statistics.median(steps) if steps else None
    return found if found is not None and math.isfinite(found) else None


def _span(begin: int, end: int) -> str:
    return f"[{end - begin - 1}s999ms]"  # (begin, end] on servers of either reading
