"""From a pod to its root owner, by UID, for any kind.

An owner whose object is missing (not exported, deleted, forbidden) stands in the chain by its
reference, so nothing is ever dropped; what pods' labels still tell stands above it. A ring of
references ends where it closes. Pods are owners too: a LeaderWorkerSet's workers belong to a
StatefulSet that belongs to the leader pod.
"""

from collections.abc import Iterable, Sequence

import msgspec

from gputailor_agent.inventory.kinds import kind_table
from gputailor_agent.model.inventory import Owner, OwnerReference, Pod


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One owner in the chain. ``known`` says whether its object was there."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    known: bool = True


class _Object(msgspec.Struct, frozen=True):
    link: Link
    owners: tuple[OwnerReference, ...]


def _of_owner(owner: Owner) -> _Object:
    link = Link(
        api_version=owner.api_version,
        kind=owner.kind,
        namespace=owner.namespace,
        name=owner.name,
        uid=owner.uid,
        labels=owner.labels,
        annotations=owner.annotations,
    )
    return _Object(link, owner.owners)


def _of_pod(pod: Pod) -> _Object:
    link = Link(
        api_version="v1",
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        labels=pod.labels,
        annotations=pod.annotations,
    )
    return _Object(link, pod.owners)


class OwnerIndex:
    """Owners and pods by UID, and by name for objects that never had one (manifests)."""

    def __init__(self, owners: Iterable[Owner], pods: Iterable[Pod] = ()) -> None:
        objects = [_of_owner(owner) for owner in owners]
        self._by_name = {
            (one.link.namespace, one.link.kind, one.link.name): one
            for one in objects
            if one.link.uid.startswith("manifest:")
        }
        self._by_uid = {one.link.uid: one for one in objects if one.link.uid}
        self._live_by_name = {
            (one.link.namespace, one.link.kind, one.link.name): one for one in objects
        }
        self._pods = {pod.uid: pod for pod in pods if pod.uid}
        self._chains: dict[tuple[str, str], tuple[Link, ...]] = {}

    def chain(self, pod: Pod) -> tuple[Link, ...]:
        """Owners from the nearest to the root; empty for a bare pod."""
        if not pod.owners:
            return ()
        first = self._best(pod.owners, pod.namespace)
        key = (pod.namespace, first.uid or f"{first.kind}/{first.name}")
        if key not in self._chains:
            self._chains[key] = tuple(self._climb(first, pod))
        chain = self._chains[key]
        return self._promoted(chain, pod) if not chain[-1].known else chain

    def everything_above(self, pods: Iterable[Pod]) -> set[str]:
        """UIDs of all owners of these pods, at every level."""
        return {link.uid for pod in pods for link in self.chain(pod)}

    def _object(self, reference: OwnerReference, namespace: str) -> _Object | None:
        found = self._by_uid.get(reference.uid) if reference.uid else None
        if found is None and reference.uid in self._pods:
            found = _of_pod(self._pods[reference.uid])
        return found or self._by_name.get((namespace, reference.kind, reference.name))

    def _best(self, references: Sequence[OwnerReference], namespace: str) -> OwnerReference:
        """The controlling owner (it is first), else the first whose object is there."""
        known = [ref for ref in references if self._object(ref, namespace) is not None]
        return references[0] if references[0] in known or not known else known[0]

    def _climb(self, reference: OwnerReference, pod: Pod) -> Iterable[Link]:
        seen = {pod.uid} if pod.uid else set()
        while True:
            found = self._object(reference, pod.namespace)
            link = found.link if found else _by_reference(reference, pod.namespace)
            identity = link.uid or f"{link.kind}/{link.name}"
            if identity in seen:
                return
            seen.add(identity)
            yield link
            if found is None or not found.owners:
                return
            reference = self._best(found.owners, pod.namespace)

    def _promoted(self, chain: tuple[Link, ...], pod: Pod) -> tuple[Link, ...]:
        """The chain with what the pod's labels tell above its last, missing owner."""
        table, links = kind_table(), list(chain)
        for rule in table.hashed:
            suffix = "-" + pod.labels.get(rule.label, "")
            if links[-1].kind == rule.below and len(suffix) > 1 and links[-1].name.endswith(suffix):
                name = links[-1].name.removesuffix(suffix)
                links.append(self._told(rule.kind, rule.api_version, pod.namespace, name))
                break
        for row in table.promotions:
            name = pod.labels.get(row.label, "")
            kind = row.kind or pod.labels.get(row.kind_label, "")
            if name and kind and kind != links[-1].kind and links[-1].kind in row.below:
                links.append(self._told(kind, row.api_version, pod.namespace, name))
        return tuple(links)

    def _told(self, kind: str, api_version: str, namespace: str, name: str) -> Link:
        known = self._live_by_name.get((namespace, kind, name))
        if known is not None:
            return known.link
        return Link(
            api_version=api_version,
            kind=kind,
            namespace=namespace,
            name=name,
            uid=f"label:{namespace}/{kind}/{name}",
            known=False,
        )


def _by_reference(reference: OwnerReference, namespace: str) -> Link:
    return Link(
        api_version=reference.api_version,
        kind=reference.kind,
        namespace=namespace,
        name=reference.name,
        uid=reference.uid,
        known=False,
    )


def root_of(pod: Pod, index: OwnerIndex) -> Link:
    """The root owner; a bare pod is its own."""
    chain = index.chain(pod)
    return chain[-1] if chain else itself(pod)


def itself(pod: Pod) -> Link:
    """A pod as the root of itself."""
    return _of_pod(pod).link
