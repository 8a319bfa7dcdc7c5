"""Group rows by workload and fold them into profiles.

The window is snapped down to a whole hour at its start, since rows are hourly; rows that begin
outside ``[start, end)`` change nothing. Allocated time is the inventory's wherever a pod's times
are known: an exporter that was down then shows as missing coverage. Time before the first row of
the whole cluster is left out: nobody looked yet, so nothing is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from gputailor_agent.model.containers import CONTAINER_ITSELF
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    Node,
    Pod,
    Resolution,
    Workload,
)
from gputailor_agent.model.packed import (
    Place,
    PlacedPart,
    hour_of,
    part_of,
    place_of,
)
from gputailor_agent.model.profile import GpuUse, Profile, Window
from gputailor_agent.model.sums import UseSums
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageKey, UsageRow
from gputailor_agent.profiles.attributing import attributed
from gputailor_agent.profiles.containers import container_use
from gputailor_agent.profiles.describing import (
    container_spec,
    device_of_node,
    full_days,
    gpus_per_pod,
)
from gputailor_agent.profiles.holding import (
    allocations,
    asked_gpus,
    held_from,
    held_seconds,
    is_pending,
)
from gputailor_agent.profiles.runs import Member, filled_by, run_uses
from gputailor_agent.profiles.splitting import parts_of
from gputailor_agent.profiles.surroundings import Beginning, Surroundings
from gputailor_agent.profiles.tally import DeviceTally, gpu_use, merge_uses

_ContainerKey = tuple[str, str, str, str]  # namespace, pod, pod uid, container


def build_profiles(
    rows: Iterable[UsageRow | PlacedPart],
    devices: Iterable[Device],
    inventory: Inventory,
    resolution: Resolution,
    window: Window,
    *,
    measured_since: float | None = None,
) -> list[Profile]:
    """Return one profile for each workload that used, held or asked for a device in ``window``.

    Sorted by workload id. Rows of pods that the resolution does not know make a workload of kind
    ``Pod`` named after the pod. The window's start is snapped down to a whole hour.
    ``measured_since`` (Unix seconds): when measuring began; time before it is not missing. Where it
    is not known, the first hour's rows are taken to lie at that hour's end.
    """
    devices = tuple(devices)
    around = Surroundings.of(inventory, devices, window, measured_since=measured_since)
    return profiles_among(attributed(rows, devices, inventory), around, inventory.pods, resolution)


def profiles_among(
    rows: Iterable[UsageRow | PlacedPart],
    around: Surroundings,
    pods: Iterable[Pod],
    resolution: Resolution,
) -> list[Profile]:
    """Return the profiles of some of a cluster's workloads, the same as if all were built at once.

    ``rows`` (attributed), ``pods`` and ``resolution`` hold all there is of these workloads.
    """
    builder = _Builder(around, resolution)
    builder.take_rows(rows)
    builder.take_pods(pods)
    return builder.profiles()


@dataclass
class _Group:
    workload: Workload
    members: dict[_ContainerKey, Member] = field(default_factory=dict)
    asking: list[Pod] = field(default_factory=list)  # templates and pending pods


class _Builder:
    """State of one call of ``profiles_among``."""

    def __init__(self, around: Surroundings, resolution: Resolution) -> None:
        self.around = around
        self.window = around.window
        self.inventory = around.inventory
        self.holdings = around.holdings
        self.nodes = around.nodes
        self.devices = around.devices
        self.runs = {run.id: run for run in resolution.runs}
        self.workloads = {workload.id: workload for workload in resolution.workloads}
        self.assigned = {
            (a.namespace, a.pod, a.pod_uid, a.container): (a.workload_id, a.run_id)
            for a in resolution.assignments
        }
        # A pod of the same name is the same workload's (a StatefulSet's next pod, a UID not told).
        self.assigned_by_name = {
            (a.namespace, a.pod, a.container): (a.workload_id, a.run_id)
            for a in sorted(resolution.assignments, key=lambda a: a.pod_uid)
        }
        self.looked = around.window  # the part of the window in which anybody looked
        self.groups: dict[str, _Group] = {}
        self.places: dict[_ContainerKey, Member] = {}
        self.tallies: dict[Place, DeviceTally] = {}

    def take_rows(self, rows: Iterable[UsageRow | PlacedPart]) -> None:
        """Add every hour or day that begins inside the window to its container's tally."""
        start, end = self.window.start, self.window.end
        first, longest = end, 0.0
        for row in rows:
            if isinstance(row, tuple):
                place, part = row
            else:
                place, part = place_of(row.key), part_of(hour_of(row))
            if not start <= part.hour < end:
                continue
            if place[-1] == CONTAINER_ITSELF:
                member = self._holder(place)
                member.itself = member.itself or UseSums()
                member.itself.add(part)
                continue
            if part.hour <= first:
                known = longest if part.hour == first else 0.0
                first, longest = float(part.hour), max(known, part.first_hour_allocated)
            self._tally(place).add_part(part)
        self.looked = self.around.looked(self.around.began or Beginning(first, longest))

    def _tally(self, place: Place) -> DeviceTally:
        tally = self.tallies.get(place)
        if tally is None:
            tally = self._holder(place).tallies.setdefault(place[4], DeviceTally())
            self.tallies[place] = tally
        return tally

    def _holder(self, place: Place) -> Member:
        holder = place[:4]
        member = self.places.get(holder)
        if member is None:
            member = self.places[holder] = self._member(*holder)
        return member

    def take_pods(self, pods: Iterable[Pod]) -> None:
        """Add the pods that held devices in the window or ask for some, measured or not."""
        for pod in pods:
            for container in pod.containers:
                if asked_gpus(container) > 0:
                    self._take_container(pod, container)

    def _take_container(self, pod: Pod, container: ContainerSpec) -> None:
        if pod.template or is_pending(pod):
            workload_id, _ = self._assignment(pod.namespace, pod.name, pod.uid, container.name)
            self._group(workload_id, pod, container).asking.append(pod)
            return
        if (pod.namespace, pod.name, pod.uid, container.name) in self.places:
            return  # a row told of it
        held = held_seconds(pod, self.looked, self.inventory.at)
        if held or (held is None and self.holdings.pod_holds_now(pod, self.window, 0)):
            self._member(pod.namespace, pod.name, pod.uid, container.name)

    def _assignment(self, namespace: str, pod: str, uid: str, container: str) -> tuple[str, str]:
        exact = self.assigned.get((namespace, pod, uid, container))
        if exact is not None:
            return exact
        run_id = f"{namespace}/{pod}/{uid}"
        named = self.assigned_by_name.get((namespace, pod, container))
        if named is not None:
            return (named[0], run_id if uid else named[1])
        return (f"{namespace}/Pod/{pod}/{container}", run_id)

    def _member(self, namespace: str, name: str, uid: str, container: str) -> Member:
        pod = self.holdings.find(namespace, name, uid)
        real = pod is not None and not pod.template
        uid = pod.uid if pod is not None and real else uid
        workload_id, run_id = self._assignment(namespace, name, uid, container)
        spec = container_spec(pod, container)
        group = self._group(workload_id, pod, spec, namespace=namespace, name=name, at=container)
        key = (namespace, name, uid, container)
        member = group.members.get(key)
        if member is None:
            member = Member(
                key=UsageKey(
                    cluster=self.inventory.cluster,
                    namespace=namespace,
                    pod=name,
                    pod_uid=uid,
                    container=container,
                    gpu_uuid="",
                    hour=0,
                ),
                run_id=run_id,
                pod=pod,
                asked=0.0 if spec is None else asked_gpus(spec, self._node(pod)),
            )
            group.members[key] = member
        return member

    def _group(
        self,
        workload_id: str,
        pod: Pod | None,
        spec: ContainerSpec | None,
        *,
        namespace: str = "",
        name: str = "",
        at: str = "",
    ) -> _Group:
        group = self.groups.get(workload_id)
        if group is None:
            workload = self.workloads.get(workload_id) or Workload(
                id=workload_id,
                cluster=self.inventory.cluster,
                namespace=pod.namespace if pod is not None else namespace,
                kind="Pod",
                name=pod.name if pod is not None else name,
                container=spec.name if spec is not None else at,
                task_evidence="nothing but the pod's name is known",
                image=spec.image if spec is not None else "",
                gpu_requests=spec.gpus if spec is not None else (),
                annotations=dict(pod.annotations) if pod is not None else {},
                labels=dict(pod.labels) if pod is not None else {},
            )
            group = self.groups[workload_id] = _Group(workload)
        return group

    def profiles(self) -> list[Profile]:
        """Fold every group; sorted by workload id. Sums are let go of as they are folded."""
        parts = [part for group in self.groups.values() for part in self._split(group)]
        parts.sort(key=lambda one: one.workload.id, reverse=True)
        self.groups.clear()
        self.places.clear()
        self.tallies.clear()
        made = []
        while parts:
            made.append(self._profile(parts.pop()))
        return made

    def _split(self, group: _Group) -> list[_Group]:
        parts = parts_of(group.workload, list(group.members.values()), self.runs)
        if len(parts) == 1:
            return [group]
        return [
            _Group(
                msgspec.structs.replace(group.workload, id=group.workload.id + end),
                {_place(member.key): member for member in members},
                [] if end else group.asking,
            )
            for end, members in parts
        ]

    def _profile(self, group: _Group) -> Profile:
        members = [member for _, member in sorted(group.members.items())]
        for member in members:
            self._settle(member)
        uses = tuple(use for member in members for use in member.uses)
        total = merge_uses(uses)
        live = [member for member in members if member.live]
        runs = run_uses(members, self.runs, total)
        told = (member.itself for member in members if member.itself is not None)
        host, engine = container_use(told)
        return Profile(
            workload=group.workload,
            window=self.window,
            gpus=uses,
            runs=runs,
            gpus_per_pod=gpus_per_pod(group.workload, group.asking, members),
            pods_now=len(live),
            pending_pods=sum(1 for pod in group.asking if not pod.template),
            allocated_seconds=total.allocated_seconds,
            allocated_clock=(
                "inventory" if members and all(m.by_inventory for m in members) else "source"
            ),
            signals=total.signals(),
            warmup=total.warmup(),
            conditions=dict(sorted(total.conditions.items())),
            device_models=tuple(sorted({_model(use) for use in uses} - {""})),
            memory_peak_bytes=total.memory_peak_bytes,
            memory_peak_kind=total.memory_peak_kind,
            memory_total_bytes=min(
                (use.memory_total_bytes for use in uses if use.memory_total_bytes is not None),
                default=None,
            ),
            energy_joules=total.energy_joules,
            last_active=total.last_active,
            allocated_since=_earliest(live),
            full_days=full_days(uses, self.window),
            oom_seen=any(run.oom for run in runs),
            dialects=tuple(sorted({name for m in members for name in m.dialects})),
            filled=filled_by(members),
            host=host,
            engine=engine,
            samples=total.samples,
            spread_seconds=total.spread_seconds,
        )

    def _held(self, member: Member, known_until: float) -> float | None:
        """Seconds held while anybody looked (at least what a source saw); None: not told."""
        pod = member.pod
        held = None if pod is None else held_seconds(pod, self.looked, known_until)
        seen = max((tally.allocated_seconds for tally in member.tallies.values()), default=0.0)
        if pod is None or held is None or seen <= held:
            return held
        return min(seen, held_seconds(pod, self.window, known_until) or held)

    def _settle(self, member: Member) -> None:
        """Give the member its devices: the measured ones, and one entry for each that was not."""
        last_hour = max((tally.last_hour for tally in member.tallies.values()), default=0)
        known_until = max(self.inventory.at, last_hour + HOUR_SECONDS if last_hour else 0)
        pod = member.pod
        held = self._held(member, known_until)
        member.live = self.holdings.pod_holds_now(pod, self.window, last_hour)
        member.by_inventory = held is not None
        asked = int(-(-member.asked // 1))
        missing = max(0, asked - len(member.tallies))
        seconds = held
        if seconds is None:
            seconds = max((t.allocated_seconds for t in member.tallies.values()), default=0.0)
        allocated = allocations(member.tallies, held, asked)
        member.uses = [
            gpu_use(
                tally,
                member.key,
                member.run_id,
                self._device(uuid, pod),
                allocated[uuid],
                gpu_uuid=uuid,
            )
            for uuid, tally in sorted(member.tallies.items())
        ]
        if missing:
            nothing = gpu_use(
                DeviceTally(), member.key, member.run_id, self._unmeasured(member), seconds
            )
            share = self._share_asked(member)
            member.uses += [msgspec.structs.replace(nothing, share=share)] * missing

    def _share_asked(self, member: Member) -> float:
        """Share of a device that a pod asked for on a node that hands its devices out in parts."""
        node = self._node(member.pod)
        spec = container_spec(member.pod, member.key.container)
        if node is None or node.sharing_replicas <= 1 or spec is None:
            return 1.0
        return min(1.0, sum(request.count for request in spec.gpus) / node.sharing_replicas)

    def _node(self, pod: Pod | None) -> Node | None:
        return None if pod is None else self.nodes.get(pod.node or "")

    def _device(self, uuid: str, pod: Pod | None) -> Device | None:
        """What is known of a device; where the source names no model or node, Kubernetes does."""
        device = self.devices.get(uuid)
        node = self._node(pod)
        if device is None:
            return None if node is None else device_of_node(node, uuid, "")
        if device.model or node is None or device.node not in {"", node.name}:
            return device
        return device_of_node(node, uuid, device.mig_profile)

    def _unmeasured(self, member: Member) -> Device | None:
        node = self._node(member.pod)
        if node is None or member.pod is None:
            return None
        spec = container_spec(member.pod, member.key.container)
        requests: tuple[GpuRequest, ...] = spec.gpus if spec is not None else ()
        profile = next((request.mig_profile for request in requests if request.mig_profile), "")
        return device_of_node(node, "", profile)


def _place(key: UsageKey) -> _ContainerKey:
    return (key.namespace, key.pod, key.pod_uid, key.container)


def _model(use: GpuUse) -> str:
    return use.device.model if use.device is not None else ""


def _earliest(live: list[Member]) -> float | None:
    starts = [None if member.pod is None else held_from(member.pod) for member in live]
    known = [start for start in starts if start is not None]
    return min(known) if known and len(known) == len(starts) else None
