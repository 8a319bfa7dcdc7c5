"""What Grafana is handed: today's schema, only metrics of the contract, legends that tell apart."""

import json
import re

import pytest
from typer.testing import CliRunner

from gputailor_dashboards import command
from gputailor_dashboards.generating import BUILDERS, generate, render
from gputailor_exporter import metrics

NAMES = {family.name for family in metrics.FAMILIES}


@pytest.fixture(params=sorted(BUILDERS))
def dashboard(request):
    return json.loads(render(request.param))


def test_schema_version_and_panel_types_are_of_today(dashboard):
    assert dashboard["schemaVersion"] >= 39
    assert "rows" not in dashboard
    assert {panel["type"] for panel in dashboard["panels"]} <= {"timeseries", "stat", "table"}


def test_every_query_has_an_id_a_data_source_and_only_metrics_of_the_contract(dashboard):
    for panel in dashboard["panels"]:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == sorted(set(refs))
        assert all(refs)
        for target in panel["targets"]:
            used = set(re.findall(r"gputailor_\w+", target["expr"]))
            assert used
            assert used <= NAMES


def test_legends_of_devices_name_node_and_gpu(dashboard):
    series = [panel for panel in dashboard["panels"] if panel["type"] == "timeseries"]
    assert series
    for panel in series:
        for target in panel["targets"]:
            assert "{{node}}" in target["legendFormat"]
            assert "{{gpu}}" in target["legendFormat"]


def test_panels_do_not_overlap(dashboard):
    cells = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not covered & cells, panel["title"]
        cells |= covered


def test_generating_twice_gives_the_same_files(tmp_path):
    first = [path.read_bytes() for path in generate(tmp_path / "a")]
    assert first == [path.read_bytes() for path in generate(tmp_path / "b")]


def test_the_command_lists_what_it_wrote_and_says_when_it_cannot(tmp_path):
    good = CliRunner().invoke(command.commands, ["generate", str(tmp_path / "out")])
    assert good.exit_code == 0
    assert "cluster.json" in good.output
    (tmp_path / "file").write_text("", "utf-8")
    bad = CliRunner().invoke(command.commands, ["generate", str(tmp_path / "file" / "x")])
    assert bad.exit_code == 1
    assert "error: cannot write dashboards" in bad.output
