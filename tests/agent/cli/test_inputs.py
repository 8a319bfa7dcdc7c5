"""What a command line asks to be judged, and what is told where that cannot be."""

import json

import pytest

from gputailor_agent.cli import app
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.stored import stored_window
from gputailor_agent.model.usage import UsageKey, UsageRow
from gputailor_agent.store import Store
from tests.agent.cli.clusters import HOUR, START, inventory, pages

NOW = START + 400 * 86_400.0


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    for name in ("STORE", "CLUSTER", "PROMETHEUS_URL"):
        monkeypatch.delenv(f"GPUTAILOR_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = app.run("gputailor", [str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_a_report_over_a_time_without_data_names_the_time_there_is(capsys, tmp_path):
    usage = ("--archive", pages(tmp_path), "--inventory", inventory(tmp_path))
    code, out, err = run(capsys, "report", *usage, "--since", "2020-01-01", "--until", "2020-02-01")
    assert (code, out) == (1, "")
    assert "there is no usage between 2020-01-01T00:00:00+00:00 and 2020-02-01" in err
    assert "the data reach from 2025-11-29T00:00:00+00:00 to 2025-12-01T00:00:00+00:00" in err


@pytest.mark.parametrize("text", ["{not yaml: [", '{"some": "settings", "of": 1}'])
def test_a_sole_inventory_that_is_none_fails_with_words(capsys, tmp_path, text):
    path = tmp_path / "foreign.yaml"
    path.write_text(text, encoding="utf-8")
    code, out, err = run(capsys, "report", "--archive", pages(tmp_path), "--inventory", path)
    assert (code, out) == (1, "")
    assert f"--inventory: nothing could be read from {path}" in err


def test_a_broken_inventory_beside_a_good_one_is_only_told(capsys, tmp_path):
    path = tmp_path / "foreign.yaml"
    path.write_text("{not yaml: [", encoding="utf-8")
    both = ("--inventory", inventory(tmp_path), "--inventory", path)
    plain = ("--output", "markdown")  # a table breaks a long path over lines
    code, out, _ = run(capsys, "report", "--archive", pages(tmp_path), *both, *plain)
    assert code == 0
    assert "foreign.yaml" in out


def test_a_team_is_named_by_the_label_that_the_command_line_says(capsys, tmp_path):
    named = inventory(tmp_path)
    text = named.read_text("utf-8").replace(
        '"uid": "uid-idler"', '"uid": "uid-idler", "labels": {"squad": "blue"}'
    )
    named.write_text(text, encoding="utf-8")
    usage = ("--archive", pages(tmp_path), "--inventory", named, "--output", "json")
    for more, teams in (
        ((), {"idler": "", "worker": ""}),
        (("--team-key", "squad"), {"idler": "blue", "worker": ""}),
    ):
        code, out, _ = run(capsys, "report", *usage, *more)
        assert code == 0
        found = (one["workload"] for one in json.loads(out)["plan"]["verdicts"])
        assert {one["name"]: one.get("team", "") for one in found} == teams


def test_windows_begin_with_a_whole_hour_everywhere(capsys, tmp_path):
    usage = ("--archive", pages(tmp_path), "--inventory", inventory(tmp_path))
    since = ("--since", "2025-11-29T05:34", "--output", "json")
    _, out, _ = run(capsys, "report", *usage, *since)
    plan = json.loads(out)["plan"]
    starts = {
        one["window"]["start"]
        for verdict in plan["verdicts"]
        for silence in verdict["silences"]
        for one in silence["evidence"]
    }
    assert starts == {plan["window"]["start"]} == {1_764_392_400.0}


@pytest.fixture
def store(tmp_path):
    """Two hours of one container, a day apart."""
    rows = [
        UsageRow(
            key=UsageKey(
                cluster="c", namespace="team", pod="p", pod_uid="u", container="main",
                gpu_uuid="GPU-0", hour=hour,
            ),
            dialect="gputailor",
            allocated_seconds=3600.0,
        )
        for hour in (START, START + 24 * HOUR)
    ]  # fmt: skip
    with Store.open(tmp_path / "g.db") as opened:
        with opened.transaction() as tx:
            tx.put_usage(rows)
        yield opened


def test_the_window_of_a_store_is_the_datas(store):
    window = stored_window(store, "c", None, None, NOW)
    assert (window.start, window.end) == (START, START + 25 * HOUR)
    assert stored_window(store, "c", "1h", None, NOW).start == START + 24 * HOUR


def test_a_store_is_asked_for_what_it_has(store):
    with pytest.raises(CommandError, match="holds no usage of cluster 'other'"):
        stored_window(store, "other", None, None, NOW)
    with pytest.raises(CommandError, match="the data reach from 2025-11-29T00:00:00"):
        stored_window(store, "c", "2020-01-01", "2020-02-01", NOW)
    with pytest.raises(CommandError, match="there is no usage between 2025-11-29T05:00:00"):
        stored_window(store, "c", "2025-11-29T05:30", "2025-11-29T09:00", NOW)
