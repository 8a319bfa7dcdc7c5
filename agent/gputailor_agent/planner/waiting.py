"""Pods that wait for devices: for what, since when, and why they fit nowhere.

Known are nodes with their devices, taints, CPUs and memory, and what pods that hold devices ask for
of them. Node selectors, affinity, quotas and a queue's own limits are not read, so where all that
is known would let a pod run, that is said. Other pods' CPUs are not known either: a node that is
called too small for a pod's CPUs is so whatever else runs there, never the other way round.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gputailor_agent.inventory.belonging import belonging
from gputailor_agent.inventory.resources import gpu_resource, pod_requests
from gputailor_agent.model.inventory import GpuRequest, Node, Pod
from gputailor_agent.model.judgement import Message, Waiting
from gputailor_agent.planner.capacity import asked_by, holders
from gputailor_agent.profiles.holding import is_pending
from gputailor_agent.rules import Context
from gputailor_agent.rules.base import message

_ANY: Final = "*"
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
_NEARLY: Final = 1e-9
_SHOWN: Final = 3

#: Why a pod waits, as far as is known.
MESSAGES: Final = {
    "waiting.no_such": "no node offers {resource}",
    "waiting.too_large": "no node has {asked:count} x {resource}: {most:count} at most",
    "waiting.taken": "{free:count} x {resource} are free in all, {asked:count} are asked for",
    "waiting.fragmented": "{free:count} x {resource} are free on {nodes:count} node(s), but at "
    "most {most:count} on any one of them",
    "waiting.tainted": "{free:count} x {resource} are free on node {node}, whose taint it does not "
    "tolerate: {taints}",
    "waiting.unavailable": "{free:count} x {resource} of node {node} cannot be had: it is cordoned "
    "or not ready",
    "waiting.cpu_memory": "node {node} has {free:count} x {resource} free, but not the CPUs or the "
    "memory that it asks for",
    "waiting.queue": "by all that is known it would fit on node {node}; it waits in queue {queue}, "
    "whose quota is not read here",
    "waiting.unexplained": "by all that is known it would fit on node {node}: node selectors, "
    "affinity and quotas are not read here",
    "waiting.claim": "it asks by a claim ({resource}), of which nodes do not tell how many are "
    "free",
}


class Wish(NamedTuple):
    """What a pod waits for: so many of a resource, for one owner."""

    namespace: str
    owner: str
    resource: str
    devices: float


#: All that the reasons of a pod depend on beside the nodes.
_Alike = tuple[str, float, str, tuple[str, ...], tuple[float, float]]


@dataclass
class Room:
    """What is free on one node now; CPUs and memory are at most so much."""

    node: Node
    free: dict[str, float]
    cpus: float
    memory: float
    hard_taints: tuple[tuple[str, str], ...] = field(default=())  # (key, as it stands)

    @property
    def available(self) -> bool:
        """Whether the scheduler may put anything there."""
        return self.node.schedulable and self.node.ready is not False

    def untolerated(self, pod: Pod) -> tuple[str, ...]:
        """Taints that keep the pod away."""
        if _ANY in pod.tolerations:
            return ()
        return tuple(told for key, told in self.hard_taints if key not in pod.tolerations)


def rooms(context: Context, at: float) -> list[Room]:
    """Return every node with devices, by name, and what is free on it."""
    pods = holders(context, at)
    nodes = sorted(context.inventory.nodes, key=lambda node: node.name)
    return [
        _room(context, node, pods.get(node.name, []))
        for node in nodes
        if node.allocatable or node.capacity
    ]


def _room(context: Context, node: Node, pods: list[Pod]) -> Room:
    free = dict(node.allocatable or node.capacity)
    for pod in pods:
        for request in asked_by(context, pod):
            if request.resource in free:
                free[request.resource] -= request.count
    cpus, memory = (sum(parts) for parts in zip((0.0, 0.0), *map(_host, pods), strict=True))
    taints = ((taint.partition("=")[0].partition(":")[0], taint) for taint in node.taints)
    return Room(
        node=node,
        free={name: max(0.0, count) for name, count in free.items()},
        cpus=math.inf if node.cpus is None else node.cpus - cpus,
        memory=math.inf if node.memory_bytes is None else node.memory_bytes - memory,
        hard_taints=tuple(pair for pair in taints if pair[1].rpartition(":")[2] in _HARD),
    )


def _host(pod: Pod) -> tuple[float, float]:
    """CPUs and bytes of memory that the pod's containers ask for."""
    mains = [container for container in pod.containers if not container.init]
    return (
        sum(container.cpu_request or 0.0 for container in mains),
        float(sum(container.memory_request_bytes or 0 for container in mains)),
    )


def waiting_pods(context: Context) -> dict[Wish, list[Pod]]:
    """Return the pods that wait for devices; those of one owner that ask alike stand together."""
    groups: dict[Wish, list[Pod]] = defaultdict(list)
    for pod in context.inventory.pods:
        request = _wish(pod) if is_pending(pod) else None
        if request is not None:
            groups[Wish(pod.namespace, _owner(pod), request.resource, request.count)].append(pod)
    return groups


def waiting(groups: Mapping[Wish, list[Pod]], around: list[Room]) -> tuple[Waiting, ...]:
    """Return what they wait for and why, what waits longest first."""
    known: dict[_Alike, tuple[Message, ...]] = {}
    found = [_entry(wish, pods, around, known) for wish, pods in groups.items()]
    return tuple(sorted(found, key=_longest_first))


def _wish(pod: Pod) -> GpuRequest | None:
    """What a pod asks for first; amounts of memory or cores only cut it."""
    return next((request for request in pod_requests(pod) if request.kind != "other"), None)


def _owner(pod: Pod) -> str:
    return f"{pod.owners[0].kind}/{pod.owners[0].name}" if pod.owners else f"Pod/{pod.name}"


def _longest_first(one: Waiting) -> tuple[float, str, str, str, float]:
    since = math.inf if one.since is None else one.since
    return since, one.namespace, one.owner, one.resource, one.devices


def _entry(
    wish: Wish, pods: list[Pod], around: list[Room], known: dict[_Alike, tuple[Message, ...]]
) -> Waiting:
    """One entry; ``known``: reasons of those before it, since many ask alike."""
    made = [pod.created for pod in pods if pod.created is not None]
    first = min(pods, key=lambda pod: (pod.created or math.inf, pod.name))
    queue = belonging(first, ()).queue
    alike = (wish.resource, wish.devices, queue, first.tolerations, _host(first))
    if alike not in known:
        known[alike] = reasons(first, wish.resource, wish.devices, around, queue)
    return Waiting(
        **wish._asdict(),
        pods=len(pods),
        since=min(made, default=None),
        queue=queue,
        reasons=known[alike],
    )


def reasons(
    pod: Pod, resource: str, asked: float, around: Iterable[Room], queue: str = ""
) -> tuple[Message, ...]:
    """Why a pod that asks for so many of a resource fits nowhere; what decides comes first."""
    having = [room for room in around if resource in room.free]
    if not having:
        key = "no_such" if gpu_resource(resource) is not None else "claim"
        return (message(f"waiting.{key}", resource=resource),)
    most = max(room.node.capacity.get(resource, room.free[resource]) for room in having)
    if most < asked - _NEARLY:
        return (message("waiting.too_large", most=most, resource=resource, asked=asked),)
    open_to_it = [room for room in having if room.available and not room.untolerated(pod)]
    roomy = [room for room in open_to_it if _holds(room, resource, asked)]
    elsewhere = _elsewhere(pod, resource, asked, having)
    if not roomy:
        return (*_too_little(open_to_it, resource, asked), *elsewhere)[:_SHOWN]
    cpus, memory = _host(pod)
    fitting = [room for room in roomy if room.cpus >= cpus and room.memory >= memory]
    if not fitting:
        room = roomy[0]
        why = message(
            "waiting.cpu_memory", node=room.node.name, free=room.free[resource], resource=resource
        )
        return (why, *elsewhere)[:_SHOWN]
    key = "queue" if queue else "unexplained"
    return (message(f"waiting.{key}", node=fitting[0].node.name, queue=queue),)


def _holds(room: Room, resource: str, asked: float) -> bool:
    return room.free[resource] >= asked - _NEARLY


def _too_little(around: list[Room], resource: str, asked: float) -> tuple[Message, ...]:
    """Too few are free in all, or enough but apart."""
    with_some = [room for room in around if room.free[resource] >= 1]
    free = sum(room.free[resource] for room in around)
    if free < asked - _NEARLY:
        return (
            (message("waiting.taken", free=free, resource=resource, asked=asked),) if around else ()
        )
    most = max(room.free[resource] for room in around)
    nodes = len(with_some)
    return (message("waiting.fragmented", free=free, resource=resource, nodes=nodes, most=most),)


def _elsewhere(pod: Pod, resource: str, asked: float, having: list[Room]) -> tuple[Message, ...]:
    """Nodes with enough of it that it may not use."""
    found = []
    for room in having:
        taints = room.untolerated(pod)
        said: dict[str, float | str] = {
            "free": room.free[resource],
            "resource": resource,
            "node": room.node.name,
        }
        if not _holds(room, resource, asked):
            continue
        if not room.available:
            found.append(message("waiting.unavailable", **said))
        elif taints:
            found.append(message("waiting.tainted", taints=", ".join(taints), **said))
    return tuple(found)
