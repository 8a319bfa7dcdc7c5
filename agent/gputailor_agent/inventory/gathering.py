"""Documents, from whatever source, gathered into one inventory.

Live objects and manifests mix: pods that exist are taken as they are; a controller nobody's pod
belongs to stands in for its pods (``template=True``), so that a manifest alone can be joined with a
recorded log. An object that cannot be read is told as a problem and the others go on.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gputailor_agent.inventory import kinds, raw
from gputailor_agent.inventory.claims import Claims
from gputailor_agent.inventory.documents import Document, Problem
from gputailor_agent.inventory.hints import hints
from gputailor_agent.inventory.namespaces import said_by
from gputailor_agent.inventory.nodes import read_node
from gputailor_agent.inventory.owners import OwnerIndex
from gputailor_agent.inventory.pods import (
    object_name,
    owner_references,
    read_pod,
)
from gputailor_agent.inventory.redaction import mask_annotations
from gputailor_agent.inventory.templates import PodTemplate, multiplier, pod_templates
from gputailor_agent.model.inventory import Inventory, Node, Owner, OwnerReference, Pod


class _Controller(msgspec.Struct, frozen=True, kw_only=True):
    where: str
    owner: Owner
    live: bool  # it has a uid: it was read from a cluster
    templates: tuple[PodTemplate, ...]


class _PodDocument(msgspec.Struct, frozen=True):
    where: str
    pod: raw.RawPod


class Gathering:
    """Takes documents one by one; ``inventory`` puts them together."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._pods: dict[tuple[str, str, str], _PodDocument] = {}
        self._nodes: dict[str, Node] = {}
        self._controllers: dict[tuple[str, str, str, str], _Controller] = {}
        self._claims = Claims()
        self._namespaces: dict[str, dict[str, str]] = {}
        self._problems: list[str] = []

    def add(self, document: Document | Problem) -> None:
        """Take in one object, or one problem."""
        if isinstance(document, Problem):
            self._problems.append(document.text)
            return
        try:
            self._add(document)
        except (
            msgspec.DecodeError,
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            self._problems.append(
                f"{document.where}: {document.kind or 'object'} cannot be read: {error}; "
                "expected the fields of the Kubernetes API"
            )

    def _add(self, document: Document) -> None:
        if document.kind == "Pod":
            self._add_pod(document)
        elif document.kind == "Node":
            node = read_node(document.decode(raw.RawNode), self._cluster)
            self._nodes[node.name] = node
        elif document.kind == "Namespace":
            metadata = document.decode(raw.RawPod).metadata or raw.RawMetadata()
            self._namespaces[raw.text(metadata.name)] = said_by(metadata)
        elif document.kind in {"ResourceClaim", "ResourceClaimTemplate", "DeviceClass"}:
            self._claims.add({**document.body(), "kind": document.kind})
        elif not kinds.is_passive(document.kind, document.api_version):
            self._add_controller(document)

    def _add_pod(self, document: Document) -> None:
        pod = document.decode(raw.RawPod)
        metadata = pod.metadata or raw.RawMetadata()
        key = (metadata.namespace or "", object_name(metadata, "Pod"), metadata.uid or "")
        seen = self._pods.get(key)
        if seen is None or not _older(pod, seen.pod):
            self._pods[key] = _PodDocument(document.where, pod)

    def _add_controller(self, document: Document) -> None:
        body = document.body()
        metadata = msgspec.convert(body.get("metadata") or {}, raw.RawMetadata)
        templates = tuple(pod_templates(body))
        owner = _owner(document, body, metadata, self._cluster, templates)
        if not metadata.name and not metadata.generate_name and templates:
            self._problems.append(
                f"{document.where}: {document.kind} has no metadata.name; "
                f"called {owner.name} here; expected a name or generateName"
            )
        key = (owner.kind, owner.namespace, owner.name, metadata.uid or "")
        self._controllers[key] = _Controller(
            where=document.where, owner=owner, live=bool(metadata.uid), templates=templates
        )

    def inventory(self, at: float) -> Inventory:
        """Everything taken in, as of ``at`` (Unix seconds)."""
        problems = list(self._problems)
        pods = list(self._read_pods(problems))
        owners = [controller.owner for controller in self._controllers.values()]
        covered = OwnerIndex(owners, pods).everything_above(pods)
        known = {owner.uid for owner in owners}
        any_live_pod = any(not pod.template for pod in pods)
        for controller in self._controllers.values():
            idle = controller.live and any_live_pod  # the cluster was asked and has no such pods
            made = any(ref.uid in known for ref in controller.owner.owners)  # its maker speaks
            if controller.owner.uid in covered or made or idle:
                continue
            pods += self._template_pods(controller, problems)
        return Inventory(
            cluster=self._cluster,
            at=at,
            pods=tuple(pods),
            nodes=tuple(self._nodes[name] for name in sorted(self._nodes)),
            owners=tuple(_needed(owners, self._controllers.values(), pods)),
            problems=tuple(dict.fromkeys(problems)),
            namespaces={name: labels for name, labels in self._namespaces.items() if labels},
        )

    def _read_pods(self, problems: list[str]) -> Iterator[Pod]:
        for document in self._pods.values():
            told: list[str] = []
            yield read_pod(document.pod, self._cluster, self._claims, told)
            problems += [f"{document.where}: {text}" for text in told]

    def _template_pods(self, controller: _Controller, problems: list[str]) -> Iterator[Pod]:
        owner = controller.owner
        reference = OwnerReference(
            api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid
        )
        several = len(controller.templates) > 1
        for template in controller.templates:
            told: list[str] = []
            role = template.role.lower().strip("-") if several else ""
            metadata = msgspec.structs.replace(
                template.metadata,
                name=f"{owner.name}-{role}" if role else owner.name,
                namespace=owner.namespace or "default",
                uid=None,
            )
            pod = read_pod(
                raw.RawPod(metadata=metadata, spec=template.spec), self._cluster, self._claims, told
            )
            problems += [f"{controller.where}: {text}" for text in told]
            yield msgspec.structs.replace(pod, owners=(reference,), replicas=template.replicas)


def _older(pod: raw.RawPod, than: raw.RawPod) -> bool:
    """Whether another reading of the same pod is newer; without versions the later read wins."""
    versions = [str(one.metadata.resource_version) if one.metadata else "" for one in (pod, than)]
    if all(version.isdigit() for version in versions):
        return int(versions[0]) < int(versions[1])
    return False


def _owner(
    document: Document,
    body: dict[str, Any],
    metadata: raw.RawMetadata,
    cluster: str,
    templates: tuple[PodTemplate, ...],
) -> Owner:
    spec = body.get("spec") if isinstance(body.get("spec"), dict) else {}
    spec = spec if isinstance(spec, dict) else {}
    namespace = metadata.namespace or ("default" if templates and not metadata.uid else "")
    name = object_name(metadata, document.kind)
    annotations = mask_annotations(raw.string_map(metadata.annotations)) | hints(spec, templates)
    stated = any(key in spec for key in ("replicas", "parallelism", "minReplicas"))
    return Owner(
        cluster=cluster,
        api_version=document.api_version,
        kind=document.kind,
        namespace=namespace,
        name=name,
        uid=metadata.uid or f"manifest:{namespace}/{document.kind}/{name}",
        labels=raw.string_map(metadata.labels),
        annotations=annotations,
        owners=owner_references(metadata),
        replicas=multiplier(spec) if stated else None,
        suspended=spec.get("suspend") is True,
    )


def _needed(
    owners: Iterable[Owner], controllers: Iterable[_Controller], pods: Iterable[Pod]
) -> Iterator[Owner]:
    """Owners worth keeping: they carry templates or are referred to by a pod or another owner."""
    owners = list(owners)
    templated = {one.owner.uid for one in controllers if one.templates}
    named = {reference.uid for pod in pods for reference in pod.owners}
    named |= {reference.uid for owner in owners for reference in owner.owners}
    for owner in owners:
        if owner.uid in templated or owner.uid in named:
            yield owner
