"""Prices that OpenCost knows: its exporter's page, or the pricing CSV it reads.

``node_gpu_hourly_cost`` is the price of one GPU of a node, without the node's CPUs and memory,
which OpenCost prices apart; a list price of ours has them in. Sources: OpenCost's metrics
reference and Kubecost's CSV pricing page. Zero means that OpenCost has no price there.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import Final

from gputailor_agent.catalog.prices import Price
from gputailor_agent.catalog.schemas import OPENCOST
from gputailor_agent.catalog.tables import Fault, read_table

METRIC: Final = "node_gpu_hourly_cost"
_IS_SPOT: Final = "kubecost_node_is_spot"
_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)\{(?P<labels>.*)\}\s+(?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_DAY_LENGTH: Final = len("2026-11-30")


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What one GPU of a node costs per hour."""

    instance_type: str
    region: str
    spot: bool
    amount: float


def is_page(content: str) -> bool:
    """Whether a text is a page of OpenCost's exporter."""
    return any(line.startswith(f"{METRIC}{{") for line in content.splitlines())


def page_prices(
    place: str, content: str, *, currency: str = "USD", as_of: str = ""
) -> tuple[list[Price], list[Fault]]:
    """Prices by instance type and region out of ``/metrics`` of OpenCost.

    Nodes without an instance type are left out, since no price can be found by a node's name; where
    that leaves none at all, it is a fault.
    """
    spot = _spot_nodes(content)
    costs: list[NodeCost] = []
    nameless: list[Fault] = []
    for line, labels, value in _samples(content, METRIC):
        cost = node_cost(labels, value, spot)
        if cost is not None:
            costs.append(cost)
        elif value > 0 and not labels.get("instance_type"):
            told = f"must not be blank: node {labels['node']} has no instance type"
            nameless.append(Fault(place, line, "instance_type", f"{told} to find its price by"))
    prices = cost_prices(place, costs, currency=currency, as_of=as_of)
    return prices, ([] if prices else nameless)


def node_cost(
    labels: Mapping[str, str], value: float, spot_nodes: Collection[str] = ()
) -> NodeCost | None:
    """One sample of ``node_gpu_hourly_cost``; None where it has no price or no instance type.

    Fits a page's sample as well as one that a Prometheus answers with.
    """
    if not math.isfinite(value) or value <= 0 or not labels.get("instance_type"):
        return None
    return NodeCost(
        instance_type=labels["instance_type"],
        region=labels.get("region", ""),
        spot=labels.get("node", labels.get("instance", "")) in spot_nodes,
        amount=value,
    )


def cost_prices(
    place: str, costs: Iterable[NodeCost], *, currency: str = "USD", as_of: str = ""
) -> list[Price]:
    """Prices of nodes' costs by instance type, region and way of buying.

    Nodes of one kind with different prices (negotiated by node) give their median. The metric has
    no currency; ``currency`` is the cluster's setting.
    """
    groups: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for cost in costs:
        groups[cost.instance_type, cost.region, cost.spot].append(cost.amount)
    return [
        _price(
            place,
            median(amounts),
            instance_type=kind,
            region=region,
            kind="spot" if is_spot else "on_demand",
            currency=currency,
            as_of=as_of,
        )
        for (kind, region, is_spot), amounts in sorted(groups.items())
    ]


def _spot_nodes(content: str) -> frozenset[str]:
    found = (labels["node"] for _, labels, value in _samples(content, _IS_SPOT) if value > 0)
    return frozenset(found)


def _samples(content: str, name: str) -> Iterable[tuple[int, dict[str, str], float]]:
    """Line number, labels and value of each sample of a metric."""
    for number, line in enumerate(content.splitlines(), 1):
        match = _SAMPLE.match(line)
        if match is None or match["name"] != name:
            continue
        labels = dict(_LABEL.findall(match["labels"]))
        labels.setdefault("node", labels.get("instance", ""))
        try:
            yield number, labels, float(match["value"])
        except ValueError:
            continue


def table_prices(place: str, content: str) -> tuple[list[tuple[str, Price]], list[Fault]]:
    """(GPU as written, price) of each ``gpu`` row of OpenCost's pricing CSV.

    ``InstanceID`` of such a row is the value of the node label that names the GPU. Rows of nodes
    and volumes are skipped: a node's row is its price without GPUs.
    """
    checked = read_table(place, content.replace("EndTimeStamp", "EndTimestamp", 1), OPENCOST)
    prices = []
    faults = list(checked.faults)
    for row in checked.rows:
        if row["AssetClass"].lower() != "gpu":
            continue
        if not row["InstanceID"] and not row["InstanceType"]:
            faults.append(row.fault("InstanceID", "must name the GPU of a gpu row"))
            continue
        price = _price(
            place,
            float(row["MarketPriceHourly"]),
            instance_type=row["InstanceType"],
            region=row["Region"],
            kind="on_demand",
            currency="USD",
            as_of=_date(row["EndTimestamp"]),
        )
        prices.append((row["InstanceID"], price))
    return prices, faults


def _date(stamp: str) -> str:
    try:
        return date.fromisoformat(stamp[:_DAY_LENGTH]).isoformat()
    except ValueError:
        return ""


def _price(
    place: str,
    amount: float,
    *,
    instance_type: str,
    region: str,
    kind: str,
    currency: str,
    as_of: str,
) -> Price:
    return Price(
        accelerator="",
        amount_per_gpu_hour=amount,
        currency=currency,
        kind=kind,
        provider="opencost",
        instance_type=instance_type,
        region=region,
        as_of=as_of,
        source=f"OpenCost ({place}): the GPU without the node's CPUs and memory",
        gpu_count=1,
        own=True,
    )
