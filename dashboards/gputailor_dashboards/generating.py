"""Writes all dashboards and rules of this package; ``gputailor dashboards generate`` calls it.

Below the folder: ``dashboards/*.json`` to import, ``rules/*.yaml`` for Prometheus, and
``kubernetes/*.yaml`` with the same as ConfigMaps and PrometheusRule objects.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from grafanalib._gen import DashboardEncoder

from gputailor_dashboards import overview, publishing, variables, workloads
from gputailor_dashboards.expressions.base import Dialect, Scope
from gputailor_dashboards.expressions.dcgm import Dcgm
from gputailor_dashboards.expressions.native import Native
from gputailor_dashboards.modern import modernise
from gputailor_dashboards.panels import Row
from gputailor_dashboards.publishing import Placing

_NOTE: Final = "# Written by gputailor dashboards generate; do not edit.\n"
_WIDE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Builder:
    """One dashboard on one exporter."""

    make: Callable[[Dialect], Any]
    ask: Callable[[Dialect], tuple[Row, ...]]
    dialect: Dialect

    def questions(self) -> tuple[Row, ...]:
        """Rows of panels as values."""
        return self.ask(self.dialect)

    def build(self) -> Any:
        """Return grafanalib's dashboard."""
        return self.make(self.dialect)


def _builders() -> dict[str, Builder]:
    found = {}
    for module in (overview, workloads):
        scope: Scope = module.SCOPE
        for dialect in (Native(scope), Dcgm(scope)):
            builder = Builder(module.build, module.questions, dialect)
            found[variables.uid(dialect, module.UID)] = builder
    return found


#: Dashboards by uid, which is their file's name as well.
BUILDERS: Final[Mapping[str, Builder]] = _builders()


def dashboard(name: str) -> dict[str, Any]:
    """Return one dashboard as plain JSON values."""
    raw = BUILDERS[name].build().to_json_data()
    plain: dict[str, Any] = json.loads(json.dumps(raw, cls=DashboardEncoder))
    return modernise(plain)


def render(name: str) -> str:
    """JSON text of one dashboard, with sorted keys and a newline at the end."""
    return json.dumps(dashboard(name), indent=2, sort_keys=True) + "\n"


def _yaml(document: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(document), sort_keys=False, width=_WIDE, allow_unicode=True)
    return _NOTE + text


def files(placing: Placing | None = None) -> dict[str, str]:
    """Return the text of every file by its path below the folder."""
    where = placing or Placing()
    found = {}
    for name in sorted(BUILDERS):
        found[f"dashboards/{name}.json"] = render(name)
        config_map = publishing.config_map(name, dashboard(name), where)
        found[f"kubernetes/configmap-{name}.yaml"] = _yaml(config_map)
    for name, groups in publishing.rule_groups().items():
        found[f"rules/{name}.yaml"] = _yaml(publishing.rule_file(groups))
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
