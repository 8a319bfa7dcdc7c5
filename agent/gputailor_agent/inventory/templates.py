"""Pod templates inside any controller, found by their shape instead of by a list of kinds.

The walk goes down an object until it meets something with ``containers`` (a pod spec), or a part
that asks for accelerators without being one (KServe predictors, vendors' runtimes), and multiplies
the replica counts it passes on the way. So a kind nobody has heard of is read like a Deployment.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.resources import gpu_resource, quantity

#: No Kubernetes object nests its pod templates deeper; it also bounds hostile input.
_DEEPEST: Final = 24
#: Parts looked at in one object; real ones have some hundred.
_MOST_PARTS: Final = 50_000
#: vLLM production stack, VLLMRuntime: ``gpuType`` where it is left out.
_DEFAULT_GPU: Final = "nvidia.com/gpu"


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod spec found in a controller. ``role`` tells several templates of one object apart."""

    role: str
    replicas: int
    metadata: raw.RawMetadata
    spec: raw.RawPodSpec
    runtime: str = ""  # what the object says about the server it runs, where no image does


class _Place(msgspec.Struct, frozen=True):
    """Where the walk stands: the way down, the copies so far, the metadata beside a ``spec``."""

    path: tuple[str, ...] = ()
    replicas: int = 1
    metadata: Any = None

    def below(self, step: str, factor: int = 1, metadata: Any = None) -> "_Place":
        """One step further down."""
        return _Place((*self.path, step), self.replicas * factor, metadata)


def _integer(value: object) -> int | None:
    number = quantity(value)
    return None if number is None or number < 0 else int(number)


def multiplier(part: Mapping[str, Any]) -> int:
    """How many copies a part of an object asks for; 1 where it does not say.

    ``replicas`` (or ``instances``); a Job's ``parallelism``, never above its ``completions``; else
    ``minReplicas``, where 0 (scale to zero) still means one while it runs. ``numOfHosts`` (Ray)
    multiplies.
    """
    hosts = _integer(part.get("numOfHosts")) or 1
    for key in ("replicas", "instances", "numNodes"):
        if (count := _integer(part.get(key))) is not None:
            return count * hosts
    if (parallel := _integer(part.get("parallelism"))) is not None:
        completions = _integer(part.get("completions"))
        return parallel if completions is None else min(parallel, completions)
    if (least := _integer(part.get("minReplicas"))) is not None:
        return max(1, least) * hosts
    return hosts


def _group_size(part: Mapping[str, Any]) -> int | None:
    """Pods of one leader/worker group: LeaderWorkerSet's ``size``, LLMInferenceService's ranks."""
    if (size := _integer(part.get("size"))) is not None:
        return size
    parallel = part.get("parallelism")
    if isinstance(parallel, dict):
        total, local = _integer(parallel.get("data")), _integer(parallel.get("dataLocal"))
        if total and local:
            return max(1, total // local)
        return _integer(parallel.get("pipeline"))
    return None


def _worker_factor(part: Mapping[str, Any], key: str) -> int:
    """Copies of a child that only the leader/worker shape explains."""
    if key not in {"workerTemplate", "worker"}:
        return 1
    size = _group_size(part)
    if size is None:
        return 1
    leads = any(isinstance(part.get(name), dict) for name in ("leaderTemplate", "template"))
    return max(0, size - 1) if leads else size


def _asks_for_gpu(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ``resources`` of a part that is no container but asks for accelerators like one."""
    resources = part.get("resources", part.get("resourcesPerNode"))
    if isinstance(resources, dict):
        for side in ("limits", "requests"):
            amounts = resources.get(side)
            if isinstance(amounts, dict) and any(gpu_resource(str(name)) for name in amounts):
                return resources
        name = resources.get("gpuType") or _DEFAULT_GPU
        if quantity(resources.get("gpu")) is not None and gpu_resource(str(name)):
            return {"limits": {str(name): resources["gpu"], "cpu": resources.get("cpu"),
                               "memory": resources.get("memory")}}  # fmt: skip
    gpu = part.get("gpu")
    if isinstance(gpu, dict) and gpu_resource(str(gpu.get("name"))) and "quantity" in gpu:
        return {"limits": {str(gpu["name"]): gpu["quantity"]}}
    return None


def _image(value: object) -> str:
    """An image given as text or in parts (registry, repository or name, tag)."""
    if not isinstance(value, dict):
        return raw.text(value) if isinstance(value, str) else ""
    name = raw.text(value.get("repository")) or raw.text(value.get("name"))
    registry, tag = raw.text(value.get("registry")), raw.text(value.get("tag"))
    return (f"{registry}/{name}" if registry and name else name) + (
        f":{tag}" if tag and name else ""
    )


def _listed(value: object) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _as_container(part: Mapping[str, Any], key: str, resources: dict[str, Any]) -> raw.RawContainer:
    served = "kserve-container" if "storageUri" in part else key  # the name KServe gives it
    environment = [one for one in _listed(part.get("env")) if isinstance(one, dict)]
    return raw.RawContainer(
        name=raw.text(part.get("name")) or ("main" if key == "spec" else served),
        image=_image(part.get("image")),
        command=part.get("command"),
        args=part.get("args"),
        env=[raw.RawEnv(name=raw.text(one.get("name")), value=raw.text(one.get("value")))
             for one in environment],
        resources=msgspec.convert(resources, raw.RawResources),
    )  # fmt: skip


def _runtime(part: Mapping[str, Any], key: str) -> str:
    """What KServe's predictors say about the server: the runtime, the model's format or the key."""
    form = part.get("modelFormat")
    named = raw.text(form.get("name")) if isinstance(form, dict) else ""
    words = [raw.text(part.get("runtime")), named, key if "storageUri" in part else ""]
    return " ".join(word for word in words if word and word != "model")


#: Steps of a path that every object of a kind shares, so that they tell no template apart.
_SHARED_STEPS: Final = frozenset(
    {
        "spec",
        "template",
        "templates",
        "jobTemplate",
        "tasks",
        "groups",
        "model",
        "predictor",
        "deploymentConfig",
        "replicaSpecs",
        "replicatedJobs",
        "rayClusterSpec",
        "rayClusterConfig",
        "workerGroupSpecs",
        "leaderWorkerTemplate",
    }
)


def _role(path: tuple[str, ...]) -> str:
    """The part of the path that tells templates of one object apart ("Worker", "head")."""
    words = [step for step in path if step not in _SHARED_STEPS]
    words = [re.sub(r"(?:Group)?(?:Spec|Template)s?$", "", word) for word in words]
    return "-".join(word for word in words if word and not word.endswith("Replica"))


class _Walk:
    """One pass over one object: loops end, and so do aliases of aliases of aliases.

    A part that an alias names again counts again: it stands for pods of its own.
    """

    def __init__(self) -> None:
        self._above: set[int] = set()
        self._left = _MOST_PARTS

    def down(self, part: object, place: _Place) -> Iterator[PodTemplate]:
        """Templates below ``part``, with the replicas of everything above multiplied in."""
        path = place.path
        if not isinstance(part, dict | list) or len(path) > _DEEPEST or id(part) in self._above:
            return
        if self._left <= 0:
            return
        self._left -= 1
        self._above.add(id(part))
        if isinstance(part, list):
            for index, child in enumerate(part):
                yield from self.down(child, place.below(_label(child, index)))
        elif path and (found := _template(part, place)) is not None:
            yield found
        else:
            yield from self._children(part, place)
        self._above.discard(id(part))

    def _children(self, part: dict[Any, Any], place: _Place) -> Iterator[PodTemplate]:
        copies = multiplier(part)
        for name, value in part.items():
            key, child = str(name), value
            if key == "status" or (key == "metadata" and not place.path):
                continue
            if key in {"container", "script"} and isinstance(child, dict) and "image" in child:
                child = {"containers": [child]}  # Argo's single container
            metadata = part.get("metadata") if key == "spec" and place.path else None
            yield from self.down(
                child,
                place.below(key, copies * _worker_factor(part, key), metadata),
            )


def _template(part: dict[Any, Any], place: _Place) -> PodTemplate | None:
    """The pod template that ``part`` is, if it is one."""
    containers, runtime = part.get("containers"), ""
    if isinstance(containers, list) and containers and all(isinstance(c, dict) for c in containers):
        spec = msgspec.convert(part, raw.RawPodSpec)
    elif (resources := _asks_for_gpu(part)) is not None:
        spec = raw.RawPodSpec(containers=[_as_container(part, place.path[-1], resources)])
        runtime = _runtime(part, place.path[-1])
    else:
        return None
    metadata = place.metadata if isinstance(place.metadata, dict) else {}
    return PodTemplate(
        role=_role(place.path),
        replicas=place.replicas * multiplier(part),
        metadata=msgspec.convert(metadata, raw.RawMetadata),
        spec=spec,
        runtime=runtime,
    )


def _label(child: object, index: int) -> str:
    if isinstance(child, dict):
        for key in ("name", "groupName"):
            if isinstance(child.get(key), str) and child[key]:
                return str(child[key])
    return str(index)


def pod_templates(body: Mapping[str, Any]) -> list[PodTemplate]:
    """Every pod template of an object, in the object's order.

    Raises msgspec.ValidationError, with the path, where a template has fields of a wrong type.
    """
    return list(_Walk().down(body, _Place()))
