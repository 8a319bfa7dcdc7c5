"""Settings of how the agent runs, shown with their origin; its jobs; what people decide."""

import json
import logging
import sys

import pytest

from gputailor_agent.cli.app import run
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.logs import JsonLines
from gputailor_agent.cli.reloading import merged, unchanged
from gputailor_agent.cli.running import RELOADED
from gputailor_agent.cli.settings import AgentSettings, load_settings
from gputailor_agent.store import Store
from gputailor_agent.store.ledger import Ledger
from gputailor_agent.store.tasks import Task, put_tasks
from tests.agent.reports.plans import sample_plan

PLAN = sample_plan()


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in AgentSettings.model_fields:
        monkeypatch.delenv(f"GPUTAILOR_{name.upper()}", raising=False)


@pytest.fixture
def command(capsys):
    """A function that runs ``gputailor``; its exit code, standard output and error."""

    def call(*arguments):
        code = run("gputailor", [str(one) for one in arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "g.db"
    with Store.open(path) as opened, opened.transaction() as tx:
        tx.put_plan(PLAN)
    return path


def test_config_show_tells_where_each_setting_comes_from(tmp_path, command, monkeypatch):
    path = tmp_path / "agent.yaml"
    path.write_text("# ours\ncluster: lab\nwindow_days: 7\n", "utf-8")
    monkeypatch.setenv("GPUTAILOR_WINDOW_DAYS", "3")
    code, out, _ = command("config", "show", "--origin", "--config", path)
    lines = {line.partition(":")[0]: line for line in out.splitlines()}
    assert code == 0
    assert set(lines) == set(AgentSettings.model_fields)
    assert lines["cluster"].split() == ["cluster:", "lab", "#", f"{path}:2"]
    assert lines["window_days"].split() == [
        "window_days:",
        "3.0",
        "#",
        "environment",
        "GPUTAILOR_WINDOW_DAYS",
    ]
    assert lines["listen"].endswith("# default")


def test_config_show_never_shows_a_secret(tmp_path, command, monkeypatch):
    monkeypatch.setenv("GPUTAILOR_WEBHOOK_URL", "https://hooks.example.org/hunter2")
    monkeypatch.setenv("GPUTAILOR_PROMETHEUS_HEADERS", '{"Authorization": "Bearer hunter2"}')
    monkeypatch.setenv("GPUTAILOR_PROMETHEUS_URL", "http://me:hunter2@prometheus:9090")
    monkeypatch.setenv("GPUTAILOR_STORE", "postgresql+psycopg://me:hunter2@db/gputailor")
    code, out, err = command("config", "show", "--origin")
    assert code == 0
    assert "hunter2" not in out + err
    assert "http://(secret)@prometheus:9090" in out


def test_a_file_in_toml_says_the_same_as_one_in_yaml(tmp_path):
    toml, yaml = tmp_path / "agent.toml", tmp_path / "agent.yaml"
    toml.write_text('cluster = "lab"\n[thresholds.idle]\nwarn_minutes = 120\n', "utf-8")
    yaml.write_text("cluster: lab\nthresholds: {idle: {warn_minutes: 120}}\n", "utf-8")
    assert load_settings({}, toml).model_dump() == load_settings({}, yaml).model_dump()
    toml.write_text("cluster = \n", "utf-8")
    with pytest.raises(UsageError, match="is not TOML"):
        load_settings({}, toml)


def test_a_wrong_key_is_told_with_the_nearest_name(tmp_path, command):
    path = tmp_path / "agent.toml"
    path.write_text("report_timezone = 'Europe/Berlin'\n", "utf-8")
    code, _, err = command("config", "show", "--config", path)
    assert code == 2
    assert "did you mean report_time_zone" in err


def test_a_wrong_time_zone_is_told(tmp_path, command, monkeypatch):
    monkeypatch.setenv("GPUTAILOR_REPORT_TIME_ZONE", "Europe/Atlantis")
    code, _, err = command("config", "show")
    assert code == 2
    assert "report_time_zone: 'Europe/Atlantis' is no time zone" in err


def test_the_schema_knows_every_setting(command):
    _, out, _ = command("config", "schema")
    assert set(json.loads(out)["properties"]) == set(AgentSettings.model_fields)


def test_secrets_are_read_from_files(tmp_path):
    password, hook = tmp_path / "password", tmp_path / "hook"
    password.write_text("hunter2\n", "utf-8")
    hook.write_text("https://hooks.example.org/hunter2\n", "utf-8")
    path = tmp_path / "agent.yaml"
    path.write_text(
        "mail_to: ops@example.org\nmail_from: gpu@example.org\nsmtp_host: mail.example.org\n"
        f"smtp_username: me\nsmtp_password_file: {password}\nwebhook_url_file: {hook}\n",
        "utf-8",
    )
    delivery = load_settings({}, path).delivery
    assert delivery.server.password == "hunter2"
    assert delivery.webhook_url == "https://hooks.example.org/hunter2"
    password.unlink()
    with pytest.raises(UsageError, match=r"smtp_password_file: cannot read .*password"):
        load_settings({}, path)


def test_a_reload_changes_what_can_change_and_tells_the_rest():
    old = load_settings({"cluster": "lab", "window_days": 14.0}, None)
    new = load_settings({"cluster": "other", "window_days": 7.0}, None)
    assert merged(old, new).window_days == 7
    assert merged(old, new).cluster == "lab"
    assert unchanged(old, new) == ["cluster"]
    assert set(AgentSettings.model_fields) >= RELOADED


def test_a_log_line_in_json_is_one_object_with_its_exception():
    try:
        int("broken\nin two")
    except ValueError:
        record = logging.LogRecord(
            "gputailor", logging.ERROR, __file__, 1, "it %s", ("failed",), sys.exc_info()
        )
    line = JsonLines().format(record)
    told = json.loads(line)
    assert "\n" not in line
    assert (told["level"], told["message"]) == ("error", "it failed")
    assert "ValueError: invalid literal" in told["exception"]
    assert told["time"].endswith("Z")


def test_tasks_lists_jobs_as_the_agent_left_them(store, command):
    with Store.open(store) as opened, opened.transaction() as tx:
        put_tasks(
            tx,
            PLAN.cluster,
            [
                Task(job="scrape", started_at=1.8e9, seconds=0.5, outcome="done", done_at=1.8e9),
                Task(job="report", outcome="failed", reason="disk is full", failures=3),
            ],
        )
    code, out, _ = command("tasks", "--store", store, "--cluster", PLAN.cluster)
    assert code == 0
    assert "failed 3 times: disk is full" in " ".join(out.split())
    _, out, _ = command("tasks", "--store", store, "--cluster", PLAN.cluster, "-o", "json")
    by_name = {one["job"]: one for one in json.loads(out)["tasks"]}
    assert by_name["scrape"]["started_at"] == "2027-01-15T08:00:00Z"
    assert by_name["report"]["done_at"] is None


def decisions(store):
    with Store.open(store) as opened, opened.transaction() as tx:
        return Ledger(tx).decisions(PLAN.cluster)


def test_a_dismissal_is_kept_with_its_reason_and_can_be_taken_back(store, command):
    workload = PLAN.verdicts[0].workload.id
    about = (workload, "too-many-gpus", "--store", store, "--cluster", PLAN.cluster)
    code, _, err = command("dismiss", *about, "--reason", "on call", "--until", "2999-01-01")
    assert code == 0
    assert "dismissed until 2999-01-01" in err
    (made,) = decisions(store)
    assert (made.workload_id, made.rule, made.kind, made.reason) == (
        workload,
        "too_many_gpus",
        "dismissed",
        "on call",
    )
    assert command("dismiss", *about, "--withdraw")[0] == 0
    assert decisions(store) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nobody-has-this", "idle", "--reason", "x"), "nobody-has-this"),
        (("{workload}", "idel", "--reason", "x"), "did you mean idle"),
        (("{workload}", "idle"), "--reason is missing"),
        (("{workload}", "idle", "--reason", " "), "expected words"),
        (("{workload}", "idle", "--reason", "x", "--until", "soon"), "expected a date"),
        (("{workload}", "idle", "--reason", "x", "--until", "2020-01-01"), "is over"),
    ],
)
def test_a_dismissal_that_cannot_be_meant_is_explained(store, command, arguments, told):
    workload = PLAN.verdicts[0].workload.id
    given = [one.format(workload=workload) for one in arguments]
    code, _, err = command("dismiss", *given, "--store", store, "--cluster", PLAN.cluster)
    assert code != 0
    assert told in err
    assert "Traceback" not in err


def test_an_acknowledged_finding_and_the_ledger_are_shown(store, command):
    workload = PLAN.verdicts[0].workload.id
    about = ("--store", store, "--cluster", PLAN.cluster)
    assert command("acknowledge", workload, "idle", "--note", "next sprint", *about)[0] == 0
    assert decisions(store)[0].kind == "acknowledged"
    code, out, _ = command("ledger", *about)
    assert code == 0
    assert "Nothing was found yet" in out
