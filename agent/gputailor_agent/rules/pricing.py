"""What devices count for in whole GPUs, what they cost, and what a month of them is.

A MIG slice counts as the larger of its compute and its memory share of the card (a 1g.20gb slice
keeps a quarter of an A100's memory from others), a shared device by the share held. Where a node's
slices do not add up to its cards, they are scaled so that they do: a node's whole price goes to its
GPUs and no more than that. Prices are those of the node's instance type where it is known.
"""

import itertools
import re
from dataclasses import dataclass
from typing import Final

from gputailor_agent.catalog import DeviceSpec, Price
from gputailor_agent.catalog.prices import CURRENCY_LABEL, PRICE_LABEL
from gputailor_agent.inventory.kinds import known_kind
from gputailor_agent.inventory.nodes import mig_counts, mig_strategy
from gputailor_agent.inventory.resources import gpu_resource
from gputailor_agent.model.inventory import Node, TaskClass
from gputailor_agent.model.judgement import Message, Money, Saving
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.rules.base import Context, message

_MIG_NAME: Final = re.compile(r"(\d+)g\.(\d+)gb")
_MIG_SLICES: Final = 7
_HOUR: Final = 3600.0
_DAY: Final = 86_400.0
#: A batch's window must be this long before its runs are scaled to a month.
LEAST_WINDOW_SECONDS: Final = 86_400.0

_SERVICE_KINDS: Final = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Notebook"}
)

#: Why money or a month is not known.
MONEY_MESSAGES: Final = {
    "money.no_price": "no price is known for {model}; give one in a file of own prices",
    "money.no_model": "the GPU's model is not known, so it has no price",
    "money.mixed_currencies": "prices are in several currencies",
    "money.short_window": "the window of {window:seconds} is too short to scale runs to a month",
    "money.ended": "it holds no GPU now and nothing tells that it will run again ({runs:count} "
    "run(s) in the window, the last ended {ended:time}), so no saving per month is counted",
    "money.not_counted": "the confidence is low, so no saving is counted",
}


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Whole GPUs of a node, and what one schedulable unit of each kind counts for."""

    gpus: float
    whole_unit: float  # one nvidia.com/gpu (or replica of it)
    mig_units: dict[str, float]  # by MIG profile


@dataclass(frozen=True, slots=True)
class Month:
    """What a workload takes in a month of ``context.hours_per_month`` hours, as it goes now."""

    gpu_hours: float | None
    cost: Money | None
    why: Message | None
    formula: str

    def saving(self, share: float, *, gpu_share: float | None = None) -> Saving:
        """Return the saving of ``share`` of the money and ``gpu_share`` (default same) of hours."""
        hours = share if gpu_share is None else gpu_share
        return Saving(
            gpu_hours_per_month=None if self.gpu_hours is None else self.gpu_hours * hours,
            money_per_month=(
                None
                if self.cost is None
                else Money(amount=self.cost.amount * share, currency=self.cost.currency)
            ),
            why=self.why,
            formula=f"({self.formula}) x {share:.4g}",
        )


def not_counted(formula: str) -> Saving:
    """Saving of a finding whose confidence is too low to count one."""
    return Saving(why=message("money.not_counted"), formula=formula)


def is_service(profile: Profile) -> bool:
    """Whether the workload runs until someone stops it, as opposed to runs that end."""
    task = profile.workload.task_class
    if task in {TaskClass.INFERENCE, TaskClass.NOTEBOOK}:
        return True
    if task in {TaskClass.TRAINING, TaskClass.BATCH}:
        return False
    return profile.workload.kind in _SERVICE_KINDS


def spec_of(context: Context, use: GpuUse) -> DeviceSpec | None:
    """Return the catalogue's card behind a device (for a MIG instance, its parent's)."""
    device = use.device
    if device is None or not device.model:
        return None
    memory = None if device.mig_profile else (device.memory_total_bytes or use.memory_total_bytes)
    return find_spec(context, device.model, memory)


def find_spec(context: Context, model: str, memory_bytes: int | None) -> DeviceSpec | None:
    """``catalogue.find``, remembered."""
    key = ("spec", model, memory_bytes)
    if key not in context.remembered:
        context.remembered[key] = context.catalogue.find(model, memory_bytes)
    found: DeviceSpec | None = context.remembered[key]
    return found


def price_of(context: Context, spec: DeviceSpec | None, node: Node | None) -> Price | None:
    """Price of one whole GPU per hour, on ``node`` where it is known; remembered.

    What a node's own labels tell comes first, and only for the kind of capacity that it has: what
    it would cost as another kind they do not tell.
    """
    if spec is None:
        return None
    key: tuple[str | None, ...] = ("price", spec.key)
    labels: dict[str, str] = {}
    if node is not None:
        if context.nodes.get(node.name, node).capacity_type == node.capacity_type:
            labels = node.labels
        told = (labels.get(name) for name in (PRICE_LABEL, CURRENCY_LABEL))
        key = (*key, node.instance_type, node.region, node.capacity_type, *told)
    if key not in context.remembered:
        context.remembered[key] = (
            context.catalogue.price(spec)
            if node is None
            else context.catalogue.price(
                spec,
                instance_type=node.instance_type,
                region=node.region,
                capacity_type=node.capacity_type or "on-demand",
                labels=labels,
            )
        )
    found: Price | None = context.remembered[key]
    return found


def node_of(context: Context, use: GpuUse) -> Node | None:
    """Return the node a device was used on, by its pod or by the device itself."""
    pod = context.holdings.find(use.namespace, use.pod, use.pod_uid)
    for name in (pod.node if pod is not None else None, use.device.node if use.device else None):
        if name and name in context.nodes:
            return context.nodes[name]
    return None


def node_spec(context: Context, node: Node) -> DeviceSpec | None:
    """Return the catalogue's card of a node: by its labels, else by its instance type.

    Remembered.
    """
    key = ("node spec", node.name)
    known: tuple[Node, DeviceSpec | None] | None = context.remembered.get(key)
    if known is None or known[0] is not node:
        known = context.remembered[key] = (node, _node_spec(context, node))
    return known[1]


def _node_spec(context: Context, node: Node) -> DeviceSpec | None:
    if not node.gpu_product:
        return context.catalogue.of_instance(node.instance_type) if node.instance_type else None
    memory = None if asks_slices_as_gpus(node) else node.gpu_memory_bytes
    return find_spec(context, node.gpu_product, memory)


def use_price(context: Context, use: GpuUse) -> Price | None:
    """Price of one whole GPU hour of the card behind a device."""
    node = node_of(context, use)
    spec = node_spec(context, node) if node is not None else None
    return price_of(context, spec or spec_of(context, use), node)


def asks_slices_as_gpus(node: Node) -> bool:
    """Whether the node's ``nvidia.com/gpu`` are MIG slices (strategy ``single``, MIG switched on).

    The strategy's label alone says nothing: it stands on nodes without MIG as well.
    """
    return mig_strategy(node) == "single" and bool(mig_counts(node))


def mig_fraction(spec: DeviceSpec | None, profile: str) -> float:
    """Return the part of a card that one MIG instance takes from it, 0..1."""
    known = next((mig for mig in spec.mig if mig.name == profile), None) if spec else None
    if known is not None:
        return known.card_share
    found = _MIG_NAME.search(profile)
    return min(1.0, int(found.group(1)) / _MIG_SLICES) if found else 1.0


def node_shape(context: Context, node: Node) -> NodeShape:
    """Return a node's whole GPUs and the weight of each schedulable unit; remembered."""
    key = ("shape", node.name)
    if key not in context.remembered:
        context.remembered[key] = _node_shape(context, node)
    shape: NodeShape = context.remembered[key]
    return shape


def _node_shape(context: Context, node: Node) -> NodeShape:
    counts = {profile: float(count) for profile, count in mig_counts(node).items()}
    spec = node_spec(context, node)
    fractions = {profile: mig_fraction(spec, profile) for profile in counts}
    sliced = sum(counts[profile] * fractions[profile] for profile in counts)
    as_gpus = asks_slices_as_gpus(node)
    units = 0.0 if as_gpus else whole_units(node.capacity)
    whole = units / max(1, node.sharing_replicas)
    told = node.gpu_count
    if told is None:
        gpus = whole + sliced
    elif not counts:
        gpus = whole = float(told) if units else 0.0
    else:
        gpus = float(told) if told > whole else whole + sliced
    left = gpus - whole
    scale = left / sliced if sliced > 0 else 1.0
    slices = {profile: fraction * scale for profile, fraction in fractions.items()}
    unit = whole / units if units > 0 else 1.0
    if as_gpus:
        unit = max(slices.values())
    return NodeShape(gpus=gpus, whole_unit=unit, mig_units=slices)


def whole_units(amounts: dict[str, float]) -> float:
    """Schedulable units that are no MIG instances: devices, replicas, virtual devices."""
    total = 0.0
    for name, amount in amounts.items():
        known = gpu_resource(name)
        if known is not None and known.kind in {"gpu", "shared", "fractional"}:
            total += amount
    return total


def equivalent(context: Context, use: GpuUse) -> float:
    """Return the whole GPUs that one device of a workload counts for."""
    node = node_of(context, use)
    device = use.device
    profile = device.mig_profile if device is not None else ""
    if profile:
        units = node_shape(context, node).mig_units if node is not None else {}
        if profile in units:
            return units[profile]
        return mig_fraction(spec_of(context, use), profile)
    if use.share < 1 or node is None:
        return use.share
    return min(1.0, node_shape(context, node).whole_unit)


def monthly(profile: Profile, context: Context) -> Month:
    """Return GPU-hours and cost of a month.

    A service: what it holds now, all month. A batch: what its runs took in the part of the window
    in which anybody looked, scaled. What has ended and does not come again has no month.
    Remembered.
    """
    known = context.about(profile)
    if "month" not in known:
        known["month"] = _monthly(profile, context)
    month: Month = known["month"]
    return month


def _monthly(profile: Profile, context: Context) -> Month:
    uses = context.holdings.live_uses(profile.gpus, profile.window)
    if not uses and not comes_again(profile):
        ended = message("money.ended", runs=len(profile.runs), ended=_last_end(profile))
        return Month(None, None, ended, "")
    if is_service(profile) and uses:
        hours = context.hours_per_month
        taken = [(use, equivalent(context, use) * hours) for use in uses]
        return _month(context, taken, f"GPUs now x {hours:.0f} h")
    window = profile.window.end - max(profile.window.start, context.measured_since or 0.0)
    if window < LEAST_WINDOW_SECONDS:
        return Month(None, None, message("money.short_window", window=window), "")
    scale = context.hours_per_month * _HOUR / window
    taken = [
        (use, equivalent(context, use) * use.allocated_seconds / _HOUR * scale)
        for use in profile.gpus
    ]
    return _month(context, taken, f"GPU-hours of the window x {scale:.4g}")


def comes_again(profile: Profile) -> bool:
    """Whether a workload that holds nothing now is likely to run again.

    Either its kind starts runs by itself (CronJob), or it began at least twice and has been away
    for no longer than twice its longest way from one start to the next, or a day.
    """
    if known_kind(profile.workload.kind).life == "recurring":
        return True
    if is_service(profile):
        starts = sorted({float(use.first_hour) for use in profile.gpus if use.first_hour})
    else:
        starts = sorted(run.started for run in profile.runs if run.started is not None)
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    away = profile.window.end - _last_end(profile)
    return bool(gaps) and away <= max(2 * max(gaps), _DAY)


def _last_end(profile: Profile) -> float:
    """When the last run ended, by the inventory or, where it does not say, by the last row."""
    told = [run.finished for run in profile.runs if run.finished is not None]
    if len(told) == len(profile.runs) and told:
        return max(told)
    seen = max((use.last_hour for use in profile.gpus), default=0)
    return min(profile.window.end, float(seen + HOUR_SECONDS))


def _month(context: Context, taken: list[tuple[GpuUse, float]], formula: str) -> Month:
    hours = sum(part for _, part in taken)
    cost, why = cost_of(context, taken)
    return Month(
        hours, cost, why, formula + ("" if cost is None else ", at the price per GPU-hour")
    )


def cost_of(
    context: Context, taken: list[tuple[GpuUse, float]]
) -> tuple[Money | None, Message | None]:
    """Return the cost of GPU-hours by device; None, with the reason, where a price is missing."""
    total = 0.0
    currency = ""
    for use, hours in taken:
        price = use_price(context, use)
        if price is None:
            model = use.device.model if use.device is not None else ""
            why = message("money.no_price", model=model) if model else message("money.no_model")
            return None, why
        if currency not in {"", price.currency}:
            return None, message("money.mixed_currencies")
        currency = price.currency
        total += hours * price.amount_per_gpu_hour
    if not currency:
        return None, message("money.no_model")
    return Money(amount=total, currency=currency), None
