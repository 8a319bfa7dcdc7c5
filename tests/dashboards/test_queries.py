"""Every query of every dashboard answers on a real Prometheus that was fed with history."""

import pytest

from gputailor_dashboards.generating import BUILDERS, dashboard
from tests.dashboards import history
from tests.dashboards.asking import (
    Shown,
    Target,
    escaped,
    expression,
    faults,
    marks,
    panels,
    targets,
)
from tests.dashboards.served import dialect_of, served

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def gputailor(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("gputailor"), "gputailor")


@pytest.fixture(scope="module")
def dcgm(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("dcgm"), "dcgm")


@pytest.fixture(scope="module")
def smi(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("smi"), "smi")


@pytest.fixture(scope="module")
def native(gputailor):
    return gputailor


def server_of(name: str, request) -> Shown:
    return request.getfixturevalue(dialect_of(name).key)


@pytest.mark.parametrize("target", targets(), ids=str)
def test_case_37_every_query_answers_with_numbers(target: Target, request):
    server = server_of(target.dashboard, request)
    assert faults(target, server.numbers(target)) == "", target.query["expr"]


@pytest.mark.parametrize("name", BUILDERS)
def test_every_mark_on_the_time_axis_has_something_to_mark(name, request):
    server = server_of(name, request)
    empty = [
        title for title, expr in marks(name).items() if not server.over_time(server.filled(expr))
    ]
    assert empty == []


NODES = {
    "gputailor": {"node-a", "node-b"},
    "dcgm": {"old", "new", "shared", "blank"},
    "smi": {"10.0.0.1", "smi-b"},
}


@pytest.mark.parametrize("name", BUILDERS)
def test_every_variable_offers_values_and_a_workloads_name_is_its_pods_stem(name, request):
    server = server_of(name, request)
    found = {
        variable["name"]: server.options(variable, {})
        for variable in dashboard(name)["templating"]["list"]
        if variable["type"] == "query"
    }
    namespaces = found.pop("namespace", {"research", "lab", "web"})
    assert {"research", "lab", "web"} <= namespaces
    assert not any("dcgm" in value or "operator" in value for value in namespaces)
    assert {"train", "serve", "forgotten"} <= found.pop("workload", {"train", "serve", "forgotten"})
    expected = {
        "cluster": set(),
        "node": NODES[dialect_of(name).key],
        "gpu": {"0", "1"} if dialect_of(name).key == "smi" else {"0", "1", "2"},
        "team": {"vision", "language"},
    }
    assert found == {key: value for key, value in expected.items() if key in found}


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
    rows = native.instant(native.filled(expression("gputailor-waste", hours)))
    held = {one["metric"]["namespace"]: float(one["value"][1]) for one in rows}
    # The exporter of node-a was down for ten minutes: nothing is made up for them.
    assert held["research"] == pytest.approx(3 - 10 / 60, abs=0.2)
    idle = native.instant(native.filled(expression("gputailor-waste", hours, 2)))
    assert {one["metric"]["namespace"]: float(one["value"][1]) for one in idle}[
        "lab"
    ] == pytest.approx(held["lab"], abs=0.2)


def test_a_gap_of_the_exporter_is_a_gap_and_no_zero(native):
    expr = native.filled(expression("gputailor-node", "Kernel activity"))
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
    use = "GPUs, held, used, idle, unknown"
    assert dcgm.value(expression(cluster, use, 3)) == 1  # lab's
    assert dcgm.value(expression(cluster, use, 4)) == 1  # team's blank one
    assert dcgm.value(expression(cluster, use, 2)) == pytest.approx(0.9 * 3 + 0.85)
    assert dcgm.value(expression(cluster, "GPUs")) == 7


def test_a_namespaces_hours_stand_by_its_team_and_are_chosen_by_it(native):
    hours = expression("gputailor-waste", "GPU-hours by team")
    by_team = {one["metric"].get("team", ""): one for one in native.instant(native.filled(hours))}
    assert set(by_team) == {"vision", "language", ""}  # web has no team, and is not left out
    chosen = native.instant(native.filled(hours, {"team": "vision"}))
    assert [one["metric"]["team"] for one in chosen] == ["vision"]


def test_a_chosen_node_and_gpu_show_themselves_only(request):
    for name, node in (("gputailor-gpu", "node-a"), ("gputailor-gpu-smi", "smi-b")):
        server = server_of(name, request)
        expr = server.filled(
            expression(name, "Power and its limit"), {"node": escaped(node), "gpu": "1"}
        )
        (only,) = server.instant(expr)
        assert (only["metric"]["node"], only["metric"]["gpu"]) == (node, "1")


def test_memory_taken_and_never_used_is_standby(native):
    table = expression("gputailor-serving", "Loaded, and nobody asks")
    found = {one["metric"]["namespace"]: one for one in native.instant(native.filled(table))}
    assert float(found["lab"]["value"][1]) == pytest.approx(0.25, abs=0.02)  # 20 of 80 GiB
    assert "research" not in found
