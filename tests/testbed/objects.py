"""Kubernetes objects for tests: GPU nodes as GPU feature discovery labels them, and pods."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

#: Annotations that stages.yaml reads; see there.
ANNOTATION = "testbed.gputailor.io/"


def gpu_node(
    name: str,
    gpus: int = 8,
    product: str = "NVIDIA-A100-SXM4-80GB",
    memory_mib: int = 81_920,
    instance_type: str = "p4de.24xlarge",
    *,
    mig: Mapping[str, int] | None = None,
    unhealthy: int = 0,
    cpu: int = 96,
    ram_gib: int = 1_152,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    cordoned: bool = False,
) -> dict[str, Any]:
    """A node with whole GPUs and, under the mixed strategy, MIG slices.

    Args:
        name: The node's name.
        gpus: Whole GPUs in its capacity.
        product: Value of ``nvidia.com/gpu.product``.
        memory_mib: Memory of one GPU in MiB, as the label carries it.
        instance_type: Value of ``node.kubernetes.io/instance-type``; '' for none.
        mig: Slices by profile beside the whole GPUs, e.g. ``{"1g.10gb": 7}``.
        unhealthy: Whole GPUs in the capacity that are not allocatable.
        cpu: Cores.
        ram_gib: Memory of the node in GiB.
        labels: More labels; they win.
        taints: As in ``spec.taints``.
        cordoned: Whether nothing may be scheduled on it.
    """
    slices = {f"nvidia.com/mig-{profile}": count for profile, count in (mig or {}).items()}
    capacity = {
        "cpu": str(cpu),
        "memory": f"{ram_gib}Gi",
        "pods": "110",
        "nvidia.com/gpu": str(gpus),
        **{resource: str(count) for resource, count in slices.items()},
    }
    found = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "us-east-1",
        "topology.kubernetes.io/zone": "us-east-1a",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": str(memory_mib),
        "nvidia.com/gpu.count": str(gpus + (1 if slices and not gpus else 0)),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.strategy": "mixed" if slices else "none",
        **{f"{resource}.count": str(count) for resource, count in slices.items()},
        **{f"{resource}.product": f"{product}-MIG-{resource[15:]}" for resource in slices},
        **({"node.kubernetes.io/instance-type": instance_type} if instance_type else {}),
        **(labels or {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": found},
        "spec": {
            "providerID": f"kwok://{name}",
            "taints": list(taints),
            "unschedulable": cordoned,
        },
        "status": {
            "capacity": capacity,
            "allocatable": {**capacity, "nvidia.com/gpu": str(gpus - unhealthy)},
        },
    }


def pod_template(
    gpus: int = 1,
    *,
    resource: str = "nvidia.com/gpu",
    image: str = "pytorch/pytorch:2.6.0-cuda12.6-cudnn9-runtime",
    command: Sequence[str] = ("python", "train.py"),
    labels: Mapping[str, str] | None = None,
    restart_policy: str = "Always",
    annotations: Mapping[str, str] | None = None,
    **played: str,
) -> dict[str, Any]:
    """Metadata and spec of a pod with one container ``main`` that asks for ``gpus``.

    What kwok plays is said by keywords: ``completes_after="3s"``, ``fails_after``,
    ``restarts_after``, ``starts_after``, ``exit_code="137"``, ``reason="OOMKilled"``.
    """
    plays = {f"{ANNOTATION}{name.replace('_', '-')}": value for name, value in played.items()}
    limits = {resource: str(gpus)} if gpus else {}
    container: dict[str, Any] = {
        "name": "main",
        "image": image,
        "command": list(command),
        "resources": {"limits": limits, "requests": {"cpu": "4", "memory": "16Gi", **limits}},
    }
    return {
        "metadata": {
            "labels": dict(labels or {}),
            "annotations": {**plays, **(annotations or {})},
        },
        "spec": {
            "restartPolicy": restart_policy,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def pod(
    name: str,
    gpus: int = 1,
    *,
    owner: Mapping[str, Any] | None = None,
    **template: Any,
) -> dict[str, Any]:
    """A bare pod, or one that ``owner`` (an object of the API server, with its uid) controls."""
    made = pod_template(gpus, **template)
    made["metadata"]["name"] = name
    if owner is not None:
        made["metadata"]["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", **made}


def owner_reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """How a pod names the object that controls it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def deployment(name: str, replicas: int = 1, gpus: int = 1, **template: Any) -> dict[str, Any]:
    """A Deployment whose pods ask for ``gpus`` each."""
    labels = {"app.kubernetes.io/name": name, **template.pop("labels", {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": pod_template(gpus, labels=labels, **template),
        },
    }


def job_spec(gpus: int = 1, **template: Any) -> dict[str, Any]:
    """Spec of a Job of one pod, tried once."""
    template.setdefault("restart_policy", "Never")
    return {"backoffLimit": 0, "template": pod_template(gpus, **template)}


def job(name: str, gpus: int = 1, **template: Any) -> dict[str, Any]:
    """A Job of one pod."""
    spec = job_spec(gpus, **template)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def cron_job(
    name: str, gpus: int = 1, schedule: str = "0 3 * * *", **template: Any
) -> dict[str, Any]:
    """A CronJob; ``kubectl create job --from=cronjob/NAME RUN`` starts a run of it at once."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job_spec(gpus, **template)}},
    }


def custom_definition(
    kind: str,
    group: str = "kubeflow.org",
    *versions: str,
    plural: str = "",
    scope: str = "Namespaced",
) -> dict[str, Any]:
    """Definition of a custom resource with free spec and status, e.g. PyTorchJob.

    ``versions`` are all served (``v1`` where none is given), the first one is stored.
    """
    plural = plural or f"{kind.lower()}s"
    # Groups below k8s.io are the project's own: without a word about them none is taken.
    unapproved = {"api-approved.kubernetes.io": "unapproved, test bed only"}
    annotations = unapproved if group.endswith(".k8s.io") else {}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": annotations},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": place == 0,
                    "schema": {"openAPIV3Schema": schema},
                }
                for place, version in enumerate(versions or ("v1",))
            ],
        },
    }


def owner_definitions() -> list[dict[str, Any]]:
    """Free definitions of every custom resource in definitions.yaml."""
    rows = yaml.safe_load(Path(__file__).with_name("definitions.yaml").read_text("utf-8"))
    return [
        custom_definition(
            row["kind"],
            row["group"],
            *row.get("versions", ()),
            plural=row.get("plural", ""),
            scope=row.get("scope", "Namespaced"),
        )
        for row in rows
    ]
