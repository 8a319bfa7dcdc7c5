"""Whole GPUs by model at the window's end: allocated + free + unavailable + unknown = capacity.

Allocated is what pods hold (never what a Completed pod still asks for). The rest of a node that is
cordoned or not ready is unavailable, as are devices the kubelet no longer offers; the rest of a
node that does not say whether it is ready is unknown.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gputailor_agent.catalog import DeviceSpec
from gputailor_agent.inventory.resources import gpu_resource, pod_requests
from gputailor_agent.model.inventory import ContainerSpec, GpuRequest, Node, Pod
from gputailor_agent.model.judgement import CapacityLine, Money
from gputailor_agent.model.profile import Profile
from gputailor_agent.profiles.holding import holds_at
from gputailor_agent.rules import Context
from gputailor_agent.rules.pricing import (
    mig_fraction,
    node_shape,
    node_spec,
    price_of,
    spec_of,
)


@dataclass(frozen=True, slots=True)
class NodeBook:
    """One node's whole GPUs: capacity, what pods hold now, what the kubelet no longer offers."""

    node: Node
    model: str
    gpus: float
    held: float
    broken: float
    price: float | None
    currency: str

    def split(self, taken: float, total: float) -> tuple[float, float, float]:
        """Return what is left of ``total`` after ``taken`` as (free, unavailable, unknown).

        Both in the same unit (GPUs, or GPU-hours: then ``total`` is GPUs x hours).
        """
        left = max(0.0, total - taken)
        if not self.node.schedulable or self.node.ready is False:
            return 0.0, left, 0.0
        if self.node.ready is None:
            return 0.0, 0.0, left
        broken = min(left, total * self.broken / self.gpus) if self.gpus > 0 else 0.0
        return left - broken, broken, 0.0


class Sighting(NamedTuple):
    """A device that a source saw on a node, by the first workload that used one there."""

    workload_id: str
    spec: DeviceSpec | None
    model: str


def sightings(context: Context, profile: Profile) -> Iterator[tuple[str, Sighting]]:
    """Yield (node, sighting) for the nodes of a profile whose labels tell no card."""
    told: set[str] = set()
    for use in profile.gpus:
        device = use.device
        if device is None or not device.node or not device.model or device.node in told:
            continue
        told.add(device.node)
        node = context.nodes.get(device.node)
        if node is not None and node_spec(context, node) is None:
            spec = spec_of(context, use)
            yield node.name, Sighting(profile.workload.id, spec, device.model)


def node_books(context: Context, seen: Mapping[str, Sighting], at: float) -> list[NodeBook]:
    """Return a book for every node with GPUs, in order of the nodes' names."""
    pods = holders(context, at)
    books = []
    for node in sorted(context.inventory.nodes, key=lambda node: node.name):
        shape = node_shape(context, node)
        if shape.gpus <= 0:
            continue
        spec, sighting = node_spec(context, node), seen.get(node.name)
        if spec is None and sighting is not None:
            spec = sighting.spec
        price = price_of(context, spec, node)
        model = sighting.model if sighting is not None else "unknown"
        books.append(
            NodeBook(
                node=node,
                model=spec.key if spec else node.gpu_product or model,
                gpus=shape.gpus,
                held=sum(held_by(context, node, pod) for pod in pods.get(node.name, ())),
                broken=_broken(context, node),
                price=None if price is None else price.amount_per_gpu_hour,
                currency="" if price is None else price.currency,
            )
        )
    return books


def _unit(context: Context, node: Node, kind: str, mig_profile: str) -> float:
    """Whole GPUs of one schedulable unit of the node."""
    shape = node_shape(context, node)
    if kind == "mig":
        unit = shape.mig_units.get(mig_profile)
        return mig_fraction(node_spec(context, node), mig_profile) if unit is None else unit
    return shape.whole_unit if kind in {"gpu", "shared", "fractional"} else 0.0


def held_by(context: Context, node: Node, pod: Pod) -> float:
    """Whole GPUs of the node that the pod holds while it holds them."""
    return sum(
        request.count * _unit(context, node, request.kind, request.mig_profile)
        for request in asked_by(context, pod)
    )


def holders(context: Context, at: float) -> Mapping[str, list[Pod]]:
    """Pods that hold devices at ``at`` (Unix seconds), by node; remembered."""
    key = ("holders", at)
    if key not in context.remembered:
        found: dict[str, list[Pod]] = defaultdict(list)
        for pod in context.inventory.pods:
            if pod.node and holds_at(pod, at):
                found[pod.node].append(pod)
        context.remembered[key] = dict(found)
    known: dict[str, list[Pod]] = context.remembered[key]
    return known


def asked_by(context: Context, pod: Pod) -> tuple[GpuRequest, ...]:
    """What a pod asks the scheduler for; remembered for pods that share their containers.

    Pods of one controller do: whoever reads an inventory keeps equal containers once.
    """
    known: dict[int, tuple[tuple[ContainerSpec, ...], tuple[GpuRequest, ...]]]
    known = context.remembered.setdefault("asked by containers", {})
    found = known.get(id(pod.containers))
    if found is None:  # the containers are kept beside the answer, so no other takes their id
        found = known[id(pod.containers)] = (pod.containers, pod_requests(pod))
    return found[1]


def _broken(context: Context, node: Node) -> float:
    """Whole GPUs in capacity that are not allocatable: the device plugin found them unhealthy."""
    total = 0.0
    for name, amount in node.capacity.items():
        known = gpu_resource(name)
        lost = amount - node.allocatable.get(name, 0.0)
        if known is not None and lost > 0:
            total += lost * _unit(context, node, known.kind, known.partition)
    return total


def capacity_lines(books: Iterable[NodeBook]) -> tuple[CapacityLine, ...]:
    """Return one line per model; what is held counts as allocated wherever it is held."""
    by_model: dict[str, list[NodeBook]] = defaultdict(list)
    for book in books:
        by_model[book.model].append(book)
    return tuple(_line(model, parts) for model, parts in sorted(by_model.items()))


def _line(model: str, books: list[NodeBook]) -> CapacityLine:
    free = unavailable = unknown = 0.0
    for book in books:
        parts = book.split(book.held, book.gpus)
        free, unavailable, unknown = free + parts[0], unavailable + parts[1], unknown + parts[2]
    gpus = sum(book.gpus for book in books)
    price = None
    currencies = {"" if book.price is None else book.currency for book in books}
    if len(currencies) == 1 and "" not in currencies:
        mean = sum(book.gpus * (book.price or 0.0) for book in books) / gpus
        price = Money(amount=mean, currency=currencies.pop())
    return CapacityLine(
        model=model,
        capacity=gpus,
        allocated=sum(book.held for book in books),
        free=free,
        unavailable=unavailable,
        unknown=unknown,
        usd_per_gpu_hour=price.amount if price is not None and price.currency == "USD" else None,
        price_per_gpu_hour=price,
    )
