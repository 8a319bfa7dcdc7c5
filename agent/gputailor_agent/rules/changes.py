"""Patches and commands a person can apply, by the kind of the root owner.

A patch is a YAML strategic-merge patch. Kinds outside Kubernetes' own (PyTorchJob, RayJob, …) know
no strategic merge, and a Job's template never changes: for these the patch shows what to write into
the manifest, and the change says that the object has to be made again.
"""

from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import Change, Scalar
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import Context

_TEMPLATE: Final = ("spec", "template")
_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PyTorchJob": ("spec", "pytorchReplicaSpecs", "Worker", "template"),
    "TFJob": ("spec", "tfReplicaSpecs", "Worker", "template"),
    "MPIJob": ("spec", "mpiReplicaSpecs", "Worker", "template"),
    "XGBoostJob": ("spec", "xgbReplicaSpecs", "Worker", "template"),
    "PaddleJob": ("spec", "paddleReplicaSpecs", "Worker", "template"),
    "Pod": (),
}
_PATCHABLE: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "CronJob"})
_SCALABLE: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})
#: Kinds that keep their former templates.
_REVISED: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
_KUBEFLOW: Final = frozenset({"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob"})
#: What the NVIDIA device plugin calls a card's model, and AMD's node labeller.
_PRODUCT_LABEL: Final = {"nvidia": "nvidia.com/gpu.product", "amd": "amd.com/gpu.product-name"}


#: libyaml's writer where it is there: a patch per finding adds up over a large cluster.
_DUMPER: Final = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


def as_yaml(document: dict[str, Any]) -> str:
    """Write a patch or manifest; nothing for an empty one."""
    return _written(msgspec.json.encode(document)) if document else ""


@lru_cache(maxsize=4096)
def _written(document: bytes) -> str:
    """The YAML of a JSON document; of many workloads it is the same, and writing it is slow."""
    return yaml.dump(
        msgspec.json.decode(document), Dumper=_DUMPER, sort_keys=False, default_flow_style=False
    )


def _nested(path: tuple[str, ...], inner: dict[str, Any]) -> dict[str, Any]:
    for name in reversed(path):
        inner = {name: inner}
    return inner


def target_of(workload: Workload) -> str:
    """Kind, namespace and name, as people write them."""
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def _live_owners(profile: Profile, context: Context, kind: str) -> list[str]:
    """Names of the objects of ``kind`` behind the pods that hold devices now.

    A workload of many runs has the name they share; kubectl needs that of the run.
    """
    names: set[str] = set()
    for use in context.holdings.live_uses(profile.gpus, profile.window):
        pod = context.holdings.find(use.namespace, use.pod, use.pod_uid)
        waiting = list(pod.owners) if pod is not None else []
        walked: set[str] = set()
        while waiting:
            owner = waiting.pop()
            if owner.kind == kind:
                names.add(owner.name)
            elif owner.uid not in walked:
                walked.add(owner.uid)
                waiting += context.owners.get(owner.uid, ())
    return sorted(names)


def _live_pods(profile: Profile, context: Context) -> list[str]:
    uses = context.holdings.live_uses(profile.gpus, profile.window)
    return sorted({use.pod for use in uses if use.pod})


def _delete(kubectl: str, kind: str, names: list[str]) -> str:
    return f"{kubectl} delete {' '.join(f'{kind.lower()}/{name}' for name in names)}"


def release(profile: Profile, context: Context) -> Change:
    """Give all devices back: scale to 0, suspend, or delete what cannot be scaled."""
    workload = profile.workload
    kubectl = f"kubectl -n {workload.namespace}"
    patch: dict[str, Any] = {}
    command = ""
    live = _live_owners(profile, context, workload.kind)
    if workload.kind in _SCALABLE:
        patch = {"spec": {"replicas": 0}}
        command = f"{kubectl} scale {workload.kind.lower()}/{workload.name} --replicas=0"
    elif workload.kind in {"Job", "CronJob"}:
        patch = {"spec": {"suspend": True}}
        jobs = _live_owners(profile, context, "Job")
        if workload.kind == "Job":
            jobs = jobs or [workload.name]
        if jobs:
            command = _delete(kubectl, "job", jobs)
        else:
            command = (
                f'{kubectl} patch cronjob/{workload.name} -p \'{{"spec":{{"suspend":true}}}}\''
            )
    elif workload.kind in _KUBEFLOW:
        patch = {"spec": {"runPolicy": {"suspend": True}}}
        command = _delete(kubectl, workload.kind, live or [workload.name])
    elif workload.kind == "Notebook":
        patch = {"metadata": {"annotations": {"kubeflow-resource-stopped": "gputailor"}}}
        command = f"{kubectl} annotate notebook/{workload.name} kubeflow-resource-stopped=gputailor"
    elif workload.kind == "Pod":
        pods = _live_pods(profile, context) or [workload.name]
        command = _delete(kubectl, "pod", pods)
    elif workload.kind != "DaemonSet":
        command = _delete(kubectl, workload.kind, live or [workload.name])
    return Change(kind="release", target=target_of(workload), patch=as_yaml(patch), command=command)


def set_replicas(profile: Profile, replicas: int) -> Change:
    """Run fewer pods of the same kind."""
    workload = profile.workload
    command = ""
    if workload.kind in _SCALABLE:
        command = (
            f"kubectl -n {workload.namespace} scale "
            f"{workload.kind.lower()}/{workload.name} --replicas={replicas}"
        )
    return Change(
        kind="set_replicas",
        target=target_of(workload),
        patch=as_yaml({"spec": {"replicas": replicas}}) if workload.kind in _SCALABLE else "",
        command=command,
        params={"replicas": replicas, "replicas_now": profile.pods_now},
        undo=command.replace(f"={replicas}", f"={profile.pods_now}"),
    )


def template_change(
    workload: Workload, kind: str, pod_spec: dict[str, Any], params: dict[str, Scalar]
) -> Change:
    """Return a change of the pods' template: ``pod_spec`` is what it says of ``spec``."""
    path = _TEMPLATES.get(workload.kind, _TEMPLATE)
    patch = as_yaml(_nested((*path, "spec"), pod_spec))
    in_place = workload.kind in _PATCHABLE
    kubectl = f"kubectl -n {workload.namespace}"
    if in_place:
        command = f"{kubectl} patch {workload.kind.lower()}/{workload.name} --patch-file PATCH.yaml"
    else:
        command = f"{kubectl} replace --force -f MANIFEST.yaml"
    return Change(
        kind=kind,
        target=target_of(workload),
        patch=patch,
        command=command,
        params={**params, "recreate": not in_place},
        undo=_undo(workload),
    )


def _undo(workload: Workload) -> str:
    if workload.kind in _REVISED:
        return (
            f"kubectl -n {workload.namespace} rollout undo {workload.kind.lower()}/{workload.name}"
        )
    return "apply the manifest as it was before"


def resource_of(workload: Workload) -> str:
    """Return the extended resource the workload asks for; NVIDIA's where it is not known."""
    for request in workload.gpu_requests:
        if request.kind != "other":
            return request.resource
    return "nvidia.com/gpu"


def set_gpus(profile: Profile, gpus: int) -> Change:
    """Ask for fewer GPUs per pod."""
    workload = profile.workload
    amounts = {resource_of(workload): gpus}
    pod_spec = {
        "containers": [
            {
                "name": workload.container,
                "resources": {"limits": amounts, "requests": dict(amounts)},
            }
        ]
    }
    params: dict[str, Scalar] = {"gpus": gpus, "gpus_now": profile.gpus_per_pod}
    return template_change(workload, "set_gpus", pod_spec, params)


def set_gpu_type(profile: Profile, model: str, product: str, vendor: str, mig: str) -> Change:
    """Ask for another card (by ``product``, the node label's value) or for a MIG slice."""
    workload = profile.workload
    pod_spec: dict[str, Any] = {}
    label = _PRODUCT_LABEL.get(vendor.lower())
    if product and label and not mig:
        pod_spec["nodeSelector"] = {label: product}
    if mig:
        count = max(1, round(profile.gpus_per_pod))
        amounts: dict[str, int | None] = {
            resource_of(workload): None,
            f"nvidia.com/mig-{mig}": count,
        }
        pod_spec["containers"] = [
            {
                "name": workload.container,
                "resources": {"limits": amounts, "requests": dict(amounts)},
            }
        ]
    params: dict[str, Scalar] = {"model": model, "mig_profile": mig}
    if not pod_spec:
        return Change(kind="set_gpu_type", target=target_of(workload), params=params)
    return template_change(workload, "set_gpu_type", pod_spec, params)


def set_cpu_limit(profile: Profile, cpus: float, cpus_now: float) -> Change:
    """Give the container more CPUs (cores); the request follows, so that it really gets them."""
    workload = profile.workload
    amounts = {"cpu": f"{cpus:g}"}
    pod_spec = {
        "containers": [
            {
                "name": workload.container,
                "resources": {"limits": amounts, "requests": dict(amounts)},
            }
        ]
    }
    params: dict[str, Scalar] = {"cpus": cpus, "cpus_now": cpus_now}
    return template_change(workload, "set_cpu_limit", pod_spec, params)


def set_requests(
    profile: Profile, cpus: float | None, memory_gib: int | None, links: tuple[str, ...]
) -> Change:
    """Ask for less CPU (cores) and memory (GiB); None leaves what is. Limits stay as they are."""
    amounts: dict[str, str] = {}
    if cpus is not None:
        amounts["cpu"] = f"{cpus:g}"
    if memory_gib is not None:
        amounts["memory"] = f"{memory_gib}Gi"
    container = {"name": profile.workload.container, "resources": {"requests": amounts}}
    params: dict[str, Scalar] = {"cpus": cpus, "memory_gib": memory_gib}
    change = template_change(profile.workload, "set_requests", {"containers": [container]}, params)
    return msgspec.structs.replace(change, links=links)


def set_time_limit(
    profile: Profile, seconds: int, seconds_now: float, links: tuple[str, ...]
) -> Change:
    """End runs after so many seconds; only the kinds that have such a field get a patch."""
    workload = profile.workload
    limit: dict[str, Any] = {"activeDeadlineSeconds": seconds}
    path = {"Job": ("spec",), "Pod": ("spec",), "CronJob": ("spec", "jobTemplate", "spec")}
    where = path.get(workload.kind) or (
        ("spec", "runPolicy") if workload.kind in _KUBEFLOW else None
    )
    command = f"kubectl -n {workload.namespace} apply -f MANIFEST.yaml" if where else ""
    if workload.kind == "CronJob":
        command = (
            f"kubectl -n {workload.namespace} patch cronjob/{workload.name} --patch-file PATCH.yaml"
        )
    return Change(
        kind="set_time_limit",
        target=target_of(workload),
        patch=as_yaml(_nested(where, limit)) if where else "",
        command=command,
        params={"seconds": seconds, "seconds_now": seconds_now},
        links=links,
        undo="apply the manifest as it was before",
    )


def cordon(nodes: tuple[str, ...], code: str, links: tuple[str, ...]) -> Change:
    """Let no new pod come to these nodes until somebody has looked; ``code``: how to look."""
    return Change(
        kind="repair_node",
        target=f"Node {', '.join(nodes)}",
        command=f"kubectl cordon {' '.join(nodes)}" if nodes else "",
        params={"nodes": ", ".join(nodes)},
        code=code,
        links=links,
        undo=f"kubectl uncordon {' '.join(nodes)}" if nodes else "nothing was changed",
    )


def mount_shared_memory(profile: Profile, gib: int) -> Change:
    """Mount ``gib`` GiB of memory at /dev/shm, which is 64 MiB in a pod that says nothing."""
    workload = profile.workload
    pod_spec = {
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{gib}Gi"}}],
        "containers": [
            {
                "name": workload.container,
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - a mount path
            }
        ],
    }
    return template_change(workload, "mount_shared_memory", pod_spec, {"gib": gib})


def select_nodes(
    profile: Profile, kind: str, labels: dict[str, str], params: dict[str, Scalar]
) -> Change:
    """Let the pods run only on nodes with these labels."""
    return template_change(profile.workload, kind, {"nodeSelector": labels}, params)
