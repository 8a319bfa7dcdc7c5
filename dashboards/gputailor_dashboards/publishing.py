"""What Prometheus, its operator, Grafana's sidecar and operator are handed: documents as values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from gputailor_dashboards import alerts
from gputailor_dashboards.boards.board import DIALECTS, EVERY
from gputailor_dashboards.compacting import without_defaults
from gputailor_dashboards.expressions.base import RULES
from gputailor_dashboards.recording import TEAM_LABEL, recordings
from gputailor_dashboards.rules import RUNBOOKS, Group

#: Bytes that ``kubectl apply`` can keep of an object in its annotation.
LARGEST_OBJECT: Final = 262_144
_LABELS: Final = MappingProxyType({"app.kubernetes.io/name": "gputailor"})


@dataclass(frozen=True, slots=True)
class Placing:
    """Where objects go, by which labels they are found, and which of them are wanted.

    ``namespace``: '' for kubectl's. ``grafana_folder``: '' for Grafana's default one.
    ``instance_labels``: of the Grafana that the operator puts dashboards into. ``team_label``: of
    namespaces, as kube-state-metrics shows it. ``runbooks``: address of the folder of their pages.
    """

    namespace: str = ""
    sidecar_labels: Mapping[str, str] = field(default_factory=lambda: {"grafana_dashboard": "1"})
    rule_labels: Mapping[str, str] = field(default_factory=dict)
    instance_labels: Mapping[str, str] = field(default_factory=lambda: {"dashboards": "grafana"})
    grafana_folder: str = ""
    team_label: str = TEAM_LABEL
    runbooks: str = RUNBOOKS
    exporters: tuple[str, ...] = EVERY


def rule_groups(
    exporters: tuple[str, ...] = EVERY, team_label: str = TEAM_LABEL
) -> dict[str, tuple[Group, ...]]:
    """Return the groups of each rule file, by the file's name without its end."""
    found: dict[str, tuple[Group, ...]] = {}
    for key in exporters:
        dialect = DIALECTS[key](RULES)
        groups = (recordings(dialect, team_label),)
        own = key == "gputailor"
        found["gputailor" if own else f"gputailor-{key}"] = (
            (*groups, *alerts.GROUPS) if own else groups
        )
    return found


def rule_file(groups: tuple[Group, ...], runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """Return a Prometheus rule file."""
    return {"groups": [group.document(runbooks) for group in groups]}


def _metadata(name: str, placing: Placing, labels: Mapping[str, str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {**_LABELS, **labels}}
    return metadata | ({"namespace": placing.namespace} if placing.namespace else {})


def prometheus_rule(name: str, groups: tuple[Group, ...], placing: Placing) -> dict[str, Any]:
    """Return an object of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": _metadata(name, placing, placing.rule_labels),
        "spec": rule_file(groups, placing.runbooks),
    }


def _compact(dashboard: Mapping[str, Any]) -> str:
    return json.dumps(without_defaults(dashboard), sort_keys=True, separators=(",", ":"))


def config_map(name: str, dashboard: Mapping[str, Any], placing: Placing) -> dict[str, Any]:
    """Return a ConfigMap that Grafana's sidecar loads as a dashboard.

    Raises ``ValueError`` when it is too large for ``kubectl apply``.
    """
    metadata = _metadata(name, placing, placing.sidecar_labels)
    if placing.grafana_folder:
        metadata["annotations"] = {"grafana_folder": placing.grafana_folder}
    return _small_enough(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {f"{name}.json": _compact(dashboard)},
        }
    )


def grafana_dashboard(name: str, dashboard: Mapping[str, Any], placing: Placing) -> dict[str, Any]:
    """Return an object of Grafana's operator (version 5), which puts the dashboard into a Grafana.

    Raises ``ValueError`` when it is too large for ``kubectl apply``.
    """
    spec: dict[str, Any] = {
        "instanceSelector": {"matchLabels": dict(placing.instance_labels)},
        "json": _compact(dashboard),
    }
    if placing.grafana_folder:
        spec["folder"] = placing.grafana_folder
    return _small_enough(
        {
            "apiVersion": "grafana.integreatly.org/v1beta1",
            "kind": "GrafanaDashboard",
            "metadata": _metadata(name, placing, {}),
            "spec": spec,
        }
    )


def _small_enough(document: dict[str, Any]) -> dict[str, Any]:
    size = len(json.dumps(document).encode())
    if size >= LARGEST_OBJECT:
        what = f"{document['kind']} {document['metadata']['name']}"
        raise ValueError(f"{what} has {size} bytes; kubectl apply takes {LARGEST_OBJECT}")
    return document
