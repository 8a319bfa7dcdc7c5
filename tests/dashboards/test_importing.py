"""``gputailor dashboards import``, against a server that behaves as Grafana's API is documented."""

import pytest
from typer.testing import CliRunner

from gputailor_dashboards import command
from gputailor_dashboards.generating import BUILDERS, dashboard, names
from tests.dashboards.grafana_server import TOKEN, grafana

OURS = "gputailor-cluster"


@pytest.fixture
def fake():
    with grafana() as server:
        yield server


@pytest.fixture
def run(fake, monkeypatch):
    monkeypatch.setenv("GRAFANA_TOKEN", TOKEN)
    monkeypatch.delenv("GRAFANA_URL", raising=False)

    def invoke(*options, url=None):
        return CliRunner().invoke(command.commands, ["import", url or fake.url, *options])

    return invoke


def outcomes(result):
    return {line.split()[1]: line.split()[0] for line in result.stdout.splitlines()}


def test_all_dashboards_come_into_a_folder_of_their_own(run, fake):
    result = run()
    assert result.exit_code == 0, result.output
    assert outcomes(result) == dict.fromkeys(BUILDERS, "created")
    assert fake.folders == {"gputailor": "GPU Tailor"}
    assert set(fake.homes.values()) == {"gputailor"}
    stored = dict(fake.dashboards[OURS])
    assert stored.pop("version") == 1
    assert stored.pop("id")
    assert stored == dashboard(OURS)


def test_a_second_time_nothing_is_written(run, fake):
    run()
    fake.posts.clear()
    result = run()
    assert result.exit_code == 0
    assert set(outcomes(result).values()) == {"unchanged"}
    assert fake.posts == []


def test_what_was_changed_in_grafana_is_kept_and_told(run, fake):
    run("--exporter", "gputailor")
    fake.dashboards[OURS]["title"] = "Mine"
    result = run("--exporter", "gputailor")
    assert result.exit_code == 1
    assert outcomes(result)[OURS] == "differs"
    assert "changed by someone else" in result.stdout
    assert "--overwrite" in result.stderr
    assert fake.dashboards[OURS]["title"] == "Mine"
    assert sum(outcome == "unchanged" for outcome in outcomes(result).values()) == 8


def test_overwrite_replaces_it(run, fake):
    run("--exporter", "gputailor")
    fake.dashboards[OURS]["title"] = "Mine"
    result = run("--exporter", "gputailor", "--overwrite")
    assert result.exit_code == 0
    assert outcomes(result)[OURS] == "updated"
    assert fake.dashboards[OURS]["title"] == "GPU Tailor / Cluster"
    assert fake.dashboards[OURS]["version"] == 2
    assert len(fake.posts) == 10  # nine at first, one now


def test_diff_shows_what_would_change_and_writes_nothing(run, fake):
    run("--exporter", "smi")
    fake.posts.clear()
    assert run("--exporter", "smi", "--diff").exit_code == 0
    fake.dashboards["gputailor-node-smi"]["refresh"] = "5s"
    result = run("--exporter", "smi", "--diff")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:2] == ["--- grafana/gputailor-node-smi", "+++ gputailor/gputailor-node-smi"]
    assert '-  "refresh": "5s",' in lines
    assert '+  "refresh": "1m",' in lines
    assert fake.posts == []


def test_diff_of_an_empty_grafana_is_all_of_it_and_makes_no_folder(run, fake):
    result = run("--exporter", "smi", "--diff")
    assert result.exit_code == 1
    assert result.stdout.count("\n--- grafana/") + 1 == len(names(("smi",)))
    assert fake.folders == {}


def test_a_dashboard_of_that_title_in_the_folder_is_not_replaced_unasked(run, fake):
    fake.folders["gputailor"] = "GPU Tailor"
    fake.dashboards["other"] = {"uid": "other", "title": "GPU Tailor / Cluster", "version": 1}
    fake.homes["other"] = "gputailor"
    result = run("--exporter", "gputailor")
    assert result.exit_code == 1
    assert outcomes(result)[OURS] == "differs"
    assert "same name" in result.stdout
    assert outcomes(result)["gputailor-node"] == "created"


def test_one_that_is_refused_stops_no_other(run, fake):
    fake.provisioned.add(OURS)
    result = run("--exporter", "gputailor")
    assert result.exit_code == 1
    assert outcomes(result)[OURS] == "refused"
    assert "400 Cannot save provisioned dashboard" in result.stdout
    assert len(fake.dashboards) == 8


def test_folder_and_its_uid_are_chosen(run, fake):
    fake.folders["ops"] = "Operations"
    assert run("--folder-uid", "ops", "--exporter", "smi").exit_code == 0
    assert fake.folders == {"ops": "Operations"}
    result = run("--folder", "Operations", "--exporter", "smi")
    assert result.exit_code == 1
    assert "'Operations' is there under another uid" in result.stderr


def test_a_wrong_token_is_told_once_and_never_shown(run, fake, monkeypatch):
    monkeypatch.setenv("GRAFANA_TOKEN", "wrong-token")
    result = run()
    assert result.exit_code == 1
    assert "refuses the token (401)" in result.stderr
    assert "wrong-token" not in result.output
    assert result.stderr.count("error:") == 1


def test_a_token_without_the_right_is_told_what_it_needs(run, fake):
    fake.may_write = False
    result = run()
    assert result.exit_code == 1
    assert "the role Editor" in result.stderr


def test_the_token_is_read_from_a_file(run, fake, monkeypatch, tmp_path):
    monkeypatch.delenv("GRAFANA_TOKEN")
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n", "utf-8")
    assert run("--token-file", str(path), "--exporter", "smi").exit_code == 0


@pytest.mark.parametrize(("text", "said"), [(None, "cannot read"), ("\n", "is empty")])
def test_a_token_file_that_is_none_is_wrong_usage(run, tmp_path, text, said):
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text, "utf-8")
    result = run("--token-file", str(path))
    assert result.exit_code == 2
    assert said in result.stderr


def test_without_a_token_nothing_is_asked(run, monkeypatch):
    monkeypatch.delenv("GRAFANA_TOKEN")
    result = run()
    assert result.exit_code == 2
    assert "set GRAFANA_TOKEN, or give --token-file" in result.stderr


def test_an_address_that_nobody_answers_at_is_named(run):
    result = run(url="http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "error: http://127.0.0.1:9 does not answer" in result.stderr
    assert "Traceback" not in result.output


def test_an_address_that_is_none_is_told(run):
    result = run(url="grafana:port")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: grafana:port")


def test_a_page_that_is_no_grafana_is_told(run, fake):
    fake.page = (200, "<html>Welcome</html>", {"Content-Type": "text/html"})
    result = run()
    assert result.exit_code == 1
    assert "is no Grafana" in result.stderr


def test_a_proxy_that_leads_elsewhere_is_told(run, fake):
    fake.page = (302, "", {"Location": "https://login.example.org/"})
    result = run()
    assert result.exit_code == 1
    assert "leads to https://login.example.org/" in result.stderr


def test_a_certificate_authority_that_is_not_there_is_told(run, tmp_path):
    result = run("--ca-file", str(tmp_path / "none.pem"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output
