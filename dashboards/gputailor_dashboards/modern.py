"""Brings grafanalib's output up to what Grafana 11 and later read.

grafanalib 0.7.1 writes schema version 12, empty ``refId``, data sources as strings, ids that may
repeat, nulls, and a number of fields of Grafana's older panels. The pass below mends these; its
input and output are plain JSON values. Panels of the Angular age are refused, not converted.
"""

from collections.abc import Iterator
from typing import Any, Final

#: That of Grafana 12; older ones from 10 on read it and ignore what they do not know.
SCHEMA_VERSION: Final = 42
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
#: Panel types that Grafana draws without Angular and that this project uses.
PANEL_TYPES: Final = frozenset({"row", "stat", "table", "timeseries"})

_OLD_DASHBOARD: Final = ("rows", "sharedCrosshair", "hideControls", "style", "__inputs", "gnetId")
_OLD_PANEL: Final = (
    "cacheTimeout", "color", "columns", "editable", "error", "fontSize", "height",
    "hideTimeOverride", "mappings", "maxPerRow", "minSpan", "repeat", "repeatDirection", "span",
    "timeFrom", "timeShift", "interval", "maxDataPoints", "transparent",
)  # fmt: skip
_OLD_TARGET: Final = ("target", "metric", "step", "interval", "intervalFactor", "query", "hide")
_OLD_VARIABLE: Final = ("useTags", "tagsQuery", "tagValuesQuery", "auto", "auto_min", "auto_count")


def modernise(dashboard: dict[str, Any]) -> dict[str, Any]:
    """Return the dashboard with today's schema version, data sources, query ids and panel ids.

    Raises ``ValueError`` for a panel of a type that is not one of ``PANEL_TYPES``.
    """
    changed = {key: value for key, value in dashboard.items() if key not in _OLD_DASHBOARD} | {
        "schemaVersion": SCHEMA_VERSION,
        # What is edited in Grafana would be overwritten by the next version: copy it instead.
        "editable": False,
        "graphTooltip": 1,
    }
    for numbered in ("id", "version"):  # Grafana numbers these itself
        changed.pop(numbered, None)
    numbers = iter(range(1, 10_000))
    changed["panels"] = [_panel(panel, numbers) for panel in _panels(dashboard)]
    changed["templating"] = {
        "list": [_variable(one) for one in dashboard["templating"]["list"]],
    }
    changed["timepicker"] = {}
    found: dict[str, Any] = _without_nulls(changed)
    return found


def _without_nulls(value: Any) -> Any:
    """A field that is null is a field that is not set; the lowest threshold's null is a value."""
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_nulls(one)
        for key, one in value.items()
        if one is not None or (key == "value" and "color" in value)
    }


def _panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    inside_rows = [panel for row in dashboard.get("rows") or [] for panel in row["panels"]]
    return [*(dashboard.get("panels") or []), *inside_rows]


def _panel(panel: dict[str, Any], numbers: Iterator[int]) -> dict[str, Any]:
    if panel["type"] not in PANEL_TYPES:
        known = ", ".join(sorted(PANEL_TYPES))
        raise ValueError(f"panel {panel['title']!r} is of type {panel['type']!r}, not {known}")
    changed = {key: value for key, value in panel.items() if key not in _OLD_PANEL}
    changed["id"] = next(numbers)
    if panel["type"] == "row":
        for key in ("datasource", "targets", "fieldConfig", "transformations", "links"):
            changed.pop(key, None)
        inside = panel.get("panels") or []
        return changed | {"panels": [_panel(one, numbers) for one in inside]}
    changed["datasource"] = DATASOURCE
    changed["targets"] = [
        _target(target, position) for position, target in enumerate(panel.get("targets") or [])
    ]
    defaults = changed["fieldConfig"]["defaults"]
    defaults["noValue"] = defaults.get("noValue", "unknown")
    if panel["type"] == "table":
        defaults["custom"] = {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True}
    if defaults.get("color") is None:
        defaults["color"] = {"mode": "thresholds"}
    return changed


def _target(target: dict[str, Any], position: int) -> dict[str, Any]:
    """Letters name the queries; a query is instant or over the range, never both."""
    changed = {key: value for key, value in target.items() if key not in _OLD_TARGET}
    instant = bool(target.get("instant"))
    return changed | {
        "refId": chr(ord("A") + position),
        "datasource": DATASOURCE,
        "instant": instant,
        "range": not instant,
        "editorMode": "code",
    }


def _variable(variable: dict[str, Any]) -> dict[str, Any]:
    changed = {key: value for key, value in variable.items() if key not in _OLD_VARIABLE}
    if variable["type"] == "datasource":
        kept = ("hide", "label", "name", "query", "type")
        return {key: changed[key] for key in kept} | {"current": {}, "refresh": 1, "regex": ""}
    query = variable["query"]
    if variable["type"] == "textbox":
        chosen = {"selected": True, "text": query, "value": query}
        kept = ("hide", "label", "name", "query", "type")
        return {key: changed[key] for key in kept} | {"current": chosen, "options": [chosen]}
    everything = {"selected": True, "text": ["All"], "value": ["$__all"]}
    return changed | {
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{variable['name']}"},
        "regex": variable["regex"] or "",
        "refresh": 2,  # when the time range changes, too: pods of last week have ended
        "current": everything if variable["includeAll"] else {},
    }
