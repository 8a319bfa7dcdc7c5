"""Grafana's own model of a dashboard reads all that is written, and today's one.

The oracle is Grafana's foundation SDK. Reading with it drops what it does not know without a word,
so a dashboard goes through it and back, and must come out whole. It fails by itself on null or
string data sources.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from gputailor_dashboards.generating import BUILDERS, dashboard
from gputailor_dashboards.modern import PANEL_TYPES, SCHEMA_VERSION
from tests.dashboards.asking import panels

#: Of the SDK: it would rather have Grafana 12's second version of the schema, which 11 cannot read.
pytestmark = pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def plugins():
    register_default_plugins()


@pytest.fixture(params=sorted(BUILDERS))
def document(request):
    return dashboard(request.param)


def through_the_sdk(document: Any) -> Any:
    return json.loads(JSONEncoder().encode(Dashboard.from_json(document)))


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Paths of what is written and did not come back as it was; what they add is theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from lost(value, theirs[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} became {theirs!r}"


def test_what_is_written_comes_back_whole(document):
    assert list(lost(document, through_the_sdk(document))) == []


def test_a_field_that_grafana_does_not_know_is_noticed(document):
    document["panels"][1]["sparkline"] = {"show": True}
    assert list(lost(document, through_the_sdk(document))) == [".panels[1].sparkline"]


def test_a_data_source_of_the_old_kind_is_noticed(document):
    document["panels"][1]["datasource"] = "$datasource"
    with pytest.raises((TypeError, ValueError, AttributeError)):
        through_the_sdk(document)


def test_the_schema_is_the_one_that_the_sdk_writes(document):
    assert document["schemaVersion"] == SCHEMA_VERSION == Dashboard().schema_version


def test_case_37_no_panel_is_of_the_angular_age(document):
    types = {one["type"] for one in (*document["panels"], *panels(document))}
    assert types <= PANEL_TYPES
    assert not types & {"graph", "singlestat", "table-old", "grafana-piechart-panel"}


def test_every_query_and_variable_names_the_chosen_data_source(document):
    wanted = {"type": "prometheus", "uid": "${datasource}"}
    for one in panels(document):
        assert one["datasource"] == wanted
        assert all(target["datasource"] == wanted for target in one["targets"])
    for variable in document["templating"]["list"]:
        assert variable["type"] in {"datasource", "textbox"} or variable["datasource"] == wanted
    assert all(one["datasource"] == wanted for one in document["annotations"]["list"])


def nulls(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from nulls(one, f"{path}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from nulls(one, f"{path}[]")
    elif value is None:
        yield path


def test_nothing_is_null_but_the_lowest_threshold(document):
    steps = {path for path in nulls(document) if not path.endswith("thresholds.steps[].value")}
    assert steps == set()
