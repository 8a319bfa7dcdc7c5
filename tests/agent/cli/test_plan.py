"""plan as people call it: targets, what-ifs, exit codes."""

import json

import pytest

from gputailor_agent.cli import app
from tests.agent.cli.clusters import inventory, pages


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    for name in ("GPUTAILOR_STORE", "GPUTAILOR_CLUSTER", "GPUTAILOR_PROMETHEUS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)


def run(capsys, tmp_path, *arguments):
    files = ("--archive", pages(tmp_path), "--inventory", inventory(tmp_path))
    code = app.run("gputailor", [str(argument) for argument in ("plan", *files, *arguments)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_without_a_target_every_change_is_named(capsys, tmp_path):
    code, out, err = run(capsys, tmp_path, "--output", "json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert [step["rule"] for step in told["steps"]] == ["idle"]
    assert told["saved"] == told["present"] > 0
    assert told["target"] is None


def test_a_target_that_is_reached_ends_well(capsys, tmp_path):
    code, out, _ = run(capsys, tmp_path, "--target-saving", "1")
    assert code == 0
    assert "The target is reached by 1 change" in out


def test_a_target_that_is_missed_exits_with_3_and_says_what_is_missing(capsys, tmp_path):
    code, out, err = run(capsys, tmp_path, "--target-saving", "1e9", "--output", "markdown")
    assert code == 3
    assert "The target is not reached" in out
    assert "less than --target-saving USD 1,000,000,000/month" in err


def test_a_rule_that_is_denied_takes_its_change_away(capsys, tmp_path):
    code, out, _ = run(capsys, tmp_path, "--deny", "idle,spot", "--output", "json")
    told = json.loads(out)
    assert code == 0
    assert "idle" not in {step["rule"] for step in told["steps"]}
    assert told["deny"] == ["idle", "spot"]
    assert told["saved"] < told["present"]


def test_other_prices_make_another_answer(capsys, tmp_path):
    _, before, _ = run(capsys, tmp_path, "--output", "json")
    prices = tmp_path / "prices.csv"
    prices.write_text("accelerator,price_per_gpu_hour,currency\nL4,100,USD\n")
    _, after, _ = run(capsys, tmp_path, "--prices", prices, "--output", "json")
    (step,) = json.loads(after)["steps"]
    assert step["saving"] == 100 * 730
    assert json.loads(after)["saved"] > json.loads(before)["saved"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--allow", "idel"], "--allow: there is no rule 'idel'; did you mean idle?"),
        (["--deny", "idle,"], "--deny: there is no rule ''; there are: idle, "),
        (["--output", "csv"], "--output: expected table, markdown, json"),
    ],
)
def test_wrong_options_say_what_there_is(capsys, tmp_path, arguments, told):
    code, _, err = run(capsys, tmp_path, *arguments)
    assert code == 2
    assert told in err


def test_explain_cluster_tells_of_free_gpus_with_every_number(capsys, tmp_path):
    for name in ("cluster", "unallocated"):
        files = ("--archive", pages(tmp_path), "--inventory", inventory(tmp_path))
        code = app.run("gputailor", ["explain", name, *map(str, files)])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        assert "Unallocated GPUs (unallocated)" in out
        assert "GPUs free in every hour" in out


def test_a_plan_speaks_chinese_and_fails_a_pipeline_on_its_figures(capsys, tmp_path):
    code, out, err = run(capsys, tmp_path, "--language", "zh", "--fail-on", "findings>0")
    assert code == 3
    assert "可节省" in out or "节省" in out
    assert "--fail-on findings>0: 1" in err
