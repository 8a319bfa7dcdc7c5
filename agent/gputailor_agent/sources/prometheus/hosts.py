"""What containers used of their nodes, hour by hour: cAdvisor's CPU, memory, pressure, traffic.

Costs per container and hour: one sample of each counter and setting, thirteen of its CPU time, and
one pass over the samples of its memory, made by the server. Only containers of given pods are asked
for. Restarts and kills for memory are kube-state-metrics' (``restarting``).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from gputailor_agent.dialects import cadvisor
from gputailor_agent.dialects.cadvisor import HostCounter
from gputailor_agent.dialects.labels import told
from gputailor_agent.model import cpu_levels
from gputailor_agent.model.containers import Amount, Peak
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.sources.prometheus.container_readings import ContainerReading
from gputailor_agent.sources.prometheus.promql import chunks, one_of, selector
from gputailor_agent.sources.prometheus.readings import STEP_SECONDS
from gputailor_agent.sources.prometheus.rises import (
    Boundary,
    Hour,
    Rise,
    Samples,
    SeriesKey,
    boundary,
    samples_after,
)

T = TypeVar("T")

PodName = tuple[str, str]  # namespace and pod
_Place = tuple[str, ...]  # namespace, pod, container

_SETTINGS: Final = (cadvisor.QUOTA, cadvisor.PERIOD, cadvisor.MEMORY_LIMIT, cadvisor.STARTED)
_COUNTERS: Final = {one.name: one for one in (*cadvisor.COUNTERS, *cadvisor.OF_THE_POD)}
_START: Final = cadvisor.APART.index(cadvisor.START)
_OF_CONTAINERS: Final = ('container!=""', 'container!="POD"')
_PRESSURE: Final = "container_pressure_"


class _Ends(NamedTuple):
    """Counters and settings as of one time, and the pods that they were asked for."""

    at: float
    pods: frozenset[PodName]
    counters: Boundary
    settings: Boundary


class HostReader:
    """Reads cAdvisor's series of given pods."""

    def __init__(self, client: PrometheusClient, matchers: tuple[str, ...] = ()) -> None:
        self._client = client
        self._matchers = matchers
        self._labels: tuple[str, ...] = ("pod", "exported_pod")  # that may name a pod here
        self._kept = _Ends(0.0, frozenset(), {}, {})

    def hour(self, begin: int, end: int, pods: Collection[PodName]) -> list[ContainerReading]:
        """What the pods' containers used in (begin, end]."""
        wanted = frozenset(pods)
        after = self._ends(end, wanted)
        before = self._before(begin, wanted)
        self._kept = after
        starts = _starts(before.settings) | _starts(after.settings)
        hour = Hour(
            begin, end, before.counters, after.counters, lambda key: starts.get(_start(key))
        )
        doubtful = hour.doubtful() | ({_group(pod) for pod in wanted} - _groups(after.counters))
        rises = hour.rises(self._samples(doubtful, begin, end), doubtful)
        settings = before.settings | after.settings
        peaks = self._memory(wanted, begin, end)
        levels = self._cpu_levels(wanted, begin, end)
        return _readings(_owned(rises, wanted), _owned(settings, wanted), peaks, levels)

    def _select(self, names: tuple[str, ...], *matchers: str) -> str:
        return selector(names, *self._matchers, *matchers)

    def _before(self, begin: int, wanted: frozenset[PodName]) -> _Ends:
        """The begin's values: those kept of the hour before, and those of other pods."""
        if self._kept.at != begin:
            return self._ends(begin, wanted)
        more = self._ends(begin, wanted - self._kept.pods)
        return _Ends(
            begin,
            wanted,
            {**_of_pods(self._kept.counters, wanted), **more.counters},
            {**_of_pods(self._kept.settings, wanted), **more.settings},
        )

    def _ends(self, at: int, pods: frozenset[PodName]) -> _Ends:
        names = tuple(one.name for one in cadvisor.COUNTERS)
        found = self._of(pods, at, (*names, *_SETTINGS), _OF_CONTAINERS)
        found |= self._of(pods, at, tuple(one.name for one in cadvisor.OF_THE_POD), ())
        settings = {key: value for key, value in found.items() if key.name in _SETTINGS}
        counters = {key: value for key, value in found.items() if key.name in _COUNTERS}
        return _Ends(at, pods, counters, settings)

    def _of(
        self, pods: Collection[PodName], at: int, names: tuple[str, ...], more: tuple[str, ...]
    ) -> Boundary:
        found: Boundary = {}
        for label in self._labels:
            asked = [self._select(names, *more, chosen) for chosen in _choices(label, pods)]
            vectors = self._client.each(lambda s: self._client.query(s, at), asked)
            for vector in vectors:
                found |= boundary(vector, _key)
            if found:
                self._labels = (label,)  # a scrape either keeps the exporter's labels or renames
                break
        return found

    def _samples(self, groups: Collection[str], begin: int, end: int) -> Samples:
        pods = [_pod(group) for group in groups]
        asked = [
            self._select(tuple(_COUNTERS), chosen)
            for label in self._labels
            for chosen in _choices(label, pods)
        ]
        read = self._client.each(lambda s: self._client.samples(s, end - begin, end), asked)
        return samples_after(read, _key, begin)

    def _memory(self, pods: Collection[PodName], begin: int, end: int) -> dict[_Place, float]:
        """The highest working set of each container (bytes)."""
        span = f"[{end - begin - 1}s999ms]"
        asked = [
            f"max_over_time({self._select((cadvisor.MEMORY,), *_OF_CONTAINERS, chosen)}{span})"
            for label in self._labels
            for chosen in _choices(label, pods)
        ]
        found: dict[_Place, float] = {}
        for vector in self._client.each(lambda s: self._client.query(s, end), asked):
            for key, value in boundary(vector, _key).items():
                if (key.of[0], key.of[1]) in pods:
                    found[key.of] = max(value, found.get(key.of, 0.0))
        return found

    def _cpu_levels(
        self, pods: Collection[PodName], begin: int, end: int
    ) -> dict[_Place, dict[str, float]]:
        """Seconds by level of CPU use of each container; steps in which it was known throughout.

        A counter that is new in a step, or fell, says nothing of the step.
        """
        asked = [
            self._select((cadvisor.CPU.name,), *_OF_CONTAINERS, chosen)
            for label in self._labels
            for chosen in _choices(label, pods)
        ]
        last = begin + (end - begin) // STEP_SECONDS * STEP_SECONDS
        read = self._client.each(
            lambda one: self._client.query_range(one, begin, last, STEP_SECONDS), asked
        )
        seconds: dict[_Place, dict[float, float]] = defaultdict(lambda: defaultdict(float))
        for key, copies in samples_after(read, _key, begin - 1).items():
            if (key.of[0], key.of[1]) in pods:
                fullest = max(copies, key=len)  # others are the same, seen by another scraper
                for (before, was), (at, now) in pairwise(fullest):
                    if at - before == STEP_SECONDS and now >= was:
                        seconds[key.of][at] += now - was
        levels: dict[_Place, dict[str, float]] = {}
        for place, steps in seconds.items():
            found = levels[place] = defaultdict(float)
            for used in steps.values():
                found[cpu_levels.level(used / STEP_SECONDS)] += STEP_SECONDS
        return levels


def _choices(label: str, pods: Iterable[PodName]) -> Iterable[str]:
    return [one_of(label, part) for part in chunks(sorted({pod for _, pod in pods}))]


def _key(labels: Mapping[str, str]) -> SeriesKey:
    """A series; the network's is of the pod, whatever the pause container is called."""
    name = labels.get("__name__", "")
    pod = (told(labels, "namespace"), told(labels, "pod"))
    of_pod = name in {one.name for one in cadvisor.OF_THE_POD}
    container = "" if of_pod else told(labels, "container")
    apart = tuple(labels.get(one, "") for one in cadvisor.APART)
    return SeriesKey(_group(pod), name, (*pod, container), apart)


def _group(pod: PodName) -> str:
    return "/".join(pod)


def _pod(group: str) -> PodName:
    namespace, _, pod = group.partition("/")
    return namespace, pod


def _groups(counters: Boundary) -> set[str]:
    return {key.group for key in counters}


def _start(key: SeriesKey) -> tuple[_Place, str]:
    return key.of, key.apart[_START]


def _starts(settings: Boundary) -> dict[tuple[_Place, str], float]:
    """When each start of a container began."""
    return {_start(key): at for key, at in settings.items() if key.name == cadvisor.STARTED}


def _of_pods(values: Boundary, pods: Collection[PodName]) -> Boundary:
    return {key: value for key, value in values.items() if (key.of[0], key.of[1]) in pods}


def _owned(
    values: Mapping[SeriesKey, T], pods: Collection[PodName]
) -> dict[_Place, dict[SeriesKey, T]]:
    found: dict[_Place, dict[SeriesKey, T]] = defaultdict(dict)
    for key, value in values.items():
        if (key.of[0], key.of[1]) in pods:
            found[key.of][key] = value
    return found


def _readings(
    rises: Mapping[_Place, Mapping[SeriesKey, Rise]],
    settings: Mapping[_Place, Mapping[SeriesKey, float]],
    memory: Mapping[_Place, float],
    levels: Mapping[_Place, Mapping[str, float]],
) -> list[ContainerReading]:
    return [
        _reading(
            place,
            rises.get(place, {}),
            settings.get(place, {}),
            (memory.get(place), levels.get(place, {})),
        )
        for place in sorted({*rises, *memory})
    ]


def _reading(
    place: _Place,
    rises: Mapping[SeriesKey, Rise],
    settings: Mapping[SeriesKey, float],
    levels: tuple[float | None, Mapping[str, float]],
) -> ContainerReading:
    memory, of_cpu = levels
    amounts: dict[str, float] = defaultdict(float, of_cpu)
    counted: dict[str, float] = defaultdict(float)
    peaks = {} if memory is None else {str(Peak.MEMORY): memory}
    for key, rise in rises.items():
        counter = _COUNTERS[key.name]
        (counted if counter.counted else amounts)[counter.amount] += rise.amount
    seconds = _seconds(rises, cadvisor.CPU)
    if seconds:
        amounts[Amount.HOST_OBSERVED] = seconds
        peaks[Peak.CPUS] = counted["cpu_used_seconds"] / seconds
        limit = _cpus(settings)
        if limit is not None:
            counted["cpu_limit_seconds"] = limit * seconds
            amounts[Amount.CPU_USED_OF_LIMIT] = counted["cpu_used_seconds"]
    stalls = [one for one in cadvisor.COUNTERS if one.name.startswith(_PRESSURE)]
    pressed = max((_seconds(rises, one) for one in stalls), default=0.0)
    if pressed:
        amounts[Amount.PRESSURE_OBSERVED] = pressed
    limits = [v for key, v in settings.items() if key.name == cadvisor.MEMORY_LIMIT and v > 0]
    if limits:
        peaks[Peak.MEMORY_LIMIT] = max(limits)
    namespace, pod, container = place
    return ContainerReading(
        source=cadvisor.NAME,
        namespace=namespace,
        pod=pod,
        container=container,
        amounts=dict(amounts),
        peaks=peaks,
        counted=dict(counted),
    )


def _seconds(rises: Mapping[SeriesKey, Rise], counter: HostCounter) -> float:
    """Seconds in which the container was there: those of its starts one after another."""
    starts: dict[str, float] = {}
    for key, rise in rises.items():
        if key.name == counter.name:
            start = key.apart[_START]
            starts[start] = max(rise.seconds, starts.get(start, 0.0))
    return sum(starts.values())


def _cpus(settings: Mapping[SeriesKey, float]) -> float | None:
    """The limit in CPUs; the highest where starts of the container differ."""
    quotas = {k.apart: v for k, v in settings.items() if k.name == cadvisor.QUOTA}
    periods = {k.apart: v for k, v in settings.items() if k.name == cadvisor.PERIOD}
    limits = [q / periods[a] for a, q in quotas.items() if q > 0 and periods.get(a, 0) > 0]
    return max(limits, default=None)
