"""What ``gputailor doctor`` finds in a Prometheus: server, exporters, joins, rules, time.

``checks_of`` asks; the rest are pure functions of what was seen (``Inspection``) and of what was
asked for (``Inventory``).
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from gputailor_agent.cli.checks import Check
from gputailor_agent.cli.histories import PrometheusAccess, reachable
from gputailor_agent.cli.server_checks import server_checks, when
from gputailor_agent.cli.source_checks import look, source_checks
from gputailor_agent.dialects import gputailor
from gputailor_agent.dialects.gauges import OF_HEALTH, gauge_dialects, telling
from gputailor_agent.inventory.kube_state_metrics import (
    accelerator_pattern,
    inventory_of,
    lacking,
)
from gputailor_agent.inventory.naming import NodeNames
from gputailor_agent.model.inventory import Inventory, Node
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.rules import registry
from gputailor_agent.rules.health import RULE as HEALTH_RULE

if TYPE_CHECKING:
    from gputailor_agent.dialects.kube_state_metrics import KubeState
    from gputailor_agent.sources.prometheus.inspecting import Inspection, Seen

_DAY_SECONDS: Final = 86_400.0
_SERVICE_DAYS: Final = 7  # a service's whole days, see rules.gates
_SHOWN: Final = 5


def checks_of(access: PrometheusAccess, asked: Inventory | None) -> Iterator[Check]:
    """Everything about the Prometheus; ``asked``: what the cluster itself says, where it does."""
    first = answers(access)
    yield first
    if not access.asked or first.standing == "problem":
        return
    from gputailor_agent.sources.prometheus import PrometheusError  # noqa: PLC0415 - others need it not
    from gputailor_agent.sources.prometheus.inspecting import inspect  # noqa: PLC0415 - likewise

    now = time.time()
    try:
        with access.source("", attempts=1) as source:
            seen = inspect(source, now)
            beside = look(source.client, source.labels, now)
        with access.states(attempts=1) as reader:
            state = reader.read(accelerator_pattern(), now - HOUR_SECONDS, now)
    except PrometheusError as error:
        yield Check(name="Prometheus", standing="problem", found=str(error), advice=_AGAIN)
        return
    yield from server_checks(seen, now)
    yield from state_checks(state, taints=asked is None)
    inventory = asked or inventory_of(state, "")
    seen = at_nodes(seen, NodeNames(inventory.nodes))
    yield from exporter_checks(seen)
    yield from source_checks(beside, inventory)
    yield from node_checks(seen, inventory)
    yield from join_checks(seen, inventory)
    yield from rule_checks(seen)
    yield judgement(seen, now)


_AGAIN: Final = "look at the server's own log and load, then run this again"


def answers(access: PrometheusAccess) -> Check:
    """Whether a Prometheus answers and has metrics of GPUs."""
    name = "Prometheus"
    if not access.asked:
        return Check(
            name=name,
            standing="note",
            found="none asked for",
            advice="give --prometheus-url http://HOST:9090 to check one, or auto to look for it in "
            "the cluster",
        )
    from gputailor_agent.sources.prometheus import PrometheusError  # noqa: PLC0415 - others need it not

    try:
        address, exporters = reachable(access, now=time.time())
    except PrometheusError as error:
        return Check(name=name, standing="problem", found=str(error))
    if not exporters:
        return Check(
            name=name,
            standing="problem",
            found=f"{address} answers, but has no GPU metrics of the last day",
            advice="does it scrape gputailor-exporter or dcgm-exporter? is it the right server?",
        )
    told = " and ".join(exporters)
    return Check(name=name, standing="ok", found=f"{address} answers with {told} metrics")


def at_nodes(seen: "Inspection", names: NodeNames) -> "Inspection":
    """What was seen, with nodes as the cluster calls them where exporters name but an address."""
    kinds = tuple(
        replace(one, devices={uuid: names.find(node) for uuid, node in one.devices.items()})
        for one in seen.seen
    )
    down = tuple(replace(one, node=names.find(one.node or one.instance)) for one in seen.down)
    return replace(seen, seen=kinds, down=down)


def state_checks(state: "KubeState", *, taints: bool = False) -> Iterator[Check]:
    """What kube-state-metrics in the Prometheus tells, and what it leaves out.

    ``taints``: nothing else tells of nodes, so what is not read of it is missing.
    """
    name, inventory = "kube-state-metrics", inventory_of(state, "")
    if state.found:
        there = sum(one.uid not in state.gone for one in inventory.pods)
        told = f"{there} pods with GPUs and {len(inventory.nodes)} nodes are told"
        yield Check(name=name, standing="ok" if inventory.complete else "problem", found=told)
    for one in lacking(state):
        yield Check(name=name, standing="note", found=one.found, advice=one.advice)
    if taints and inventory.nodes:
        yield Check(
            name=name,
            standing="note",
            found="taints of nodes are not read from it, so what keeps pods away is unknown",
            advice="give --context NAME or --kubernetes: the API server tells them",
        )


def exporter_checks(seen: "Inspection") -> Iterator[Check]:
    """Which exporters tell of which nodes, and those whose scrape fails."""
    for one in seen.seen:
        nodes = {node for node in one.devices.values() if node}
        yield Check(
            name=f"exporter {one.dialect}",
            standing="ok" if one.devices else "note",
            found=f"{len(one.devices)} devices on {len(nodes)} nodes: {_listed(sorted(nodes))}",
            advice="" if one.devices else "it has told nothing for five minutes: is it scraped?",
        )
    for target in seen.down[:_SHOWN]:
        yield Check(
            name="exporter down",
            standing="problem",
            found=f"the last scrape of {target.job} at {target.instance} failed"
            + (f" (node {target.node})" if target.node else ""),
            advice="see its log and the server's page of targets; a time-out may be a hung driver",
        )


def node_checks(seen: "Inspection", inventory: Inventory) -> Iterator[Check]:
    """Nodes with GPUs of which nothing is measured, and why."""
    measured = {node for one in seen.seen for node in one.devices.values()}
    name = "nodes measured"
    with_gpus = [node for node in inventory.nodes if any(v > 0 for v in node.capacity.values())]
    lost = [node for node in with_gpus if node.name not in measured]
    if with_gpus and not lost:
        yield Check(
            name=name, standing="ok", found=f"all measured: {len(with_gpus)} nodes with GPUs"
        )
    for node in lost[:_SHOWN]:
        why, advice = _unmeasured(node, seen)
        yield Check(
            name=name,
            standing="problem",
            found=f"{node.name} has GPUs and no measurements: {why}",
            advice=advice,
        )
    if len(lost) > _SHOWN:
        yield Check(
            name=name,
            standing="problem",
            found=f"{len(lost) - _SHOWN} more nodes with GPUs have no measurements",
            advice="the same is likely",
        )


def _unmeasured(node: Node, seen: "Inspection") -> tuple[str, str]:
    for target in seen.down:
        if node.name in {target.node, target.instance.rpartition(":")[0]}:
            return (
                f"the scrape of {target.job} at {target.instance} fails",
                "see the exporter's log on that node",
            )
    if node.ready is False:
        return "the node is not ready", f"kubectl describe node {node.name}"
    advice = (
        f"kubectl get pods -A -o wide --field-selector spec.nodeName={node.name}: is the "
        "exporter's DaemonSet kept away by a taint or node selector, or is its ServiceMonitor not "
        "taken?"
    )
    return "no exporter that is scraped runs there", advice


def join_checks(seen: "Inspection", inventory: Inventory) -> Iterator[Check]:
    """Labels by which measurements, pods and nodes should meet, and where they do not."""
    known = {node.name for node in inventory.nodes}
    pods = {(pod.namespace, pod.name) for pod in inventory.pods if not pod.template}
    for one in seen.seen:
        yield from _renamed(one)
        yield from _nodes_unknown(one, known)
        yield from _holders_unknown(one, pods)


def _renamed(one: "Seen") -> Iterator[Check]:
    if one.renamed:
        yield Check(
            name="label join",
            standing="note",
            found=f"{one.dialect}: pods stand in exported_pod, since the scrape does not honour "
            "labels; both are read here, dashboards of others may fail",
            advice="honorLabels: true in its ServiceMonitor (honor_labels in a scrape job)",
        )


def _nodes_unknown(one: "Seen", known: set[str]) -> Iterator[Check]:
    strange = sorted({node for node in one.devices.values() if node not in known})
    if known and strange:
        yield Check(
            name="label join",
            standing="problem",
            found=f"{one.dialect}: the nodes it names are none of the cluster's: "
            f"{_listed([node or 'no name' for node in strange])}",
            advice="a relabelling gives the name: sourceLabels [__meta_kubernetes_pod_node_name], "
            "targetLabel node; is --prometheus-label cluster=… needed?",
        )


def _holders_unknown(one: "Seen", pods: set[tuple[str, str]]) -> Iterator[Check]:
    if pods and one.devices and not one.holders:
        means = next((d.holders for d in gauge_dialects() if d.name == one.dialect), "pod")
        yield Check(
            name="label join",
            standing="problem" if means else "note",
            found=f"{one.dialect}: no series names a pod, though {len(pods)} pods have GPUs",
            advice=_TELL_PODS.get(one.dialect, "let the exporter reach kubelet's PodResources")
            if means
            else "it cannot: whose a device is comes from the pods' nodes, where that is plain",
        )
    strange = sorted(one.holders - pods)
    if pods and strange and len(strange) == len(one.holders):
        yield Check(
            name="label join",
            standing="problem",
            found=f"{one.dialect}: none of the pods it names is one of the cluster's: "
            f"{_listed(['/'.join(pod) for pod in strange])}",
            advice="is it the Prometheus of this cluster? name the cluster by --prometheus-label, "
            "or honour the exporter's labels",
        )


_TELL_PODS: Final[Mapping[str, str]] = {
    "dcgm": "DCGM_EXPORTER_KUBERNETES=true, and mount /var/lib/kubelet/pod-resources",
    gputailor.NAME: "mount /var/lib/kubelet/pod-resources (the chart does); see its /readyz",
}


def rule_checks(seen: "Inspection") -> Iterator[Check]:
    """Which rules cannot speak, or say less, for want of which signal, by exporter."""
    for one in seen.seen:
        mute, less, wanted = list[str](), list[str](), set[str]()
        for rule in registry():
            missing = [signal for signal in rule.signals if signal not in one.signals]
            if rule.id == HEALTH_RULE.id and _unhealthy(one):
                mute.append(rule.id)
                wanted |= set(_unhealthy(one))
            elif missing:
                (mute if missing[0] == rule.signals[0] else less).append(rule.id)
                wanted |= set(missing)
        name = f"rules by {one.dialect}"
        if not wanted:
            yield Check(name=name, standing="ok", found="every rule has every signal")
            continue
        told = [f"cannot speak: {', '.join(mute)}"] if mute else []
        told += [f"say less: {', '.join(less)}"] if less else []
        yield Check(
            name=name,
            standing="note",
            found=f"{'; '.join(told)}; missing: {', '.join(sorted(wanted))}",
            advice="; ".join(_giving(one.dialect, sorted(wanted), seen)),
        )


def _unhealthy(seen: "Seen") -> list[str]:
    """What the exporter does not tell of the devices' health, in words."""
    return [words for words in OF_HEALTH if words not in seen.health]


def _giving(dialect: str, wanted: Iterable[str], seen: "Inspection") -> Iterator[str]:
    """How each signal can be had."""
    if dialect == gputailor.NAME:
        for signal in wanted:
            why = sorted({reason for (name, reason) in seen.unavailable if name == signal})
            yield f"{signal}: {_listed(why) if why else 'these cards do not have it'}"
        return
    gauges = next(one.gauges for one in gauge_dialects() if one.name == dialect)
    names = {gauge.signal: gauge.names[0] for gauge in reversed(gauges)}
    names |= {words: told[0].names[0] for words in OF_HEALTH if (told := telling(gauges, words))}
    lines = [names[signal] for signal in wanted if signal in names]
    never = [signal for signal in wanted if signal not in names]
    if lines:
        where = "in its counters file (-f)" if dialect == "dcgm" else "in its settings"
        yield f"enable {', '.join(lines)} {where}"
    if never:
        yield f"{', '.join(never)}: it cannot tell; gputailor-exporter does"


def judgement(seen: "Inspection", now: float) -> Check:
    """When there is enough to judge by."""
    name = "first judgement"
    if seen.first_data is None:
        return Check(
            name=name,
            standing="note",
            found="nothing was measured in the last day",
            advice="once there are data: idle after one hour (to act on after six), "
            "services after 7 full days",
        )
    midnight = math.ceil(seen.first_data / _DAY_SECONDS) * _DAY_SECONDS
    ready = midnight + _SERVICE_DAYS * _DAY_SECONDS
    since = f"data since about {when(seen.first_data)}"
    if ready <= now:
        return Check(name=name, standing="ok", found=f"{since}: enough for every kind of workload")
    return Check(
        name=name,
        standing="note",
        found=f"{since}: idle workloads and batches are judged now, services from {when(ready)}",
        advice="nothing: it comes by itself",
    )


def _listed(items: list[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
