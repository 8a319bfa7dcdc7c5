"""Every query of every dashboard answers on a real Prometheus that was fed with history."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gputailor_dashboards.generating import BUILDERS, dashboard, generate
from tests.dashboards import history, prometheus

pytestmark = pytest.mark.system

ALL = {"node": ".*", "namespace": ".*", "workload": ".*"}
INTERVALS = {"$__rate_interval": "5m", "$__range": f"{history.HOURS}h"}


@dataclass(frozen=True)
class Server:
    url: str

    def get(self, path: str, **parameters: object) -> list[dict]:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=60)
        assert answer.is_success, answer.text
        data = answer.json()["data"]
        return data["result"] if isinstance(data, dict) else data

    def instant(self, expr: str, at: int = history.NOW) -> list[dict]:
        return self.get("query", query=expr, time=at)

    def value(self, expr: str) -> float:
        (only,) = self.instant(filled(expr))
        return float(only["value"][1])


def served(folder: Path, files: list[Path], rules: str) -> Iterator[Server]:
    data = folder / "data"
    generate(folder / "generated")
    prometheus.fill(data, files)
    with prometheus.serving(folder, data) as url:
        path = folder / "generated" / "rules" / f"{rules}.yaml"
        prometheus.record(url, data, path, history.START, history.NOW)
    with prometheus.serving(folder, data) as url:
        yield Server(url)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native")
    yield from served(folder, history.write_native(folder), "gputailor")


@pytest.fixture(scope="module")
def dcgm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dcgm")
    yield from served(folder, history.write_dcgm(folder), "gputailor-dcgm")


def server_of(name: str, request) -> Server:
    return request.getfixturevalue("dcgm" if name.endswith("dcgm") else "native")


def filled(expr: str, chosen: dict[str, str] | None = None) -> str:
    for name, value in INTERVALS.items():
        expr = expr.replace(name, value)
    for name, value in {**ALL, **(chosen or {})}.items():
        expr = expr.replace(f"${name}", value)
    assert "$" not in expr.replace('"$1"', ""), expr
    return expr


def panels(document: dict) -> Iterator[dict]:
    for panel in document["panels"]:
        yield from panel.get("panels", ())
        if panel["type"] != "row":
            yield panel


def targets() -> list:
    return [
        pytest.param(name, panel, target, id=f"{name}: {panel['title']} {target['refId']}")
        for name in BUILDERS
        for panel in panels(json.loads(json.dumps(dashboard(name))))
        for target in panel["targets"]
    ]


@pytest.mark.parametrize(("name", "panel", "target"), targets())
def test_every_query_answers_with_numbers(name, panel, target, request):
    server = server_of(name, request)
    expr = filled(target["expr"])
    if target["instant"]:
        values = [float(one["value"][1]) for one in server.instant(expr)]
    else:
        span = {"start": history.START, "end": history.NOW, "step": 60}
        series = server.get("query_range", query=expr, **span)
        values = [float(value) for one in series for _, value in one["values"]]
    assert values, expr
    assert not any(math.isnan(value) for value in values), expr
    if panel["fieldConfig"]["defaults"].get("unit") == "percentunit":
        assert 0 <= min(values) <= max(values) <= 1.001


def variable_values(server: Server, variable: dict, chosen: dict[str, str]) -> set[str]:
    """What Grafana would offer: label values, or the text of a query's result, by a regex."""
    query = filled(variable["query"]["query"], chosen)
    regex = variable["regex"].strip("/")
    if query.startswith("label_values("):
        series, label = query.removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
        span = {"start": history.START, "end": history.NOW}
        texts = server.get(f"label/{label}/values", **{"match[]": series}, **span)
    else:
        expr = query.removeprefix("query_result(").removesuffix(")")
        texts = [
            "{" + ",".join(f'{key}="{value}"' for key, value in one["metric"].items()) + "} 1 1"
            for one in server.instant(expr)
        ]
    if not regex:
        return set(texts)
    return {found.group(1) for text in texts if (found := re.search(regex, text))}


@pytest.mark.parametrize("name", BUILDERS)
def test_every_variable_offers_values_and_a_workloads_name_is_its_pods_stem(name, request):
    server = server_of(name, request)
    found = {
        variable["name"]: variable_values(server, variable, {})
        for variable in dashboard(name)["templating"]["list"]
        if variable["type"] == "query"
    }
    assert {"research", "lab", "web"} <= found["namespace"]
    assert not any("dcgm" in value or "operator" in value for value in found["namespace"])
    if "node" in found:
        assert found["node"] in ({"node-a", "node-b"}, {"old", "new", "shared", "blank"})
    if "workload" in found:
        assert {"train", "serve", "forgotten"} <= found["workload"]


@pytest.mark.parametrize("name", [name for name in BUILDERS if "workload" in name])
def test_a_chosen_workload_shows_its_own_pods_only(name, request):
    server = server_of(name, request)
    (table,) = (one for one in panels(dashboard(name)) if one["title"] == "Now, by device")
    expr = filled(table["targets"][0]["expr"], {"namespace": "web", "workload": "(serve|train)"})
    pods = {one["metric"]["pod"] for one in server.instant(expr)}
    assert pods
    assert all(pod.startswith("serve-4lnjsrlgtj-") for pod in pods)


def panel_query(name: str, title: str, position: int = 0) -> str:
    (found,) = (one for one in panels(dashboard(name)) if one["title"] == title)
    return found["targets"][position]["expr"]


def test_our_numbers_are_those_of_the_scenario(native):
    cluster = "gputailor-cluster"
    assert native.value(panel_query(cluster, "GPUs")) == 4
    assert native.value(panel_query(cluster, "Held")) == 3.5  # 2 GPUs, a slice, 2 of 4 replicas
    idle = native.instant(filled(panel_query(cluster, "Idle by namespace")))
    by_namespace = {one["metric"]["namespace"]: float(one["value"][1]) for one in idle}
    assert (by_namespace["lab"], by_namespace["research"]) == (1, 0)
    assert native.value(panel_query(cluster, "Lost or hung")) == 0
    assert native.value(panel_query(cluster, "Silent exporters")) == 0
    busy = native.instant('gputailor:container_gpu_busy:ratio_rate5m{pod="train-25p6k"}')
    assert float(busy[0]["value"][1]) == pytest.approx(0.9, abs=0.01)


def test_our_hours_are_those_that_were_measured(native):
    rows = native.instant(filled(panel_query("gputailor-cluster", "GPU-hours by namespace")))
    held = {one["metric"]["namespace"]: float(one["value"][1]) for one in rows}
    # The exporter of node-a was down for ten minutes: nothing is made up for them.
    assert held["research"] == pytest.approx(3 - 10 / 60, abs=0.2)
    idle = native.instant(filled(panel_query("gputailor-cluster", "GPU-hours by namespace", 2)))
    assert {one["metric"]["namespace"]: float(one["value"][1]) for one in idle}[
        "lab"
    ] == pytest.approx(held["lab"], abs=0.2)


def test_a_gap_of_the_exporter_is_a_gap_and_no_zero(native):
    expr = filled(panel_query("gputailor-cluster", "Kernel activity"))
    middle = native.instant(expr, history.NOW - 2 * 3600 + 8 * 60)
    assert {one["metric"]["node"] for one in middle} == {"node-b"}


def test_dcgm_values_of_a_shared_gpu_are_split_and_shown_for_no_single_pod(dcgm):
    held = dcgm.instant(filled(panel_query("gputailor-cluster-dcgm", "Held by namespace")))
    by_namespace = {one["metric"]["namespace"]: float(one["value"][1]) for one in held}
    # team: one GPU that two pods share, and one whose activity is blank
    assert by_namespace == {"research": 1, "lab": 1, "web": 2, "team": 2}
    kernel = dcgm.instant(filled(panel_query("gputailor-workload-dcgm", "Kernel activity")))
    assert {one["metric"]["pod"] for one in kernel} == {
        "train-25p6k",
        "forgotten",
        "serve-4lnjsrlgtj-hpmzw",
    }


def test_dcgm_blanks_are_unknown_and_not_idle(dcgm):
    cluster = "gputailor-cluster-dcgm"
    use = "Held, used, idle, unknown"
    assert dcgm.value(panel_query(cluster, use, 2)) == 1  # lab's
    assert dcgm.value(panel_query(cluster, use, 3)) == 1  # team's blank one
    assert dcgm.value(panel_query(cluster, use, 1)) == pytest.approx(0.9 * 3 + 0.85)
    assert dcgm.value(panel_query(cluster, "GPUs")) == 7
