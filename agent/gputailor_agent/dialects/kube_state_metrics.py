"""What kube-state-metrics tells of pods, their owners and nodes: names, labels, a reading of them.

Names and labels are those of kube-state-metrics 2 (its documentation of pod, node and workload
metrics); version 1 lacks the label ``uid`` that everything here is joined by. Series of one object
carry its state as value or as label; they last as long as the object does.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

PHASE: Final = "kube_pod_status_phase"
POD_OWNER: Final = "kube_pod_owner"
POD_INFO: Final = "kube_pod_info"
COMPLETION: Final = "kube_pod_completion_time"
NODE_INFO: Final = "kube_node_info"
NODE_LABELS: Final = "kube_node_labels"
NODE_CAPACITY: Final = "kube_node_status_capacity"
NODE_ALLOCATABLE: Final = "kube_node_status_allocatable"
NODE_UNSCHEDULABLE: Final = "kube_node_spec_unschedulable"
NODE_CONDITION: Final = "kube_node_status_condition"
JOB_COMPLETE: Final = "kube_job_complete"
JOB_FAILED: Final = "kube_job_failed"

#: What containers ask for; the label ``resource`` has every sign but letters and digits as ``_``.
REQUESTS: Final = (
    "kube_pod_container_resource_requests",
    "kube_pod_container_resource_limits",
    "kube_pod_init_container_resource_requests",
    "kube_pod_init_container_resource_limits",
)
#: Everything that is read of a pod.
OF_PODS: Final = (
    *REQUESTS,
    PHASE,
    POD_OWNER,
    POD_INFO,
    COMPLETION,
    "kube_pod_labels",
    "kube_pod_annotations",
    "kube_pod_created",
    "kube_pod_start_time",
    "kube_pod_status_scheduled_time",
    "kube_pod_status_initialized_time",
    "kube_pod_status_reason",
    "kube_pod_container_info",
    "kube_pod_init_container_info",
    "kube_pod_container_state_started",
    "kube_pod_container_status_restarts_total",
    "kube_pod_container_status_terminated_reason",
    "kube_pod_container_status_last_terminated_reason",
    "kube_pod_container_status_last_terminated_exitcode",
    "kube_pod_init_container_status_terminated_reason",
)
#: Everything that is read of a node beside its devices and conditions.
OF_NODES: Final = (NODE_INFO, NODE_LABELS, NODE_UNSCHEDULABLE)

#: What namespaces say of whose their workloads are and who is told, where it was told to say so.
NAMESPACE_LABELS: Final = "kube_namespace_labels"
NAMESPACE_ANNOTATIONS: Final = "kube_namespace_annotations"
OF_NAMESPACES: Final = (NAMESPACE_LABELS, NAMESPACE_ANNOTATIONS)

#: Phases from the first to the last: where two replicas differ, the later one is news.
PHASES: Final = ("Unknown", "Pending", "Running", "Succeeded", "Failed")
ENDED: Final = frozenset({"Succeeded", "Failed"})

_RENAMED: Final = "exported_"


class OwnerSeries(NamedTuple):
    """How the series of one kind of owner are called.

    ``numbers`` say how many copies it makes, ``deadline`` after how many seconds it is ended.
    """

    kind: str
    label: str  # that holds the object's name
    prefix: str
    api_version: str
    numbers: tuple[str, ...] = ()
    deadline: str = ""

    @property
    def owner(self) -> str:
        """The series that names the object's own owner."""
        return f"{self.prefix}_owner"

    @property
    def labels(self) -> str:
        """The series with the object's labels."""
        return f"{self.prefix}_labels"

    @property
    def annotations(self) -> str:
        """The series with the object's annotations."""
        return f"{self.prefix}_annotations"

    @property
    def values(self) -> tuple[str, ...]:
        """Series that carry a value that counts."""
        return (*self.numbers, self.deadline) if self.deadline else self.numbers

    @property
    def facts(self) -> tuple[str, ...]:
        """Series that tell all by their labels."""
        return (self.owner, f"{self.prefix}_created", self.labels, self.annotations)


#: By kind. The kind alone does not prove the API group (Volcano has a Job, too): the series do.
OWNERS: Final[Mapping[str, OwnerSeries]] = {
    one.kind: one
    for one in (
        OwnerSeries(
            "ReplicaSet",
            "replicaset",
            "kube_replicaset",
            "apps/v1",
            ("kube_replicaset_spec_replicas",),
        ),
        OwnerSeries(
            "Job",
            "job_name",
            "kube_job",
            "batch/v1",
            ("kube_job_spec_parallelism",),
            "kube_job_spec_active_deadline_seconds",
        ),
        OwnerSeries(
            "Deployment",
            "deployment",
            "kube_deployment",
            "apps/v1",
            ("kube_deployment_spec_replicas",),
        ),
        OwnerSeries(
            "StatefulSet",
            "statefulset",
            "kube_statefulset",
            "apps/v1",
            ("kube_statefulset_replicas",),
        ),
        OwnerSeries("DaemonSet", "daemonset", "kube_daemonset", "apps/v1"),
        OwnerSeries(
            "CronJob", "cronjob", "kube_cronjob", "batch/v1", ("kube_cronjob_spec_suspend",)
        ),
        OwnerSeries(
            "ReplicationController",
            "replicationcontroller",
            "kube_replicationcontroller",
            "v1",
            ("kube_replicationcontroller_spec_replicas",),
        ),
    )
}


class StateSample(NamedTuple):
    """One series and its value. ``labels`` are kube-state-metrics' own, see ``original``."""

    name: str
    labels: Mapping[str, str]
    value: float


class KubeState(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-state-metrics said of pods that ask for accelerators, up to ``at``.

    ``samples``: as of ``at``, and of pods that have gone the last ones. ``gone``: by uid when such
    a pod was last seen; ``ran``: when it, or one that ended at a time that is not told, was last
    seen running (Unix seconds).
    """

    at: float
    found: bool = True  # there is a kube-state-metrics at all
    current: bool = True  # ``at`` is the time that was asked for
    nameless: bool = False  # its pods have no uid, so nothing of them can be joined (version 1)
    samples: tuple[StateSample, ...] = ()
    gone: dict[str, float] = {}
    ran: dict[str, float] = {}
    unread: int = 0  # pods of the window that the budget did not suffice for
    partial: tuple[str, ...] = ()  # why the server's answers lack something, in its own words


def original(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels as kube-state-metrics gave them.

    A scrape without ``honorLabels`` puts the target's own ``namespace``, ``pod`` and ``container``
    in their place and keeps them as ``exported_…``.
    """
    own = {name: value for name, value in labels.items() if name != "__name__"}
    for name in labels:
        if name.startswith(_RENAMED):
            own[name.removeprefix(_RENAMED)] = own.pop(name)
    return own


def phases(samples: Iterable[StateSample]) -> dict[str, str]:
    """The phase of each pod by uid; of several that replicas tell, the latest in a pod's life."""
    found: dict[str, str] = {}
    for sample in samples:
        phase = sample.labels.get("phase", "")
        if sample.name != PHASE or sample.value != 1 or phase not in PHASES:
            continue
        uid = sample.labels.get("uid", "")
        if PHASES.index(phase) >= PHASES.index(found.get(uid, PHASES[0])):
            found[uid] = phase
    return found


def owners_told(samples: Iterable[StateSample]) -> set[tuple[str, str]]:
    """Kind and name of every owner that is named by a pod or by another owner."""
    names = {POD_OWNER, *(one.owner for one in OWNERS.values())}
    return {
        (sample.labels["owner_kind"], sample.labels["owner_name"])
        for sample in samples
        if sample.name in names and sample.labels.get("owner_name", "<none>") not in {"", "<none>"}
    }
