"""Small stand-ins for operators: they make what each operator's own controller makes of its object.

Written from the operators' documentation, not from what the program under test does: which objects
stand between a custom resource and its pods, their names, labels and owner references. What a
built-in controller makes of those (Deployment, StatefulSet, Job) is left to the real one.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import httpx

from gputailor_agent.model.trust import trusting
from tests.testbed.control_plane import ControlPlane
from tests.testbed.objects import owner_reference

Object = dict[str, Any]
MADE_UP_IMAGE = "example.com/left-out:1"
#: KServe's own servers, by the predictor's key or model format (its ClusterServingRuntimes).
SERVERS = {
    "pytorch": "pytorch/torchserve-kfs:0.9.0-gpu",
    "tensorflow": "tensorflow/serving:2.6.2-gpu",
    "huggingface": "kserve/huggingfaceserver:latest-gpu",
}


class Refused(Exception):  # noqa: N818 - a word of the tests, no fault of theirs
    """The API server did not take an object."""


class Poster:
    """Creates objects by HTTP, without kubectl's own checks, one connection for all."""

    def __init__(self, plane: ControlPlane) -> None:
        trusted = trusting(plane.ca)
        token = plane.identity.tokens["admin"]
        self._http = httpx.Client(
            base_url=plane.url,
            verify=trusted,
            trust_env=False,
            timeout=30,
            headers={"Authorization": f"Bearer {token}"},
        )
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}

    def close(self) -> None:
        self._http.close()

    def _kind(self, version: str, kind: str) -> tuple[str, bool]:
        """Plural of a kind and whether it is namespaced, as the server says."""
        if version not in self._kinds:
            answer = self._http.get(_group_path(version))
            resources = answer.json().get("resources", []) if answer.is_success else []
            self._kinds[version] = {
                one["kind"]: (one["name"], one["namespaced"])
                for one in resources
                if "/" not in one["name"]
            }
        if kind not in self._kinds[version]:
            raise Refused(f"{version} {kind} is not served")
        return self._kinds[version][kind]

    def path(self, body: Mapping[str, Any], namespace: str) -> str:
        plural, namespaced = self._kind(body["apiVersion"], body["kind"])
        place = f"/namespaces/{namespace}" if namespaced else ""
        return f"{_group_path(body['apiVersion'])}{place}/{plural}"

    def create(self, body: Mapping[str, Any], namespace: str) -> Object:
        """The object as the server has it now; Refused with its words."""
        path = self.path(body, namespace)
        metadata = {k: v for k, v in body["metadata"].items() if k != "namespace"}
        answer = self._http.post(path, json={**body, "metadata": metadata})
        if answer.status_code == httpx.codes.CONFLICT:  # cluster-wide and already there
            answer = self._http.get(f"{path}/{metadata['name']}")
        if not answer.is_success:
            raise Refused(answer.json().get("message", answer.text))
        made: Object = answer.json()
        return made

    def list(self, path: str) -> list[Object]:
        found: list[Object] = self._http.get(path).json()["items"]
        return found


def _group_path(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _template(template: Mapping[str, Any], **labels: str) -> Object:
    """A pod template with an image everywhere, as admission of the operators adds it."""
    made = copy.deepcopy(dict(template))
    metadata = made.get("metadata") or {}
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    spec = made["spec"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        container.setdefault("image", MADE_UP_IMAGE)
    return {"metadata": {k: v for k, v in metadata.items() if k != "namespace"}, "spec": spec}


class _Workers(NamedTuple):
    """Workers of a leader-worker set that wait for their leaders; shape: groups and their size."""

    name: str
    template: Mapping[str, Any]
    shape: tuple[int, int]
    labels: Mapping[str, str]
    namespace: str


class Makers:
    """Makes the children of one object after another."""

    def __init__(self, poster: Poster) -> None:
        self._poster = poster
        self.refused: list[str] = []
        self._waiting: list[_Workers] = []

    def make(self, owner: Object, namespace: str) -> None:
        """What the operator of this kind would create; nothing for kinds the server runs itself."""
        key = owner["kind"], owner["apiVersion"].partition("/")[0]
        maker: Callable[[Object, str], None] | None = {
            ("PyTorchJob", "kubeflow.org"): self._replicas,
            ("TFJob", "kubeflow.org"): self._replicas,
            ("MPIJob", "kubeflow.org"): self._replicas,
            ("AscendJob", "mindxdl.gitee.com"): self._replicas,
            ("HyperPodPyTorchJob", "sagemaker.amazonaws.com"): self._replicas,
            ("AdaptDLJob", "adaptdl.petuum.com"): self._replicas,
            ("Job", "batch.volcano.sh"): self._replicas,
            ("JobSet", "jobset.x-k8s.io"): self._job_set,
            ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): self._leader_worker_set,
            ("RayCluster", "ray.io"): self._ray_cluster,
            ("RayJob", "ray.io"): self._ray_parent,
            ("RayService", "ray.io"): self._ray_parent,
            ("InferenceService", "serving.kserve.io"): self._inference_service,
            ("LLMInferenceService", "serving.kserve.io"): self._llm_inference_service,
            ("VLLMRuntime", "production-stack.vllm.ai"): self._vllm_runtime,
        }.get(key)
        if maker is not None:
            maker(owner, namespace)

    def _create(self, owner: Object, body: Object, namespace: str) -> Object | None:
        body["metadata"]["ownerReferences"] = [owner_reference(owner)]
        try:
            return self._poster.create(body, namespace)
        except Refused as error:
            self.refused.append(str(error))
            return None

    def _pods(
        self, owner: Object, name: str, template: Mapping[str, Any], count: int, namespace: str
    ) -> None:
        for number in range(count):
            made = _template(template)
            made["metadata"]["name"] = f"{name}-{number}"
            self._create(owner, {"apiVersion": "v1", "kind": "Pod", **made}, namespace)

    def _replicas(self, owner: Object, namespace: str) -> None:
        """Pods straight below the object: training operators, Volcano, MindCluster, AdaptDL."""
        for role, copies, template in _replica_specs(owner["spec"]):
            name = f"{owner['metadata']['name']}-{role.lower()}"
            self._pods(owner, name, template, copies, namespace)

    def _job_set(self, owner: Object, namespace: str) -> None:
        name = owner["metadata"]["name"]
        for replicated in owner["spec"]["replicatedJobs"]:
            for number in range(int(replicated.get("replicas", 1))):
                spec = copy.deepcopy(replicated["template"]["spec"])
                labels = {"jobset.sigs.k8s.io/jobset-name": name}
                spec["template"] = _template(spec["template"], **labels)
                spec["template"]["spec"].setdefault("restartPolicy", "OnFailure")
                job = {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": f"{name}-{replicated['name']}-{number}", "labels": labels},
                    "spec": {**spec, "completionMode": "Indexed"},
                }
                self._create(owner, job, namespace)

    def _leader_worker_set(self, owner: Object, namespace: str) -> None:
        spec = owner["spec"]
        shape = spec["leaderWorkerTemplate"]
        leader = shape.get("leaderTemplate") or shape["workerTemplate"]
        self._groups(
            owner,
            (leader, shape["workerTemplate"]),
            (int(spec.get("replicas", 1)), int(shape.get("size", 1))),
            namespace,
        )

    def _groups(
        self,
        owner: Object,
        templates: tuple[Mapping[str, Any], Mapping[str, Any]],
        shape: tuple[int, int],
        namespace: str,
    ) -> None:
        """Leaders in a StatefulSet; each leader pod owns a StatefulSet of workers."""
        name = owner["metadata"]["name"]
        labels = {"leaderworkerset.sigs.k8s.io/name": name}
        self._create(owner, _stateful_set(name, templates[0], shape[0], labels), namespace)
        # The leaders come from the real controller; what they own has to wait for their uids.
        self._waiting.append(_Workers(name, templates[1], shape, labels, namespace))

    def workers(self) -> bool:
        """Make the workers of leaders that are there by now; whether none is waited for."""
        for one in [*self._waiting]:
            pods = self._poster.list(f"/api/v1/namespaces/{one.namespace}/pods")
            named = {pod["metadata"]["name"]: pod for pod in pods}
            leaders = [named.get(f"{one.name}-{number}") for number in range(one.shape[0])]
            if None in leaders:
                continue
            self._waiting.remove(one)
            for leader in filter(None, leaders):
                name = leader["metadata"]["name"]
                body = _stateful_set(name, one.template, one.shape[1] - 1, one.labels)
                self._create({"apiVersion": "v1", "kind": "Pod", **leader}, body, one.namespace)
        return not self._waiting

    def _ray_cluster(self, owner: Object, namespace: str) -> None:
        spec, name = owner["spec"], owner["metadata"]["name"]
        self._pods(owner, f"{name}-head", spec["headGroupSpec"]["template"], 1, namespace)
        for group in spec.get("workerGroupSpecs") or ():
            copies = int(group.get("replicas", group.get("minReplicas", 0)))
            copies *= int(group.get("numOfHosts", 1))
            where = f"{name}-{group['groupName']}-worker"
            self._pods(owner, where, group["template"], copies, namespace)

    def _ray_parent(self, owner: Object, namespace: str) -> None:
        spec = owner["spec"].get("rayClusterSpec") or owner["spec"]["rayClusterConfig"]
        cluster = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": f"{owner['metadata']['name']}-zk4xb"},
            "spec": spec,
        }
        made = self._create(owner, cluster, namespace)
        if made is not None:
            self._ray_cluster(made, namespace)

    def _deployment(
        self, owner: Object, name: str, template: Mapping[str, Any], copies: int, namespace: str
    ) -> None:
        labels = {"app": name}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": copies,
                "selector": {"matchLabels": labels},
                "template": _template(template, **labels),
            },
        }
        self._create(owner, body, namespace)

    def _inference_service(self, owner: Object, namespace: str) -> None:
        predictor = owner["spec"]["predictor"]
        key = next(one for one in ("model", *SERVERS) if one in predictor)
        model = predictor[key]
        server = model.get("modelFormat", {}).get("name", key)
        container = {
            "name": "kserve-container",
            "image": SERVERS[server],
            "args": model.get("args", []),
            "resources": model["resources"],
        }
        template = {"spec": {"containers": [container]}}
        # Scaled to zero it has none; while somebody asks it has one.
        copies = max(1, int(predictor.get("minReplicas", 1)))
        name = f"{owner['metadata']['name']}-predictor"
        self._deployment(owner, name, template, copies, namespace)

    def _llm_inference_service(self, owner: Object, namespace: str) -> None:
        """One leader-worker set per role where there are workers, else a Deployment."""
        spec, name = owner["spec"], owner["metadata"]["name"]
        for part, suffix in ((spec, ""), (spec.get("prefill"), "-prefill")):
            if part is None:
                continue
            template = {"spec": part["template"]}
            if "worker" not in part:
                copies = int(part.get("replicas", 1))
                self._deployment(owner, f"{name}-kserve{suffix}", template, copies, namespace)
                continue
            parallel = part["parallelism"]
            body = {
                "apiVersion": "leaderworkerset.x-k8s.io/v1",
                "kind": "LeaderWorkerSet",
                "metadata": {"name": f"{name}-kserve-mn{suffix}"},
                "spec": {
                    "replicas": part.get("replicas", 1),
                    "leaderWorkerTemplate": {
                        "size": parallel["data"] // parallel["dataLocal"],
                        "leaderTemplate": template,
                        "workerTemplate": {"spec": part["worker"]},
                    },
                },
            }
            made = self._create(owner, body, namespace)
            assert made is not None
            self._leader_worker_set(made, namespace)

    def _vllm_runtime(self, owner: Object, namespace: str) -> None:
        config, name = owner["spec"]["deploymentConfig"], owner["metadata"]["name"]
        asked, image = config["resources"], config["image"]
        container = {
            "name": "vllm",
            "image": f"{image['registry']}/{image['name']}",
            "command": ["vllm", "serve", owner["spec"]["model"]["modelURL"]],
            "resources": {"limits": {asked.get("gpuType", "nvidia.com/gpu"): asked["gpu"]}},
        }
        template = {"spec": {"containers": [container]}}
        self._deployment(owner, name, template, int(config.get("replicas", 1)), namespace)


def _stateful_set(
    name: str, template: Mapping[str, Any], copies: int, labels: Mapping[str, str]
) -> Object:
    chosen = {**labels, "set": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "replicas": copies,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": chosen},
            "template": _template(template, **chosen),
        },
    }


def _replica_specs(spec: Mapping[str, Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Role, copies and template, in the shapes of the operators that make pods themselves."""
    for key in ("pytorchReplicaSpecs", "tfReplicaSpecs", "mpiReplicaSpecs", "replicaSpecs"):
        parts = spec.get(key) or {}
        named = parts.items() if isinstance(parts, dict) else [(one["name"], one) for one in parts]
        for role, part in named:
            yield role, int(part.get("replicas", 1)), part["template"]
    for task in spec.get("tasks") or ():
        yield task["name"], int(task["replicas"]), task["template"]
    if "template" in spec:
        yield "worker", 1, spec["template"]
