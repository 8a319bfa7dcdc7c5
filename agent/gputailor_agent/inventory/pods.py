"""A pod object as a value: what its containers ask for, when they ran and how they ended."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.claims import Claims
from gputailor_agent.inventory.redaction import (
    is_secret_name,
    mask_annotations,
    mask_arguments,
    mask_value,
)
from gputailor_agent.inventory.resources import (
    annotation_requests,
    gpu_requests,
    quantity,
    whole,
)
from gputailor_agent.model.inventory import ContainerSpec, GpuRequest, OwnerReference, Pod

_ENDED: Final = ("Succeeded", "Failed")
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a mount path inside a container


def _arguments(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return mask_arguments([raw.text(part) for part in value])
    return mask_arguments([raw.text(value)])


def _environment(entries: Sequence[raw.RawEnv] | None) -> dict[str, str]:
    """Plain values; one taken from elsewhere or named like a secret keeps its name only.

    What looks like a credential under another name is masked.
    """
    plain = ((raw.text(entry.name), entry.value) for entry in entries or ())
    return {
        name: "" if is_secret_name(name) else mask_value(raw.text(value)) for name, value in plain
    }


def _ports(entries: Sequence[raw.RawPort] | None) -> tuple[int, ...]:
    numbers = [quantity(entry.container_port) for entry in entries or ()]
    return tuple(int(number) for number in numbers if number is not None)


def read_container(
    container: raw.RawContainer,
    *,
    init: bool = False,
    claimed: tuple[GpuRequest, ...] = (),
    problems: list[str] | None = None,
) -> ContainerSpec:
    """One container; ``claimed`` are devices it gets through DRA claims."""
    resources = container.resources or raw.RawResources()
    limits, requests = resources.limits or {}, resources.requests or {}
    asked = gpu_requests(limits, requests, problems)
    if asked:  # a claim of unknown content beside devices is a channel or a network card
        claimed = tuple(one for one in claimed if one.kind != "other")
    return ContainerSpec(
        name=raw.text(container.name),
        image=container.image if isinstance(container.image, str) else "",
        command=_arguments(container.command),
        args=_arguments(container.args),
        env=_environment(container.env),
        ports=_ports(container.ports),
        gpus=(*asked, *claimed),
        cpu_request=quantity(requests.get("cpu", limits.get("cpu"))),
        cpu_limit=quantity(limits.get("cpu")),
        memory_request_bytes=whole(requests.get("memory", limits.get("memory"))),
        memory_limit_bytes=whole(limits.get("memory")),
        init=init and container.restart_policy != "Always",
    )


def _with_annotated(
    containers: tuple[ContainerSpec, ...], annotations: Mapping[str, str]
) -> tuple[ContainerSpec, ...]:
    """Give what the pod asks for by annotation to the container it names, else to the first."""
    named, asked = annotation_requests(annotations)
    if not asked or any(container.gpus for container in containers):
        return containers
    names = [container.name for container in containers]
    mains = [container.name for container in containers if not container.init]
    target = named if named in names else (mains or names)[0]
    return tuple(
        msgspec.structs.replace(container, gpus=asked) if container.name == target else container
        for container in containers
    )


def read_containers(
    spec: raw.RawPodSpec,
    annotations: Mapping[str, str],
    claimed: Mapping[str, tuple[GpuRequest, ...]],
    problems: list[str] | None = None,
) -> tuple[ContainerSpec, ...]:
    """A pod's containers in starting order: init containers and sidecars first.

    ``claimed``: devices by container name that they get through DRA claims.
    """
    everyone = [(c, True) for c in spec.init_containers or ()]
    everyone += [(c, False) for c in spec.containers or ()]
    containers = tuple(
        read_container(
            container,
            init=init,
            claimed=claimed.get(raw.text(container.name), ()),
            problems=problems,
        )
        for container, init in everyone
    )
    return _with_annotated(containers, annotations) if containers else ()


def _shared_memory(spec: raw.RawPodSpec, containers: Iterable[ContainerSpec]) -> int | None:
    """Size of the memory emptyDir at /dev/shm; without a limit of its own the pod's memory limit.

    None when there is no such mount, or when nothing bounds it. Source: Kubernetes, emptyDir.
    """
    mounted = {
        raw.text(mount.name)
        for container in spec.containers or ()
        for mount in container.volume_mounts or ()
        if (mount.mount_path or "").rstrip("/") == _SHARED_MEMORY
    }
    for volume in spec.volumes or ():
        if raw.text(volume.name) in mounted and volume.empty_dir is not None:
            if volume.empty_dir.medium != "Memory":
                return None
            size = whole(volume.empty_dir.size_limit)
            limits = [c.memory_limit_bytes for c in containers if not c.init]
            if size is None and limits and None not in limits:
                size = sum(limit for limit in limits if limit is not None)
            return size
    return None


def _overhead(spec: raw.RawPodSpec) -> dict[str, float]:
    """What the pod's runtime class costs on top of its containers, as admission wrote it."""
    amounts = ((raw.text(name), quantity(value)) for name, value in (spec.overhead or {}).items())
    return {name: amount for name, amount in amounts if amount is not None}


def owner_references(metadata: raw.RawMetadata) -> tuple[OwnerReference, ...]:
    """Owners of an object, the controlling one first."""
    references = sorted(metadata.owner_references or (), key=lambda ref: not ref.controller)
    return tuple(
        OwnerReference(
            api_version=ref.api_version or "",
            kind=ref.kind or "",
            name=raw.text(ref.name),
            uid=ref.uid or "",
        )
        for ref in references
    )


class _Times(msgspec.Struct, frozen=True, kw_only=True):
    started: float | None = None
    finished: float | None = None
    reason: str = ""
    exit_code: int | None = None
    restarts: int = 0
    oom_killed: bool = False


def _terminations(statuses: Iterable[raw.RawContainerStatus]) -> list[raw.RawContainerState]:
    states = [state for status in statuses for state in (status.state, status.last_state) if state]
    return [state.terminated for state in states if state.terminated]


def _started(status: raw.RawPodStatus, statuses: Sequence[raw.RawContainerStatus]) -> float | None:
    """When the first application container first ran.

    A container keeps only its current and its last state: after a second restart the first start
    is lost, and the moment the pod was initialised stands for it.
    """
    seen: list[str | None] = []
    for one in statuses:
        for state in (one.state, one.last_state):
            details = (state.running, state.terminated) if state else ()
            seen += [detail.started_at for detail in details if detail]
    if any((one.restart_count or 0) > 1 for one in statuses):
        seen += [
            condition.last_transition_time
            for condition in status.conditions or ()
            if condition.type == "Initialized" and raw.text(condition.status).lower() == "true"
        ]
    times = [at for at in map(raw.instant, seen) if at is not None and at > 0]
    return min(times) if times else raw.instant(status.start_time)


def _finished(
    status: raw.RawPodStatus,
    statuses: Sequence[raw.RawContainerStatus],
    metadata: raw.RawMetadata,
) -> float | None:
    if status.phase not in _ENDED:
        return None
    ends = [
        raw.instant(one.state.terminated.finished_at)
        for one in statuses
        if one.state and one.state.terminated
    ]
    known = [at for at in ends if at is not None and at > 0]
    if not known:  # evicted or lost pods have no container states left
        known = [
            at
            for condition in status.conditions or ()
            if condition.type in {"Ready", "ContainersReady", "DisruptionTarget"}
            for at in [raw.instant(condition.last_transition_time)]
            if at is not None
        ]
    if not known and (deleted := raw.instant(metadata.deletion_timestamp)) is not None:
        known = [deleted]
    return max(known) if known else None


def _last_end(ends: Sequence[raw.RawContainerState]) -> raw.RawContainerState | None:
    """The termination that tells how the pod ended: a failure over a success, then the latest."""
    if not ends:
        return None
    return max(ends, key=lambda end: (bool(end.exit_code), end.finished_at or ""))


def _times(status: raw.RawPodStatus, metadata: raw.RawMetadata) -> _Times:
    mains = list(status.container_statuses or ())
    everyone = [*mains, *(status.init_container_statuses or ())]
    current = [one.state.terminated for one in everyone if one.state and one.state.terminated]
    end = _last_end(current) if status.phase in _ENDED else None
    return _Times(
        started=_started(status, mains),
        finished=_finished(status, mains, metadata),
        reason=status.reason or (end.reason if end and end.reason else ""),
        exit_code=end.exit_code if end else None,
        restarts=sum(one.restart_count or 0 for one in mains),
        oom_killed=any(end.reason == "OOMKilled" for end in _terminations(everyone)),
    )


def object_name(metadata: raw.RawMetadata, kind: str) -> str:
    """The object's name; what it is generated from where it has none yet."""
    name = raw.text(metadata.name) or (metadata.generate_name or "").rstrip("-.")
    return name or f"unnamed-{kind.lower()}"


def read_pod(
    pod: raw.RawPod, cluster: str, claims: Claims, problems: list[str] | None = None
) -> Pod:
    """A pod object as a value.

    A pod without a uid is a manifest: nothing is known to have run, so it is a template.
    """
    metadata, spec = pod.metadata or raw.RawMetadata(), pod.spec or raw.RawPodSpec()
    status = pod.status or raw.RawPodStatus()
    namespace = metadata.namespace or "default"
    annotations = mask_annotations(raw.string_map(metadata.annotations))
    claimed = claims.of_pod(spec, namespace, status.resource_claim_statuses)
    containers = read_containers(spec, annotations, claimed, problems)
    times = _times(status, metadata)
    scheduled = [
        raw.instant(condition.last_transition_time)
        for condition in status.conditions or ()
        if condition.type == "PodScheduled" and raw.text(condition.status).lower() == "true"
    ]
    return Pod(
        cluster=cluster,
        namespace=namespace,
        name=object_name(metadata, "Pod"),
        uid=metadata.uid or "",
        node=spec.node_name or None,
        phase=status.phase or "Unknown",
        labels=raw.string_map(metadata.labels),
        annotations=annotations,
        owners=owner_references(metadata),
        containers=containers,
        created=raw.instant(metadata.creation_timestamp),
        scheduled=scheduled[0] if scheduled else None,
        started=times.started,
        finished=times.finished,
        reason=times.reason,
        exit_code=times.exit_code,
        restarts=times.restarts,
        oom_killed=times.oom_killed,
        shared_memory_bytes=_shared_memory(spec, containers),
        priority_class=spec.priority_class_name or "",
        service_account=spec.service_account_name or "",
        overhead=_overhead(spec),
        tolerations=tuple(key for one in spec.tolerations or () if (key := one.key or "*")),
        template=not metadata.uid and not status.phase,
        deadline_seconds=quantity(spec.active_deadline_seconds),
    )
