"""Manifests as a command line gives them: files, folders, or ``-`` for standard input.

Each workload that asks for accelerators keeps the objects it was read from, so that a change can be
held against what they say.
"""

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.inventory import kinds, raw
from gputailor_agent.inventory.documents import Document, read_documents
from gputailor_agent.inventory.gathering import Gathering
from gputailor_agent.inventory.identity import IdentitySettings, resolve
from gputailor_agent.inventory.mistakes import Mistake, mistakes
from gputailor_agent.inventory.nodes import node_table
from gputailor_agent.inventory.pods import object_name
from gputailor_agent.model.inventory import ContainerSpec, Inventory, Pod, Workload

STDIN: Final = "-"
_PIPED: Final = "standard input"
_FOLDER: Final = "gputailor-check-"
_KEPT: Final = re.compile(rf"\S*{_FOLDER}[^/\\]*[/\\](?={_PIPED})")
_UNPLACED: Final = frozenset({"Namespace", "Node"})
_DONE: Final = frozenset({"Succeeded", "Failed"})
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_DEEPEST: Final = 24

Key = tuple[str, str, str]  # kind, namespace, name
_Member = tuple[Pod, ContainerSpec]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One object: where it stands, and the whole of it."""

    where: str
    body: dict[str, Any]


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A workload as it would be applied; ``pods`` of it run at once, None: it does not say."""

    workload: Workload
    container: ContainerSpec
    pods: int | None
    manifests: tuple[Manifest, ...]


class Manifests(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was given. ``problems`` are of what could not be read."""

    inventory: Inventory
    applied: tuple[Applied, ...]
    mistakes: tuple[Mistake, ...]


@contextmanager
def manifest_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """The files themselves, standard input as one; raises ``UsageError`` for what is not there."""
    for path in paths:
        if str(path) != STDIN and not path.exists():
            raise UsageError(f"MANIFEST: {path} does not exist")
    if [str(path) for path in paths].count(STDIN) > 1:
        raise UsageError("MANIFEST: - (standard input) was given twice; it can be read once")
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        piped = Path(folder) / _PIPED
        if STDIN in map(str, paths):
            piped.write_bytes(sys.stdin.buffer.read())
        yield [piped if str(path) == STDIN else path for path in paths]


def read_manifests(
    files: Sequence[Path], cluster: str, namespace: str, at: float, settings: IdentitySettings
) -> Manifests:
    """What the files ask for; ``namespace`` is that of objects that name none ('': default)."""
    gathering = Gathering(cluster)
    objects: dict[Key, list[Manifest]] = defaultdict(list)
    wrong: list[Mistake] = []
    for read in read_documents(files):
        if not isinstance(read, Document):
            gathering.add(msgspec.structs.replace(read, text=_named(read.text)))
            continue
        document = _placed(read, namespace)
        gathering.add(document)
        body = document.body()
        key = _key(document, body)
        if key is not None:
            objects[key].append(Manifest(where=document.where, body=body))
            wrong += mistakes(document.where, body)
    inventory = gathering.inventory(at)
    applied = tuple(_applied(inventory, settings, objects))
    return Manifests(inventory=inventory, applied=applied, mistakes=tuple(wrong))


def _named(text: str) -> str:
    """A text about places without the folder that standard input was kept in."""
    return _KEPT.sub("", text)


def _placed(document: Document, namespace: str) -> Document:
    """The document with its place for people, in a namespace."""
    where = _named(document.where)
    body = document.body() if namespace and document.kind not in _UNPLACED else {}
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return msgspec.structs.replace(document, where=where)
    body["metadata"] = {**metadata, "namespace": namespace}
    return msgspec.structs.replace(document, where=where, content=body)


def _key(document: Document, body: Mapping[str, Any]) -> Key | None:
    """What an object is found by; None for what makes no pods, or cannot be read."""
    if document.kind != "Pod" and kinds.is_passive(document.kind, document.api_version):
        return None
    try:
        metadata = msgspec.convert(body.get("metadata") or {}, raw.RawMetadata)
    except msgspec.ValidationError:  # its problem is told by the inventory
        return None
    name = object_name(metadata, document.kind)
    return document.kind, raw.text(metadata.namespace) or "default", name


def _applied(
    inventory: Inventory, settings: IdentitySettings, objects: Mapping[Key, list[Manifest]]
) -> Iterator[Applied]:
    """Every workload that asks for accelerators, with its pods and objects."""
    told_apart = [
        pod if pod.uid else msgspec.structs.replace(pod, uid=f"manifest:{place}")
        for place, pod in enumerate(inventory.pods)
    ]
    asking = {(pod.uid, one.name): (pod, one) for pod in told_apart for one in pod.containers}
    resolution = resolve(msgspec.structs.replace(inventory, pods=tuple(told_apart)), settings)
    held: dict[str, list[_Member]] = defaultdict(list)
    for each in resolution.assignments:
        held[each.workload_id].append(asking[each.pod_uid, each.container])
    for workload in resolution.workloads:
        members = held[workload.id]
        keys = dict.fromkeys(key for pod, _ in members for key in _owners(pod))
        yield Applied(
            workload=workload,
            container=members[-1][1],
            pods=_together(workload, [pod for pod, _ in members]),
            manifests=tuple(one for key in keys for one in objects.get(key, ())),
        )


def _together(workload: Workload, pods: Sequence[Pod]) -> int | None:
    """Pods at once. A cluster's own listing has pods that are done, and those are none of them."""
    there = [pod for pod in pods if pod.phase not in _DONE]
    return None if workload.kind == "DaemonSet" or not there else sum(p.replicas for p in there)


def _owners(pod: Pod) -> list[Key]:
    owners = [(one.kind, pod.namespace, one.name) for one in pod.owners]
    return owners or [("Pod", pod.namespace, pod.name)]


def selected_cards(manifests: Sequence[Manifest]) -> list[str]:
    """Cards that the objects' pods may only run on, as node labels name them."""
    return list(dict.fromkeys(name for one in manifests for name in _selected(one.body)))


def _selected(body: object, depth: int = 0, *, required: bool = False) -> Iterator[str]:
    """Values of product labels in node selectors and required affinities."""
    if depth > _DEEPEST:
        return
    if isinstance(body, list):
        for part in body:
            yield from _selected(part, depth + 1, required=required)
    elif isinstance(body, dict):
        labels = node_table().product
        chosen = body.get("nodeSelector")
        if isinstance(chosen, dict):
            yield from (str(chosen[label]) for label in labels if chosen.get(label))
        if required and body.get("key") in labels and body.get("operator") == "In":
            yield from map(str, body.get("values") or ())
        for key, part in body.items():
            yield from _selected(part, depth + 1, required=required or key == _REQUIRED)
