"""Small Kubernetes objects for the inventory's tests, as kubectl would print them."""

import json
from pathlib import Path
from typing import Any

from hypothesis import settings

from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.model.inventory import Inventory

#: Property tests here have no time limit per example: the machine may be busy.
unhurried = settings(deadline=None)

NOON = "2026-03-02T12:00:00Z"
NOON_SECONDS = 1772452800.0
MANIFESTS = Path(__file__).parent / "manifests"


def container(name: str = "main", gpus: int | str | None = 1, **more: Any) -> dict[str, Any]:
    built: dict[str, Any] = {"name": name, "image": "registry.example/team/app:1", **more}
    if gpus is not None and "resources" not in more:
        built["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return built


def owner(kind: str, name: str, uid: str, *, api_version: str = "batch/v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


def pod(
    name: str,
    *,
    uid: str = "",
    namespace: str = "team-a",
    node: str | None = "node-1",
    phase: str | None = "Running",
    owners: list[dict[str, Any]] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    containers: list[dict[str, Any]] | None = None,
    status: dict[str, Any] | None = None,
    created: str = NOON,
    **spec: Any,
) -> dict[str, Any]:
    built: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-of-{name}",
            "creationTimestamp": created,
            "labels": labels or {},
            "annotations": annotations or {},
            "ownerReferences": owners or [],
        },
        "spec": {"containers": [container()] if containers is None else containers, **spec},
        "status": {"startTime": NOON, **({"phase": phase} if phase else {}), **(status or {})},
    }
    if node:
        built["spec"]["nodeName"] = node
    return built


def controller(
    kind: str,
    name: str,
    *,
    uid: str = "",
    api_version: str = "batch/v1",
    namespace: str = "team-a",
    owners: list[dict[str, Any]] | None = None,
    spec: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "ownerReferences": owners or [], **metadata}
    if uid:
        meta["uid"] = uid
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec or {}}


def listed(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def inventory(tmp_path: Path, *objects: dict[str, Any]) -> Inventory:
    file = tmp_path / "objects.json"
    file.write_text(listed(*objects))
    return read_inventory([file], "lab", NOON_SECONDS)


def inventory_of(tmp_path: Path, text: str, name: str = "objects.yaml") -> Inventory:
    file = tmp_path / name
    file.write_text(text)
    return read_inventory([file], "lab", NOON_SECONDS)
