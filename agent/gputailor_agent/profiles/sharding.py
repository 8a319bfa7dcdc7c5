"""Cuts a cluster into shards that can be judged one after another, so that memory stays bounded.

A shard holds whole workloads: all pods of each, whether they are in the inventory or only in the
store. Pods that no workload is known of are each on their own. A workload is never cut, so the
largest one bounds the size of a shard from below.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gputailor_agent.model.inventory import (
    Inventory,
    Pod,
    PodAssignment,
    Resolution,
    Run,
    Workload,
)
from gputailor_agent.profiles.holding import asked_gpus

#: Namespace and name.
PodName = tuple[str, str]


@dataclass(slots=True)
class Shard:
    """Some of a cluster's workloads, with all there is of them."""

    names: list[PodName] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    assignments: list[PodAssignment] = field(default_factory=list)

    @property
    def resolution(self) -> Resolution:
        """The part of the cluster's resolution that is about this shard."""
        return Resolution(
            workloads=tuple(self.workloads),
            runs=tuple(self.runs),
            assignments=tuple(self.assignments),
        )

    @property
    def nodes(self) -> set[str]:
        """Nodes that the shard's pods are or were on."""
        return {pod.node for pod in self.pods if pod.node}


class _Joined:
    """Pods of which some share a workload: each set is led by one of them."""

    def __init__(self) -> None:
        self._above: dict[PodName, PodName] = {}

    def add(self, name: PodName) -> None:
        self._above.setdefault(name, name)

    def add_all(self, names: Iterable[PodName]) -> None:
        for name in names:
            self.add(name)

    def leader(self, name: PodName) -> PodName:
        above = self._above
        root = name
        while above[root] != root:
            root = above[root]
        while above[name] != root:
            above[name], name = root, above[name]
        return root

    def join(self, one: PodName, other: PodName) -> None:
        self.add(one)
        self.add(other)
        first, second = sorted((self.leader(one), self.leader(other)))
        self._above[second] = first

    def names(self) -> list[PodName]:
        return sorted(self._above)


def shards(
    inventory: Inventory,
    resolution: Resolution,
    used: Iterable[PodName],
    size: int,
    *,
    strangers: bool = True,
) -> Iterator[Shard]:
    """Yield shards of at least ``size`` pods each but the last, in order of their pods' names.

    ``used``: pods with use in the window. Without ``strangers`` those that the resolution does not
    know are left out.
    """
    joined, first_of = _workloads(resolution)
    if strangers:
        joined.add_all(name for name in used if name != ("", ""))
        joined.add_all(
            (pod.namespace, pod.name)
            for pod in inventory.pods
            if any(asked_gpus(container) > 0 for container in pod.containers)
        )
    made, place = _bundled(joined, size)
    for pod in inventory.pods:
        at = place.get((pod.namespace, pod.name))
        if at is not None:
            made[at].pods.append(pod)
    for one in resolution.assignments:
        made[place[one.namespace, one.pod]].assignments.append(one)
    for workload in resolution.workloads:
        made[place[first_of[workload.id]]].workloads.append(workload)
    for run in resolution.runs:
        made[place[first_of[run.workload_id]]].runs.append(run)
    del place, joined, first_of
    made.reverse()
    while made:
        yield made.pop()


def _workloads(resolution: Resolution) -> tuple[_Joined, dict[str, PodName]]:
    """Join the pods of each workload; returns one pod of each beside that."""
    joined, first_of = _Joined(), dict[str, PodName]()
    for one in resolution.assignments:
        name = (one.namespace, one.pod)
        joined.join(first_of.setdefault(one.workload_id, name), name)
    for workload_id, name in first_of.items():
        namespace, kind, stem, *_ = workload_id.split("/")
        if kind == "Pod":  # a pod nobody knows of would get this id if it bore the stem as its name
            joined.join((namespace, stem), name)
    return joined, first_of


def _bundled(joined: _Joined, size: int) -> tuple[list[Shard], dict[PodName, int]]:
    """Shards with their names alone, and the place of each name's shard."""
    sets: dict[PodName, list[PodName]] = {}
    for name in joined.names():
        sets.setdefault(joined.leader(name), []).append(name)
    made: list[Shard] = []
    place: dict[PodName, int] = {}
    for names in sets.values():
        if not made or len(made[-1].names) >= size:
            made.append(Shard())
        made[-1].names += names
        place.update(dict.fromkeys(names, len(made) - 1))
    return made, place
