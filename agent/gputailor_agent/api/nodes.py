"""Nodes and what is free on them, for the page and the API.

``held`` counts devices that pods asked for and hold now, as the inventory of the plan's time has
them; a node whose pods are not known has 0 held only where the inventory lists no pod on it.
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


class NodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A node in a list; None is unknown."""

    name: str
    pool: str
    model: str
    resources: dict[str, float]  # that pods can be given, by resource
    capacity: dict[str, float]
    held: float
    pods: int
    free: float | None  # None where the node does not say what it offers
    ready: bool | None
    schedulable: bool
    driver_version: str
    devices_seen: int  # by sources of measurements
    devices_lost: int  # of them: they answer no more


def line(one: NodeUse) -> NodeLine:
    """A node's figures."""
    node = one.node
    offered = sum(node.allocatable.values()) if node.allocatable else None
    return NodeLine(
        name=node.name,
        pool=node.pool,
        model=_model(one),
        resources=node.allocatable,
        capacity=node.capacity,
        held=one.held,
        pods=one.pods,
        free=_free(node, offered, one.held),
        ready=node.ready,
        schedulable=node.schedulable,
        driver_version=node.driver_version or _drivers(one),
        devices_seen=len(one.devices),
        devices_lost=sum(1 for device in one.devices if device.up is False),
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
    """Nodes as a table."""
    columns = (
        Column(title="node", least=20),
        Column(title="pool", least=10),
        Column(title="model", least=14),
        Column(title="state"),
        Column(title="offers", numeric=True),
        Column(title="held", numeric=True),
        Column(title="free", numeric=True),
        Column(title="pods", numeric=True),
        Column(title="driver"),
        Column(title="devices lost", numeric=True),
    )
    return Table(columns=columns, rows=tuple(map(_row, lines)))


def _row(one: NodeLine) -> tuple[str, ...]:
    offers = _(", ").join(f"{units.count(n)} x {name}" for name, n in one.resources.items())
    return (
        one.name,
        one.pool or "-",
        one.model or units.unknown(),
        standing(one),
        offers or units.unknown(),
        units.count(one.held),
        units.count(one.free),
        units.count(one.pods),
        one.driver_version or units.unknown(),
        units.count(one.devices_lost) if one.devices_seen else units.unknown(),
    )
