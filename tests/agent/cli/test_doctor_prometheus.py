"""What doctor concludes of what it saw in a Prometheus: each line says what to do."""

import pytest

from gputailor_agent.cli import prometheus_checks, server_checks
from gputailor_agent.model.inventory import ContainerSpec, GpuRequest, Inventory, Node, Pod
from gputailor_agent.sources.prometheus.inspecting import Inspection, Seen, Target

DAY = 86_400
NOW = 1_768_046_400.0  # 2026-01-10 12:00 UTC


def seen(dialect="dcgm", **changes):
    facts = {
        "devices": {"GPU-0": "node-a"},
        "holders": frozenset({("team", "p")}),
        "signals": frozenset({"kernel", "encoder", "decoder", "memcopy"}),
        "renamed": False,
        "jobs": frozenset({"dcgm-exporter"}),
    }
    return Seen(dialect=dialect, **{**facts, **changes})


def inspection(*kinds, **changes):
    facts = {
        "address": "http://p:9090",
        "seen": kinds or (seen(),),
        "down": (),
        "intervals": {"dcgm-exporter": 30.0},
        "retention": "15d",
        "skew_seconds": 0.4,
        "ahead": {},
        "unavailable": {},
        "first_data": NOW - 14 * DAY,
        "partial": (),
    }
    return Inspection(**{**facts, **changes})


def node(name, gpus=8.0, **changes):
    return Node(cluster="c", name=name, capacity={"nvidia.com/gpu": gpus}, **changes)


def pod(name="p"):
    gpus = (GpuRequest(resource="nvidia.com/gpu", count=1),)
    return Pod(
        cluster="c", namespace="team", name=name, uid=name, node="node-a",
        containers=(ContainerSpec(name="main", gpus=gpus),),
    )  # fmt: skip


def inventory(nodes=("node-a",), pods=("p",)):
    return Inventory(
        cluster="c",
        at=NOW,
        nodes=tuple(one if isinstance(one, Node) else node(one) for one in nodes),
        pods=tuple(pod(name) for name in pods),
    )


def problems(checks):
    return [check for check in checks if check.standing == "problem"]


def test_a_server_in_order_has_only_fine_lines():
    told = list(server_checks.server_checks(inspection(), NOW))
    assert {check.standing for check in told} == {"ok"}
    assert [check.found for check in told] == [
        "data are kept for 15 days",
        "dcgm-exporter: every 30 s",
        "this machine, server and exporters agree",
    ]


@pytest.mark.parametrize(
    ("retention", "standing", "found"),
    [
        ("6h", "note", "kept for 0.25 days"),
        ("1w2d or 10GiB", "note", "kept for 9 days"),
        ("15d", "ok", "kept for 15 days"),
        (None, "note", "does not say"),
        ("10GiB", "note", "does not say how long it keeps data in time (10GiB)"),
    ],
)
def test_retention_is_held_against_a_reports_window(retention, standing, found):
    check = next(server_checks.server_checks(inspection(retention=retention), NOW))
    assert check.standing == standing
    assert found in check.found
    assert (check.advice == "") == (standing == "ok")


def test_a_scrape_too_seldom_is_a_problem():
    told = server_checks.server_checks(inspection(intervals={"dcgm": 300.0}), NOW)
    (check,) = problems(told)
    assert check.found == "dcgm: every 300 s"
    assert "at least every 120 s" in check.advice


def test_clocks_that_differ_are_told_by_machine():
    told = server_checks.server_checks(
        inspection(skew_seconds=-95.0, ahead={"10.0.0.7:9400": 70.0}), NOW
    )
    ours, theirs = problems(told)
    assert "95 s behind the server's" in ours.found
    assert "10.0.0.7:9400 is 70 s ahead" in theirs.found
    assert "NTP" in ours.advice
    assert "NTP" in theirs.advice


def test_a_server_that_answers_in_part_is_told():
    told = server_checks.server_checks(inspection(partial=("store x unavailable",)), NOW)
    (check,) = problems(told)
    assert "store x unavailable" in check.found


def test_exporters_are_listed_by_dialect_and_node():
    told = list(prometheus_checks.exporter_checks(inspection(seen(), seen("gputailor"))))
    assert [check.name for check in told] == ["exporter dcgm", "exporter gputailor"]
    assert told[0].found == "1 devices on 1 nodes: node-a"


def test_a_failing_scrape_is_told_with_its_address():
    down = (Target(job="dcgm-exporter", instance="10.0.0.9:9400", node="node-b"),)
    (check,) = problems(prometheus_checks.exporter_checks(inspection(down=down)))
    assert "10.0.0.9:9400 failed (node node-b)" in check.found


def test_all_nodes_measured_is_one_fine_line():
    (check,) = prometheus_checks.node_checks(inspection(), inventory())
    assert (check.standing, check.found) == ("ok", "all measured: 1 nodes with GPUs")


@pytest.mark.parametrize(
    ("lost", "down", "why"),
    [
        (node("node-b"), (), "no exporter that is scraped runs there"),
        (node("node-b", ready=False), (), "the node is not ready"),
        (
            node("node-b"),
            (Target(job="dcgm", instance="10.0.0.9:9400", node="node-b"),),
            "the scrape of dcgm at 10.0.0.9:9400 fails",
        ),
        (
            node("node-b"),
            (Target(job="dcgm", instance="node-b:9400", node=""),),
            "the scrape of dcgm at node-b:9400 fails",
        ),
    ],
)
def test_a_node_without_measurements_comes_with_the_reason(lost, down, why):
    told = prometheus_checks.node_checks(inspection(down=down), inventory(("node-a", lost)))
    (check,) = problems(told)
    assert check.found == f"node-b has GPUs and no measurements: {why}"
    assert check.advice


def test_nodes_without_gpus_need_no_measurements():
    told = prometheus_checks.node_checks(inspection(), inventory(("node-a", node("cpu", gpus=0.0))))
    assert not problems(told)


def test_labels_that_join_have_no_line():
    assert list(prometheus_checks.join_checks(inspection(), inventory())) == []


@pytest.mark.parametrize(
    ("changes", "standing", "found", "advice"),
    [
        ({"renamed": True}, "note", "exported_pod", "honorLabels: true"),
        (
            {"devices": {"GPU-0": "10.0.0.7"}},
            "problem",
            "none of the cluster's: 10.0.0.7",
            "__meta_kubernetes_pod_node_name",
        ),
        ({"devices": {"GPU-0": ""}}, "problem", "no name", "targetLabel node"),
        ({"holders": frozenset()}, "problem", "no series names a pod", "KUBERNETES=true"),
        (
            {"holders": frozenset({("x", "stranger")})},
            "problem",
            "none of the pods it names is one of the cluster's: x/stranger",
            "Prometheus of this cluster",
        ),
    ],
)
def test_a_join_that_fails_comes_with_its_fix(changes, standing, found, advice):
    (check,) = prometheus_checks.join_checks(inspection(seen(**changes)), inventory())
    assert check.standing == standing
    assert found in check.found
    assert advice in check.advice


def test_an_exporter_that_cannot_name_pods_is_only_a_note():
    one = seen("nvitop", holders=frozenset())
    (check,) = prometheus_checks.join_checks(inspection(one), inventory())
    assert check.standing == "note"
    assert "it cannot" in check.advice


def test_rules_that_miss_signals_come_with_the_counters_to_enable():
    (check,) = prometheus_checks.rule_checks(inspection())
    assert check.name == "rules by dcgm"
    assert "smaller_gpu" in check.found
    assert "sm" in check.found
    assert check.advice.startswith("enable DCGM_FI_PROF_")
    assert "DCGM_FI_PROF_SM_ACTIVE" in check.advice
    assert "in its counters file" in check.advice


def test_a_rule_whose_first_signal_is_missing_cannot_speak():
    (check,) = prometheus_checks.rule_checks(inspection(seen(signals=frozenset({"sm"}))))
    assert "cannot speak:" in check.found
    assert "idle" in check.found.partition(";")[0]


def test_a_health_that_is_told_in_part_comes_with_the_counter_to_enable():
    one = seen(health=frozenset({"errors of the hardware"}))
    (check,) = prometheus_checks.rule_checks(inspection(one))
    assert "health" in check.found.partition(";")[0]
    assert "throttling" in check.found
    assert "DCGM_FI_DEV_THERMAL_VIOLATION" in check.advice
    (whole,) = prometheus_checks.rule_checks(inspection(seen()))
    assert "health" not in whole.found
    assert "throttling" not in whole.found


def test_an_exporter_that_can_never_tell_of_health_is_told_so():
    (check,) = prometheus_checks.rule_checks(inspection(seen("nvitop", health=frozenset())))
    assert "errors of the hardware" in check.found
    assert "throttling: it cannot tell; gputailor-exporter does" in check.advice


def test_our_exporters_own_reasons_are_given():
    one = seen("gputailor", signals=frozenset({"kernel"}))
    told = inspection(one, unavailable={("sm", "GPM is not supported"): 8})
    (check,) = prometheus_checks.rule_checks(told)
    assert "sm: GPM is not supported" in check.advice


def test_the_first_judgement_is_dated():
    check = prometheus_checks.judgement(inspection(first_data=NOW - 2 * DAY), NOW)
    assert check.standing == "note"
    assert "services from 2026-01-16 00:00 UTC" in check.found
    assert prometheus_checks.judgement(inspection(), NOW).standing == "ok"
    nothing = prometheus_checks.judgement(inspection(first_data=None), NOW)
    assert "nothing was measured" in nothing.found
