"""Containers themselves: what their inference engines, cAdvisor and kube-state-metrics say.

Beside ``GaugeReader``, which reads devices. Which of these are on the server is asked once per
window, by the names of its metrics, which touches no sample.
"""

from collections.abc import Callable, Collection
from typing import Final

from gputailor_agent.dialects import cadvisor, node_exporter, restarts
from gputailor_agent.dialects.engines import engines
from gputailor_agent.sources.prometheus.access import TooMuchError
from gputailor_agent.sources.prometheus.asking import ASKED, AskingReader
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.sources.prometheus.container_readings import (
    AskedContainer,
    ContainerHour,
    ContainerReading,
)
from gputailor_agent.sources.prometheus.engines import EngineReader
from gputailor_agent.sources.prometheus.hosts import HostReader, PodName
from gputailor_agent.sources.prometheus.pressing import NodeReader
from gputailor_agent.sources.prometheus.promql import chunks, selector
from gputailor_agent.sources.prometheus.restarting import RestartReader

#: Names in one request: it is sent as a URL, of which proxies take some thousand characters.
_NAMES_AT_ONCE: Final = 40
_SHORTEST_SECONDS: Final = 60  # of an hour that just began; a scrape or two tell nothing yet
_OF_NODES: Final = frozenset(node_exporter.COUNTERS)


class ContainerReader:
    """Reads everything of containers and nodes that is no device's.

    ``accelerators``: as for ``AskingReader``; '': only pods that an exporter names are read.
    ``asked``: gives the containers of which the inventory says that they asked, when a stretch of
    time begins to be read and no kube-state-metrics in the server tells of it.
    """

    def __init__(
        self,
        client: PrometheusClient,
        matchers: tuple[str, ...] = (),
        *,
        accelerators: str = "",
        asked: Callable[[], Collection[AskedContainer]] = tuple,
    ) -> None:
        self._client = client
        self._matchers = matchers
        self._asks = asked
        self._asked: tuple[AskedContainer, ...] = ()
        self._asking = AskingReader(client, accelerators, matchers) if accelerators else None
        self._engines = [EngineReader(client, engine, matchers) for engine in engines()]
        self._hosts = HostReader(client, matchers)
        self._restarts = RestartReader(client, matchers)
        self._nodes = NodeReader(client, matchers)
        self._names: frozenset[str] = frozenset()
        self._told = False  # by kube-state-metrics, who asked

    def look(self, start: float, end: float) -> None:
        """Learn which metrics there are in the time, and who asked."""
        wanted = {name for one in engines() for metric in one.metrics for name in metric.names}
        wanted |= {cadvisor.CPU.name, restarts.RESTARTS, *_OF_NODES, *ASKED}
        found: set[str] = set()
        for part in chunks(sorted(wanted), _NAMES_AT_ONCE):
            chosen = selector(part, *self._matchers)
            found |= wanted & set(self._client.metric_names(chosen, start, end))
        self._told = bool(found & set(ASKED))
        self._asked = () if self._told else tuple(self._asks())
        self._names = frozenset(found - set(ASKED))

    def hour(self, begin: int, end: int, held: Collection[PodName]) -> ContainerHour:
        """What there is of (begin, end]; ``held``: pods that hold devices, by an exporter's word.

        A question that is too large for the server leaves its part out and is told; any other
        failure raises ``PrometheusError``.
        """
        if not self._names or end - begin < _SHORTEST_SECONDS:
            return ContainerHour()
        problems: list[str] = []
        asked = self._of_nobody(begin, end, held, problems)
        pods = {*held, *((one.namespace, one.pod) for one in asked)}
        if not pods:
            return ContainerHour(problems=tuple(problems))
        told = self._of_engines(begin, end, problems)
        try:
            if cadvisor.CPU.name in self._names:
                told += self._hosts.hour(begin, end, pods)
            if restarts.RESTARTS in self._names:
                told += self._restarts.hour(begin, end, pods)
            nodes = self._nodes.hour(begin, end) if _OF_NODES & self._names else []
        except TooMuchError as error:
            problems.append(f"CPU, memory and restarts of containers are left out: {error}")
            nodes = []
        return ContainerHour(
            containers=tuple(told),
            nodes=tuple(nodes),
            asked=tuple(asked),
            problems=tuple(problems),
        )

    def _of_nobody(
        self, begin: int, end: int, held: Collection[PodName], problems: list[str]
    ) -> list[AskedContainer]:
        """Containers that asked for accelerators and that no exporter names; each once."""
        asked = [one for one in self._asked if one.meets(begin, end)]
        if self._asking is not None and self._told:
            try:
                asked += self._asking.hour(begin, end, held)
            except TooMuchError as error:
                problems.append(f"containers that no exporter names are left out: {error}")
        found = {(one.namespace, one.pod, one.pod_uid, one.container): one for one in asked}
        return [one for key, one in sorted(found.items()) if key[:2] not in held]

    def _of_engines(self, begin: int, end: int, problems: list[str]) -> list[ContainerReading]:
        told: list[ContainerReading] = []
        for engine in self._engines:
            names = {n for m in engine.engine.metrics for n in m.names} & self._names
            if names:
                try:
                    told += engine.hour(begin, end, names)
                except TooMuchError as error:
                    problems.append(f"{engine.engine.title} is left out: {error}")
        return told
