"""Finding things in rendered objects."""

from collections.abc import Iterable, Mapping
from typing import Any

WORKLOADS = ("Deployment", "DaemonSet")
Objects = Iterable[Mapping[str, Any]]


def of_kind(objects: Objects, *kinds: str) -> list[Mapping[str, Any]]:
    """Those of a kind."""
    return [each for each in objects if each["kind"] in kinds]


def one(objects: Objects, kind: str, name: str) -> Mapping[str, Any]:
    """The one of that kind whose name ends so."""
    (found,) = (each for each in of_kind(objects, kind) if each["metadata"]["name"].endswith(name))
    return found


def pod_specs(objects: Objects) -> list[Mapping[str, Any]]:
    """Specs of all pods: of workloads and bare ones."""
    listed = list(objects)
    return [each["spec"]["template"]["spec"] for each in of_kind(listed, *WORKLOADS)] + [
        each["spec"] for each in of_kind(listed, "Pod")
    ]


def containers(objects: Objects) -> list[Mapping[str, Any]]:
    """All containers."""
    return [container for spec in pod_specs(objects) for container in spec["containers"]]


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a selector."""
    return selector.items() <= labels.items()


def settings_text(objects: Objects) -> str:
    """The agent's settings file."""
    return settings_files(objects)["agent.yaml"]


def settings_files(objects: Objects) -> dict[str, str]:
    """Everything that is mounted beside the agent's settings file, by name."""
    files: dict[str, str] = one(objects, "ConfigMap", "-agent")["data"]
    return files
