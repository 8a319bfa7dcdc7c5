"""A dashboard's queries, asked of a Prometheus as Grafana asks them.

Variables are resolved in their order, each from the values chosen before it; intervals are those of
the time range that is shown.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from gputailor_dashboards.generating import BUILDERS, dashboard

#: What stands for a variable of which all values are chosen (its ``allValue``).
ALL = ".*"
VARIABLES = ("cluster", "node", "gpu", "team", "namespace", "workload")
PRICE = "2"
STEP_SECONDS = 60


@dataclass(frozen=True)
class Target:
    """One query of a panel."""

    dashboard: str
    panel: Mapping[str, Any]
    query: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.panel['title']} {self.query['refId']}"


def document(name: str) -> dict[str, Any]:
    """A dashboard as it is written to a file."""
    found: dict[str, Any] = json.loads(json.dumps(dashboard(name)))
    return found


def panels(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The panels, those of collapsed rows too."""
    for panel in document["panels"]:
        yield from panel.get("panels", ())
        if panel["type"] != "row":
            yield panel


def targets(*names: str) -> list[Target]:
    """Every query of these dashboards, of all by default."""
    return [
        Target(name, panel, query)
        for name in names or BUILDERS
        for panel in panels(document(name))
        for query in panel["targets"]
    ]


def marks(name: str) -> dict[str, str]:
    """The annotations' queries by their names."""
    return {one["name"]: str(one["expr"]) for one in document(name)["annotations"]["list"]}


def expression(name: str, title: str, position: int = 0) -> str:
    """The text of one query of a panel."""
    (found,) = (one for one in panels(document(name)) if one["title"] == title)
    return str(found["targets"][position]["expr"])


def escaped(value: str) -> str:
    """A chosen value as Grafana writes it into a regular expression inside of a PromQL string."""
    return re.sub(r"[$^*{}\[\]'+?.()|\\]", r"\\\\\g<0>", value)


@dataclass(frozen=True)
class Shown:
    """A server, and the range of time (Unix seconds) that a dashboard shows."""

    url: str
    start: int
    end: int
    rate_interval: str = "5m"

    def get(self, path: str, **parameters: object) -> list[Any]:
        """The answer of the API; an AssertionError carries its complaint."""
        answer = httpx.get(
            f"{self.url}/api/v1/{path}", params=parameters, timeout=60, trust_env=False
        )
        assert answer.is_success, answer.text
        data = answer.json()["data"]
        return list(data["result"] if isinstance(data, dict) else data)

    def filled(self, expr: str, chosen: Mapping[str, str] | None = None) -> str:
        """The query with intervals, and variables of which all values count unless chosen."""
        values = {
            "__rate_interval": self.rate_interval,
            "__range": f"{self.end - self.start}s",
            **dict.fromkeys(VARIABLES, ALL),
            "price": PRICE,
            **(chosen or {}),
        }
        for name, value in values.items():
            expr = expr.replace(f"${name}", value)
        assert "$" not in expr.replace('"$1"', ""), expr
        return expr

    def instant(self, expr: str, at: float | None = None) -> list[dict[str, Any]]:
        """An instant query at the range's end."""
        return self.get("query", query=expr, time=self.end if at is None else at)

    def value(self, expr: str) -> float:
        """The only value of an instant query."""
        (only,) = self.instant(self.filled(expr))
        return float(only["value"][1])

    def numbers(
        self,
        target: Target,
        chosen: Mapping[str, str] | None = None,
        step: int = STEP_SECONDS,
    ) -> list[float]:
        """Every number with which the server answers a query of a panel."""
        expr = self.filled(target.query["expr"], chosen)
        if target.query["instant"]:
            return [float(one["value"][1]) for one in self.instant(expr)]
        return self.over_time(expr, step)

    def over_time(self, expr: str, step: int = STEP_SECONDS) -> list[float]:
        """Every number of a query over the range."""
        span = {"start": self.start, "end": self.end, "step": step}
        series = self.get("query_range", query=expr, **span)
        return [float(value) for one in series for _, value in one["values"]]

    def options(self, variable: Mapping[str, Any], chosen: Mapping[str, str]) -> set[str]:
        """What Grafana offers: label values, or the text of a query's result, by a regex."""
        query = self.filled(variable["query"]["query"], chosen)
        regex = variable["regex"].strip("/")
        if query.startswith("label_values("):
            series, label = query.removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
            span = {"start": self.start, "end": self.end}
            texts = self.get(f"label/{label}/values", **{"match[]": series}, **span)
        else:
            expr = query.removeprefix("query_result(").removesuffix(")")
            texts = [
                "{" + ",".join(f'{key}="{value}"' for key, value in one["metric"].items()) + "} 1 1"
                for one in self.instant(expr)
            ]
        if not regex:
            return set(texts)
        return {found.group(1) for text in texts if (found := re.search(regex, text))}

    def resolved(self, name: str, wanted: Mapping[str, str]) -> dict[str, str]:
        """Variables of a dashboard: the wanted values, which must be offered; all of the others."""
        chosen: dict[str, str] = {}
        for variable in document(name)["templating"]["list"]:
            if variable["type"] != "query":
                continue
            offered = self.options(variable, chosen)
            # Only a store of several clusters has that label.
            assert offered or variable["name"] == "cluster", f"{name}: {variable['name']}: nothing"
            value = wanted.get(variable["name"])
            assert value is None or value in offered, (value, offered)
            chosen[variable["name"]] = ALL if value is None else escaped(value)
        return chosen


def unit_of(target: Target) -> str:
    """The unit of the query's numbers: of its column, where the panel is a table."""
    config = target.panel["fieldConfig"]
    if target.panel["type"] != "table":
        return str(config["defaults"]["unit"])
    renamed = target.panel["transformations"][-1]["options"]["renameByName"]
    column = renamed.get(f"Value #{target.query['refId']}") or renamed["Value"]
    (unit,) = (
        one["properties"][0]["value"]
        for one in config["overrides"]
        if one["matcher"]["options"] == column and one["properties"][0]["id"] == "unit"
    )
    return str(unit)


def faults(target: Target, numbers: list[float]) -> str:
    """What is wrong with an answer; '' for numbers that can be drawn."""
    if not numbers:
        return "no data"
    if any(math.isnan(number) for number in numbers):
        return "not a number"
    if unit_of(target) == "percentunit" and not 0 <= min(numbers) <= max(numbers) <= 1.001:
        return f"a share of {min(numbers)} to {max(numbers)}"
    return ""
