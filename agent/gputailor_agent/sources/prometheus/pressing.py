"""Pressure stalls of whole nodes, hour by hour, from node_exporter.

Costs one sample of five counters per node and hour.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from gputailor_agent.dialects import node_exporter
from gputailor_agent.dialects.labels import first
from gputailor_agent.model.containers import Amount
from gputailor_agent.sources.prometheus.answers import labels_of
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.sources.prometheus.container_readings import NodeReading
from gputailor_agent.sources.prometheus.promql import chunks, one_of, selector
from gputailor_agent.sources.prometheus.rises import (
    Boundary,
    Hour,
    SeriesKey,
    boundary,
    samples_after,
)

_NAMES: Final = (*node_exporter.COUNTERS, node_exporter.BOOTED)


class NodeReader:
    """Reads every node_exporter of a server."""

    def __init__(self, client: PrometheusClient, matchers: tuple[str, ...] = ()) -> None:
        self._client = client
        self._matchers = matchers
        self._kept: tuple[float, Boundary] = (0.0, {})
        self._named: dict[str, str] = {}  # nodes by the target's address

    def hour(self, begin: int, end: int) -> list[NodeReading]:
        """Pressure of each node in (begin, end]."""
        after = self._at(end)
        before = self._kept[1] if self._kept[0] == begin else self._at(begin)
        self._kept = (end, after)
        booted = {k.group: v for k, v in after.items() if k.name == node_exporter.BOOTED}
        hour = Hour(begin, end, _stalls(before), _stalls(after), lambda key: booted.get(key.group))
        doubtful = hour.doubtful()
        chosen = [
            self._select(_NAMES, one_of("instance", part)) for part in chunks(sorted(doubtful))
        ]
        read = self._client.each(lambda s: self._client.samples(s, end - begin, end), chosen)
        samples = samples_after(read, self._key, begin)
        samples = {key: told for key, told in samples.items() if key.name != node_exporter.BOOTED}
        rises = hour.rises(samples, doubtful)
        amounts: dict[str, dict[str, float]] = defaultdict(dict)
        for key, rise in rises.items():
            amounts[key.group][node_exporter.COUNTERS[key.name]] = rise.amount
            seconds = amounts[key.group].get(Amount.NODE_OBSERVED, 0.0)
            amounts[key.group][Amount.NODE_OBSERVED] = max(rise.seconds, seconds)
        self._name(set(amounts), end)
        return [
            NodeReading(source=node_exporter.NAME, node=self._named[group], amounts=told)
            for group, told in sorted(amounts.items())
        ]

    def _select(self, names: tuple[str, ...], *matchers: str) -> str:
        return selector(names, *self._matchers, *matchers)

    def _at(self, at: int) -> Boundary:
        return boundary(self._client.query(self._select(_NAMES), at), self._key)

    def _key(self, labels: Mapping[str, str]) -> SeriesKey:
        instance = labels.get("instance", "")
        node = first(labels, "node", "nodename", "kubernetes_node", "node_name")
        if node:
            self._named[instance] = node
        return SeriesKey(instance, labels.get("__name__", ""), (), ())

    def _name(self, groups: set[str], end: int) -> None:
        """Learn the names of nodes that the scrape did not name."""
        for part in chunks(sorted(groups - set(self._named))):
            chosen = self._select((node_exporter.UNAME,), one_of("instance", part))
            for sample in self._client.query(chosen, end).result:
                labels = labels_of(sample.metric)
                self._named[labels.get("instance", "")] = labels.get("nodename", "")
        for group in groups - set(self._named):
            host, colon, port = group.rpartition(":")
            self._named[group] = host if colon and port.isdigit() else group


def _stalls(values: Boundary) -> Boundary:
    return {key: value for key, value in values.items() if key.name in node_exporter.COUNTERS}
