"""workloads, nodes, diff and export as people and pipelines call them."""

import csv
import io
import json

import pytest

from gputailor_agent.cli import app
from tests.agent.cli.clusters import inventory
from tests.agent.cli.test_commands import cluster, filled_store, run

COMMANDS = ("report", "explain", "workloads", "nodes", "plan", "dismiss", "diff", "export", "check")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    for name in ("GPUTAILOR_STORE", "GPUTAILOR_CLUSTER", "GPUTAILOR_PROMETHEUS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)


def told(capsys, *arguments):
    """The answer as values."""
    code, out, err = run(capsys, *arguments, "--output", "json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("program", ["gputailor", "kubectl gputailor"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_there_under_both_names(capsys, program, command):
    assert app.run(program, [command, "--help"]) == 0
    assert f"Usage: {program} {command}" in " ".join(capsys.readouterr().out.split())


def test_workloads_are_those_of_the_report_in_its_order_and_words(capsys, tmp_path):
    given = cluster(tmp_path)
    listed = told(capsys, "workloads", *given)["workloads"]
    report = told(capsys, "report", *given)
    assert listed == report["workloads"]
    table = run(capsys, "workloads", *given)[1]
    assert report["workloads"][0]["headline"] in table
    assert "2 of 2 workloads fit." in table


def test_workloads_are_filtered_sorted_and_cut(capsys, tmp_path):
    given = cluster(tmp_path)

    def names(*more):
        return [one["id"].split("/")[2] for one in told(capsys, "workloads", *given, *more)[
            "workloads"]]  # fmt: skip

    assert names("--state", "finding") == ["idler"]
    assert names("--search", "WORK") == ["worker"]
    assert names("--rule", "idle") == ["idler"]
    assert names("--sort", "name") == ["idler", "worker"]
    assert names("--sort", "-name") == ["worker", "idler"]
    assert names("--sort", "-use", "--limit", "1") == ["worker"]
    assert names("--search", "nobody") == []


def test_workloads_as_csv_keep_the_order_asked_for(capsys, tmp_path):
    code, out, _ = run(capsys, "workloads", *cluster(tmp_path), "--sort", "-use", "--output", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert ["worker" in row["workload"] for row in rows] == [True, False]
    assert rows[1]["rule"] == "idle"


def test_workloads_fail_on_what_is_listed(capsys, tmp_path):
    given = ("workloads", *cluster(tmp_path))
    assert run(capsys, *given, "--fail-on", "saving>1")[0] == 3
    code, _, err = run(capsys, *given, "--search", "worker", "--fail-on", "findings>0")
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--state", "lost"), "--state: expected finding, watching, unknown, ok"),
        (("--sort", "colour"), "--sort: expected report, name"),
        (("--output", "yaml"), "--output: expected table, markdown, json or csv"),
        (("--fail-on", "colour>1"), "is no condition"),
    ],
)
def test_a_filter_that_there_is_not_is_wrong_usage(capsys, tmp_path, wrong, said):
    code, _, err = run(capsys, "workloads", *cluster(tmp_path), *wrong)
    assert code == 2
    assert said in err


def test_nodes_tell_what_pods_hold_by_resource(capsys, tmp_path):
    path = inventory(tmp_path)
    (node,) = told(capsys, "nodes", "--inventory", path)["nodes"]
    (part,) = node["by_resource"]
    assert part["resource"] == "nvidia.com/gpu"
    assert part["held"] + part["free"] == part["offered"]
    table = run(capsys, "nodes", "--inventory", path)[1]
    assert "1 node with accelerators." in table
    assert "nvidia.com/gpu" in table


def test_nodes_of_a_store_are_as_the_agent_saw_them_last(capsys, tmp_path):
    (node,) = told(capsys, "nodes", *filled_store(tmp_path))["nodes"]
    assert node["name"] == "n1"
    assert node["by_resource"][0]["held"] == 2.0


def test_nodes_fail_on_what_is_free(capsys, tmp_path):
    path = inventory(tmp_path)
    assert run(capsys, "nodes", "--inventory", path, "--fail-on", "nodes>=1")[0] == 3
    assert run(capsys, "nodes", "--inventory", path, "--fail-on", "lost>0")[0] == 0


def test_nodes_without_a_place_to_look_say_what_to_give(capsys):
    code, _, err = run(capsys, "nodes")
    assert code == 2
    assert "--store URL" in err


def kept(capsys, tmp_path, name, *more):
    path = tmp_path / name
    path.write_text(json.dumps(told(capsys, "report", *cluster(tmp_path), *more)), "utf-8")
    return path


def test_a_difference_tells_what_is_new_and_what_is_gone(capsys, tmp_path):
    idle = kept(capsys, tmp_path, "idle.json")
    quiet = tmp_path / "quiet.json"
    document = json.loads(idle.read_text("utf-8"))
    for one in document["plan"]["verdicts"]:
        one["primary"] = None
    quiet.write_text(json.dumps(document), "utf-8")
    assert len(told(capsys, "diff", quiet, idle)["new"]) == 1
    assert len(told(capsys, "diff", idle, quiet)["gone"]) == 1
    assert told(capsys, "diff", quiet, *cluster(tmp_path))["new"]
    code, out, _ = run(capsys, "diff", idle, idle, "--fail-on", "new>0")
    assert code == 0
    assert "Nothing changed." in out
    code, out, err = run(capsys, "diff", quiet, idle, "--fail-on", "new>0")
    assert (code, "new: 1" in out) == (3, True)
    assert "--fail-on new>0: 1" in err


def test_a_difference_needs_two_reports(capsys, tmp_path):
    code, _, err = run(capsys, "diff", *cluster(tmp_path))
    assert code == 2
    assert "nothing to compare with" in err
    strange = tmp_path / "strange.json"
    strange.write_text("{}", "utf-8")
    for given in ((strange, *cluster(tmp_path)), (strange, strange)):
        code, _, err = run(capsys, "diff", *given)
        assert code == 1
        assert "is no report of ours" in err
    assert run(capsys, "diff", tmp_path / "none.json", *cluster(tmp_path))[0] == 2


def test_an_export_is_the_report_in_every_format(capsys, tmp_path):
    given = cluster(tmp_path)
    written = told(capsys, "export", tmp_path / "out" / "here", *given)["files"]
    assert {path.rsplit(".")[-1] for path in written} == {"html", "md", "txt", "json", "csv"}
    for path, size in written.items():
        with open(path, "rb") as file:  # noqa: PTH123 - as it was told
            content = file.read()
        assert len(content) == size
        assert b"idler" in content
    report = told(capsys, "report", *given)
    exported = json.loads((tmp_path / "out" / "here" / "report.json").read_text("utf-8"))
    assert exported["workloads"] == report["workloads"]


def test_an_export_is_of_a_language_a_team_and_some_formats(capsys, tmp_path):
    code, out, _ = run(
        capsys, "export", tmp_path / "out", *cluster(tmp_path), "--format", "html", "--language",
        "zh", "--fail-on", "saving>1",
    )  # fmt: skip
    assert code == 3
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    assert 'lang="zh' in (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "report.html" in out


def test_an_export_that_cannot_be_written_is_told(capsys, tmp_path):
    (tmp_path / "file").write_text("x", "utf-8")
    code, _, err = run(capsys, "export", tmp_path / "file", *cluster(tmp_path))
    assert code == 1
    assert "cannot be written" in err
    code, _, err = run(capsys, "export", tmp_path / "out", *cluster(tmp_path), "--format", "pdf")
    assert code == 2
    assert "--format: expected one of html" in err
