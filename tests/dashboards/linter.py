"""The 17 rules of Grafana's dashboard-linter, written anew from their documentation.

Each rule is a function from a dashboard to what it finds, as (panel's title, message); '' where it
is about the dashboard. Whether PromQL is valid is asked of a real promtool.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.dashboards.asking import panels

Finding = tuple[str, str]
Rule = Callable[[Mapping[str, Any]], Iterator[Finding]]
RULES: dict[str, Rule] = {}
#: Units of Grafana's list of value formats that dashboards here use.
UNITS = {
    "Bps", "bytes", "celsius", "cps", "dateTimeAsIso", "h", "hertz", "kwatth", "none", "ops",
    "percentunit", "reqps", "s", "short", "watt", "wps",
}  # fmt: skip
_RATES = ("rate", "irate", "increase")
_CHOSEN = {"datasource", "${datasource}", "$datasource"}


def rule(name: str) -> Callable[[Rule], Rule]:
    """Register a rule under its documented name."""

    def register(function: Rule) -> Rule:
        RULES[name] = function
        return function

    return register


def variables(dashboard: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [one for one in dashboard["templating"]["list"] if one["type"] == kind]


def queries(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for one in panels(dashboard):
        for target in one["targets"]:
            yield one["title"], target["expr"]


def without_texts(expr: str) -> str:
    """The query with every text in quotes left empty."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', "", expr)


def valid(expr: str) -> bool:
    """Whether brackets and quotes are in order; promtool reads each query in full elsewhere."""
    bare = without_texts(expr)
    depth = []
    for sign in bare:
        if sign in "({[":
            depth.append(sign)
        elif sign in ")}]" and (not depth or "({[".index(depth.pop()) != ")}]".index(sign)):
            return False
    return not depth and bool(bare.strip()) and '"' not in bare


@rule("template-datasource-rule")
def one_data_source(dashboard):
    found = variables(dashboard, "datasource")
    if [(one["name"], one["label"]) for one in found] != [("datasource", "Data source")]:
        yield "", "expected one variable datasource, labelled Data source"


def _templated(dashboard, name):
    found = [one for one in variables(dashboard, "query") if one["name"] == name]
    if not found:
        yield "", f"no variable {name}"
    for one in found:
        if not (one["label"] == name and one["multi"] and one["allValue"] == ".+"):
            yield "", f"variable {name} is not labelled so, multiple, with .+ for all"


@rule("template-job-rule")
def job_variable(dashboard):
    yield from _templated(dashboard, "job")


@rule("template-instance-rule")
def instance_variable(dashboard):
    yield from _templated(dashboard, "instance")


@rule("template-label-promql-rule")
def variables_are_promql(dashboard):
    for one in variables(dashboard, "query"):
        text = one["query"]["query"]
        inside = re.fullmatch(r"label_values\((.+), \w+\)|query_result\((.+)\)", text)
        if inside is None or not valid(inside.group(1) or inside.group(2)):
            yield "", f"variable {one['name']}: {text}"


@rule("template-on-time-change-reload-rule")
def variables_follow_the_time(dashboard):
    for one in variables(dashboard, "query"):
        if one["refresh"] != 2:
            yield "", f"variable {one['name']} does not reload when the time changes"


@rule("panel-datasource-rule")
def panels_use_the_variable(dashboard):
    for one in panels(dashboard):
        if one["datasource"]["uid"] not in _CHOSEN:
            yield one["title"], "names a data source"


@rule("panel-title-description-rule")
def panels_have_title_and_description(dashboard):
    for one in panels(dashboard):
        if not (one.get("title") and one.get("description")):
            yield one.get("title", ""), "no title or no description"


@rule("panel-units-rule")
def panels_have_units(dashboard):
    for one in panels(dashboard):
        config = one["fieldConfig"]
        units = [config["defaults"].get("unit", "")]
        units += [
            part["value"]
            for override in config["overrides"]
            for part in override["properties"]
            if part["id"] == "unit"
        ]
        for unit in units:
            if unit not in UNITS:
                yield one["title"], f"unit {unit!r}"


@rule("panel-no-targets-rule")
def panels_ask_something(dashboard):
    for one in panels(dashboard):
        if not one["targets"]:
            yield one["title"], "asks nothing"


def _of_loki(dashboard):
    return [
        one["title"]
        for one in panels(dashboard)
        for target in (one, *one["targets"])
        if target["datasource"]["type"] == "loki"
    ]


@rule("target-logql-rule")
def logql_is_valid(dashboard):
    """Nothing here asks Loki; what would is not looked into, but found."""
    for title in _of_loki(dashboard):
        yield title, "asks Loki"


@rule("target-logql-auto-rule")
def logql_uses_auto(dashboard):
    yield from logql_is_valid(dashboard)


@rule("target-promql-rule")
def promql_is_valid(dashboard):
    for title, expr in queries(dashboard):
        if not valid(expr):
            yield title, expr


@rule("target-rate-interval-rule")
def rates_use_the_interval(dashboard):
    for title, expr in queries(dashboard):
        for function, window in re.findall(
            rf"\b({'|'.join(_RATES)})\([^\[]+\[([^\]]+)\]", without_texts(expr)
        ):
            if window != "$__rate_interval":
                yield title, f"{function} over {window}"


def _matched(dashboard, label):
    for title, expr in queries(dashboard):
        if not re.search(rf'\b{label}=~"\${label}"', expr):
            yield title, f"no matcher of {label}"


@rule("target-job-rule")
def queries_match_the_job(dashboard):
    yield from _matched(dashboard, "job")


@rule("target-instance-rule")
def queries_match_the_instance(dashboard):
    yield from _matched(dashboard, "instance")


@rule("target-counter-agg-rule")
def counters_are_rated(dashboard):
    for title, expr in queries(dashboard):
        bare = without_texts(expr)
        for found in re.finditer(r"\b([a-zA-Z_][\w:]*_total)\b(?:\{[^}]*\})?(\[)?", bare):
            before = re.search(r"(\w+)\($", bare[: found.start()])
            if found.group(2) is None or before is None or before.group(1) not in _RATES:
                yield title, f"{found.group(1)} is read as it is"


@rule("uneditable-dashboard")
def dashboards_are_not_edited(dashboard):
    if dashboard["editable"]:
        yield "", "is editable"


def complaints(dashboard: Mapping[str, Any], exclusions: Mapping[str, Any]) -> list[str]:
    """What the linter says of a dashboard, without what is excepted."""
    found = []
    for name, check in RULES.items():
        excepted = exclusions.get(name)
        if excepted is not None and "entries" not in excepted:
            continue
        titles = {one["panel"] for one in (excepted or {}).get("entries", ())}
        found += [
            f"{name}: {title}: {said}" for title, said in check(dashboard) if title not in titles
        ]
    return found
