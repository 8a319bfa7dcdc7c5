"""The Kubernetes objects of a scenario, as ``kubectl get -o json`` would list them at one moment.

What Kubernetes would have deleted by then is not there: pods of Deployments, StatefulSets and
plain pods vanish when they end, those of Jobs stay with their Job. Objects that begin later are
not there yet.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from gputailor_exporter.metrics import Sharing
from gputailor_exporter.scenarios.hardware import MIB
from gputailor_exporter.scenarios.nodes import stable_uuid
from gputailor_exporter.scenarios.values import Device, Node, PodRun, Run, Workload

GPU: Final = "nvidia.com/gpu"
Object = dict[str, Any]

#: Kinds whose ended pods stay until somebody deletes the owner.
_KEEPS_PODS: Final = {"Job", "CronJob", "PyTorchJob"}
_VERSIONS: Final = {
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "PyTorchJob": "kubeflow.org/v1",
}
_ENDINGS: Final = {
    "succeeded": ("Succeeded", 0, "Completed"),
    "failed": ("Failed", 1, "Error"),
    "oom_killed": ("Failed", 137, "OOMKilled"),
}
_LEAD_SECONDS: Final = 2.0  # from creation to the container's start
_NODE_AGE_SECONDS: Final = 40 * 86400.0


def timestamp(at: float) -> str:
    """Return RFC 3339 in UTC, whole seconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(math.floor(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def resource_name(device: Device) -> str:
    """Return the extended resource under which the device is requested (mixed MIG strategy)."""
    if device.sharing is Sharing.MIG:
        return f"nvidia.com/mig-{device.identity.mig_profile}"
    return GPU


def _requests(pod: PodRun) -> dict[str, str]:
    counts: dict[str, int] = {}
    for hold in pod.holds:
        name = resource_name(hold.device)
        counts[name] = counts.get(name, 0) + hold.replicas
    return {name: str(count) for name, count in counts.items()}


def _reference(kind: str, name: str, uid: str) -> Object:
    return {
        "apiVersion": _VERSIONS[kind],
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


class _WorkloadObjects:
    """Writes one workload's objects at one moment."""

    def __init__(self, workload: Workload, now: float, seed: int) -> None:
        self.workload = workload
        self.now = now
        self.seed = seed
        self.runs = [run for run in workload.runs if run.start <= now]

    def objects(self) -> Iterator[Object]:
        if self.workload.kind == "HostProcess" or not self.runs:
            return
        if self.workload.kind == "CronJob":
            yield self._cron_job()
        elif self.workload.kind in {"Deployment", "StatefulSet"}:
            yield self._service()
        for run in self.runs:
            yield from self._run(run)

    def _uid(self, kind: str, name: str) -> str:
        return stable_uuid(self.seed, kind, self.workload.namespace, name)

    def _metadata(self, kind: str, name: str, at: float, owner: Object | None = None) -> Object:
        metadata: Object = {
            "name": name,
            "namespace": self.workload.namespace,
            "uid": self._uid(kind, name),
            "creationTimestamp": timestamp(at - _LEAD_SECONDS),
            "labels": dict(self.workload.labels),
        }
        if self.workload.annotations:
            metadata["annotations"] = dict(self.workload.annotations)
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        return metadata

    def _object(
        self, kind: str, name: str, at: float, spec: Object, status: Object,
        *, owner: Object | None = None,
    ) -> Object:  # fmt: skip
        return {
            "apiVersion": _VERSIONS[kind],
            "kind": kind,
            "metadata": self._metadata(kind, name, at, owner),
            "spec": spec,
            "status": status,
        }

    def _container(self, pod: PodRun) -> Object:
        workload = self.workload
        resources = {"cpu": workload.cpu, "memory": workload.memory, **_requests(pod)}
        container: Object = {
            "name": workload.container,
            "image": workload.image,
            "resources": {"requests": resources, "limits": dict(resources)},
        }
        if workload.command:
            container["command"] = list(workload.command)
        if workload.args:
            container["args"] = list(workload.args)
        if workload.env:
            container["env"] = [{"name": key, "value": text} for key, text in workload.env.items()]
        if workload.ports:
            container["ports"] = [{"containerPort": port} for port in workload.ports]
        return container

    def _template(self, pod: PodRun) -> Object:
        return {
            "metadata": {"labels": dict(self.workload.labels)},
            "spec": {"containers": [self._container(pod)]},
        }

    def _latest(self) -> Run:
        return self.runs[-1]

    def _live(self, run: Run) -> bool:
        return run.start <= self.now < run.end

    def _cron_job(self) -> Object:
        latest = self._latest()
        job = {"template": self._template(latest.pods[0]), "backoffLimit": 0}
        return self._object(
            "CronJob",
            self.workload.name,
            self.runs[0].start,
            {"schedule": self.workload.schedule, "jobTemplate": {"spec": job}},
            {"lastScheduleTime": timestamp(latest.start)},
        )

    def _service(self) -> Object:
        latest = self._latest()
        replicas = len(latest.pods) if self._live(latest) else 0
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": dict(self.workload.labels)},
            "template": self._template(latest.pods[0]),
        }
        status = {"replicas": replicas, "readyReplicas": replicas}
        kind = self.workload.kind
        return self._object(kind, self.workload.name, self.runs[0].start, spec, status)

    def _run(self, run: Run) -> Iterator[Object]:
        live, kind = self._live(run), self.workload.kind
        if not live and kind not in _KEEPS_PODS:
            return
        owner = None
        if kind in {"Job", "CronJob", "PyTorchJob"}:
            job = self._job(run)
            yield job
            owner = _reference(job["kind"], run.name, job["metadata"]["uid"])
        elif kind == "Deployment":
            replica_set = self._replica_set(run)
            yield replica_set
            metadata = replica_set["metadata"]
            owner = _reference("ReplicaSet", metadata["name"], metadata["uid"])
        elif kind == "StatefulSet":
            owner = _reference(kind, self.workload.name, self._uid(kind, self.workload.name))
        for pod in run.pods:
            yield self._pod(run, pod, owner, live=live)

    def _job(self, run: Run) -> Object:
        kind = "PyTorchJob" if self.workload.kind == "PyTorchJob" else "Job"
        owner = None
        if self.workload.kind == "CronJob":
            name = self.workload.name
            owner = _reference("CronJob", name, self._uid("CronJob", name))
        spec: Object = {"template": self._template(run.pods[0]), "backoffLimit": 0}
        if kind == "PyTorchJob":
            template, workers = self._template(run.pods[0]), len(run.pods) - 1
            specs = {"Master": {"replicas": 1, "template": template}}
            if workers:
                specs["Worker"] = {"replicas": workers, "template": template}
            spec = {"pytorchReplicaSpecs": specs}
        return self._object(
            kind, run.name, run.start, spec, self._job_status(run, kind), owner=owner
        )

    def _job_status(self, run: Run, kind: str) -> Object:
        status: Object = {"startTime": timestamp(run.start - _LEAD_SECONDS)}
        if self._live(run):
            return status | ({"active": len(run.pods)} if kind == "Job" else {})
        ended, good = timestamp(run.end), run.outcome == "succeeded"
        word = "Failed"
        if good:
            word = "Complete" if kind == "Job" else "Succeeded"
            status["completionTime"] = ended
        if kind == "Job":
            status["succeeded" if good else "failed"] = len(run.pods)
        status["conditions"] = [{"type": word, "status": "True", "lastTransitionTime": ended}]
        return status

    def _replica_set(self, run: Run) -> Object:
        workload = self.workload
        owner = _reference("Deployment", workload.name, self._uid("Deployment", workload.name))
        name, count = f"{workload.name}-{run.token}", len(run.pods)
        spec = {"replicas": count, "template": self._template(run.pods[0])}
        status = {"replicas": count, "readyReplicas": count}
        made = self._object("ReplicaSet", name, run.start, spec, status, owner=owner)
        made["metadata"]["labels"]["pod-template-hash"] = run.token
        return made

    def _pod_labels(self, run: Run, pod: PodRun) -> dict[str, str]:
        kind, labels = self.workload.kind, dict(self.workload.labels)
        if kind == "Deployment":
            labels["pod-template-hash"] = run.token
        elif kind in {"Job", "CronJob"}:
            labels["batch.kubernetes.io/job-name"] = labels["job-name"] = run.name
        elif kind == "PyTorchJob":
            labels["training.kubeflow.org/job-name"] = run.name
            labels["training.kubeflow.org/replica-type"] = "worker" if pod.index else "master"
        elif kind == "StatefulSet":
            labels["statefulset.kubernetes.io/pod-name"] = pod.name
        return labels

    def _pod(self, run: Run, pod: PodRun, owner: Object | None, *, live: bool) -> Object:
        phase, code, reason = _ENDINGS[run.outcome]
        state: Object = {"running": {"startedAt": timestamp(run.start)}}
        if not live:
            state = {
                "terminated": {
                    "exitCode": code,
                    "reason": reason,
                    "startedAt": timestamp(run.start),
                    "finishedAt": timestamp(run.end),
                }
            }
        metadata = self._metadata("Pod", pod.name, run.start, owner)
        metadata["uid"] = pod.uid
        metadata["labels"] = self._pod_labels(run, pod)
        status = {
            "phase": "Running" if live else phase,
            "startTime": timestamp(run.start - 1),
            "containerStatuses": [
                {
                    "name": self.workload.container,
                    "image": self.workload.image,
                    "ready": live,
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        spec: Object = {"nodeName": pod.node, "containers": [self._container(pod)]}
        if self.workload.kind in _KEEPS_PODS:
            spec["restartPolicy"] = "Never"
        return {
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status,
        }  # fmt: skip


def _node_labels(node: Node, gpus: list[Device]) -> dict[str, str]:
    """Labels of the cloud and of GPU Feature Discovery."""
    first = gpus[0]
    major, _, minor = first.model.compute_capability.partition(".")
    driver = [*first.identity.driver_version.split("."), "0", "0"]
    mig = any(gpu.identity.mig_enabled for gpu in gpus)
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": node.instance_type,
        "topology.kubernetes.io/region": node.region,
        "topology.kubernetes.io/zone": node.zone,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": first.model.product + ("-SHARED" if first.replicas > 1 else ""),
        "nvidia.com/gpu.memory": str(first.model.memory_bytes // MIB),
        "nvidia.com/gpu.count": str(len(gpus)),
        "nvidia.com/gpu.replicas": str(first.replicas),
        "nvidia.com/gpu.family": first.model.architecture.lower(),
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.sharing-strategy": {
            Sharing.TIME_SLICING: "time-slicing", Sharing.MPS: "mps",
        }.get(first.sharing, "none"),
        "nvidia.com/cuda.driver.major": driver[0],
        "nvidia.com/cuda.driver.minor": driver[1],
        "nvidia.com/cuda.driver.rev": driver[2],
        "nvidia.com/mig.capable": "true" if first.model.mig_sms_per_slice else "false",
        "nvidia.com/mig.strategy": "mixed" if mig else "single",
    }  # fmt: skip
    for device in node.devices:
        if device.identity.parent_uuid:
            profile = f"nvidia.com/mig-{device.identity.mig_profile}"
            labels[f"{profile}.count"] = str(int(labels.get(f"{profile}.count", "0")) + 1)
            labels[f"{profile}.memory"] = str(device.memory_bytes // MIB)
            labels[f"{profile}.multiprocessors"] = str(device.sms)
    return {key: text for key, text in (labels | node.labels).items() if text}


def node_object(node: Node, now: float, seed: int) -> Object:
    """Return the Node with labels, capacity and conditions."""
    gpus = [device for device in node.devices if not device.identity.parent_uuid]
    capacity = {"cpu": node.cpu, "memory": node.memory, "pods": "110"}
    for device in node.devices:
        if not device.identity.mig_enabled:
            name = resource_name(device)
            capacity[name] = str(int(capacity.get(name, "0")) + device.replicas)
    spec: Object = {"providerID": f"simulated://{node.name}"}
    if node.unschedulable:
        spec["unschedulable"] = True
    if node.taints:
        spec["taints"] = [{"key": key, "effect": "NoSchedule"} for key in node.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": stable_uuid(seed, "Node", node.name),
            "creationTimestamp": timestamp(now - _NODE_AGE_SECONDS),
            "labels": _node_labels(node, gpus),
        },
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def cluster_objects(
    nodes: Iterable[Node], workloads: Iterable[Workload], now: float, seed: int
) -> list[Object]:
    """Return every object of the cluster at ``now`` (Unix time), nodes first."""
    objects = [node_object(node, now, seed) for node in nodes]
    for workload in workloads:
        objects.extend(_WorkloadObjects(workload, now, seed).objects())
    return objects
