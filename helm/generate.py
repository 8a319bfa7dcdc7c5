# ruff: noqa: INP001 - a script beside the chart that it completes
"""``python helm/generate.py`` writes the parts of the chart and its page that come from code.

What the agent may read, the rules and dashboards, and the schema of the values, with
``agent.settings`` from the agent's own settings. A test compares the files with what this writes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from gputailor_agent.cli.settings import AgentSettings
from gputailor_agent.inventory.live import rbac
from gputailor_agent.rules import registry
from gputailor_dashboards import generating, publishing

CHART: Final = Path(__file__).with_name("gputailor")
_SCHEMA: Final = Path(__file__).with_name("values.schema.in.yaml")
PAGE: Final = Path(__file__).parents[1] / "docs" / "helm.md"
_BEGIN: Final = "<!-- rules: written by python helm/generate.py -->\n"
_END: Final = "<!-- end of rules -->\n"
_NOTE: Final = "# Written by python helm/generate.py; do not edit.\n"
_WIDE: Final = 10_000
#: Settings that the chart sets itself, from values of its own or because it must be so in a pod.
CHART_SETS: Final = frozenset(
    {
        "cluster",
        "context",
        "inventory",
        "kubeconfig",
        "kubernetes",
        "listen",
        "namespaces",
        "prices",
    }
)


def files() -> dict[str, str]:
    """Text of every generated file, by its path below the chart."""
    found = {
        "files/rbac.yaml": _yaml({"namespaced": _rules("namespaced"), "cluster": _rules("cluster")})
    }
    for name, groups in publishing.rule_groups().items():
        found[f"files/rules/{name}.yaml"] = _yaml(publishing.rule_file(groups))
    for name in generating.BUILDERS:
        # As it stands in publishing's ConfigMap, whose size is checked there.
        config_map = publishing.config_map(
            name, generating.dashboard(name), publishing.Placing(namespace="x" * 63)
        )
        found[f"files/dashboards/{name}.json"] = config_map["data"][f"{name}.json"]
    found["values.schema.json"] = json.dumps(values_schema(), indent=2) + "\n"
    return dict(sorted(found.items()))


def page() -> str:
    """Text of docs/helm.md, with the table of what the agent may read."""
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{rbac.rules_table()}{_END}{after}"


def values_schema() -> dict[str, Any]:
    """JSON schema of the chart's values."""
    schema: dict[str, Any] = yaml.safe_load(_SCHEMA.read_text("utf-8"))
    settings = AgentSettings.model_json_schema(ref_template="#/$defs/{model}")
    schema["$defs"] |= settings.pop("$defs", {})
    agent = schema["properties"]["agent"]["properties"]
    agent["settings"] = _agent_settings(settings)
    agent["secretSettings"] = _secret_settings(settings)
    closed: dict[str, Any] = _closed(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **closed}


def _agent_settings(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's settings, with the names of all thresholds.

    Without those that the chart sets, and without passwords, which a ConfigMap must not hold.
    """
    left = {
        name: kind
        for name, kind in schema["properties"].items()
        if name not in CHART_SETS and not kind.get("writeOnly")
    }
    limit = {"type": "number", "minimum": 0}
    left["thresholds"] = {
        "type": "object",
        "description": left["thresholds"]["description"],
        "properties": {
            rule.id: {
                "type": "object",
                "properties": {
                    each.name: {**limit, "description": f"{each.meaning} ({each.unit})"}
                    for each in rule.thresholds
                },
            }
            for rule in registry()
        },
    }
    return {"type": "object", "properties": left}


def _secret_settings(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Where in Secrets settings stand, by their names; any that the chart does not set."""
    names = [name for name in schema["properties"] if name not in CHART_SETS]
    return {
        "type": "object",
        "properties": {name: {"$ref": "#/$defs/secretKey"} for name in names},
    }


def _closed(schema: Any) -> Any:
    """The schema with unknown names refused wherever names are known; titles are left out."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: {name: _closed(kind) for name, kind in value.items()}
        if key in {"properties", "$defs"}
        else _closed(value)
        for key, value in schema.items()
        if key not in {"title", "default"}
    }
    if "properties" in found:
        found.setdefault("additionalProperties", False)
    return found


def _rules(scope: str) -> list[dict[str, list[str]]]:
    """PolicyRules of that scope: "namespaced" (a Role can hold them) or "cluster"."""
    namespaced = rbac.rules(namespaced=True)
    if scope == "namespaced":
        return namespaced
    return [rule for rule in rbac.rules() if rule not in namespaced]


def _yaml(document: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(document), sort_keys=False, width=_WIDE, allow_unicode=True)
    return _NOTE + text


def main() -> None:
    """Write the files; those of a rule or a dashboard that is no more are removed."""
    wanted = files()
    for path in sorted((CHART / "files").rglob("*.*")):
        if path.relative_to(CHART).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
