"""What needs no Helm: generated parts are up to date, and the schema knows right from wrong."""

import re

import jsonschema
import pytest
import yaml

from gputailor_exporter import __version__
from tests.helm.value_sets import VALUE_SETS
from tests.helm.wrong_values import WRONG_VALUES

#: Mappings with a default, which are one value to the reader.
TOLD_WHOLE = {"exporter.resources", "agent.resources", "dashboards.operator.instanceSelector"}
INSIDE = {f"{path}." for path in TOLD_WHOLE}


@pytest.fixture(scope="module")
def defaults(chart):
    return yaml.safe_load((chart / "values.yaml").read_text("utf-8"))


def merged(below, above):
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {name: merged(below.get(name), value) for name, value in above.items()}


def names(schema, defaults, above=""):
    """Values with a schema, by path, those of the agent's own settings left out."""
    for name, kind in schema.get("properties", {}).items():
        path = f"{above}{name}"
        yield path
        if defaults.get(name) and isinstance(defaults[name], dict):
            yield from names(kind, defaults[name], f"{path}.")


def paths(values, above=""):
    for name, value in values.items():
        yield f"{above}{name}"
        if isinstance(value, dict):
            yield from paths(value, f"{above}{name}.")


def test_generated_files_are_what_the_code_says(chart, generate):
    wanted = generate.files()
    found = {path: (chart / path).read_text("utf-8") for path in wanted if (chart / path).exists()}
    stale = sorted(path for path in wanted if found.get(path) != wanted[path])
    assert not stale, "run: python helm/generate.py"


def test_no_generated_file_is_left_over(chart, generate):
    lying = {
        path.relative_to(chart).as_posix()
        for path in (chart / "files").rglob("*")
        if path.is_file()
    }
    assert lying <= set(generate.files()), "run: python helm/generate.py"


def test_the_page_shows_the_rights_as_the_code_has_them(generate):
    assert generate.PAGE.read_text("utf-8") == generate.page(), "run: python helm/generate.py"
    assert "| `pods` | get, list, watch |" in generate.page()


def test_the_page_has_a_row_for_every_value(generate, defaults):
    page = generate.PAGE.read_text("utf-8")
    told = [path for path, _, _ in generate.described_values()]
    leaves = {path for path in paths(defaults) if path not in TOLD_WHOLE}
    leaves = {path for path in leaves if not any(each.startswith(f"{path}.") for each in leaves)}
    assert set(told) == {path for path in leaves if not path.startswith(tuple(INSIDE))} | TOLD_WHOLE
    assert all(f"\n| `{path}` | " in page for path in told)


def test_values_that_the_page_speaks_of_are_values_of_the_chart(generate, schema, defaults):
    page, _, _ = generate.PAGE.read_text("utf-8").partition("## All values")
    agent = schema["properties"]["agent"]["properties"]
    known = set(paths(defaults)) | {
        f"agent.{kind}.{name}"
        for kind in ("settings", "secretFiles", "configFiles")
        for name in agent[kind]["properties"]
    }
    tops = "|".join(defaults)
    named = {
        name.partition(":")[0] for name in re.findall(rf"`((?:{tops})\.[A-Za-z_.]+[^`]*)`", page)
    }
    assert "exporter.driver.by" in named
    assert named - known == set()


def test_the_schema_is_a_schema(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_every_value_of_the_schema_has_a_default(schema, defaults):
    missing = set(names(schema, defaults)) - set(paths(defaults)) - {"global"}
    assert missing == set()


@pytest.mark.parametrize("name", VALUE_SETS)
def test_values_that_people_give_fit_the_schema(schema, defaults, name):
    jsonschema.validate(merged(defaults, VALUE_SETS[name]), schema)


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_wrong_values_do_not_fit_the_schema(schema, defaults, name):
    values, words = WRONG_VALUES[name]
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(merged(defaults, values)))
    assert len(errors) == 1
    assert words[0].split("/") == [str(part) for part in errors[0].absolute_path]


def test_every_setting_of_the_agent_is_of_the_chart_or_can_be_given(schema, generate):
    agent = schema["properties"]["agent"]["properties"]
    given, secret, files = (
        set(agent[kind]["properties"]) for kind in ("settings", "secretSettings", "configFiles")
    )
    sets = generate.CHART_SETS.keys()
    assert given | sets | secret | files == set(generate.AgentSettings.model_fields)
    assert not (given | secret | files) & sets
    assert files == set(agent["secretFiles"]["properties"])


def test_the_page_says_of_every_setting_by_which_value_it_is_given(generate):
    table = generate.settings_table()
    named = re.findall(r"`(\w+)`", table)
    missing = set(generate.AgentSettings.model_fields) - set(named)
    assert not missing
    assert table in generate.page()


def test_no_password_fits_into_the_settings_file(schema, generate):
    kinds = generate.AgentSettings.model_json_schema()["properties"]
    secret = {name for name, kind in kinds.items() if kind.get("writeOnly")}
    assert not secret & set(schema["properties"]["agent"]["properties"]["settings"]["properties"])
    assert secret <= set(
        schema["properties"]["agent"]["properties"]["secretSettings"]["properties"]
    )


def test_the_versions_of_chart_and_program_agree(chart):
    described = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    assert described["appVersion"] == described["version"] == __version__
