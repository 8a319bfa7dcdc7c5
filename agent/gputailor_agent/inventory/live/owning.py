"""Owners of pods, to the root, read by name and checked by UID.

Only owners that a pod's chain names are read: few objects by name, many of one kind by one list.
Kinds come from the references themselves, so any custom resource works. Where an owner is gone, or
its kind is not served or not permitted, the reference stands for it and is the root; what is
missing for lack of permission is said once per kind. An owner once known stays known: a failed
look-up never drops history. Secrets and other kinds that make no pods are never asked for.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gputailor_agent.inventory import kinds, raw
from gputailor_agent.inventory.hints import hints
from gputailor_agent.inventory.live.client import Client
from gputailor_agent.inventory.live.discovering import ApiResource, Discovery
from gputailor_agent.inventory.live.errors import (
    FORBIDDEN,
    NOT_FOUND,
    AnswerError,
    ClusterError,
)
from gputailor_agent.inventory.live.listing import list_objects
from gputailor_agent.inventory.pods import object_name, owner_references
from gputailor_agent.inventory.redaction import mask_annotations
from gputailor_agent.inventory.templates import multiplier, pod_templates
from gputailor_agent.model.inventory import Owner, OwnerReference

_DEEPEST: Final = 10
_LONGEST_ANNOTATION: Final = 1024

Reference = tuple[str, OwnerReference]  # a namespace and what an object in it names as its owner


def climbing(references: Iterable[OwnerReference]) -> tuple[OwnerReference, ...]:
    """The references worth following: the controlling one, which comes first.

    ``owner_references`` sorts it there; what is no maker of pods is passed over.
    """
    for reference in references:
        if reference.uid and not _makes_no_pods(reference):
            return (reference,)
    return ()


def _makes_no_pods(reference: OwnerReference) -> bool:
    """Kinds of the core that own pods only formally: mirror pods' nodes, secrets, config maps.

    Other groups reuse their names: Knative's Service does make pods.
    """
    core = "/" not in reference.api_version
    return core and (reference.kind == "Node" or kinds.is_passive(reference.kind))


def owner_of(body: Mapping[str, Any], resource: ApiResource, cluster: str) -> Owner:
    """An owner's object as a value; raises msgspec.ValidationError where metadata has no shape."""
    metadata = msgspec.convert(body.get("metadata") or {}, raw.RawMetadata)
    part = body.get("spec")
    spec: dict[str, Any] = part if isinstance(part, dict) else {}
    annotations = {
        name: text
        for name, text in mask_annotations(raw.string_map(metadata.annotations)).items()
        if len(text) <= _LONGEST_ANNOTATION
    }
    annotations |= hints(spec, _templates(body))
    stated = any(key in spec for key in ("replicas", "parallelism", "minReplicas"))
    return Owner(
        cluster=cluster,
        api_version=str(body.get("apiVersion") or resource.api_version),
        kind=resource.kind,
        namespace=metadata.namespace or "",
        name=object_name(metadata, resource.kind),
        uid=metadata.uid or "",
        labels=raw.string_map(metadata.labels),
        annotations=annotations,
        owners=owner_references(metadata),
        replicas=multiplier(spec) if stated else None,
        suspended=spec.get("suspend") is True,
    )


def _templates(body: Mapping[str, Any]) -> list[Any]:
    try:
        return list(pod_templates(body))
    except (msgspec.ValidationError, ValueError, TypeError, AttributeError, RecursionError):
        return []  # only a hint is lost


class _Known(msgspec.Struct):
    """What is known of one UID. ``owner`` is None where the reference has to stand for it."""

    read_at: float
    owner: Owner | None = None


class _Uid(msgspec.Struct):
    uid: str | None = None


class _Header(msgspec.Struct):
    metadata: _Uid | None = None


class OwnerMemory:
    """Reads owners and remembers them. Safe to use from several threads.

    ``many``: from so many owners of one kind and namespace on, one list is asked for instead of
    each by name. ``fresh_seconds``: owners older than that are read again, for their annotations
    change; those that could not be read are tried again then, too.
    """

    def __init__(
        self, client: Client, cluster: str, *, many: int = 20, fresh_seconds: float = 600.0
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._many = many
        self._fresh_seconds = fresh_seconds
        self._discovery = Discovery(client)
        self._discovered_at: float | None = None
        self._known: dict[str, _Known] = {}
        self._problems: dict[str, tuple[float, str]] = {}
        self._now = 0.0
        self._lock = threading.Lock()

    def resolve(self, references: Iterable[Reference], at: float) -> None:
        """Read what is not known or not fresh of the owners above, level by level.

        Never raises for what a cluster answers; ``problems`` tell.
        """
        with self._lock:
            if self._discovered_at is None or at - self._discovered_at >= self._fresh_seconds:
                self._discovery.forget()
                self._discovered_at = at
            self._now = at
            level = {reference.uid: (ns, reference) for ns, reference in references}
            passed: set[str] = set()
            for _ in range(_DEEPEST):
                passed |= level.keys()
                self._read(level.values(), at)
                level = {
                    reference.uid: (owner.namespace or level[uid][0], reference)
                    for uid in level
                    if (owner := self._owner(uid)) is not None
                    for reference in climbing(owner.owners)
                    if reference.uid not in passed
                }
                if not level:
                    return

    def unread(self, references: Iterable[Reference]) -> list[Reference]:
        """Those of which an owner, at any height, has not been asked for with an answer yet."""
        with self._lock:
            return [one for one in references if not self._settled(one[1])]

    def above(self, references: Iterable[OwnerReference]) -> dict[str, Owner]:
        """Every known owner above these references, by UID."""
        with self._lock:
            found: dict[str, Owner] = {}
            waiting = [one.uid for reference in references for one in climbing((reference,))]
            while waiting:
                owner = self._owner(waiting.pop())
                if owner is not None and owner.uid not in found:
                    found[owner.uid] = owner
                    waiting += [reference.uid for reference in climbing(owner.owners)]
            return found

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget every owner but these."""
        with self._lock:
            wanted = set(uids)
            self._known = {uid: known for uid, known in self._known.items() if uid in wanted}

    def problems(self) -> list[str]:
        """What could not be read, once per kind."""
        with self._lock:
            oldest = self._now - 2 * self._fresh_seconds  # of kinds that nothing names any more
            return [text for at, text in self._problems.values() if at >= oldest]

    def _settled(self, reference: OwnerReference) -> bool:
        level: tuple[OwnerReference, ...] = (reference,)
        for _ in range(_DEEPEST):
            if not level:
                return True
            known = self._known.get(level[0].uid)
            if known is None:
                return False
            level = climbing(known.owner.owners) if known.owner is not None else ()
        return True

    def _owner(self, uid: str) -> Owner | None:
        known = self._known.get(uid)
        return known.owner if known else None

    def _read(self, references: Iterable[Reference], at: float) -> None:
        groups: dict[tuple[str, str], dict[str, Reference]] = defaultdict(dict)
        for namespace, reference in references:
            known = self._known.get(reference.uid)
            if known is None or at - known.read_at >= self._fresh_seconds:
                key = (reference.api_version, reference.kind)
                groups[key][reference.uid] = (namespace, reference)
        for (api_version, kind), wanted in groups.items():
            try:
                resource = self._discovery.find(api_version, kind)
                if resource is None:
                    self._tell(
                        f"{kind} ({api_version})",
                        f"owners of kind {kind} ({api_version}) cannot be read: the cluster serves "
                        "no such kind (any more); their names are taken from the references",
                    )
                else:
                    self._read_kind(resource, wanted, at)
            except ClusterError as error:
                self._tell(
                    f"{kind} ({api_version})", f"owners of kind {kind} cannot be read: {error}"
                )
                if error.passing:
                    continue  # asked again at the next occasion
            for uid in wanted:
                self._seen(uid, self._owner(uid), at)

    def _read_kind(self, resource: ApiResource, wanted: Mapping[str, Reference], at: float) -> None:
        by_namespace: dict[str, list[OwnerReference]] = defaultdict(list)
        for namespace, reference in wanted.values():
            by_namespace[namespace if resource.namespaced else ""].append(reference)
        for namespace, references in by_namespace.items():
            try:
                if len(references) >= self._many:
                    self._list(resource, namespace, references, at)
                else:
                    for reference in references:
                        self._get(resource, namespace, reference, at)
            except AnswerError as error:
                if error.status != FORBIDDEN:
                    raise
                self._forbidden(resource, namespace)

    def _forbidden(self, resource: ApiResource, namespace: str) -> None:
        place = f" in namespace {namespace}" if namespace else ""
        self._tell(
            resource.named,
            f"{resource.named} may not be read{place} (forbidden): the references to them stand "
            f"as root owners; to see what is above, grant get and list on {resource.named} "
            "(docs/kubernetes.md)",
        )

    def _tell(self, key: str, text: str) -> None:
        self._problems[key] = (self._now, re.sub(r"\s+", " ", text))

    def _get(
        self, resource: ApiResource, namespace: str, reference: OwnerReference, at: float
    ) -> None:
        try:
            body = self._client.get(resource.path(namespace, reference.name), dict[str, Any])
        except AnswerError as error:
            if error.status != NOT_FOUND:
                raise
            return  # deleted before its pods: the reference stands
        self._take(resource, body, {reference.uid}, at)

    def _list(
        self,
        resource: ApiResource,
        namespace: str,
        references: Iterable[OwnerReference],
        at: float,
    ) -> None:
        uids = {reference.uid for reference in references}

        def take(content: msgspec.Raw) -> None:
            header = msgspec.json.decode(content, type=_Header)
            if header.metadata is not None and header.metadata.uid in uids:
                self._take(resource, msgspec.json.decode(content, type=dict[str, Any]), uids, at)

        list_objects(self._client, resource.path(namespace), take)

    def _take(
        self, resource: ApiResource, body: Mapping[str, Any], uids: set[str], at: float
    ) -> None:
        """Keep an object if it is one of those meant: a name may have been given away since."""
        try:
            owner = owner_of(body, resource, self._cluster)
        except (msgspec.ValidationError, ValueError, TypeError, AttributeError) as error:
            self._tell(resource.named, f"an object of {resource.named} cannot be read: {error}")
            return
        if owner.uid in uids:
            self._seen(owner.uid, owner, at)

    def _seen(self, uid: str, owner: Owner | None, at: float) -> None:
        self._known[uid] = _Known(read_at=at, owner=owner)
