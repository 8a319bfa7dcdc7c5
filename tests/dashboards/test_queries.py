"""Every query of every dashboard answers on a real Prometheus that was fed with history."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gputailor_dashboards.generating import BUILDERS, dashboard, generate
from tests.dashboards import history, prometheus
from tests.dashboards.asking import Shown, Target, expression, faults, panels, targets

pytestmark = pytest.mark.system


def served(folder: Path, files: list[Path], rules: str) -> Iterator[Shown]:
    data = folder / "data"
    generate(folder / "generated")
    prometheus.fill(data, files)
    with prometheus.serving(folder, data) as url:
        path = folder / "generated" / "rules" / f"{rules}.yaml"
        prometheus.record(url, data, path, history.START, history.NOW)
    with prometheus.serving(folder, data) as url:
        yield Shown(url, history.START, history.NOW)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native")
    yield from served(folder, history.write_native(folder), "gputailor")


@pytest.fixture(scope="module")
def dcgm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dcgm")
    yield from served(folder, history.write_dcgm(folder), "gputailor-dcgm")


def server_of(name: str, request) -> Shown:
    return request.getfixturevalue("dcgm" if name.endswith("dcgm") else "native")


@pytest.mark.parametrize("target", targets(), ids=str)
def test_every_query_answers_with_numbers(target: Target, request):
    server = server_of(target.dashboard, request)
    assert faults(target, server.numbers(target)) == "", target.query["expr"]


@pytest.mark.parametrize("name", BUILDERS)
def test_every_variable_offers_values_and_a_workloads_name_is_its_pods_stem(name, request):
    server = server_of(name, request)
    found = {
        variable["name"]: server.options(variable, {})
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
    chosen = {"namespace": "web", "workload": "(serve|train)"}
    expr = server.filled(table["targets"][0]["expr"], chosen)
    pods = {one["metric"]["pod"] for one in server.instant(expr)}
    assert pods
    assert all(pod.startswith("serve-4lnjsrlgtj-") for pod in pods)


def test_our_numbers_are_those_of_the_scenario(native):
    cluster = "gputailor-cluster"
    assert native.value(expression(cluster, "GPUs")) == 4
    assert native.value(expression(cluster, "Held")) == 3.5  # 2 GPUs, a slice, 2 of 4 replicas
    idle = native.instant(native.filled(expression(cluster, "Idle by namespace")))
    by_namespace = {one["metric"]["namespace"]: float(one["value"][1]) for one in idle}
    assert (by_namespace["lab"], by_namespace["research"]) == (1, 0)
    assert native.value(expression(cluster, "Lost or hung")) == 0
    assert native.value(expression(cluster, "Silent exporters")) == 0
    busy = native.instant('gputailor:container_gpu_busy:ratio_rate5m{pod="train-25p6k"}')
    assert float(busy[0]["value"][1]) == pytest.approx(0.9, abs=0.01)


def test_our_hours_are_those_that_were_measured(native):
    hours = "GPU-hours by namespace"
    rows = native.instant(native.filled(expression("gputailor-cluster", hours)))
    held = {one["metric"]["namespace"]: float(one["value"][1]) for one in rows}
    # The exporter of node-a was down for ten minutes: nothing is made up for them.
    assert held["research"] == pytest.approx(3 - 10 / 60, abs=0.2)
    idle = native.instant(native.filled(expression("gputailor-cluster", hours, 2)))
    assert {one["metric"]["namespace"]: float(one["value"][1]) for one in idle}[
        "lab"
    ] == pytest.approx(held["lab"], abs=0.2)


def test_a_gap_of_the_exporter_is_a_gap_and_no_zero(native):
    expr = native.filled(expression("gputailor-cluster", "Kernel activity"))
    middle = native.instant(expr, history.NOW - 2 * 3600 + 8 * 60)
    assert {one["metric"]["node"] for one in middle} == {"node-b"}


def test_dcgm_values_of_a_shared_gpu_are_split_and_shown_for_no_single_pod(dcgm):
    held = dcgm.instant(dcgm.filled(expression("gputailor-cluster-dcgm", "Held by namespace")))
    by_namespace = {one["metric"]["namespace"]: float(one["value"][1]) for one in held}
    # team: one GPU that two pods share, and one whose activity is blank
    assert by_namespace == {"research": 1, "lab": 1, "web": 2, "team": 2}
    kernel = dcgm.instant(dcgm.filled(expression("gputailor-workload-dcgm", "Kernel activity")))
    assert {one["metric"]["pod"] for one in kernel} == {
        "train-25p6k",
        "forgotten",
        "serve-4lnjsrlgtj-hpmzw",
    }


def test_dcgm_blanks_are_unknown_and_not_idle(dcgm):
    cluster = "gputailor-cluster-dcgm"
    use = "Held, used, idle, unknown"
    assert dcgm.value(expression(cluster, use, 2)) == 1  # lab's
    assert dcgm.value(expression(cluster, use, 3)) == 1  # team's blank one
    assert dcgm.value(expression(cluster, use, 1)) == pytest.approx(0.9 * 3 + 0.85)
    assert dcgm.value(expression(cluster, "GPUs")) == 7
