"""What a card or a MIG slice can do, and which ones this cluster has.

Candidates are the models and MIG geometries present on the cluster's nodes; every other card of the
same vendor with a price is only "if you can get it". A slice has its share of SMs (compute slices
where SMs are not known) and of memory bandwidth (memory slices).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gputailor_agent.catalog import DeviceSpec, MigProfile, Price
from gputailor_agent.inventory.nodes import mig_counts
from gputailor_agent.model.inventory import Node
from gputailor_agent.rules.base import Context
from gputailor_agent.rules.pricing import (
    asks_slices_as_gpus,
    mig_fraction,
    node_spec,
    price_of,
    whole_units,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A whole card or a MIG slice of one. None: the catalogue has no such figure.

    ``price`` is for the part of the card taken, per hour in ``currency``.
    """

    spec: DeviceSpec
    mig: str
    usable_memory_bytes: int | None
    fp32_flops: float | None
    tensor_flops: float | None
    bandwidth: float | None
    fraction: float  # of a whole card
    price: float | None
    currency: str
    estimate: bool
    product: str = ""  # the node label's value, '' where it is not in the cluster

    @property
    def name(self) -> str:
        """Catalogue name, with the MIG profile."""
        return f"{self.spec.key} {self.mig}".strip()

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """Architecture, e.g. (8, 0); None where it is not known."""
        major, _, minor = self.spec.compute_capability.partition(".")
        return (int(major), int(minor or 0)) if major.isdigit() else None


def candidate(spec: DeviceSpec, mig: str, price: Price | None, product: str = "") -> Candidate:
    """Return what a whole card (``mig`` '') or one of its slices can do and costs."""
    fraction = mig_fraction(spec, mig) if mig else 1.0
    profile = next((known for known in spec.mig if known.name == mig), None)
    usable = spec.usable_memory_bytes
    compute = bandwidth = 1.0
    if mig:
        usable = profile.usable_memory_bytes if profile is not None else None
        compute = bandwidth = fraction
    if profile is not None:
        compute, bandwidth = slice_shares(spec, profile)
    return Candidate(
        spec=spec,
        mig=mig,
        usable_memory_bytes=usable,
        fp32_flops=_times(spec.fp32_flops, compute),
        tensor_flops=_times(spec.fp16_tensor_flops, compute),
        bandwidth=_times(spec.bandwidth_bytes_per_second, bandwidth),
        fraction=fraction,
        price=None if price is None else price.amount_per_gpu_hour * fraction,
        currency="" if price is None else price.currency,
        estimate=price is not None and price.estimate,
        product=product,
    )


def slice_shares(spec: DeviceSpec, profile: MigProfile) -> tuple[float, float]:
    """Return a slice's share of the card's SMs (else compute slices) and of its bandwidth."""
    compute = profile.compute_slices / profile.of_compute_slices
    if profile.sm_count is not None and spec.sm_count:
        compute = profile.sm_count / spec.sm_count
    return compute, profile.memory_slices / profile.of_memory_slices


def _times(figure: float | None, share: float) -> float | None:
    return None if figure is None else figure * share


def present(context: Context) -> tuple[Candidate, ...]:
    """Cards and MIG slices on the cluster's nodes, each at its cheapest known price; remembered."""
    if "present" not in context.remembered:
        found = (pair for node in context.inventory.nodes for pair in _on_node(context, node))
        context.remembered["present"] = _cheapest(found)
    known: tuple[Candidate, ...] = context.remembered["present"]
    return known


def _on_node(context: Context, node: Node) -> Iterable[Candidate]:
    spec = node_spec(context, node)
    if spec is None:
        return
    price = price_of(context, spec, node)
    shared = node.sharing_replicas > 1
    if not asks_slices_as_gpus(node) and whole_units(node.capacity) > 0 and not shared:
        yield candidate(spec, "", price, node.gpu_product)
    for profile in mig_counts(node):
        yield candidate(spec, profile, price, node.gpu_product)


def _cheapest(found: Iterable[Candidate]) -> tuple[Candidate, ...]:
    best: dict[str, Candidate] = {}
    for one in found:
        known = best.get(one.name)
        if known is None or _price_key(one) < _price_key(known):
            best[one.name] = one
    return tuple(best[name] for name in sorted(best))


def _price_key(one: Candidate) -> tuple[float, str]:
    return (float("inf") if one.price is None else one.price, one.product)


def elsewhere(context: Context) -> tuple[Candidate, ...]:
    """Whole cards of the catalogue that are not in the cluster and have a comparable price.

    One provider's price says as much of the provider as of the card: it counts only where cards
    of the cluster are that provider's, too. Remembered.
    """
    if "elsewhere" not in context.remembered:
        here = {one.spec.key for one in present(context)}
        providers = _providers(context)
        priced = (
            (spec, price_of(context, spec, None))
            for spec in context.catalogue.devices
            if spec.key not in here
        )
        context.remembered["elsewhere"] = tuple(
            candidate(spec, "", price)
            for spec, price in priced
            if price is not None and _comparable(price, providers)
        )
    known: tuple[Candidate, ...] = context.remembered["elsewhere"]
    return known


def _comparable(price: Price, providers: set[str]) -> bool:
    told_by = price.provider.split()
    return not price.estimate or len(told_by) > 1 or not providers.isdisjoint(told_by)


def _providers(context: Context) -> set[str]:
    """Whose list prices the cluster's nodes have."""
    prices = (price_of(context, node_spec(context, one), one) for one in context.inventory.nodes)
    return {one.provider for one in prices if one is not None and not one.estimate}
