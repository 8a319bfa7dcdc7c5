"""Nodes out of their series."""

from collections.abc import Iterable, Iterator

from gputailor_agent.dialects import kube_state_metrics as names
from gputailor_agent.dialects.kube_state_metrics import StateSample
from gputailor_agent.inventory import raw
from gputailor_agent.inventory.kube_state_metrics.names import real_resource
from gputailor_agent.inventory.kube_state_metrics.rows import Rows, by_label
from gputailor_agent.inventory.nodes import read_node
from gputailor_agent.model.inventory import Node

_PLAIN = frozenset({"cpu", "memory"})
_STATUS = {"true": "True", "false": "False", "unknown": "Unknown"}


def nodes_of(samples: Iterable[StateSample], cluster: str) -> Iterator[Node]:
    """Every node that the series tell of, by name."""
    told = by_label((one for one in samples if one.name.startswith("kube_node_")), "node")
    for (name,), rows in sorted(told.items()):
        yield read_node(_raw(name, rows), cluster)


def _raw(name: str, rows: Rows) -> raw.RawNode:
    conditions = rows.by("condition", names.NODE_CONDITION)
    ready = conditions.get("Ready", Rows()).flagged(names.NODE_CONDITION, "status")
    return raw.RawNode(
        metadata=raw.RawMetadata(name=name, labels=rows.keyed(names.NODE_LABELS, "label_")),
        spec=raw.RawNodeSpec(unschedulable=rows.value(names.NODE_UNSCHEDULABLE) == 1),
        status=raw.RawNodeStatus(
            addresses=[
                raw.RawAddress(type="InternalIP", address=sample.labels.get("internal_ip"))
                for sample in rows.of(names.NODE_INFO)
            ],
            capacity=_amounts(rows, names.NODE_CAPACITY),
            allocatable=_amounts(rows, names.NODE_ALLOCATABLE),
            conditions=[
                raw.RawCondition(type="Ready", status=_STATUS.get(one, one)) for one in ready[:1]
            ],
        ),
    )


def _amounts(rows: Rows, name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for sample in rows.of(name):
        label = sample.labels.get("resource", "")
        resource = label if label in _PLAIN else real_resource(label)
        if resource is not None:
            found[resource] = max(found.get(resource, 0.0), sample.value)
    return found
