"""What Grafana is handed: today's schema, known metrics only, legends that tell apart, a grid."""

import json
import re

import jsonschema
import pytest
from typer.testing import CliRunner

from gputailor_agent import metrics as agent
from gputailor_dashboards import command, documentation, publishing
from gputailor_dashboards.expressions import dcgm
from gputailor_dashboards.expressions.base import POD_NAME
from gputailor_dashboards.generating import BUILDERS, files, generate, render
from gputailor_dashboards.modern import modernise
from gputailor_dashboards.panels import Look, lay_out, panel, row
from gputailor_exporter import metrics
from tests.dashboards.grafana_schema import DASHBOARD

SUFFIXES = r"(?:_bucket|_count|_sum)?$"
NAMES = {family.name for family in (*metrics.FAMILIES, *agent.FAMILIES)}
DCGM_NAMES = {value for name, value in vars(dcgm).items() if str(value).startswith("DCGM_FI_")}
RECORDED = {
    rule.document().get("record")
    for groups in publishing.rule_groups().values()
    for group in groups
    for rule in group.rules
}


@pytest.fixture(params=sorted(BUILDERS))
def dashboard(request):
    return json.loads(render(request.param))


def drawn(dashboard):
    return [one for one in dashboard["panels"] if one["type"] != "row"]


def test_it_is_valid_by_the_essentials_of_grafanas_schema(dashboard):
    jsonschema.validate(dashboard, DASHBOARD)


def test_the_schema_refuses_a_panel_of_the_angular_age(dashboard):
    dashboard["panels"][1]["type"] = "graph"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(dashboard, DASHBOARD)


def test_the_modernising_pass_refuses_a_panel_of_the_angular_age():
    old = {"panels": [{"type": "graph", "title": "x"}], "templating": {"list": []}}
    with pytest.raises(ValueError, match="'graph', not row, stat, table, timeseries"):
        modernise(old)


def test_panel_ids_and_titles_are_unique(dashboard):
    ids = [one["id"] for one in dashboard["panels"]]
    titles = [one["title"] for one in drawn(dashboard)]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)


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
            used = {
                re.sub(SUFFIXES, "", name) if name not in NAMES else name
                for name in re.findall(r"gputailor_\w+(?!:)\b(?!:)|DCGM_\w+", target["expr"])
            }
            recorded = set(re.findall(r"gputailor\w*:[\w:]+", target["expr"]))
            assert used | recorded
            assert used <= NAMES | DCGM_NAMES, used - NAMES - DCGM_NAMES
            assert recorded <= RECORDED


def test_queries_use_only_variables_that_the_dashboard_has(dashboard):
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    for one in drawn(dashboard):
        for target in one["targets"]:
            used = set(re.findall(r"\$(?!__)([a-z]\w*)", target["expr"]))
            assert used <= known
            macros = set(re.findall(r"\$__\w+", target["expr"]))
            assert macros <= {"$__rate_interval", "$__range"}


def test_series_by_device_name_node_and_gpu(dashboard):
    for one in drawn(dashboard):
        for target in one["targets"]:
            if "{{gpu}}" in target["legendFormat"] or "{{slice}}" in target["legendFormat"]:
                assert "{{node}} GPU {{gpu}} {{slice}}" in target["legendFormat"]
    by_device = [one for one in drawn(dashboard) if one["title"] in {"Power", "Kernel activity"}]
    assert len(by_device) == 2
    for one in by_device:
        assert "{{node}} GPU {{gpu}}" in one["targets"][0]["legendFormat"]


def test_gaps_are_not_joined_and_nothing_is_written_as_zero(dashboard):
    for one in drawn(dashboard):
        if one["type"] == "timeseries":
            assert one["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False
        if one["type"] == "stat":
            assert one["fieldConfig"]["defaults"]["noValue"] in {"unknown", "none"}
        for target in one["targets"]:
            assert "vector(0)" not in target["expr"]


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


def test_uids_are_stable_and_links_lead_to_the_dashboards_on_the_same_exporter():
    documents = {name: json.loads(render(name)) for name in BUILDERS}
    assert set(documents) == {
        "gputailor-cluster",
        "gputailor-cluster-dcgm",
        "gputailor-workload",
        "gputailor-workload-dcgm",
    }
    for name, document in documents.items():
        assert document["uid"] == name
        (link,) = document["links"]
        assert link["type"] == "dashboards"
        assert link["includeVars"]
        assert link["keepTime"]
        found = {uid for uid, one in documents.items() if set(link["tags"]) <= set(one["tags"])}
        assert name in found
        assert len(found) == 2


def test_a_namespace_leads_to_its_workloads_on_the_same_exporter():
    for name in ("gputailor-cluster", "gputailor-cluster-dcgm"):
        table = next(
            one
            for one in json.loads(render(name))["panels"]
            if one["title"] == "GPU-hours by namespace"
        )
        (link,) = table["fieldConfig"]["overrides"][-1]["properties"][0]["value"]
        target = name.replace("cluster", "workload")
        assert link["url"].startswith(f"/d/{target}?var-namespace=${{__value.raw}}&")


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


def test_config_maps_carry_the_sidecars_label_and_fit_into_kubectl_apply():
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
    alerts = [rule for group in document["spec"]["groups"] for rule in group["rules"]][-3:]
    assert [alert["alert"] for alert in alerts] == [
        "GpuLost",
        "GpuExporterBlind",
        "GpuAllocationIdle",
    ]
    for alert in alerts:
        assert {"summary", "description", "runbook"} <= set(alert["annotations"])
        assert alert["labels"]["severity"] in {"critical", "warning"}
        assert alert["for"]


def test_generating_twice_gives_the_same_files(tmp_path):
    first = [path.read_bytes() for path in generate(tmp_path / "a")]
    assert first == [path.read_bytes() for path in generate(tmp_path / "b")]
    assert len(first) == len(files()) == 12


def test_the_docs_have_every_panel_with_its_question_and_its_query(repository):
    text = (repository / documentation.PAGE).read_text("utf-8")
    assert text == documentation.page(), "run: python -m gputailor_dashboards.documentation"
    for builder in BUILDERS.values():
        for heading in builder.questions():
            for one in heading.panels:
                assert one.question in text
                assert all(query.expr in text for query in one.queries)


def test_the_docs_have_a_runbook_where_each_alert_points(repository):
    text = (repository / documentation.PAGE).read_text("utf-8")
    for alert in documentation.ALERTS:
        page, anchor = alert.document()["annotations"]["runbook"].split("#")
        assert page == str(documentation.PAGE)
        assert f"### {alert.name}\n" in text
        assert anchor == alert.name.lower()


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
    bad = CliRunner().invoke(
        command.commands, ["generate", str(tmp_path), "--rule-label", "release"]
    )
    assert bad.exit_code == 2
    assert "--rule-label: expected NAME=VALUE, found 'release'" in bad.output
