"""What pages show of the store beside the plan: use hour by hour, runs, nodes, and decisions.

Who belongs to a workload is taken from the newest judgement of this process; after a restart, until
there is one, from the store. What is read of the whole cluster is read once per plan.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from gputailor_agent.assessment import Assessment
from gputailor_agent.inventory.holding import holding
from gputailor_agent.ledger import decidable
from gputailor_agent.model.inventory import Inventory, Node, Pod, PodAssignment, Run, Workload
from gputailor_agent.model.judgement import Verdict
from gputailor_agent.model.ledger import Decision
from gputailor_agent.model.profile import RunUse, Window
from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.profiles.tally import DeviceTally
from gputailor_agent.store import Store
from gputailor_agent.store.ledger import Ledger

#: Pods of one workload whose use is drawn, the newest ones; a page is no archive.
MOST_PODS: Final = 64


class Strip(NamedTuple):
    """One container's time with one device. Hours are (start, allocated, observed, active)."""

    pod: str
    gpu_uuid: str
    device: Device | None
    hours: tuple[tuple[int, float, float, float], ...]
    memory_peak_bytes: int | None
    memory_total_bytes: int | None


class Told(NamedTuple):
    """One run as far as it is known; figures are None where only the store knows of it."""

    id: str
    started: float | None
    finished: float | None
    outcome: str
    use: RunUse | None
    links: tuple[tuple[str, str], ...] = ()  # (tracker, address)


class NodeUse(NamedTuple):
    """A node with what pods hold of it now.

    ``held`` and ``holders`` are by resource: a card, a slice of one and another maker's card are
    different things, of which there is no sum.
    """

    node: Node
    held: dict[str, float]  # devices asked for by pods that hold them
    holders: dict[str, int]  # these pods
    pods: int
    devices: tuple[Device, ...]


class Kept(Protocol):
    """What is asked of the store. All of it may raise ``StoreError``."""

    def strips(self, workload: Workload, window: Window) -> tuple[list[Strip], int]:
        """Use by the hour of each device; and how many pods were left out."""
        ...

    def runs(self, workload: Workload) -> list[Told]:
        """The workload's runs, newest first."""
        ...

    def nodes(self, at: float) -> list[NodeUse]:
        """Every node with accelerators, as known at a plan's time."""
        ...

    def decisions(self) -> list[Decision]:
        """What people decided."""
        ...

    def decidable(self, verdict: Verdict) -> frozenset[str]:
        """The rules of a workload that there is something to decide about."""
        ...

    def decide(self, decision: Decision) -> None:
        """Keep a decision."""
        ...

    def withdraw(self, workload_id: str, rule: str) -> bool:
        """Take one back; whether there was one."""
        ...


class KeptStore:
    """``Kept`` over an agent's store."""

    def __init__(self, store: Store, cluster: str, newest: Callable[[], Assessment | None]) -> None:
        self._store = store
        self._cluster = cluster
        self._newest = newest
        self._lock = threading.Lock()
        self._members: tuple[object, dict[str, list[PodAssignment]], dict[str, list[Run]]] = (
            None,
            {},
            {},
        )
        self._nodes: tuple[float, list[NodeUse]] = (float("-inf"), [])

    def strips(self, workload: Workload, window: Window) -> tuple[list[Strip], int]:
        """Use by the hour of each device; and how many pods were left out."""
        members, runs = self._belonging()
        started = {run.id: run.started or 0.0 for run in runs.get(workload.id, ())}
        assigned = sorted(
            members.get(workload.id, ()),
            key=lambda one: (started.get(one.run_id, 0.0), one.pod),
            reverse=True,
        )
        names = list(dict.fromkeys((one.namespace, one.pod) for one in assigned))
        shown = names[:MOST_PODS]
        if not shown:
            return [], 0
        tallies = self._tallies(workload.container, window, shown)
        devices = {one.gpu_uuid: one for one in self._store.devices(self._cluster)}
        order = {name: at for at, name in enumerate(shown)}
        found = sorted(
            tallies.items(),
            key=lambda one: (order[one[0][:2]], _place(devices.get(one[0][2])), one[0][2]),
        )
        strips = [_strip(pod, uuid, tally, devices.get(uuid)) for (_, pod, uuid), tally in found]
        return strips, len(names) - len(shown)

    def _tallies(
        self, container: str, window: Window, names: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str, str], "_Hours"]:
        found: dict[tuple[str, str, str], _Hours] = defaultdict(_Hours)
        with self._store.reading_usage(self._cluster) as reading:
            for used in reading.parts(window.start, window.end, names):
                if isinstance(used, UsageRow):
                    continue  # of no pod
                (namespace, pod, _uid, its, uuid), part = used
                if its == container:
                    found[namespace, pod, uuid].add_part(part)
        return dict(found)

    def runs(self, workload: Workload) -> list[Told]:
        """The workload's runs, newest first."""
        _, known = self._belonging()
        newest = self._newest()
        uses = {
            use.id: use
            for profile in (newest.profiles if newest is not None else ())
            if profile.workload.id == workload.id
            for use in profile.runs
        }
        told = [
            Told(
                id=run.id,
                started=run.started,
                finished=run.finished,
                outcome=run.outcome.value,
                use=uses.get(run.id),
                links=tuple((one.tracker, one.link) for one in run.tracked if one.link),
            )
            for run in known.get(workload.id, ())
        ]
        return sorted(told, key=lambda one: (one.started or 0.0, one.id), reverse=True)

    def nodes(self, at: float) -> list[NodeUse]:
        """Every node with accelerators, as known at a plan's time."""
        with self._lock:
            if self._nodes[0] != at:
                self._nodes = (at, self._read_nodes(at))
            return self._nodes[1]

    def _read_nodes(self, at: float) -> list[NodeUse]:
        inventory = self._store.inventory(self._cluster, at, since=at - _LATELY_SECONDS)
        return node_uses(inventory, self._store.devices(self._cluster))

    def decisions(self) -> list[Decision]:
        """What people decided."""
        with self._store.transaction() as tx:
            return Ledger(tx).decisions(self._cluster)

    def decidable(self, verdict: Verdict) -> frozenset[str]:
        """The rules of a workload that there is something to decide about."""
        with self._store.transaction() as tx:
            book, named = Ledger(tx), verdict.workload.id
            entries = book.newest(self._cluster, named).values()
            return decidable(verdict, entries, book.decisions(self._cluster))

    def decide(self, decision: Decision) -> None:
        """Keep a decision."""
        with self._store.transaction() as tx:
            Ledger(tx).decide(self._cluster, decision)

    def withdraw(self, workload_id: str, rule: str) -> bool:
        """Take one back; whether there was one."""
        with self._store.transaction() as tx:
            return Ledger(tx).withdraw(self._cluster, workload_id, rule)

    def _belonging(self) -> tuple[dict[str, list[PodAssignment]], dict[str, list[Run]]]:
        """Pods and runs by workload, of the newest judgement or as the store has them."""
        with self._lock:
            newest = self._newest()
            if self._members[0] is None or (newest is not None and self._members[0] is not newest):
                found = newest.resolution if newest else self._store.resolution(self._cluster)
                pods, runs = (
                    defaultdict[str, list[PodAssignment]](list),
                    defaultdict[str, list[Run]](list),
                )
                for one in found.assignments:
                    pods[one.workload_id].append(one)
                for run in found.runs:
                    runs[run.workload_id].append(run)
                self._members = (newest or found, dict(pods), dict(runs))
            return self._members[1], self._members[2]


def node_uses(inventory: Inventory, devices: Iterable[Device]) -> list[NodeUse]:
    """Every node with accelerators by its name, with what pods hold of it."""
    found, seen = _Holders(inventory.pods), defaultdict[str, list[Device]](list)
    for device in devices:
        seen[device.node].append(device)
    return [
        NodeUse(
            node,
            found.held[node.name],
            dict(found.holders[node.name]),
            found.pods[node.name],
            tuple(seen[node.name]),
        )
        for node in sorted(inventory.nodes, key=lambda one: one.name)
        if node.capacity or node.allocatable or seen[node.name]
    ]


class _Holders:
    """By node and resource: devices held, and the pods that hold them."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self.held = defaultdict[str, dict[str, float]](dict)
        self.holders = defaultdict[str, Counter[str]](Counter)
        self.pods = Counter[str]()
        for pod in pods:
            if pod.node and holding(pod):
                self._take(pod.node, pod)

    def _take(self, node: str, pod: Pod) -> None:
        asked, held = [one for part in pod.containers for one in part.gpus], self.held[node]
        for one in asked:
            held[one.resource] = held.get(one.resource, 0.0) + one.count
        self.holders[node].update({one.resource for one in asked})
        self.pods[node] += 1


#: Pods seen by any reading within this time before the plan.
_LATELY_SECONDS: Final = 86_400.0


class _Hours(DeviceTally):
    """A tally that also keeps how long the device was held in each hour."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, float] = {}

    def hour_strip(self) -> tuple[tuple[int, float, float, float], ...]:
        """(start, allocated, observed, active seconds) of each hour, in order."""
        held = defaultdict[int, float](float)
        for day, hours in self._courses:
            for one in hours:
                held[day + one.place * 3600] += one.allocated_seconds
        return tuple(
            (hour, held.get(hour, 0.0), observed, active) for hour, observed, active in self.hours()
        )


def _place(device: Device | None) -> tuple[str, int]:
    """Devices in the order of their node and of the driver's numbers."""
    if device is None:
        return "", 0
    return device.node, int(device.index) if device.index.isdecimal() else 0


def _strip(pod: str, uuid: str, tally: _Hours, device: Device | None) -> Strip:
    total = None if device is None else device.memory_total_bytes
    return Strip(pod, uuid, device, tally.hour_strip(), tally.memory_peak_bytes, total)
