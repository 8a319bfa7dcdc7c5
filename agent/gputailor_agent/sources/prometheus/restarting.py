"""Restarts and kills for memory of pods' containers, hour by hour, from kube-state-metrics.

Costs one sample of one counter per container and hour, and one per container that was killed.
"""

from collections.abc import Collection, Iterable, Mapping

from gputailor_agent.dialects import restarts
from gputailor_agent.dialects.kube_state_metrics import original
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.sources.prometheus.container_readings import ContainerReading
from gputailor_agent.sources.prometheus.hosts import PodName
from gputailor_agent.sources.prometheus.promql import chunks, equal, one_of, selector
from gputailor_agent.sources.prometheus.rises import (
    Boundary,
    Hour,
    SeriesKey,
    boundary,
    samples_after,
)


class RestartReader:
    """Reads kube-state-metrics' series of given pods."""

    def __init__(self, client: PrometheusClient, matchers: tuple[str, ...] = ()) -> None:
        self._client = client
        self._matchers = matchers

    def hour(self, begin: int, end: int, pods: Collection[PodName]) -> list[ContainerReading]:
        """Restarts and kills in (begin, end] of the pods' containers."""
        counted = (restarts.RESTARTS,)
        before = self._at(begin, counted, pods)
        after = self._at(end, counted, pods)
        hour = Hour(begin, end, before, after, lambda _: None)
        doubtful = hour.doubtful()
        rises = hour.rises(self._samples(doubtful, begin, end), doubtful)
        killed = self._killed(begin, end, pods)
        before_now, now = killed[restarts.BEFORE], killed[restarts.NOW]
        found = []
        for key, rise in rises.items():
            if (key.of[0], key.of[1]) not in pods:
                continue
            kills = int(rise.amount > 0 and key.of in before_now) + int(key.of in now)
            namespace, pod, container, _ = key.of
            told = {"restarts": rise.amount, "oom_kills": float(kills)}
            found.append(
                ContainerReading(
                    source=restarts.NAME,
                    namespace=namespace,
                    pod=pod,
                    container=container,
                    counted=told,
                )
            )
        return found

    def _select(self, names: tuple[str, ...], *matchers: str) -> str:
        return selector(names, *self._matchers, *matchers)

    def _at(
        self, at: int, names: tuple[str, ...], pods: Iterable[PodName], *matchers: str
    ) -> Boundary:
        asked = [self._select(names, chosen, *matchers) for chosen in _choices(pods)]
        found: Boundary = {}
        for vector in self._client.each(lambda s: self._client.query(s, at), asked):
            found |= boundary(vector, _key)
        return found

    def _samples(
        self, groups: Iterable[str], begin: int, end: int
    ) -> dict[SeriesKey, list[list[tuple[float, float]]]]:
        pods = [("", group) for group in groups]
        asked = [self._select((restarts.RESTARTS,), chosen) for chosen in _choices(pods)]
        read = self._client.each(lambda s: self._client.samples(s, end - begin, end), asked)
        return samples_after(read, _key, begin)

    def _killed(
        self, begin: int, end: int, pods: Collection[PodName]
    ) -> dict[str, set[tuple[str, ...]]]:
        """Containers whose last end, or present one, was a kill for memory; new ones alone."""
        names, reason = (restarts.BEFORE, restarts.NOW), equal({"reason": restarts.KILLED})
        found = {
            name: {key.of for key, value in told.items() if key.name == name and value == 1}
            for told in (self._at(end, names, pods, *reason),)
            for name in names
        }
        here = [(of[0], of[1]) for of in found[restarts.NOW]]
        old = self._at(begin, (restarts.NOW,), here, *reason)
        found[restarts.NOW] -= {key.of for key, value in old.items() if value == 1}
        return found


def _choices(pods: Iterable[PodName]) -> list[str]:
    """Matchers of pods' series, under a label that the scrape may have renamed."""
    names = sorted({pod for _, pod in pods})
    return [one_of(label, part) for part in chunks(names) for label in ("exported_pod", "pod")]


def _key(labels: Mapping[str, str]) -> SeriesKey:
    own = original(labels)
    pod = own.get("pod", "")
    of = (own.get("namespace", ""), pod, own.get("container", ""), own.get("uid", ""))
    return SeriesKey(pod, labels.get("__name__", ""), of, ())
