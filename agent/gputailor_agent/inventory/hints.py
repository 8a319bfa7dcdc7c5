"""What a custom resource says of the work in its pods, where no pod says it.

A RayJob's entry point, a Ray Serve application, a KServe predictor's runtime and a vLLM runtime's
sizes are written down as annotations of the owner, in the words a command line would use, so that
all that reads commands reads them too; so is the time after which a run is ended. Secrets are
masked; variables are not taken over at all.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.redaction import mask_text
from gputailor_agent.inventory.resources import quantity
from gputailor_agent.inventory.templates import PodTemplate

#: Annotations that nobody but this module writes.
RUNTIME_HINT: Final = "gputailor.io/runtime"
ENTRYPOINT_HINT: Final = "gputailor.io/entrypoint"
DEADLINE_HINT: Final = "gputailor.io/deadline-seconds"
QUEUE_HINT: Final = "gputailor.io/queue"
PRIORITY_HINT: Final = "gputailor.io/priority-class"

_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:h|m|s))+")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}
_LONGEST: Final = 1024
_DEEPEST: Final = 12
#: Fields of engines, as custom resources and Ray Serve spell them, and the options they stand for.
_OPTIONS: Final = {
    "tensorparallelsize": "--tensor-parallel-size",
    "pipelineparallelsize": "--pipeline-parallel-size",
    "dataparallelsize": "--data-parallel-size",
    "gpumemoryutilization": "--gpu-memory-utilization",
    "dtype": "--dtype",
    "quantization": "--quantization",
}
#: ``spec.parallelism`` of an LLMInferenceService (KServe).
_PARALLELISM: Final = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
}


def hints(spec: Mapping[str, Any], templates: Iterable[PodTemplate]) -> dict[str, str]:
    """Annotations that an owner with this ``spec`` gets; without any where it says nothing."""
    found: dict[str, str] = {}
    if runtime := " ".join(dict.fromkeys(one.runtime for one in templates if one.runtime)):
        found[RUNTIME_HINT] = runtime
    if words := " ".join(_words(spec)):
        found[ENTRYPOINT_HINT] = mask_text(words)[:_LONGEST]
    return found | deadline_hint(_deadline(spec)) | _scheduling(spec)


def deadline_hint(seconds: float | None) -> dict[str, str]:
    """The annotation that says after how many seconds a run is ended; none where nothing does."""
    return {DEADLINE_HINT: f"{seconds:.15g}"} if seconds is not None and seconds > 0 else {}


def _scheduling(spec: Mapping[str, Any]) -> dict[str, str]:
    """Queue and priority class as Volcano, Kubeflow and Spark's operator spell them."""
    places = (
        spec,
        _below(spec, "runPolicy", "schedulingPolicy"),
        _below(spec, "batchSchedulerOptions"),
    )
    keys = {QUEUE_HINT: ("queue",), PRIORITY_HINT: ("priorityClassName", "priorityClass")}
    told = {
        hint: [value for place in places for key in names if (value := place.get(key))]
        for hint, names in keys.items()
    }
    return {
        hint: values[0] for hint, values in told.items() if values and isinstance(values[0], str)
    }


def _deadline(spec: Mapping[str, Any]) -> float | None:
    """Seconds after which a run is ended.

    A Job's own (also a RayJob's and an Argo Workflow's), a CronJob's Job's, Kubeflow's; of a
    JobSet's Jobs the shortest, since one that fails ends all; Tekton's duration.
    """
    job = _below(spec, "jobTemplate", "spec")
    for place in (spec, _below(spec, "runPolicy"), job):
        if seconds := _positive(place.get("activeDeadlineSeconds")):
            return seconds
    several = spec.get("replicatedJobs")
    jobs = several if isinstance(several, list) else []
    limits = [_below(one, "template", "spec").get("activeDeadlineSeconds") for one in jobs]
    told = [seconds for limit in limits if (seconds := _positive(limit))]
    tekton = _below(spec, "timeouts").get("pipeline")
    if "taskRef" in spec or "taskSpec" in spec:
        tekton = spec.get("timeout")
    return min(told, default=None) or _duration(tekton)


def _below(part: object, *path: str) -> Mapping[str, Any]:
    """A mapping further down; an empty one where there is none."""
    for step in path:
        part = part.get(step) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _positive(value: object) -> float | None:
    seconds = quantity(value)
    return seconds if seconds is not None and seconds > 0 else None


def _duration(value: object) -> float | None:
    """Seconds of a Go duration such as ``1h30m0s``; None where it is none, or 0 (no limit)."""
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        return None
    parts = re.findall(r"([0-9.]+)(h|m|s)", value)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts) or None


def _words(spec: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(entry := spec.get("entrypoint"), str):
        yield entry
    for name in ("serveConfigV2", "runtimeEnvYAML"):
        yield from _of_ray(_parsed(spec.get(name)), 0)
    for name in ("vllmConfig", "model"):
        yield from _options(spec.get(name), _OPTIONS)
    yield from _options(spec.get("parallelism"), _PARALLELISM)


def _parsed(text: object) -> object:
    """YAML inside a string; None for anything else, and where it is broken."""
    if not isinstance(text, str):
        return None
    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _of_ray(part: object, depth: int) -> Iterator[str]:
    """Import paths, pip requirements and engine options of a Ray configuration."""
    if depth > _DEEPEST:
        return
    if isinstance(part, list):
        for child in part:
            yield from _of_ray(child, depth + 1)
    elif isinstance(part, dict):
        if isinstance(part.get("import_path"), str):
            yield str(part["import_path"])
        required = part.get("pip")
        if isinstance(required, list):
            yield from (str(one) for one in required if isinstance(one, str))
        yield from _options(part.get("engine_kwargs"), _OPTIONS)
        for name, child in part.items():
            if name not in {"pip", "engine_kwargs", "env_vars"}:
                yield from _of_ray(child, depth + 1)


def _options(part: object, known: Mapping[str, str]) -> Iterator[str]:
    if not isinstance(part, dict):
        return
    for name, value in part.items():
        option = known.get(str(name).replace("_", "").lower())
        if option and isinstance(value, str | int | float) and value != "":
            yield f"{option}={raw.text(value)}"
