"""Writes all dashboards and rules of this package; ``gputailor dashboards generate`` calls it.

Below the folder: ``dashboards/*.json`` to import, with the exclusions of Grafana's dashboard-linter
beside them; ``rules/*.yaml`` for Prometheus, and below that an example for Alertmanager;
``kubernetes/*.yaml`` with the same as ConfigMaps and PrometheusRule objects, and below that as
GrafanaDashboard objects, for those who run Grafana's operator instead of its sidecar.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from grafanalib._gen import DashboardEncoder

from gputailor_dashboards import linting, publishing, routing, variables
from gputailor_dashboards.boards import BOARDS
from gputailor_dashboards.boards.board import DIALECTS, EVERY, Board, leads
from gputailor_dashboards.expressions.base import Dialect
from gputailor_dashboards.modern import modernise
from gputailor_dashboards.panels import Row
from gputailor_dashboards.publishing import Placing

_NOTE: Final = "# Written by gputailor dashboards generate; do not edit.\n"
_WIDE: Final = 10_000
_PLACE: Final = "place-of-the-dashboard"


@dataclass(frozen=True, slots=True)
class Builder:
    """One dashboard on one exporter."""

    board: Board
    dialect: Dialect

    def questions(self) -> tuple[Row, ...]:
        """Rows of panels as values."""
        return self.board.ask(self.dialect)

    def build(self) -> Any:
        """Return grafanalib's dashboard."""
        return self.board.build(self.dialect, leads(BOARDS, self.dialect))


def _builders() -> dict[str, Builder]:
    found = {}
    for board in BOARDS.values():
        for key in board.exporters:
            dialect = DIALECTS[key](board.scope)
            found[variables.uid(dialect, board.uid)] = Builder(board, dialect)
    return found


#: Dashboards by uid, which is their file's name as well.
BUILDERS: Final[Mapping[str, Builder]] = _builders()


@cache
def _text(name: str) -> str:
    raw = BUILDERS[name].build().to_json_data()
    plain: dict[str, Any] = json.loads(json.dumps(raw, cls=DashboardEncoder))
    return json.dumps(modernise(plain), sort_keys=True)


def dashboard(name: str) -> dict[str, Any]:
    """Return one dashboard as plain JSON values."""
    found: dict[str, Any] = json.loads(_text(name))
    return found


def render(name: str) -> str:
    """JSON text of one dashboard, with sorted keys and a newline at the end."""
    return json.dumps(dashboard(name), indent=2, sort_keys=True) + "\n"


def names(exporters: tuple[str, ...] = EVERY) -> list[str]:
    """Uids of the dashboards on these exporters, in the order of their names."""
    return sorted(name for name, one in BUILDERS.items() if one.dialect.key in exporters)


def _yaml(document: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(document), sort_keys=False, width=_WIDE, allow_unicode=True)
    return _NOTE + text


def _with_dashboard(document: Mapping[str, Any], *path: str) -> str:
    """YAML of an object that carries a dashboard's JSON text at ``path``.

    The text is written as JSON writes it, which YAML reads: its own writer takes half a second.
    """
    *above, last = path
    kept: dict[str, Any] = json.loads(json.dumps(document))
    place = kept
    for step in above:
        place = place[step]
    text, place[last] = place[last], _PLACE
    return _yaml(kept).replace(_PLACE, json.dumps(text))


def files(placing: Placing | None = None) -> dict[str, str]:
    """Return the text of every file by its path below the folder."""
    where = placing or Placing()
    found = {"rules/alertmanager/alertmanager.yaml": _NOTE + routing.EXAMPLE}
    for name in names(where.exporters):
        document = dashboard(name)
        found[f"dashboards/{name}.json"] = render(name)
        config_map = publishing.config_map(name, document, where)
        found[f"kubernetes/configmap-{name}.yaml"] = _with_dashboard(
            config_map, "data", f"{name}.json"
        )
        custom = publishing.grafana_dashboard(name, document, where)
        found[f"kubernetes/grafana-operator/{name}.yaml"] = _with_dashboard(custom, "spec", "json")
    found["dashboards/.lint"] = _yaml(linting.exclusions())
    for name, groups in publishing.rule_groups(where.exporters, where.team_label).items():
        found[f"rules/{name}.yaml"] = _yaml(publishing.rule_file(groups, where.runbooks))
        rule = publishing.prometheus_rule(name, groups, where)
        found[f"kubernetes/prometheusrule-{name}.yaml"] = _yaml(rule)
    return dict(sorted(found.items()))


def generate(folder: Path, placing: Placing | None = None) -> list[Path]:
    """Write everything into ``folder``; returns the files written, in the order of their names.

    Raises ``OSError`` when the folder cannot be written.
    """
    written = []
    for name, text in files(placing).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
