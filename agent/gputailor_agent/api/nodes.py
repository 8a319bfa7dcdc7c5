"""Nodes and what is free on them, for the page and the API.

``held`` counts devices that pods asked for and hold now, as the inventory of the plan's time has
them; a node whose pods are not known has 0 held only where the inventory lists no pod on it. Each
resource stands for itself: whole cards, MIG slices, shares and other makers' cards have no sum.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from gputailor_agent.api.kept import NodeUse
from gputailor_agent.model.inventory import Node
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import Column, Table

PER_PAGE: Final = 100


class ResourceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of a node; None is unknown."""

    resource: str
    offered: float | None  # to pods; None where the node does not say what it offers
    held: float
    free: float | None
    pods: int  # that hold some of it


class NodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A node in a list; None is unknown.

    ``held`` and ``free`` are None where the node has several resources: a card and a slice of one
    cannot be added. ``by_resource`` has them one by one.
    """

    name: str
    pool: str
    model: str
    resources: dict[str, float]  # that pods can be given, by resource
    capacity: dict[str, float]
    held: float | None
    pods: int
    free: float | None  # None, too, where the node does not say what it offers
    ready: bool | None
    schedulable: bool
    driver_version: str
    devices_seen: int  # by sources of measurements
    devices_lost: int  # of them: they answer no more
    by_resource: tuple[ResourceLine, ...] = ()


def line(one: NodeUse) -> NodeLine:
    """A node's figures."""
    node = one.node
    resources = tuple(_resource(one, name) for name in _resources(one))
    only = resources[0] if len(resources) == 1 else None
    return NodeLine(
        name=node.name,
        pool=node.pool,
        model=_model(one),
        resources=node.allocatable,
        capacity=node.capacity,
        held=only.held if only else (None if resources else 0.0),
        pods=one.pods,
        free=only.free if only else None,
        ready=node.ready,
        schedulable=node.schedulable,
        driver_version=node.driver_version or _drivers(one),
        devices_seen=len(one.devices),
        devices_lost=sum(1 for device in one.devices if device.up is False),
        by_resource=resources,
    )


def _resources(one: NodeUse) -> list[str]:
    """Names of what the node offers or pods hold there; what it offers comes first."""
    return list(dict.fromkeys((*one.node.allocatable, *sorted(one.held))))


def _resource(one: NodeUse, name: str) -> ResourceLine:
    offered = one.node.allocatable.get(name, 0.0) if one.node.allocatable else None
    held = one.held.get(name, 0.0)
    return ResourceLine(
        resource=name,
        offered=offered,
        held=held,
        free=_free(one.node, offered, held),
        pods=one.holders.get(name, 0),
    )


def _free(node: Node, offered: float | None, held: float) -> float | None:
    """What a pod could be given now: nothing of a node that takes none."""
    if offered is None or node.ready is None:
        return None
    return max(0.0, offered - held) if node.schedulable and node.ready else 0.0


def _model(one: NodeUse) -> str:
    seen = dict.fromkeys(device.model for device in one.devices if device.model)
    return one.node.gpu_product or ", ".join(seen)


def _drivers(one: NodeUse) -> str:
    seen = dict.fromkeys(device.driver_version for device in one.devices if device.driver_version)
    return ", ".join(seen)


def standing(one: NodeLine) -> str:
    """Whether the node takes pods, in words."""
    if one.ready is None:
        return units.unknown()
    if not one.ready:
        return _("not ready")
    return _("ready") if one.schedulable else _("cordoned")


def table(lines: Sequence[NodeLine]) -> Table:
    """Nodes as a table: a row for each of their resources."""
    columns = (
        Column(title="node", least=20),
        Column(title="pool", least=10),
        Column(title="model", least=14),
        Column(title="state"),
        Column(title="resource"),
        Column(title="offers", numeric=True),
        Column(title="held", numeric=True),
        Column(title="free", numeric=True),
        Column(title="pods that hold", numeric=True),
        Column(title="driver"),
        Column(title="devices lost", numeric=True),
    )
    rows = tuple(_row(one, part) for one in lines for part in one.by_resource or (None,))
    return Table(columns=columns, rows=rows)


def _row(one: NodeLine, part: ResourceLine | None) -> tuple[str, ...]:
    return (
        one.name,
        one.pool or "-",
        one.model or units.unknown(),
        standing(one),
        part.resource if part else units.unknown(),
        units.count(part.offered if part else None),
        units.count(part.held if part else 0.0),
        units.count(part.free if part else None),
        units.count(part.pods if part else one.pods),
        one.driver_version or units.unknown(),
        units.count(one.devices_lost) if one.devices_seen else units.unknown(),
    )
