"""Pods out of their series: put together as the API's object, and read as that is."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from gputailor_agent.dialects import kube_state_metrics as names
from gputailor_agent.inventory import raw
from gputailor_agent.inventory.claims import Claims
from gputailor_agent.inventory.kube_state_metrics.names import real_resource
from gputailor_agent.inventory.kube_state_metrics.owning import Named, Ownership, references
from gputailor_agent.inventory.kube_state_metrics.rows import Rows
from gputailor_agent.inventory.pods import read_pod
from gputailor_agent.model.inventory import Pod

_CONTAINER = "kube_pod_container_"
_INIT = "kube_pod_init_container_"
_PLAIN = frozenset({"cpu", "memory"})


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a pod beside its series (times in Unix seconds).

    ``gone``: when it was last seen, of a pod that is no longer there; ``ran``: when it was last
    seen running; ``job``: how the Job above it ended ("Succeeded", "Failed" or '').
    """

    phase: str = "Unknown"
    gone: float | None = None
    ran: float | None = None
    job: str = ""


def pod_of(
    key: tuple[str, str, str], rows: Rows, seen: Seen, above: Ownership, cluster: str
) -> Pod:
    """The pod of one namespace, name and uid."""
    namespace, name, uid = key
    labels = rows.keyed("kube_pod_labels", "label_")
    owners = []
    for named, controls in _owners(rows, namespace):
        reference = above.refer(named, labels)
        owners.append(
            raw.RawOwnerReference(
                api_version=reference.api_version,
                kind=named.kind,
                name=named.name,
                uid=reference.uid,
                controller=controls,
            )
        )
        revision = above.hash_of(named) if controls else None
        if revision is not None:
            labels.setdefault(*revision)
    pod = read_pod(
        raw.RawPod(
            metadata=raw.RawMetadata(
                name=name,
                namespace=namespace,
                uid=uid,
                labels=labels,
                annotations=rows.keyed("kube_pod_annotations", "annotation_"),
                owner_references=owners,
                creation_timestamp=_written(rows.time("kube_pod_created")),
            ),
            spec=_spec(rows),
            status=_status(rows, seen.phase),
        ),
        cluster,
        Claims(),
    )
    return _ended(pod, seen)


def _owners(rows: Rows, namespace: str) -> list[tuple[Named, bool]]:
    """The pod's owners; by who created it where ``kube_pod_owner`` is missing."""
    found = references(rows, names.POD_OWNER)
    if found or names.POD_OWNER in rows:
        return found
    kind = rows.text(names.POD_INFO, "created_by_kind")
    name = rows.text(names.POD_INFO, "created_by_name")
    return [(Named(namespace, kind, name), True)] if kind and name else []


def _written(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, tz=UTC).isoformat()


def _spec(rows: Rows) -> raw.RawPodSpec:
    node = rows.text(names.POD_INFO, "node") or rows.text(names.REQUESTS[0], "node")
    return raw.RawPodSpec(
        node_name=node or None,
        containers=list(_containers(rows, _CONTAINER)),
        init_containers=list(_containers(rows, _INIT)),
        priority_class_name=rows.text(names.POD_INFO, "priority_class"),
    )


def _containers(rows: Rows, kind: str) -> Iterator[raw.RawContainer]:
    """Containers by name: their order in the pod is not told."""
    info, asked = f"{kind}info", (f"{kind}resource_requests", f"{kind}resource_limits")
    for name, own in rows.by("container", info, *asked).items():
        yield raw.RawContainer(
            name=name,
            image=own.text(info, "image_spec", "image"),
            restart_policy=own.text(info, "restart_policy") or None,
            resources=raw.RawResources(
                requests=_amounts(own, asked[0]), limits=_amounts(own, asked[1])
            ),
        )


def _amounts(rows: Rows, name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for sample in rows.of(name):
        label = sample.labels.get("resource", "")
        resource = label if label in _PLAIN else real_resource(label)
        if resource is not None:
            found[resource] = max(found.get(resource, 0.0), sample.value)
    return found


def _status(rows: Rows, phase: str) -> raw.RawPodStatus:
    scheduled = rows.time("kube_pod_status_scheduled_time")
    initialized = rows.time("kube_pod_status_initialized_time")
    times = {"PodScheduled": scheduled, "Initialized": initialized}
    reasons = rows.flagged("kube_pod_status_reason", "reason")
    return raw.RawPodStatus(
        phase=phase,
        reason=reasons[0] if reasons else None,
        start_time=_written(rows.time("kube_pod_start_time")),
        conditions=[
            raw.RawCondition(type=kind, status="True", last_transition_time=_written(at))
            for kind, at in times.items()
            if at is not None
        ],
        container_statuses=list(_statuses(rows, phase)),
        init_container_statuses=list(_init_statuses(rows)),
    )


def _statuses(rows: Rows, phase: str) -> Iterator[raw.RawContainerStatus]:
    """Statuses of the application containers; the start before a restart is the pod's."""
    state, status = f"{_CONTAINER}state_started", f"{_CONTAINER}status_"
    told = [f"{status}{end}" for end in
            ("restarts_total", "terminated_reason", "last_terminated_reason",
             "last_terminated_exitcode")]  # fmt: skip
    restarts, reason, last_reason, last_exit = told
    began = rows.time("kube_pod_status_initialized_time") or rows.time("kube_pod_start_time")
    end = _written(rows.time(names.COMPLETION))
    for name, own in rows.by("container", state, *told).items():
        started = _written(own.time(state))
        if phase in names.ENDED:
            reasons = own.flagged(reason, "reason")
            ended = raw.RawContainerState(
                started_at=started,
                finished_at=end,
                reason=reasons[0] if reasons else None,
                exit_code=0 if phase == "Succeeded" else None,
            )
            now = raw.RawStates(terminated=ended)
        else:
            now = raw.RawStates(running=raw.RawContainerState(started_at=started))
        count = int(own.value(restarts) or 0)
        before = None
        if count:
            reasons, code = own.flagged(last_reason, "reason"), own.value(last_exit)
            before = raw.RawStates(
                terminated=raw.RawContainerState(
                    started_at=_written(began),
                    reason=reasons[0] if reasons else None,
                    exit_code=None if code is None else int(code),
                )
            )
        yield raw.RawContainerStatus(name=name, state=now, last_state=before, restart_count=count)


def _init_statuses(rows: Rows) -> Iterator[raw.RawContainerStatus]:
    reason = f"{_INIT}status_terminated_reason"
    for name, own in rows.by("container", reason).items():
        for told in own.flagged(reason, "reason"):
            end = raw.RawContainerState(reason=told)
            yield raw.RawContainerStatus(name=name, state=raw.RawStates(terminated=end))


def _ended(pod: Pod, seen: Seen) -> Pod:
    """The pod with its end, where its own series do not tell it."""
    if pod.phase in names.ENDED:
        if pod.finished is not None:
            return pod
        return msgspec.structs.replace(pod, finished=seen.ran or seen.gone)
    if seen.gone is None:
        return pod
    return msgspec.structs.replace(
        pod,
        phase=seen.job or "Unknown",
        finished=seen.ran or seen.gone,
        reason=pod.reason or "NoLongerSeen",
    )
