"""Which runs there are, and which workload each belongs to.

A run is one Job (also below a CronJob or a pipeline), one revision of a service, or one bare pod.
Runs join into a workload by annotation or label, else by what an experiment tracker calls the
series, else by namespace, root kind and name stem; then by container and resource shape, never by
image tag or command. Names that people keep for a service are taken as they are; only names of
things that run and end are stemmed.

The mapping is a pure function of the inventory: it can be made again at any time, and a pod whose
owners could not be looked up still gets a workload, under the name its reference gives.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from gputailor_agent.inventory.belonging import belonging
from gputailor_agent.inventory.classify import classify
from gputailor_agent.inventory.distribution import distribution, precision
from gputailor_agent.inventory.kinds import kind_table, known_kind
from gputailor_agent.inventory.namespaces import inherited
from gputailor_agent.inventory.owners import Link, OwnerIndex, itself
from gputailor_agent.inventory.runs import make_run, pod_key
from gputailor_agent.inventory.stems import stem
from gputailor_agent.inventory.tracking import series_name, tracked
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    OwnerReference,
    Pod,
    PodAssignment,
    Resolution,
    Run,
    Workload,
)

WORKLOAD_ANNOTATION: Final = "gputailor.io/workload"
DEFAULT_LABEL_KEYS: Final = (WORKLOAD_ANNOTATION, "dag_id+task_id")
_SAME_RUN_UID: Final = 8


class IdentitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How runs join. ``label_keys``: first one present wins; ``a+b`` needs both.

    ``team_keys``: labels or annotations that name the team, before the packaged ones.
    """

    annotation: str = WORKLOAD_ANNOTATION
    label_keys: tuple[str, ...] = DEFAULT_LABEL_KEYS
    team_keys: tuple[str, ...] = ()


class _Name(msgspec.Struct, frozen=True, order=True):
    """What runs share that are the same thing."""

    namespace: str
    kind: str
    name: str
    container: str


class _Member(msgspec.Struct, frozen=True, kw_only=True):
    """One container of one pod, with its owners."""

    pod: Pod
    container: ContainerSpec
    chain: tuple[Link, ...]
    run: str

    @property
    def age(self) -> tuple[float, str, str]:
        """Sorts members from the oldest to the newest; what never ran comes first."""
        at = self.pod.created or self.pod.started or 0.0
        return (at, self.pod.name, self.pod.uid)


def shape(requests: Iterable[GpuRequest]) -> str:
    """A container's accelerators in short, e.g. ``8xgpu``, ``1xmig-1g.5gb``."""
    return "+".join(f"{one.count:g}x{one.resource.rsplit('/', 1)[-1]}" for one in requests)


def split_stem(peaks: Mapping[str, float]) -> tuple[tuple[str, ...], ...]:
    """Runs of one stem, split where their peaks differ twofold; groups from low to high.

    ``peaks`` are the runs' memory peaks in any one unit; give completed runs only, an aborted run's
    low peak says nothing. Within a group the highest is less than twice the lowest; the cut is
    where the ratio between neighbours is largest. Runs that used nothing stand apart.
    """
    ordered = sorted(peaks.items(), key=lambda item: (item[1], item[0]))
    return tuple(tuple(run for run, _ in group) for group in _cut(ordered) if group)


def _cut(ordered: Sequence[tuple[str, float]]) -> list[list[tuple[str, float]]]:
    if not ordered or ordered[-1][1] < 2 * ordered[0][1] or ordered[-1][1] == ordered[0][1]:
        return [list(ordered)]
    places = range(1, len(ordered))
    place = max(places, key=lambda at: _ratio(ordered[at - 1][1], ordered[at][1]))
    return _cut(ordered[:place]) + _cut(ordered[place:])


def _ratio(low: float, high: float) -> float:
    if low <= 0:
        return float("inf") if high > 0 else 0.0
    return high / low


def _labelled(labels: Mapping[str, str], keys: Iterable[str]) -> str:
    for key in keys:
        values = [labels.get(part, "") for part in key.split("+")]
        if all(values):
            return ".".join(values)
    return ""


def _declared(pod: Pod, chain: Sequence[Link], settings: IdentitySettings) -> str:
    """The workload's name as its people declare it, on the pod or any owner."""
    places: list[tuple[dict[str, str], dict[str, str]]] = [(pod.annotations, pod.labels)]
    places += [(link.annotations, link.labels) for link in chain]
    for annotations, _ in places:
        if name := annotations.get(settings.annotation, ""):
            return name
    for _, labels in places:
        if name := _labelled(labels, settings.label_keys):
            return name
    return ""


def _name(
    pod: Pod, container: ContainerSpec, chain: Sequence[Link], settings: IdentitySettings
) -> _Name:
    if declared := _declared(pod, chain, settings):
        return _Name(pod.namespace, "workload", declared.replace("/", "-"), container.name)
    kind, name = (chain[-1].kind, chain[-1].name) if chain else ("Pod", pod.name)
    life = known_kind(kind).life
    series = series_name(pod, container, chain) if life in {"run", "pipeline"} else ""
    if series:
        return _Name(pod.namespace, kind, series.replace("/", "-"), container.name)
    lasting = name if life in {"service", "recurring"} else stem(name)
    if life == "pipeline" and len(chain) == 1:  # the steps of a pipeline are different things
        step = stem(pod.name.removeprefix(name).strip("-")) if pod.name != name else ""
        lasting = f"{lasting}.{step}" if step else lasting
    return _Name(pod.namespace, kind, lasting, container.name)


def _run_token(pod: Pod, chain: Sequence[Link]) -> str:
    """What tells this run from others of its workload.

    The highest owner that runs to an end, below what only starts runs; for a service its pods'
    revision; else the pod itself.
    """
    ending = [link for link in chain if known_kind(link.kind).life == "run" and link.kind != "Pod"]
    starters = [link for link in chain if known_kind(link.kind).life == "pipeline"]
    services = [link for link in chain if known_kind(link.kind).life == "service"]
    if services:
        revision = _labelled(pod.labels, kind_table().revisions)
        return revision or _token(ending[-1] if ending else services[0])
    if ending or starters:
        return _token((ending or starters)[-1])
    return f"{pod.name}.{pod.uid[:_SAME_RUN_UID]}" if pod.uid else pod.name


def _token(link: Link) -> str:
    made_up = link.uid.startswith(("manifest:", "label:")) or not link.uid
    return link.name if made_up else f"{link.name}.{link.uid[:_SAME_RUN_UID]}"


def _members(inventory: Inventory, settings: IdentitySettings) -> dict[_Name, list[_Member]]:
    index = OwnerIndex(inventory.owners, inventory.pods)
    groups: dict[_Name, list[_Member]] = defaultdict(list)
    for pod in inventory.pods:
        asking = [container for container in pod.containers if container.gpus]
        if not asking:
            continue
        chain = index.chain(pod)
        run = _run_token(pod, chain)
        for container in asking:
            groups[_name(pod, container, chain, settings)].append(
                _Member(pod=pod, container=container, chain=chain, run=run)
            )
    return groups


def _by_shape(name: _Name, members: list[_Member]) -> list[tuple[str, list[_Member]]]:
    """Workload ids and their members. The oldest shape has the plain id, so that it stays."""
    shapes: dict[str, list[_Member]] = {}
    for member in sorted(members, key=lambda one: one.age):
        shapes.setdefault(shape(member.container.gpus), []).append(member)
    plain = f"{name.namespace}/{name.kind}/{name.name}/{name.container}"
    return [
        (plain if place == 0 else f"{plain}#{text}", group)
        for place, (text, group) in enumerate(shapes.items())
    ]


def _workload(
    id_: str,
    name: _Name,
    members: Sequence[_Member],
    inventory: Inventory,
    settings: IdentitySettings,
) -> Workload:
    latest = members[-1]
    labels: dict[str, str] = {}
    annotations = inherited(inventory.namespaces.get(name.namespace))
    for link in reversed(latest.chain):
        labels |= link.labels
        annotations |= link.annotations
    labels |= latest.pod.labels
    annotations |= latest.pod.annotations
    kinds = [link.kind for link in latest.chain] or ["Pod"]
    said = {**labels, **annotations}
    names = [latest.container.name, latest.pod.name, *(link.name for link in latest.chain)]
    found = classify(latest.container, kinds, said, names)
    whose = belonging(
        latest.pod, latest.chain, inventory.namespaces.get(name.namespace), settings.team_keys
    )
    spread = sum(one.pod.replicas for one in members if one.run == latest.run)
    computes, precision_evidence = precision(latest.container, said)
    roots = {(member.chain[-1].name if member.chain else member.pod.name) for member in members}
    root = latest.chain[-1] if latest.chain else None
    return Workload(
        id=id_,
        cluster=inventory.cluster,
        namespace=name.namespace,
        kind=root.kind if root else "Pod",
        name=roots.pop() if len(roots) == 1 else name.name,
        container=name.container,
        task_class=found.task_class,
        task_evidence=found.task_evidence,
        framework=found.framework,
        framework_evidence=found.framework_evidence,
        preallocates=found.preallocates,
        preallocates_evidence=found.preallocates_evidence,
        image=latest.container.image,
        gpu_requests=latest.container.gpus,
        annotations=annotations,
        labels=labels,
        owner_api_version=root.api_version if root else "v1",
        task_sure=found.task_sure,
        framework_sure=found.framework_sure,
        team=whose.team,
        queue=whose.queue,
        service_account=whose.service_account,
        priority_class=whose.priority_class,
        distribution=distribution(latest.container, said, spread),
        precision=computes,
        precision_evidence=precision_evidence,
        tracked=tracked(latest.pod, latest.container, latest.chain),
    )


def _runs(workload_id: str, members: Iterable[_Member]) -> Iterable[tuple[Run, list[_Member]]]:
    by_run: dict[str, list[_Member]] = defaultdict(list)
    for member in members:
        by_run[member.run].append(member)
    for token in sorted(by_run):
        group = by_run[token]
        pods = [member.pod for member in group]
        run = make_run(f"{workload_id}@{token}", workload_id, pods)
        known = tracked(group[-1].pod, group[-1].container, group[-1].chain)
        yield msgspec.structs.replace(run, tracked=known), group


def resolve(inventory: Inventory, settings: IdentitySettings | None = None) -> Resolution:
    """Every accelerator-asking container of the inventory, with its run and its workload.

    The order of pods and owners in the inventory does not matter.
    """
    settings = settings or IdentitySettings()
    workloads, runs, assignments = [], [], []
    roots: dict[str, OwnerReference] = {}
    for name, members in sorted(_members(inventory, settings).items()):
        for workload_id, group in _by_shape(name, members):
            workloads.append(_workload(workload_id, name, group, inventory, settings))
            if (root := _root(group[-1])) is not None:
                roots[workload_id] = root
            for run, part in _runs(workload_id, group):
                runs.append(run)
                assignments += [_assignment(member, run, inventory.cluster) for member in part]
    assignments.sort(key=lambda one: (one.namespace, one.pod, one.pod_uid, one.container))
    return Resolution(
        workloads=tuple(workloads),
        runs=tuple(runs),
        assignments=tuple(assignments),
        roots=roots,
    )


def _root(member: _Member) -> OwnerReference | None:
    """The object above all others; None where only its name is known."""
    link = member.chain[-1] if member.chain else itself(member.pod)
    if not link.known or not link.uid or link.uid.startswith(("manifest:", "label:")):
        return None
    return OwnerReference(
        api_version=link.api_version, kind=link.kind, name=link.name, uid=link.uid
    )


def _assignment(member: _Member, run: Run, cluster: str) -> PodAssignment:
    return PodAssignment(
        cluster=cluster,
        namespace=member.pod.namespace,
        pod=member.pod.name,
        pod_uid=member.pod.uid,
        container=member.container.name,
        workload_id=run.workload_id,
        run_id=run.id,
    )


__all__ = ["IdentitySettings", "pod_key", "resolve", "shape", "split_stem"]
