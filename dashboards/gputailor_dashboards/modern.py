"""Brings grafanalib's output up to what Grafana 11 and later read.

grafanalib 0.7.1 writes schema version 12, empty ``refId`` and data sources as strings. The pass
below mends these and nothing else; its input and output are plain JSON values.
"""

from typing import Any, Final

SCHEMA_VERSION: Final = 39
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def modernise(dashboard: dict[str, Any]) -> dict[str, Any]:
    """Return the dashboard with today's schema version, data source objects and query ids."""
    changed = {**dashboard, "schemaVersion": SCHEMA_VERSION, "editable": True}
    changed["panels"] = [
        _panel(panel, number) for number, panel in enumerate(_panels(dashboard), 1)
    ]
    for obsolete in ("rows", "sharedCrosshair", "hideControls"):
        changed.pop(obsolete, None)
    return changed


def _panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    inside_rows = [panel for row in dashboard.get("rows") or [] for panel in row["panels"]]
    return [*(dashboard.get("panels") or []), *inside_rows]


def _panel(panel: dict[str, Any], number: int) -> dict[str, Any]:
    targets = [
        {**target, "refId": chr(ord("A") + position), "datasource": DATASOURCE}
        for position, target in enumerate(panel.get("targets") or [])
    ]
    return {**panel, "id": number, "datasource": DATASOURCE, "targets": targets}
