"""Reports of a team, a namespace or a person, in another language, as people ask for them."""

import json

import pytest

from gputailor_agent.cli import inputs
from gputailor_agent.cli.running import RunningKeys
from gputailor_agent.reports.catalogues import names
from tests.agent.cli.clusters import HOUR, START, inventory, pages
from tests.agent.cli.test_commands import bare_environment, filled_store, run

__all__ = ["bare_environment"]  # applies to this module, too


@pytest.fixture
def cluster(tmp_path):
    return ("--archive", pages(tmp_path), "--inventory", inventory(tmp_path))


def ids(capsys, *words) -> list[str]:
    code, out, err = run(capsys, "report", *words, "--output", "json")
    assert code == 0, err
    return [one["id"] for one in json.loads(out)["workloads"]]


def test_a_report_is_in_the_language_asked_for(capsys, cluster):
    _, out, _ = run(capsys, "report", *cluster, "--language", "zh", "--output", "text")
    assert "首先要做的" in out
    assert "What to do first" not in out


def test_explain_speaks_it_too(capsys, cluster):
    _, out, _ = run(capsys, "explain", "idler", *cluster, "--language", "zh")
    assert "核函数平均活跃度" in out
    assert "0%" in out


def test_the_language_may_come_from_the_environment(capsys, cluster, monkeypatch):
    monkeypatch.setenv("GPUTAILOR_LANGUAGE", "zh")
    _, out, _ = run(capsys, "report", *cluster)
    assert "全部工作负载" in out


def test_a_language_that_there_is_not_is_wrong_usage(capsys, cluster):
    code, _, err = run(capsys, "report", *cluster, "--language", "xx")
    assert code == 2
    assert "--language: no language 'xx'; there are: en, zh" in err


def test_a_namespace_beside_files_is_a_scope_and_needs_no_cluster(capsys, cluster):
    every = ids(capsys, *cluster)
    namespace = every[0].split("/")[0]
    wanted = [one for one in every if one.startswith(f"{namespace}/")]
    assert ids(capsys, *cluster, "--namespace", namespace) == wanted
    assert ids(capsys, *cluster, "--namespace", "no-such-*") == []
    assert ids(capsys, *cluster, "--namespace", "!no-such-*") == every


def test_a_team_or_a_person_without_workloads_has_an_empty_report(capsys, cluster):
    assert ids(capsys, *cluster, "--team", "nobodys") == []
    assert ids(capsys, *cluster, "--owner", "nobody@example.org") == []
    _, out, _ = run(capsys, "report", *cluster, "--team", "nobodys", "--output", "text")
    assert "team nobodys" in out
    assert "idler" not in out


def test_the_setting_knows_every_language_there_is():
    for name in names():
        assert RunningKeys(report_language=name).report_language == name


def test_a_report_of_a_store_draws_the_course_of_use(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs.time, "time", lambda: START + 49 * HOUR)
    given = filled_store(tmp_path)
    code, out, err = run(capsys, "report", *given, "--output", "json")
    assert code == 0, err
    (told,) = json.loads(out)["courses"].values()  # of what is to change only
    assert len(told) == 28
    assert set(told) == {0.0}  # it held its GPU and did nothing, and that was seen all the time
    text = run(capsys, "report", *given, "--output", "text", "--namespace", "*")[1]
    assert "use over the window: " + "_" * 28 in text
