"""Objects of a large cluster, as large as real ones: with all that admission and kubelet write."""

from typing import Any

GPUS_PER_NODE = 8
NAMESPACES = 20
SINCE = "2026-11-20T08:00:00Z"
ENDED = "2026-11-30T06:00:00Z"


def namespace(place: int) -> str:
    return f"team-{place // 5 % NAMESPACES}"


def uid(place: int, kind: int = 1) -> str:
    return f"{place:08x}-{kind:04x}-4d1e-9a57-0123456789ab"


def meta(name: str, place: int, kind: int, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": namespace(place),
        "uid": uid(place, kind),
        "resourceVersion": "1",
        "creationTimestamp": SINCE,
        **more,
    }


def owned_by(kind: str, name: str, owner_uid: str) -> list[dict[str, Any]]:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    said = {"controller": True, "blockOwnerDeletion": True}
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": owner_uid, **said}]


def _managed(manager: str, *paths: str, subresource: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for path in paths:
        part = fields
        for name in path.split(" "):
            part = part.setdefault(name, {})
    kept = {"subresource": subresource} if subresource else {}
    written = {"apiVersion": "v1", "fieldsType": "FieldsV1", "operation": "Update"}
    return {"manager": manager, "time": SINCE, "fieldsV1": fields, **written, **kept}


_CONTAINER = 'f:spec f:containers k:{"name":"main"}'
_WRITTEN = ("f:image", "f:imagePullPolicy", "f:name", "f:command", "f:args", "f:env", "f:ports")
_MOUNTED = ("f:resources f:limits", "f:resources f:requests", "f:volumeMounts", "f:livenessProbe")
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_STATUS = ("f:containerStatuses", "f:hostIP", "f:hostIPs", "f:phase", "f:podIP", "f:startTime")
MANAGED = [
    _managed(
        "kube-controller-manager",
        *(f"f:metadata {one}" for one in ("f:generateName", "f:labels f:app", "f:ownerReferences")),
        *(f"{_CONTAINER} {one}" for one in (*_WRITTEN, *_MOUNTED, "f:readinessProbe")),
        *(f'{_CONTAINER} f:env k:{{"name":"OPTION_{n}"}} f:value' for n in range(8)),
        *(f"f:spec {one}" for one in ("f:dnsPolicy", "f:restartPolicy", "f:schedulerName")),
        *(f'f:spec f:volumes k:{{"name":"{one}"}} f:emptyDir' for one in ("shm", "scratch")),
    ),
    _managed(
        "kubelet",
        *(
            f'f:status f:conditions k:{{"type":"{one}"}} {field}'
            for one in _CONDITIONS
            for field in ("f:lastProbeTime", "f:lastTransitionTime", "f:status", "f:type")
        ),
        *(f"f:status {one}" for one in _STATUS),
        subresource="status",
    ),
]


def _container(gpus: int, node: int) -> dict[str, Any]:
    limits = {"cpu": "16", "memory": "128Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    probe = {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}, "periodSeconds": 10}
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}
    return {
        "name": "main",
        "image": "registry.example.org/platform/team/serving-runtime:2026.11.3-cuda13",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "vllm.entrypoints.openai.api_server"],
        "args": ["--model", "example/llm-8b", "--max-model-len", "8192", "--port", "8000"],
        "env": [
            {"name": "POD_IP", "valueFrom": field},
            {"name": "NODE_RANK", "value": str(node)},
            *({"name": f"OPTION_{n}", "value": "true"} for n in range(8)),
        ],
        "ports": [{"containerPort": 8000, "name": "http", "protocol": "TCP"}],
        "resources": {"limits": limits, "requests": limits},
        "livenessProbe": {**probe, "failureThreshold": 3, "timeoutSeconds": 1},
        "readinessProbe": {**probe, "failureThreshold": 3, "timeoutSeconds": 1},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "scratch", "mountPath": "/scratch"},
            {
                "name": "kube-api-access-x2m4v",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": True,
            },
        ],
    }


def _projected() -> dict[str, Any]:
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", **field}]}},
    ]
    return {
        "name": "kube-api-access-x2m4v",
        "projected": {"defaultMode": 420, "sources": sources},
    }


def _spec(gpus: int, node: int | None) -> dict[str, Any]:
    tolerated = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return {
        **({} if node is None else {"nodeName": f"node-{node}"}),
        "containers": [_container(gpus, node or 0)],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {"fsGroup": 1000, "runAsUser": 1000},
        "serviceAccount": "runner",
        "serviceAccountName": "runner",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            *(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in tolerated
            ),
        ],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            {"name": "scratch", "emptyDir": {}},
            _projected(),
        ],
    }


def _status(phase: str, place: int) -> dict[str, Any]:
    def condition(kind: str) -> dict[str, Any]:
        said = "False" if phase == "Pending" and kind != "PodScheduled" else "True"
        return {"type": kind, "status": said, "lastProbeTime": None, "lastTransitionTime": SINCE}

    state: dict[str, Any] = {"running": {"startedAt": SINCE}}
    if phase == "Succeeded":
        ends = {"exitCode": 0, "reason": "Completed", "startedAt": SINCE, "finishedAt": ENDED}
        state = {"terminated": ends}
    digest = f"{place:064x}"
    container = {
        "name": "main",
        "containerID": f"containerd://{digest}",
        "image": "registry.example.org/platform/team/serving-runtime:2026.11.3-cuda13",
        "imageID": f"registry.example.org/platform/team/serving-runtime@sha256:{digest}",
        "lastState": {},
        "ready": phase == "Running",
        "restartCount": 0,
        "started": phase == "Running",
        "state": state,
    }
    address = f"10.{place >> 16 & 255}.{place >> 8 & 255}.{place & 255}"
    return {
        "phase": phase,
        "conditions": [condition(one) for one in (*_CONDITIONS, "PodScheduled")],
        "containerStatuses": [container] if phase != "Pending" else [],
        "hostIP": "10.0.0.7",
        "hostIPs": [{"ip": "10.0.0.7"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "Guaranteed",
        "startTime": SINCE,
    }


def pod_object(
    name: str,
    place: int,
    *,
    node: int | None,
    gpus: int,
    owner: list[dict[str, Any]],
    phase: str,
) -> dict[str, Any]:
    labels = {
        "app": owner[0]["name"],
        "app.kubernetes.io/managed-by": "helm",
        "app.kubernetes.io/part-of": "platform",
        "pod-template-hash": "6f9c",
        "team": namespace(place),
    }
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8000",
        "kubectl.kubernetes.io/restartedAt": SINCE,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            name,
            place,
            1,
            generateName=name[:-5],
            labels=labels,
            annotations=annotations,
            ownerReferences=owner,
            managedFields=MANAGED,
        ),
        "spec": _spec(gpus, node),
        "status": _status(phase, place),
    }


def _controller(kind: str, name: str, place: int, number: int, **more: Any) -> dict[str, Any]:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    template = {"metadata": {"labels": {"app": name}}, "spec": _spec(1, None)}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": meta(name, place, number, managedFields=MANAGED, **more),
        "spec": {"template": template},
    }


def replica_set(number: int) -> dict[str, Any]:
    above = owned_by("Deployment", f"svc-{number}", uid(number, 3))
    # its place is that of its first pod, so that they share a namespace
    made = _controller("ReplicaSet", f"svc-{number}-6f9c", number * 5, 2, ownerReferences=above)
    made["metadata"]["uid"] = uid(number, 2)
    return made


def deployment(number: int) -> dict[str, Any]:
    made = _controller("Deployment", f"svc-{number}", number * 5, 3)
    made["metadata"]["uid"] = uid(number, 3)
    return made


def job(place: int) -> dict[str, Any]:
    return _controller("Job", f"job-{place}", place, 4)


def node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "192", "memory": "2113393212Ki", "pods": "110", "nvidia.com/gpu": "8"}
    found = {f"feature.node.kubernetes.io/cpu-cpuid.FLAG{n}": "true" for n in range(40)}
    labels = {
        **found,
        "kubernetes.io/hostname": f"node-{number}",
        "node.kubernetes.io/instance-type": "p4de.24xlarge",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.count": "8",
        "topology.kubernetes.io/zone": "eu-1a",
    }
    images = [
        {"names": [f"registry.example.org/image-{n}@sha256:{n:064x}"], "sizeBytes": 10**9 + n}
        for n in range(50)
    ]
    address = f"10.0.{number >> 8}.{number & 255}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "uid": uid(number, 6), "labels": labels},
        "spec": {"podCIDR": "10.244.0.0/24"},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": f"node-{number}"},
            ],
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}],
            "images": images,
        },
    }
