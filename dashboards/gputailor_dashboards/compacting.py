"""Leaves out of a dashboard what Grafana fills in by itself, for objects in a cluster.

Each thing in a cluster has a largest size, and all that a chart installs is kept in one Secret. The
values below are those that the panels' plugins and the Prometheus data source put in where nothing
is said (Grafana 10 to 12: ``defaultGraphConfig``, ``StatPanelCfg``, ``TablePanelCfg``,
``getQueryWithDefaults``); a query without a data source asks its panel's. Files that people read
and import keep everything.
"""

from collections.abc import Mapping
from typing import Any, Final

#: By the kind of panel ('' for every one): what its plugin fills in below ``fieldConfig.defaults``.
_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "": {"mappings": []},
    "stat": {"color": {"mode": "thresholds"}},
    "table": {
        "color": {"mode": "thresholds"},
        "custom": {"align": "auto", "cellOptions": {"type": "auto"}},
    },
    "timeseries": {
        "color": {"mode": "palette-classic"},
        "custom": {
            "axisLabel": "",
            "axisPlacement": "auto",
            "barAlignment": 0,
            "drawStyle": "line",
            "gradientMode": "none",
            "hideFrom": {"legend": False, "tooltip": False, "viz": False},
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "pointSize": 5,
            "scaleDistribution": {"log": 2, "type": "linear"},
            "spanNulls": False,
            "stacking": {},
            "thresholdsStyle": {"mode": "off"},
        },
    },
}
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "stat": {
        "colorMode": "value",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
    },
    "table": {"showHeader": True, "sortBy": []},
}
_PANEL: Final[Mapping[str, Any]] = {"links": [], "transformations": []}
_QUERY: Final[Mapping[str, Any]] = {"editorMode": "code", "format": "time_series"}


def without_defaults(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    """The same dashboard to Grafana, in fewer bytes; nothing of the argument is changed."""
    if "panels" not in dashboard:
        return dict(dashboard)
    return {**dashboard, "panels": [_panel(one) for one in dashboard["panels"]]}


def _panel(panel: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(panel.get("type", ""))
    found = _less(panel, _PANEL)
    fields = found.get("fieldConfig", {}).get("defaults")
    if fields is not None:
        short = _less(_less(fields, _FIELDS[""]), _FIELDS.get(kind, {}))
        found["fieldConfig"] = {**found["fieldConfig"], "defaults": short}
    if "options" in found:
        found["options"] = _less(found["options"], _OPTIONS.get(kind, {}))
    if "targets" in found:
        source = panel.get("datasource")
        found["targets"] = [_query(one, source) for one in found["targets"]]
    return found


def _query(target: Mapping[str, Any], source: Any) -> dict[str, Any]:
    """A range query, unless it says otherwise; of the panel's data source, likewise."""
    usual = dict(_QUERY) if source is None else {**_QUERY, "datasource": source}
    if target.get("range") is True:
        usual["instant"] = False
        if target.get("instant") is False:
            usual["range"] = True
    return _less(target, usual)


def _less(given: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """What is said otherwise than usual; a mapping in both is looked into."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in usual and usual[name] == value and type(usual[name]) is type(value):
            continue
        inside = name == "custom" and isinstance(usual.get(name), Mapping)
        found[name] = _less(value, usual[name]) if inside else value
    return found
