"""What Prometheus, its operator and Grafana's sidecar are handed: documents as values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from gputailor_dashboards import alerts
from gputailor_dashboards.expressions.base import RULES
from gputailor_dashboards.expressions.dcgm import Dcgm
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.recording import recordings
from gputailor_dashboards.rules import Group

#: Bytes that ``kubectl apply`` can keep of an object in its annotation.
LARGEST_OBJECT: Final = 262_144
_LABELS: Final = MappingProxyType({"app.kubernetes.io/name": "gputailor"})


@dataclass(frozen=True, slots=True)
class Placing:
    """Where objects go: namespace ('' for kubectl's), and labels by which they are found."""

    namespace: str = ""
    sidecar_labels: Mapping[str, str] = field(default_factory=lambda: {"grafana_dashboard": "1"})
    rule_labels: Mapping[str, str] = field(default_factory=dict)


def rule_groups() -> dict[str, tuple[Group, ...]]:
    """Return the groups of each rule file, by the file's name without its end."""
    return {
        "gputailor": (recordings(Native(RULES)), *alerts.GROUPS),
        "gputailor-dcgm": (recordings(Dcgm(RULES)),),
    }


def rule_file(groups: tuple[Group, ...]) -> dict[str, Any]:
    """Return a Prometheus rule file."""
    return {"groups": [group.document() for group in groups]}


def _metadata(name: str, placing: Placing, labels: Mapping[str, str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {**_LABELS, **labels}}
    return metadata | ({"namespace": placing.namespace} if placing.namespace else {})


def prometheus_rule(name: str, groups: tuple[Group, ...], placing: Placing) -> dict[str, Any]:
    """Return an object of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": _metadata(name, placing, placing.rule_labels),
        "spec": rule_file(groups),
    }


def config_map(name: str, dashboard: Mapping[str, Any], placing: Placing) -> dict[str, Any]:
    """Return a ConfigMap that Grafana's sidecar loads as a dashboard.

    Raises ``ValueError`` when it is too large for ``kubectl apply``.
    """
    text = json.dumps(dashboard, sort_keys=True, separators=(",", ":"))
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(name, placing, placing.sidecar_labels),
        "data": {f"{name}.json": text},
    }
    size = len(json.dumps(document).encode())
    if size >= LARGEST_OBJECT:
        raise ValueError(f"ConfigMap {name} has {size} bytes; kubectl apply takes {LARGEST_OBJECT}")
    return document
