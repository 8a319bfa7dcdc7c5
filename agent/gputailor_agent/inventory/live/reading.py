"""A cluster read once, as from a laptop: nothing is installed there and nothing stays behind."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gputailor_agent.inventory.claims import Claims
from gputailor_agent.inventory.live.client import Client, connect
from gputailor_agent.inventory.live.discovering import NODES, PODS, ApiResource, Discovery
from gputailor_agent.inventory.live.errors import FORBIDDEN, AnswerError, ClusterError
from gputailor_agent.inventory.live.listing import list_objects
from gputailor_agent.inventory.live.owning import OwnerMemory, Reference, climbing
from gputailor_agent.inventory.live.remembering import NodeMemory, PodEntry, PodMemory, unpack
from gputailor_agent.model.inventory import Inventory

T = TypeVar("T")

_CLAIM_GROUP: Final = "resource.k8s.io"
_CLAIM_KINDS: Final = (
    ("resourceclaims", "ResourceClaim"),
    ("resourceclaimtemplates", "ResourceClaimTemplate"),
)


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
    ``namespaces``: only these (a Role in each is enough); None for all. What may not be read is
    told in ``problems``. Raises ``ClusterError`` where no pods can be read at all.
    """
    client = connect(kubeconfig, context)
    try:
        return read_from(client, cluster, namespaces=namespaces, at=at)
    finally:
        client.close()


def read_from(
    client: Client, cluster: str, *, namespaces: Sequence[str] | None = None, at: float
) -> Inventory:
    """The same through a client that is already there."""
    problems: list[str] = []
    pods = PodMemory(cluster)
    for namespace in places(namespaces):
        listing = _listed(client, PODS, namespace, pods.take, problems)
        pods.replace(listing or (), namespace or "", at, at)
    if len(problems) == len(places(namespaces)):
        raise ClusterError(no_pods(problems))
    nodes = NodeMemory(cluster)
    listing_of_nodes = _listed(client, NODES, "", nodes.take, [])
    if listing_of_nodes is None:
        problems.append(no_nodes(client.where))
    nodes.listed(listing_of_nodes or (), at, at)
    owners = OwnerMemory(client, cluster)
    return assemble(client, at, now=at, pods=pods, nodes=nodes, owners=owners, problems=problems)


def places(namespaces: Sequence[str] | None) -> tuple[str, ...]:
    """Where pods are asked for: each namespace, or ('',) for all at once."""
    return tuple(dict.fromkeys(namespaces)) if namespaces else ("",)


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
    """The DRA claims of the namespaces in which pods name any; none is asked for otherwise."""
    claims = Claims()
    namespaces = sorted({entry.namespace for entry in entries if entry.claims})
    if not namespaces:
        return claims
    discovery = Discovery(client)
    for plural, kind in _CLAIM_KINDS:

        def take(content: msgspec.Raw, kind: str = kind) -> None:
            claims.add({**msgspec.json.decode(content, type=dict[str, Any]), "kind": kind})

        try:
            resource = discovery.served(_CLAIM_GROUP, plural)
            for namespace in namespaces if resource is not None else ():
                assert resource is not None
                list_objects(client, resource.path(namespace), take)
        except ClusterError as error:
            problems.append(
                f"{plural}.{_CLAIM_GROUP} cannot be read, so what pods claim is of unknown kind "
                f"and number: {error}"
            )
    return claims


def assemble(
    client: Client,
    at: float,
    *,
    now: float,
    pods: PodMemory,
    nodes: NodeMemory,
    owners: OwnerMemory,
    problems: Iterable[str] = (),
) -> Inventory:
    """An inventory of what is remembered, with owners and claims read where they are missing.

    ``at`` is what the inventory says; ``now`` decides which owners are read anew (Unix seconds).
    """
    told = list(problems)
    entries = pods.entries()
    references = references_of(entries)
    owners.resolve(references, now)
    claims = read_claims(client, entries, told)
    found = tuple(unpack(entries, pods.cluster, claims, told))
    above = owners.above(reference for _, reference in references)
    told += [*pods.problems(), *nodes.problems(), *owners.problems()]
    return Inventory(
        cluster=pods.cluster,
        at=at,
        pods=found,
        nodes=nodes.nodes(),
        owners=tuple(above[uid] for uid in sorted(above)),
        problems=tuple(dict.fromkeys(told)),
    )
