"""What Grafana is handed: known metrics only, legends that tell apart, a grid, links that lead."""

import json
import re

import pytest
import yaml
from typer.testing import CliRunner

from gputailor_agent import metrics as agent
from gputailor_dashboards import command, publishing
from gputailor_dashboards.boards import BOARDS
from gputailor_dashboards.compacting import without_defaults
from gputailor_dashboards.expressions import dcgm, smi
from gputailor_dashboards.expressions.base import POD_NAME, WORKLOAD
from gputailor_dashboards.expressions.engines import ENGINES
from gputailor_dashboards.expressions.smi import Smi
from gputailor_dashboards.generating import BUILDERS, files, generate, render
from gputailor_dashboards.modern import modernise
from gputailor_dashboards.panels import Look, lay_out, panel, row
from gputailor_exporter import metrics
from tests.dashboards.asking import panels as drawn

SUFFIXES = r"(?:_bucket|_count|_sum)?$"
NAMES = {family.name for family in (*metrics.FAMILIES, *agent.FAMILIES)}
DCGM_NAMES = {value for name, value in vars(dcgm).items() if str(value).startswith("DCGM_FI_")}
ENGINE_NAMES = {
    name
    for engine in ENGINES
    for name in (
        engine.running, engine.waiting, engine.requests, engine.tokens, engine.cache,
        engine.latency, f"{engine.latency}_sum", f"{engine.latency}_count",
    )
    if name
}  # fmt: skip
RECORDED = {
    rule.document().get("record")
    for groups in publishing.rule_groups().values()
    for group in groups
    for rule in group.rules
}


@pytest.fixture(params=sorted(BUILDERS))
def dashboard(request):
    return json.loads(render(request.param))


def test_the_modernising_pass_refuses_a_panel_of_the_angular_age():
    old = {"panels": [{"type": "graph", "title": "x"}], "templating": {"list": []}}
    with pytest.raises(ValueError, match="'graph', not row, stat, table, timeseries"):
        modernise(old)


def test_panel_ids_and_titles_are_unique(dashboard):
    ids = [one["id"] for one in dashboard["panels"]]
    titles = [one["title"] for one in drawn(dashboard)]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)
    assert titles


def test_query_ids_are_unique_within_a_panel_and_a_query_is_instant_or_over_the_range(dashboard):
    for one in drawn(dashboard):
        refs = [target["refId"] for target in one["targets"]]
        assert refs == sorted(set(refs))
        assert all(target["instant"] is not target["range"] for target in one["targets"])


def test_every_panel_asks_a_question(dashboard):
    assert all("?" in one["description"] for one in drawn(dashboard))


def test_queries_name_only_metrics_that_an_exporter_or_a_rule_writes(dashboard):
    for one in drawn(dashboard):
        for target in one["targets"]:
            expr = target["expr"]
            used = {
                re.sub(SUFFIXES, "", name) if name not in NAMES else name
                for name in re.findall(r"gputailor_\w+(?!:)\b(?!:)|DCGM_\w+", expr)
            }
            recorded = set(re.findall(r"gputailor\w*:[\w:]+", expr))
            foreign = set(re.findall(r"(?:nvidia_smi|vllm|sglang|tgi|nv_inference)[\w:]+", expr))
            assert used | recorded | foreign or "ALERTS" in expr
            assert used <= NAMES | DCGM_NAMES, used - NAMES - DCGM_NAMES
            assert recorded <= RECORDED, recorded - RECORDED
            known = {name for name in foreign if name.startswith(smi.PREFIX)}
            assert foreign - known <= ENGINE_NAMES


def test_queries_use_only_variables_that_the_dashboard_has(dashboard):
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    for one in drawn(dashboard):
        for target in one["targets"]:
            used = set(re.findall(r"\$(?!__)([a-z]\w*)", target["expr"]))
            assert used <= known
            macros = set(re.findall(r"\$__\w+", target["expr"]))
            assert macros <= {"$__rate_interval", "$__range"}


def test_case_37_series_by_device_name_node_and_gpu(dashboard):
    for one in drawn(dashboard):
        for target in one["targets"]:
            if "{{gpu}}" in target["legendFormat"] or "{{slice}}" in target["legendFormat"]:
                assert "{{cluster}} {{node}} GPU {{gpu}} {{slice}}" in target["legendFormat"]
            if one["type"] == "table" and "gpu" in columns(one):
                assert "node" in columns(one), one["title"]


def columns(table):
    return table["transformations"][1]["options"]["include"]["names"]


def test_series_over_time_have_a_legend(dashboard):
    for one in drawn(dashboard):
        if one["type"] == "timeseries":
            assert all(target["legendFormat"] for target in one["targets"]), one["title"]


def test_case_40_gaps_are_not_joined_and_nothing_is_written_as_zero(dashboard):
    for one in drawn(dashboard):
        defaults = one["fieldConfig"]["defaults"]
        assert defaults["noValue"] not in {"", "0"}
        if one["type"] == "timeseries":
            assert defaults["custom"]["spanNulls"] is False
        elif defaults["noValue"] == "unknown":
            (mapping,) = defaults["mappings"]
            assert mapping["options"]["match"] == "null+nan"
            assert mapping["options"]["result"]["text"] == "unknown"
        for target in one["targets"]:
            assert "vector(" not in target["expr"]


def test_panels_do_not_overlap_and_stay_on_the_grid(dashboard):
    cells = set()
    for one in dashboard["panels"]:
        place = one["gridPos"]
        assert place["x"] + place["w"] <= 24
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not covered & cells, one["title"]
        cells |= covered
    height = max(y for _, y in cells) + 1
    assert len(cells) == 24 * height, "a hole in the grid"


def test_uids_are_stable():
    assert set(BUILDERS) == {
        *(f"gputailor-{name}" for name in (
            "cluster", "waste", "workload", "node", "gpu", "sharing", "serving", "health", "self",
        )),
        *(f"gputailor-{name}-dcgm" for name in (
            "cluster", "waste", "workload", "node", "gpu", "sharing", "health",
        )),
        *(f"gputailor-{name}-smi" for name in ("cluster", "node", "gpu", "health")),
    }  # fmt: skip
    assert all(json.loads(render(name))["uid"] == name for name in BUILDERS)


def test_the_menu_leads_to_all_dashboards_on_the_same_exporter():
    documents = {name: json.loads(render(name)) for name in BUILDERS}
    for name, document in documents.items():
        (link,) = document["links"]
        assert link["type"] == "dashboards"
        assert link["includeVars"]
        assert link["keepTime"]
        found = {uid for uid, one in documents.items() if set(link["tags"]) <= set(one["tags"])}
        same = {uid for uid in BUILDERS if BUILDERS[uid].dialect.key == BUILDERS[name].dialect.key}
        assert found == same


def data_links(dashboard):
    return [
        link
        for one in drawn(dashboard)
        for override in one["fieldConfig"]["overrides"]
        for part in override["properties"]
        if part["id"] == "links"
        for link in part["value"]
    ]


def test_links_in_tables_lead_to_dashboards_that_are_there_and_set_their_variables(dashboard):
    for link in data_links(dashboard):
        uid, query = re.fullmatch(r"/d/([\w-]+)\?(.*)", link["url"]).groups()
        there = json.loads(render(uid))
        known = {variable["name"] for variable in there["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", query)) <= known
        assert "${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}" in query


def test_a_namespace_a_node_and_a_workload_lead_to_their_dashboards():
    urls = [link["url"] for link in data_links(json.loads(render("gputailor-waste")))]
    assert any(url.startswith("/d/gputailor-workload?var-namespace=${__value.raw}") for url in urls)
    assert any("var-workload=${__value.raw}" in url for url in urls)
    assert any(url.startswith("/d/gputailor-node?var-node=${__value.raw}") for url in urls)
    ours = data_links(json.loads(render("gputailor-waste-dcgm")))
    assert ours
    assert all("-dcgm?" in link["url"] for link in ours)


def test_the_variables_are_those_that_people_choose_by():
    names = {name for board in BOARDS.values() for name in board.variables}
    assert {"cluster", "node", "namespace", "team", "workload", "gpu"} <= names


def test_findings_alerts_and_xid_errors_are_marked_on_the_time_axis(dashboard):
    found = {one["name"] for one in dashboard["annotations"]["list"]}
    assert {"Findings", "Alerts"} <= found
    assert ("Xid errors" in found) == ("on-gputailor" in dashboard["tags"])


def test_an_exporter_that_names_no_pods_says_nothing_of_holders():
    dialect = Smi(WORKLOAD)
    answers = (dialect.held(), dialect.used(), dialect.idle(), dialect.unknown())
    assert answers == (None, None, None, None)
    with pytest.raises(LookupError, match="nvidia_gpu_exporter names no pods"):
        _ = dialect.pod_values


def test_a_collapsed_row_keeps_its_panels_inside():
    one = panel("Held", "How many?", ("sum(up)", "held"), look=Look.STAT, width=6)
    (placed,) = lay_out([row("Later", one, collapsed=True)])
    assert placed.collapsed
    assert [inside.title for inside in placed.panels] == ["Held"]


def test_a_panel_that_a_dialect_cannot_answer_is_left_out():
    assert panel("Lost", "How many?", (None, "lost")) is None
    assert row("Health", None) is None


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("serve-4lnjsrlgtj-hpmzw", "serve"),
        ("train-25p6k", "train"),
        ("nightly-29145600-x7k2p", "nightly"),
        ("llama-worker-3", "llama"),
        ("llama-master-0", "llama"),
        ("db-0", "db"),
        ("notebook", "notebook"),
        ("resnet50-v2-7c9b6f5d4-wq2xz", "resnet50-v2"),
        ("vision-model", "vision-model"),
    ],
)
def test_a_workloads_name_is_its_pods_without_what_controllers_add(pod, workload):
    assert re.fullmatch(POD_NAME, pod).group(1) == workload


def test_case_38_config_maps_carry_the_sidecars_label_and_fit_into_kubectl_apply():
    for name in BUILDERS:
        document = publishing.config_map(name, json.loads(render(name)), publishing.Placing())
        assert document["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert len(json.dumps(document)) < 262_144
        assert json.loads(document["data"][f"{name}.json"])["uid"] == name


def test_a_config_map_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="ConfigMap big has 3001"):
        publishing.config_map("big", {"title": "x" * 300_000}, publishing.Placing())


def test_prometheus_rules_carry_the_labels_the_operator_looks_for(tmp_path):
    placing = publishing.Placing("monitoring", {"dash": "yes"}, {"release": "prom"})
    groups = publishing.rule_groups()["gputailor"]
    document = publishing.prometheus_rule("gputailor", groups, placing)
    assert document["kind"] == "PrometheusRule"
    assert document["metadata"]["namespace"] == "monitoring"
    assert document["metadata"]["labels"]["release"] == "prom"
    rules = [rule for group in document["spec"]["groups"] for rule in group["rules"]]
    alerts = [rule for rule in rules if "alert" in rule]
    assert len(alerts) == 18
    for alert in alerts:
        assert {"summary", "description", "runbook_url", "dashboard_uid"} <= set(
            alert["annotations"]
        )
        assert alert["annotations"]["dashboard_uid"] in BUILDERS
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert alert["for"]


def test_grafanas_operator_gets_a_custom_resource_with_the_same_dashboard():
    placing = publishing.Placing("mon", instance_labels={"app": "g"}, grafana_folder="GPUs")
    for name in BUILDERS:
        document = publishing.grafana_dashboard(name, json.loads(render(name)), placing)
        assert document["apiVersion"] == "grafana.integreatly.org/v1beta1"
        assert document["kind"] == "GrafanaDashboard"
        assert document["spec"]["instanceSelector"] == {"matchLabels": {"app": "g"}}
        assert document["spec"]["folder"] == "GPUs"
        assert json.loads(document["spec"]["json"])["uid"] == name
        assert len(json.dumps(document)) < 262_144


def test_the_sidecar_is_told_the_folder():
    placing = publishing.Placing(grafana_folder="GPUs")
    document = publishing.config_map("x", {"title": "x"}, placing)
    assert document["metadata"]["annotations"] == {"grafana_folder": "GPUs"}
    without = publishing.config_map("x", {"title": "x"}, publishing.Placing())
    assert "annotations" not in without["metadata"]


def test_only_what_is_asked_for_is_written():
    found = files(publishing.Placing(exporters=("dcgm",)))
    assert "rules/gputailor-dcgm.yaml" in found
    assert "rules/gputailor.yaml" not in found
    names = {name.split("/")[1] for name in found if name.startswith("dashboards/gputailor")}
    assert names == {f"{name}.json" for name in BUILDERS if name.endswith("-dcgm")}


def test_the_label_of_teams_goes_into_the_rules():
    found = files(publishing.Placing(team_label="example_org_team"))["rules/gputailor.yaml"]
    assert 'kube_namespace_labels{label_example_org_team!=""}' in found
    assert "label_team" not in found


def test_objects_carry_the_dashboard_without_what_grafana_fills_in():
    found = files(publishing.Placing(exporters=("smi",)))
    for name in ("cluster", "node", "gpu", "health"):
        uid = f"gputailor-{name}-smi"
        config_map = yaml.safe_load(found[f"kubernetes/configmap-{uid}.yaml"])
        custom = yaml.safe_load(found[f"kubernetes/grafana-operator/{uid}.yaml"])
        ours = without_defaults(json.loads(found[f"dashboards/{uid}.json"]))
        assert json.loads(config_map["data"][f"{uid}.json"]) == ours
        assert json.loads(custom["spec"]["json"]) == ours


def test_generating_twice_gives_the_same_files(tmp_path):
    first = [path.read_bytes() for path in generate(tmp_path / "a")]
    assert first == [path.read_bytes() for path in generate(tmp_path / "b")]
    assert len(first) == len(files())


def test_the_command_lists_what_it_wrote_and_says_when_it_cannot(tmp_path):
    good = CliRunner().invoke(command.commands, ["generate", str(tmp_path / "out")])
    assert good.exit_code == 0
    assert "gputailor-cluster.json" in good.output
    (tmp_path / "file").write_text("", "utf-8")
    bad = CliRunner().invoke(command.commands, ["generate", str(tmp_path / "file" / "x")])
    assert bad.exit_code == 1
    assert "error: cannot write dashboards" in bad.output


def test_the_command_sets_labels_and_namespace_and_refuses_what_is_no_label(tmp_path):
    options = ["--namespace", "mon", "--sidecar-label", "dash=yes", "--rule-label", "release=x"]
    good = CliRunner().invoke(command.commands, ["generate", str(tmp_path), *options])
    assert good.exit_code == 0
    rule = (tmp_path / "kubernetes" / "prometheusrule-gputailor.yaml").read_text("utf-8")
    config_map = tmp_path / "kubernetes" / "configmap-gputailor-cluster.yaml"
    assert "release: x" in rule
    assert "namespace: mon" in rule
    assert "dash: 'yes'" in config_map.read_text("utf-8")
    bad = CliRunner().invoke(command.commands, ["generate", str(tmp_path), "--team-label", "a-b"])
    assert bad.exit_code == 2
    assert "--team-label: expected letters, digits and _, found 'a-b'" in bad.output
    bad = CliRunner().invoke(
        command.commands, ["generate", str(tmp_path), "--rule-label", "release"]
    )
    assert bad.exit_code == 2
    assert "--rule-label: expected NAME=VALUE, found 'release'" in bad.output
