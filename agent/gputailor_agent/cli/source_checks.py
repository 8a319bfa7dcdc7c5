"""What ``gputailor doctor`` finds beside the devices: engines, cAdvisor, node_exporter.

``look`` asks which of their metrics a Prometheus has and where they come from; ``source_checks``
says of each kind on how many nodes it is, what it leaves out and the setting that gives it. What
is not there at all is a note: devices alone are judged, too, with less to say.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from gputailor_agent.cli.checks import Check
from gputailor_agent.dialects import cadvisor, node_exporter
from gputailor_agent.dialects.engines import Engine, engines
from gputailor_agent.dialects.labels import first, node_of, told
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.naming import NodeNames
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.reports.plurals import counted

if TYPE_CHECKING:
    from gputailor_agent.sources.prometheus.client import PrometheusClient

#: Names in one request: it is sent as a URL, of which proxies take some thousand characters.
_NAMES_AT_ONCE: Final = 40
_SHOWN: Final = 5
_OF_A_HOST: Final = "kubernetes_io_hostname"

#: Of cAdvisor: what is told, by which metrics, and how they come to be there.
_OF_CONTAINERS: Final = (
    ("CPU", (cadvisor.CPU.name,), "keep it in the scrape's metricRelabelings"),
    ("memory", (cadvisor.MEMORY,), "keep it in the scrape's metricRelabelings"),
    (
        "CPU throttling",
        ("container_cpu_cfs_throttled_periods_total",),
        "it exists for containers with a CPU limit only, and some charts drop it",
    ),
    (
        "pressure (PSI)",
        tuple(one.name for one in cadvisor.COUNTERS if "_pressure_" in one.name),
        "kubelet has it from Kubernetes 1.34 on with cgroup v2 (feature KubeletPSI)",
    ),
    (
        "network",
        tuple(one.name for one in cadvisor.OF_THE_POD),
        "keep it in the scrape's metricRelabelings",
    ),
    (
        "file system",
        tuple(one.name for one in cadvisor.COUNTERS if "_fs_" in one.name),
        "containerd does not tell it everywhere; keep it in the scrape's metricRelabelings",
    ),
)


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of source: which of its metrics there are, and where. ``places``: label sets."""

    name: str
    names: frozenset[str]
    places: tuple[dict[str, str], ...] = ()


def look(client: "PrometheusClient", labels: Mapping[str, str], now: float) -> tuple[Beside, ...]:
    """What the server has of the last hour; raises ``PrometheusError``.

    Engines' places are label sets of one metric; those of cAdvisor and node_exporter are counted
    by node, since a cluster has tens of thousands of containers.
    """
    from gputailor_agent.sources.prometheus.promql import (  # noqa: PLC0415 - others need it not
        chunks,
        equal,
        selector,
    )

    matchers = equal(labels)
    wanted = {one.name: _names(one) for one in engines()}
    wanted[cadvisor.NAME] = [name for _, names, _ in _OF_CONTAINERS for name in names]
    wanted[node_exporter.NAME] = [*node_exporter.COUNTERS, node_exporter.UNAME]
    there: set[str] = set()
    every = sorted({name for names in wanted.values() for name in names})
    for part in chunks(every, _NAMES_AT_ONCE):
        there |= set(client.metric_names(selector(part, *matchers), now - HOUR_SECONDS, now))
    found = []
    for kind, names in wanted.items():
        present = [name for name in names if name in there]
        if present:
            chosen = selector((present[0],), *matchers)
            if kind in {cadvisor.NAME, node_exporter.NAME}:
                chosen = f"count by (node, nodename, {_OF_A_HOST}, instance) ({chosen})"
            places = _places(client, chosen, now)
            found.append(Beside(name=kind, names=frozenset(present), places=places))
    return tuple(found)


def _places(client: "PrometheusClient", chosen: str, now: float) -> tuple[dict[str, str], ...]:
    from gputailor_agent.sources.prometheus.answers import labels_of  # noqa: PLC0415 - likewise

    return tuple(labels_of(one.metric) for one in client.query(chosen, now).result)


def _names(engine: Engine) -> list[str]:
    """Metrics of an engine; where others have such, too, the one that is its own comes first."""
    own = [engine.signature] if engine.signature else []
    return [*own, *(name for metric in engine.metrics for name in metric.names)]


def source_checks(beside: Iterable[Beside], inventory: Inventory) -> Iterator[Check]:
    """A line for each kind that is there, and for what should be and is not."""
    found = {one.name: one for one in beside}
    where = _Where(inventory)
    running = _running(inventory)
    for engine in engines():
        one = found.get(engine.name)
        if one is not None and (not engine.signature or engine.signature in one.names):
            yield _engine(engine, one, where)
        elif running.get(engine.name):
            yield _unscraped(engine, running[engine.name])
    yield _containers(found.get(cadvisor.NAME), where)
    yield _nodes(found.get(node_exporter.NAME), where)


class _Where:
    """Nodes of label sets, as the inventory calls them."""

    def __init__(self, inventory: Inventory) -> None:
        self._names = NodeNames(inventory.nodes)
        self._pods = {(pod.namespace, pod.name): pod.node or "" for pod in inventory.pods}
        self.with_gpus = {
            node.name for node in inventory.nodes if any(v > 0 for v in node.capacity.values())
        }

    def nodes(self, places: Iterable[Mapping[str, str]]) -> set[str]:
        """Nodes that are named or whose address was scraped, and those of the pods."""
        return {name for labels in places if (name := self._node(labels))}

    def _node(self, labels: Mapping[str, str]) -> str:
        pod = self._pods.get((told(labels, "namespace"), told(labels, "pod")), "")
        return pod or self._names.find(first(labels, _OF_A_HOST) or node_of(labels))

    def lacking(self, nodes: set[str]) -> list[str]:
        """Nodes with GPUs that are none of these."""
        return sorted(self.with_gpus - nodes)


def _running(inventory: Inventory) -> dict[str, list[str]]:
    """Workloads by the engine that they run, as their images and commands tell."""
    found: dict[str, list[str]] = {}
    for workload in resolve(inventory).workloads:
        found.setdefault(workload.framework, []).append(workload.id)
    return found


def _engine(engine: Engine, one: Beside, where: _Where) -> Check:
    servers = {
        (told(labels, "namespace"), told(labels, "pod"), labels.get("instance", ""))
        for labels in one.places
    }
    nodes = where.nodes(one.places)
    lost = [metric for metric in engine.metrics if not one.names & set(metric.names)]
    found = f"{counted(len(servers), 'server')} on {_on(nodes)}"
    if not one.places:
        found = "told something in the last hour, and nothing for five minutes"
    if lost:
        found += f"; it does not tell {', '.join(dict.fromkeys(m.told.value for m in lost))}"
    names = ", ".join(metric.names[0] for metric in lost)
    return Check(
        name=f"engine {engine.title}",
        standing="note" if lost or not one.places else "ok",
        found=found,
        advice=f"keep {names} in the scrape's metricRelabelings; releases that lack them are to be "
        "updated"
        if lost
        else ("" if one.places else "does it run, and is its Service or pod scraped?"),
    )


def _unscraped(engine: Engine, workloads: Sequence[str]) -> Check:
    return Check(
        name=f"engine {engine.title}",
        standing="note",
        found=f"{_listed(sorted(workloads))} run it, and none of its metrics are scraped: "
        "requests, queue and cache are unknown",
        advice="scrape the port of its metrics with a PodMonitor or ServiceMonitor",
    )


def _containers(one: Beside | None, where: _Where) -> Check:
    name = cadvisor.TITLE
    if one is None:
        return Check(
            name=name,
            standing="note",
            found="not scraped: CPU, memory, throttling and traffic of containers are unknown",
            advice="scrape kubelet's /metrics/cadvisor (kube-prometheus-stack: kubelet.enabled)",
        )
    lost = [(what, how) for what, names, how in _OF_CONTAINERS if not one.names & set(names)]
    return _of_nodes(name, one, where, lost)


def _nodes(one: Beside | None, where: _Where) -> Check:
    name = node_exporter.TITLE
    if one is None:
        return Check(
            name=name,
            standing="note",
            found="not scraped: pressure of whole nodes is unknown, input-bound says less",
            advice="run node_exporter on the nodes with GPUs and scrape it",
        )
    pressure = one.names & set(node_exporter.COUNTERS)
    how = "it is on by default from Linux 4.20 on; do not give it --no-collector.pressure"
    return _of_nodes(name, one, where, [] if pressure else [("pressure (PSI)", how)])


def _of_nodes(name: str, one: Beside, where: _Where, lost: Sequence[tuple[str, str]]) -> Check:
    nodes = where.nodes(one.places)
    lacking = where.lacking(nodes)
    found = f"on {_on(nodes)}"
    if where.with_gpus:
        there = len(where.with_gpus) - len(lacking)
        found += f", {there} of the {len(where.with_gpus)} with GPUs"
    advice = [f"{what}: {how}" for what, how in lost]
    if lost:
        found += f"; it does not tell {', '.join(what for what, _ in lost)}"
    if lacking:
        advice.append(f"scrape it on {_listed(lacking)}, too")
    return Check(
        name=name,
        standing="note" if advice else "ok",
        found=found,
        advice="; ".join(advice),
    )


def _on(nodes: set[str]) -> str:
    return counted(len(nodes), "node") if nodes else "nodes that are not named"


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
