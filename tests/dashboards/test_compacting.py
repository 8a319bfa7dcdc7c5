"""What a cluster is handed says as much to Grafana as the whole dashboard does."""

import copy
import json
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import stat, table
from grafana_foundation_sdk.models.dashboard import Dashboard

from gputailor_dashboards import publishing
from gputailor_dashboards.compacting import without_defaults
from gputailor_dashboards.generating import BUILDERS, dashboard
from tests.dashboards.test_schema import lost

pytestmark = pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")

#: What Grafana's own schema says of panels that say nothing.
SCHEMA = {"stat": stat.Options(), "table": table.Options()}


@pytest.fixture(params=sorted(BUILDERS))
def document(request):
    return dashboard(request.param)


def differences(whole: Any, short: Any, path: str = "") -> dict[str, Any]:
    """Path and value of what the shorter one leaves out; nothing may be another, or added."""
    if isinstance(whole, dict) and isinstance(short, dict):
        assert short.keys() <= whole.keys(), path
        gone = {f"{path}.{name}": whole[name] for name in whole.keys() - short.keys()}
        inside = [differences(whole[name], short[name], f"{path}.{name}") for name in short]
        return gone | {name: value for one in inside for name, value in one.items()}
    if isinstance(whole, list) and isinstance(short, list):
        assert len(whole) == len(short), path
        inside = [differences(*pair, path) for pair in zip(whole, short, strict=True)]
        return {name: value for one in inside for name, value in one.items()}
    assert whole == short, path
    return {}


def test_only_what_grafana_fills_in_is_left_out(document):
    before = copy.deepcopy(document)
    short = without_defaults(document)
    assert document == before
    for panel, less in zip(document["panels"], short["panels"], strict=True):
        gone = differences(panel, less)
        options = {
            path.rpartition(".")[2]: value
            for path, value in gone.items()
            if path.startswith(".options.")
        }
        usual = json.loads(JSONEncoder().encode(SCHEMA.get(panel["type"], {})))
        told = {name: value for name, value in options.items() if name != "sortBy"}
        assert told.items() <= usual.items()
        assert options.get("sortBy", []) == []
        # A query asks its panel's data source.
        assert gone.get(".targets.datasource", panel.get("datasource")) == panel.get("datasource")
    assert {**short, "panels": None} == {**document, "panels": None}


def test_a_query_at_an_instant_stays_one_and_a_range_stays_a_range(document):
    short = without_defaults(document)
    for panel, less in zip(document["panels"], short["panels"], strict=True):
        for whole, said in zip(panel.get("targets", ()), less.get("targets", ()), strict=True):
            silent = "range" not in said and "instant" not in said  # Grafana: over the range
            assert said.get("instant", False) == whole["instant"]
            assert said.get("range", silent) == whole["range"]


def test_what_is_said_otherwise_than_usual_stays():
    options = {"justifyMode": "center", "textMode": "auto"}
    custom = {"lineWidth": 2, "spanNulls": 0, "pointSize": 5}
    other = {"type": "prometheus", "uid": "other"}
    panel = {
        "type": "timeseries",
        "datasource": {"type": "prometheus", "uid": "mine"},
        "options": options,
        "links": [{"title": "there"}],
        "fieldConfig": {"defaults": {"custom": custom, "mappings": []}, "overrides": []},
        "targets": [{"datasource": other, "expr": "up", "format": "heatmap", "instant": True}],
    }
    (short,) = without_defaults({"panels": [panel]})["panels"]
    assert short["options"] == options  # a graph has no such defaults
    # false and 0 are not the same to it: 0 is a number of milliseconds
    assert short["fieldConfig"]["defaults"] == {"custom": {"lineWidth": 2, "spanNulls": 0}}
    assert short["links"] == panel["links"]
    assert short["targets"] == panel["targets"]


def test_grafana_reads_the_short_one(document):
    register_default_plugins()
    short = without_defaults(document)
    there = json.loads(JSONEncoder().encode(Dashboard.from_json(short)))
    assert list(lost(short, there)) == []


def test_what_is_published_is_the_short_one(document):
    name = document["uid"]
    (text,) = publishing.config_map(name, document, publishing.Placing())["data"].values()
    assert json.loads(text) == without_defaults(document)
    by_operator = publishing.grafana_dashboard(name, document, publishing.Placing())
    assert by_operator["spec"]["json"] == text
