"""A node object as a value: its devices, price class and health, as its labels tell them.

Labels are written by feature discovery, node labellers and clouds (``nodes.yaml``). They describe
what the node's owner configured; what the driver says at run time comes with the usage.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources as packaged
from typing import Final

import msgspec
import yaml

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.resources import gpu_amounts, gpu_resource, quantity, whole
from gputailor_agent.model.inventory import Node


class MemoryLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label that tells a device's memory; ``unit`` bytes where it carries no unit."""

    label: str
    unit: int


class CapacityLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label that tells spot from on demand."""

    label: str
    values: dict[str, str]


class NodeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of ``nodes.yaml``."""

    product: tuple[str, ...]
    memory: tuple[MemoryLabel, ...]
    count: tuple[str, ...]
    cards: tuple[str, ...]
    replicas: tuple[str, ...]
    mig_strategy: tuple[str, ...]
    mig_partition: tuple[str, ...]
    instance_type: tuple[str, ...]
    region: tuple[str, ...]
    zone: tuple[str, ...]
    pool: tuple[str, ...]
    capacity_type: tuple[CapacityLabel, ...]
    driver_version: tuple[str, ...]
    driver_version_parts: tuple[tuple[str, ...], ...]
    cuda_version: tuple[str, ...]
    cuda_version_parts: tuple[tuple[str, ...], ...]


@cache
def node_table() -> NodeTable:
    """The packaged table of node labels."""
    text = packaged.files(__package__).joinpath("nodes.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), NodeTable)


_MIG_LABEL: Final = re.compile(r"nvidia\.com/(mig-[0-9]+g\.[0-9]+gb[a-z.-]*?)\.count")
_MIG_SUFFIX: Final = re.compile(r"-MIG-([0-9]+g\.[0-9]+gb)")
_VENDOR_ONLY: Final = frozenset({"nvidia", "amd", "intel", "true"})
_LEAST_FIELDS: Final = 3  # id, count, memory
_UNITS: Final = {"MIB": 2**20, "MB": 2**20, "GIB": 2**30, "GB": 2**30, "M": 2**20, "G": 2**30}


def _first(labels: Mapping[str, str], keys: Sequence[str]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")


def _product(labels: Mapping[str, str], table: NodeTable) -> str:
    """The device's name; a label that only names the vendor is none."""
    names = (labels.get(key, "") for key in table.product)
    return next((name for name in names if name and name not in _VENDOR_ONLY), "")


def _number(labels: Mapping[str, str], keys: Sequence[str]) -> int | None:
    value = quantity(_first(labels, keys))
    return None if value is None else int(value)


def _version(labels: Mapping[str, str], full: Sequence[str], parts: Sequence[Sequence[str]]) -> str:
    if whole := _first(labels, full):
        return whole
    for keys in parts:
        if labels.get(keys[0]):
            return ".".join(labels[key] for key in keys if labels.get(key))
    return ""


def _memory_bytes(labels: Mapping[str, str], table: NodeTable) -> int | None:
    for row in table.memory:
        found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", labels.get(row.label, ""))
        if not found:
            continue
        number, unit = found.groups()
        factor = _UNITS.get(unit.upper(), None) if unit else row.unit
        value = quantity(number)
        if factor is not None and value:
            return round(value * factor)
    return None


def _capacity_type(labels: Mapping[str, str], table: NodeTable) -> str:
    for row in table.capacity_type:
        value = labels.get(row.label)
        if value is not None:
            known = row.values.get(value.lower(), row.values.get("*"))
            if known:
                return known
    return ""


def mig_strategy(node: Node) -> str:
    """The MIG strategy (``none``, ``single``, ``mixed``); '' where the node does not say.

    A product name that ends in a MIG profile is the ``single`` strategy.
    """
    if _MIG_SUFFIX.search(node.gpu_product) or _first(node.labels, node_table().mig_partition):
        return "single"
    return _first(node.labels, node_table().mig_strategy)


def mig_counts(node: Node) -> dict[str, int]:
    """Schedulable MIG instances of the node by profile ("1g.5gb": 7)."""
    counts: dict[str, int] = {}
    for name, amount in node.capacity.items():
        known = gpu_resource(name)
        if known is not None and known.kind == "mig" and amount > 0:
            counts[known.partition] = counts.get(known.partition, 0) + int(amount)
    single = _MIG_SUFFIX.search(node.gpu_product)
    if single and not counts:
        counts[single.group(1)] = int(node.capacity.get("nvidia.com/gpu", 0))
    return {profile: count for profile, count in counts.items() if count > 0}


def _whole_devices(capacity: Mapping[str, float]) -> float:
    """Devices by their whole ones, each once where a plugin offers them under two names."""
    kinds = {name: known for name in capacity if (known := gpu_resource(name)) is not None}
    whole = {name for name, known in kinds.items() if known.kind == "gpu"}
    return sum(capacity[name] for name in whole if whole.isdisjoint(kinds[name].again))


def _once(capacity: Mapping[str, float]) -> dict[str, float]:
    """The capacity without what is there again under another name, or in parts."""
    return {
        name: amount
        for name, amount in capacity.items()
        if (known := gpu_resource(name)) is None or capacity.keys().isdisjoint(known.again)
    }


class _Card(msgspec.Struct, frozen=True):
    """One card as a sharing plugin lists it."""

    id: str
    type: str = ""


def _cards(annotations: Mapping[str, str], table: NodeTable) -> list[_Card]:
    """The cards that a sharing plugin lists; none where nobody does, or not in a known form.

    HAMi 2.5 and later: JSON. Before, and Volcano: ``id,count,MiB,[cores,]type,…:``.
    """
    told = _first(annotations, table.cards)
    try:
        found = msgspec.json.decode(told, type=list[_Card]) if told.startswith("[") else []
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    for part in () if told.startswith("[") else told.split(":"):
        fields = part.split(",")
        names = [field for field in fields[3:] if not field.isdigit()]
        if len(fields) > _LEAST_FIELDS:
            found.append(_Card(fields[0], names[0] if names else ""))
    return list({card.id: card for card in found if card.id}.values())


def _gpu_count(
    labels: Mapping[str, str], capacity: Mapping[str, float], product: str, replicas: int
) -> int | None:
    """Physical devices. None under MIG strategy ``single``, where everything counts instances."""
    table = node_table()
    if _MIG_SUFFIX.search(product) or _first(labels, table.mig_partition):
        return _number(labels, table.count[1:])
    if (told := _number(labels, table.count)) is not None:
        return told
    devices = _whole_devices(capacity)
    if devices > 0:
        return math.ceil(devices / replicas)
    return None


def _ready(conditions: Sequence[raw.RawCondition] | None) -> bool | None:
    """Whether the kubelet reports Ready; None where it does not report (any more)."""
    for condition in conditions or ():
        if condition.type == "Ready":
            return {"true": True, "false": False}.get(raw.text(condition.status).lower())
    return None


def _taints(spec: raw.RawNodeSpec | None) -> tuple[str, ...]:
    """As kubectl prints them: ``key=value:Effect``, without the value where there is none."""
    found = []
    for taint in (spec.taints or ()) if spec is not None else ():
        key, value = raw.text(taint.key), raw.text(taint.value)
        found.append(f"{key}={value}:{taint.effect}" if value else f"{key}:{taint.effect}")
    return tuple(found)


def _addresses(status: raw.RawNodeStatus) -> tuple[str, ...]:
    """Addresses and host names of the node, each once."""
    told = (raw.text(one.address) for one in status.addresses or ())
    return tuple(dict.fromkeys(one for one in told if one))


def read_node(node: raw.RawNode, cluster: str) -> Node:
    """A node object as a value."""
    metadata, status = node.metadata or raw.RawMetadata(), node.status or raw.RawNodeStatus()
    labels, table = raw.string_map(metadata.labels), node_table()
    capacity = gpu_amounts(status.capacity)
    cards = _cards(raw.string_map(metadata.annotations), table)
    product = _product(labels, table) or next((card.type for card in cards if card.type), "")
    replicas = max(1, _number(labels, table.replicas) or 1)
    amounts = status.allocatable or status.capacity or {}
    return Node(
        cluster=cluster,
        name=raw.text(metadata.name) or "unnamed-node",
        cpus=quantity(amounts.get("cpu")),
        memory_bytes=whole(amounts.get("memory")),
        labels=labels,
        capacity=_once(capacity),
        allocatable=gpu_amounts(status.allocatable) or ({} if status.allocatable else capacity),
        schedulable=not (node.spec is not None and node.spec.unschedulable),
        ready=_ready(status.conditions),
        instance_type=_first(labels, table.instance_type),
        capacity_type=_capacity_type(labels, table),
        region=_first(labels, table.region),
        zone=_first(labels, table.zone),
        pool=_first(labels, table.pool),
        taints=_taints(node.spec),
        addresses=_addresses(status),
        gpu_product=product,
        gpu_memory_bytes=_memory_bytes(labels, table),
        gpu_count=len(cards) or _gpu_count(labels, capacity, product, replicas),
        sharing_replicas=replicas,
        driver_version=_version(labels, table.driver_version, table.driver_version_parts),
        cuda_version=_version(labels, table.cuda_version, table.cuda_version_parts),
    )
