# ruff: noqa: INP001 - a script beside the chart that it completes
"""``python helm/generate.py`` writes the parts of the chart and its page that come from code.

What the agent may read, the rules and dashboards, and the schema of the values, with
``agent.settings`` from the agent's own settings. The page's tables of values and presets come from
the chart's own files. A test compares all of them with what this writes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from gputailor_agent.cli.settings import AgentSettings
from gputailor_agent.inventory.live import rbac, writing_rights
from gputailor_agent.rules import with_thresholds
from gputailor_dashboards import generating, publishing

CHART: Final = Path(__file__).with_name("gputailor")
_SCHEMA: Final = Path(__file__).with_name("values.schema.in.yaml")
PAGE: Final = Path(__file__).parents[1] / "docs" / "helm.md"
_VALUES: Final = CHART / "values.yaml"
_PRESETS: Final = CHART / "presets.yaml"
_KEY: Final = re.compile(r"(?P<indent> *)(?P<name>[A-Za-z]+):(?P<rest>.*)")
_LONGEST_DEFAULT: Final = 60
_NOTE: Final = "# Written by python helm/generate.py; do not edit.\n"
_WIDE: Final = 10_000
#: Settings that the chart sets itself, or that have no place in a pod: by which value, or why not.
CHART_SETS: Final = {
    "cluster": "`clusterName`",
    "listen": "`agent.port`",
    "namespaces": "`namespaces`",
    "prices": "`prices`",
    "kubernetes": "always true: it follows the cluster that it runs in",
    "kubeconfig": "no: the pod's account is used; an agent for another cluster runs in that one",
    "context": "no: as `kubeconfig`",
    "inventory": "no: the live cluster is followed instead of files",
}


def files() -> dict[str, str]:
    """Text of every generated file, by its path below the chart."""
    found = {
        "files/rbac.yaml": _yaml(
            {"namespaced": _rules("namespaced"), "cluster": _rules("cluster")}
            | {one: writing_rights.writing_rules([one]) for one in writing_rights.FEATURES}
        )
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
    """Text of docs/helm.md, with its tables: rights, values, presets, settings."""
    text = PAGE.read_text("utf-8")
    for name, table in {
        "rules": rbac.rules_table(),
        "presets": presets_table(),
        "values": values_table(),
        "settings": settings_table(),
    }.items():
        begin = f"<!-- {name}: written by python helm/generate.py -->\n"
        end = f"<!-- end of {name} -->\n"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}{table}{end}{after}"
    return text


def described_values() -> Iterator[tuple[str, Any, str]]:
    """Each value that values.yaml lists: its path, its default, and the comment above it.

    A mapping with a comment is one value, whatever is in it. Raises ``ValueError`` for a value
    without a comment: it would be a row without a word.
    """
    text = _VALUES.read_text("utf-8")
    defaults = yaml.safe_load(text)
    above: list[tuple[int, str]] = []
    comment: list[str] = []
    told = -1  # how deep the mapping stands whose comment tells of all that is in it; -1: none
    for line in text.splitlines():
        match = _KEY.fullmatch(line)
        if match is None:
            word = line.strip()
            comment = [*comment, word.removeprefix("#").strip()] if word.startswith("#") else []
            continue
        indent = len(match["indent"])
        if 0 <= told < indent:
            continue
        told = -1
        above = [*(one for one in above if one[0] < indent), (indent, match["name"])]
        path, default = ".".join(name for _, name in above), _at(defaults, above)
        if isinstance(default, dict) and default and not comment:
            continue
        if not comment:
            raise ValueError(f"{_VALUES.name}: {path} has no comment")
        yield path, default, " ".join(comment)
        told = indent if isinstance(default, dict) else -1
        comment = []


def _at(values: Any, names: list[tuple[int, str]]) -> Any:
    for _, name in names:
        values = values[name]
    return values


def values_table() -> str:
    """The values as a Markdown table."""
    rows = ["| value | default | what it is |", "|---|---|---|"]
    for path, default, words in described_values():
        told = json.dumps(default, ensure_ascii=False)
        shown = f"`{told}`" if len(told) <= _LONGEST_DEFAULT else "see values.yaml"
        rows.append(f"| `{path}` | {shown} | {_cell(words)} |")
    return "\n".join(rows) + "\n"


def presets_table() -> str:
    """What each preset chooses, as a Markdown table."""
    rows = ["| preset | for | chooses |", "|---|---|---|"]
    for name, chosen in yaml.safe_load(_PRESETS.read_text("utf-8")).items():
        kept = {key: one for key, one in chosen.items() if key not in {"about", "source"}}
        told = ", ".join(
            f"`{key}: {json.dumps(one)}`".replace('"', "") for key, one in kept.items()
        )
        about = f"{chosen['about']} ([source]({chosen['source']}))"
        rows.append(f"| `{name}` | {_cell(about)} | {told} |")
    return "\n".join(rows) + "\n"


def settings_table() -> str:
    """By which value each setting of the agent is given, as a Markdown table."""
    schema = AgentSettings.model_json_schema()["properties"]
    left = [name for name in schema if name not in CHART_SETS]
    files = [name for name in left if name.endswith("_file")]
    secret = [name for name in left if schema[name].get("writeOnly")]
    open_ = [name for name in left if name not in {*files, *secret}]
    rows = ["| settings | given by |", "|---|---|"]
    for names, way in (
        (open_, "`agent.settings`; those that may hold a password also by `agent.secretSettings`"),
        (files, "`agent.secretFiles` from a Secret, `agent.configFiles` from a ConfigMap"),
        (secret, "`agent.secretSettings`, or the setting of the same name with `_file`"),
    ):
        rows.append(f"| {', '.join(f'`{name}`' for name in names)} | {way} |")
    rows += [f"| `{name}` | {_cell(way)} |" for name, way in CHART_SETS.items()]
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    """Text that may stand in a Markdown table."""
    return text.replace("|", "\\|")


def values_schema() -> dict[str, Any]:
    """JSON schema of the chart's values."""
    schema: dict[str, Any] = yaml.safe_load(_SCHEMA.read_text("utf-8"))
    settings = AgentSettings.model_json_schema(ref_template="#/$defs/{model}")
    schema["$defs"] |= settings.pop("$defs", {})
    agent = schema["properties"]["agent"]["properties"]
    agent["settings"] = _agent_settings(settings)
    agent["secretSettings"] = _secrets(settings, "secretKey", files=False)
    agent["secretFiles"] = _secrets(settings, "secretFile", files=True)
    agent["configFiles"] = _secrets(settings, "configFile", files=True)
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
            for rule in with_thresholds()
        },
    }
    return {"type": "object", "properties": left}


def _secrets(schema: Mapping[str, Any], kind: str, *, files: bool) -> dict[str, Any]:
    """Where in Secrets settings stand, by their names; any that the chart does not set.

    ``files``: those that name a file, which is mounted; else the others, which become variables.
    """
    names = [
        name
        for name in schema["properties"]
        if name not in CHART_SETS and name.endswith("_file") == files
    ]
    return {
        "type": "object",
        "properties": {name: {"$ref": f"#/$defs/{kind}"} for name in names},
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
