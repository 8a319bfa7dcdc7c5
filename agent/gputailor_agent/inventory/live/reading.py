"""A cluster read once, as from a laptop: nothing is installed there and nothing stays behind."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from gputailor_agent.inventory.claims import Claims
from gputailor_agent.inventory.live.choosing import NamespaceChoice
from gputailor_agent.inventory.live.client import Client, connect
from gputailor_agent.inventory.live.discovering import NODES, PODS, ApiResource, Discovery
from gputailor_agent.inventory.live.errors import (
    FORBIDDEN,
    NOT_FOUND,
    AnswerError,
    ClusterError,
)
from gputailor_agent.inventory.live.listing import list_objects
from gputailor_agent.inventory.live.naming import NamespaceMemory
from gputailor_agent.inventory.live.owning import OwnerMemory, Reference, climbing
from gputailor_agent.inventory.live.remembering import NodeMemory, PodEntry, PodMemory
from gputailor_agent.model.inventory import Inventory

T = TypeVar("T")

_CLAIM_GROUP: Final = "resource.k8s.io"
_CLAIM_KINDS: Final = (
    ("resourceclaims", "ResourceClaim"),
    ("resourceclaimtemplates", "ResourceClaimTemplate"),
)
_CLASS_KIND: Final = ("deviceclasses", "DeviceClass")


def read_live_inventory(
    cluster: str,
    *,
    kubeconfig: Path | str | None = None,
    context: str | None = None,
    namespaces: Sequence[str] | None = None,
    at: float,
) -> Inventory:
    """What a live cluster is asked for, as of ``at`` (Unix seconds).

    Holds the pods that ask for accelerators, their owners to the root, and all nodes.
    ``namespaces``: only these (a Role in each is enough), by name or shell pattern; one behind
    ``!`` is left out; None for all. What may not be read is told in ``problems``. Raises
    ``ClusterError`` where no pods can be read at all.
    """
    client = connect(kubeconfig, context)
    try:
        choice = NamespaceChoice.of(namespaces)
        return read_from(client, cluster, choice, at=at)
    finally:
        client.close()


def read_from(
    client: Client, cluster: str, choice: NamespaceChoice | None = None, *, at: float
) -> Inventory:
    """The same through a client that is already there."""
    choice = choice or NamespaceChoice()
    problems: list[str] = []
    pods = PodMemory(cluster, takes=choice.takes)
    empty: list[str] = []
    for namespace in choice.places:
        listing = _listed(client, PODS, namespace, pods.take, problems)
        pods.replace(listing or (), namespace or "", at, at)
        empty += [namespace] if namespace and listing == () else []
    if len(problems) == len(choice.places):
        raise ClusterError(no_pods(problems))
    problems += absent(client, empty)
    nodes = NodeMemory(cluster)
    listing_of_nodes = _listed(client, NODES, "", nodes.take, [])
    if listing_of_nodes is None:
        problems.append(no_nodes(client.where))
    nodes.listed(listing_of_nodes or (), at, at)
    memories = Memories(
        pods=pods,
        nodes=nodes,
        owners=OwnerMemory(client, cluster),
        namespaces=NamespaceMemory(client, one_by_one=choice.places != ("",)),
    )
    return assemble(client, at, memories, now=at, problems=problems)


def absent(client: Client, namespaces: Iterable[str]) -> list[str]:
    """What to say of namespaces that are not there, each of which looks like an empty one."""
    return [
        f"namespace {name!r} is not there; check --namespace (kubectl get namespaces)"
        for name in namespaces
        if not _is_there(client, name)
    ]


def _is_there(client: Client, namespace: str) -> bool:
    """Whether the namespace exists; where nobody may look it is taken to."""
    try:
        client.get(f"/api/v1/namespaces/{quote(namespace, safe='')}", dict[str, Any])
    except ClusterError as error:
        return getattr(error, "status", None) != NOT_FOUND
    return True


def no_pods(problems: Iterable[str]) -> str:
    """What to say where pods cannot be read anywhere."""
    return (
        "pods cannot be read: "
        + "; ".join(dict.fromkeys(problems))
        + ". If you may read some namespaces only, name them with --namespace"
    )


def no_nodes(where: str) -> str:
    """What is missing, and why, where nodes may not be read."""
    return (
        f"nodes may not be read (as {where}): GPU models, prices, capacity and free GPUs are "
        "unknown; grant list and watch on nodes by a ClusterRole (docs/kubernetes.md)"
    )


def _listed(
    client: Client,
    resource: ApiResource,
    namespace: str,
    take: Callable[[msgspec.Raw], T | None],
    problems: list[str],
) -> tuple[T, ...] | None:
    """The objects; None where permission is missing, which is told. Raises for anything else."""
    try:
        return list_objects(client, resource.path(namespace), take).items
    except AnswerError as error:
        if error.status != FORBIDDEN:
            raise
        problems.append(str(error))
        return None


def references_of(entries: Iterable[PodEntry]) -> list[Reference]:
    """What the pods name as their makers."""
    return [
        (entry.namespace, reference) for entry in entries for reference in climbing(entry.owners)
    ]


def read_claims(client: Client, entries: Sequence[PodEntry], problems: list[str]) -> Claims:
    """The DRA claims of the namespaces in which pods name any; none is asked for otherwise.

    Classes are read where a claim that waits for its devices can be told by nothing else.
    """
    claims = Claims()
    namespaces = sorted({entry.namespace for entry in entries if entry.claims})
    if not namespaces:
        return claims
    discovery = Discovery(client)
    for named in _CLAIM_KINDS:
        _take(client, discovery, named, namespaces, claims=claims, problems=problems)
    if claims.need_classes:
        _take(client, discovery, _CLASS_KIND, [""], claims=claims, problems=problems)
    return claims


def _take(
    client: Client,
    discovery: Discovery,
    named: tuple[str, str],
    namespaces: Sequence[str],
    *,
    claims: Claims,
    problems: list[str],
) -> None:
    """Read one kind of claims, or classes, where the cluster serves it; failures are told."""
    plural, kind = named

    def take(content: msgspec.Raw) -> None:
        claims.add({**msgspec.json.decode(content, type=dict[str, Any]), "kind": kind})

    try:
        resource = discovery.served(_CLAIM_GROUP, plural)
        if resource is not None:
            for namespace in namespaces:
                list_objects(client, resource.path(namespace), take)
    except ClusterError as error:
        told = (
            f"{plural}.{_CLAIM_GROUP} cannot be read, so what waits for a class of the cluster's "
            f"own is not known to be a GPU: {error}"
            if named == _CLASS_KIND
            else f"{plural}.{_CLAIM_GROUP} cannot be read, so what pods claim is of unknown kind "
            f"and number: {error}"
        )
        problems.append(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    """What is remembered of a cluster."""

    pods: PodMemory
    nodes: NodeMemory
    owners: OwnerMemory
    namespaces: NamespaceMemory


def assemble(
    client: Client, at: float, known: Memories, *, now: float, problems: Iterable[str] = ()
) -> Inventory:
    """An inventory of what is remembered, with owners and claims read where they are missing.

    ``at`` is what the inventory says; ``now`` decides which owners are read anew (Unix seconds).
    """
    told = list(problems)
    entries = known.pods.entries()
    references = references_of(entries)
    known.owners.resolve(references, now)
    claims = read_claims(client, entries, told)
    found = known.pods.pods(entries, claims, told)
    above = known.owners.above(reference for _, reference in references)
    told += [*known.pods.problems(), *known.nodes.problems(), *known.owners.problems()]
    return Inventory(
        cluster=known.pods.cluster,
        at=at,
        pods=found,
        nodes=known.nodes.nodes(),
        owners=tuple(above[uid] for uid in sorted(above)),
        problems=tuple(dict.fromkeys(told)),
        namespaces=known.namespaces.labels((pod.namespace for pod in found), now),
    )
