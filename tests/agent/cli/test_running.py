"""Settings of how the agent runs, shown with their origin; its jobs; what people decide."""

import json
import logging
import sys

import pytest
from msgspec.structs import replace

from gputailor_agent.cli.app import run
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.logs import JsonLines
from gputailor_agent.cli.reloading import merged, unchanged
from gputailor_agent.cli.running import RELOADED
from gputailor_agent.cli.settings import AgentSettings, load_settings
from gputailor_agent.model.ledger import Decision, Entry, Period, Prediction, Setup, State
from gputailor_agent.store import Store
from gputailor_agent.store.ledger import Ledger
from gputailor_agent.store.tasks import Task, put_tasks
from tests.agent.reports.plans import sample_plan

PLAN = sample_plan()
TRAIN = "team-b/Job/train/trainer"  # its finding: too_many_gpus
OLD = "team-a/Deployment/old/main"  # idle, and smaller_gpu beside it
GOOD = "team-c/Job/good/main"  # nothing was found


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
    about = (TRAIN, "too-many-gpus", "--store", store, "--cluster", PLAN.cluster)
    code, _, err = command("dismiss", *about, "--reason", "on call", "--until", "2999-01-01")
    assert code == 0
    assert "dismissed until 2999-01-01" in err
    (made,) = decisions(store)
    assert (made.workload_id, made.rule, made.kind, made.reason) == (
        TRAIN,
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
    given = [one.format(workload=OLD) for one in arguments]
    code, _, err = command("dismiss", *given, "--store", store, "--cluster", PLAN.cluster)
    assert code != 0
    assert told in err
    assert "Traceback" not in err


def test_an_acknowledged_finding_and_the_ledger_are_shown(store, command):
    workload = OLD
    about = ("--store", store, "--cluster", PLAN.cluster)
    assert command("acknowledge", workload, "idle", "--note", "next sprint", *about)[0] == 0
    assert decisions(store)[0].kind == "acknowledged"
    code, out, _ = command("ledger", *about)
    assert code == 0
    assert "Nothing was found yet" in out


@pytest.mark.parametrize("decide", [("acknowledge",), ("dismiss", "--reason", "x")])
def test_of_a_finding_that_there_is_not_nothing_is_decided_unless_anyway(store, command, decide):
    name, *more = decide
    about = (*more, "--store", store, "--cluster", PLAN.cluster)
    code, _, err = command(name, OLD, "health", *about)
    assert code == 2
    assert f"{OLD} has no finding of health; there are: idle, smaller_gpu" in err
    code, _, err = command(name, OLD, "smaller-gpus", *about)
    assert (code, "there is no rule 'smaller-gpus'; did you mean smaller_gpu" in err) == (2, True)
    code, _, err = command(name, GOOD, "idle", *about)
    assert (code, f"{GOOD} has no finding of idle; it has none" in err) == (2, True)
    assert decisions(store) == []
    assert command(name, GOOD, "idle", "--anyway", *about)[0] == 0
    assert [(one.workload_id, one.rule) for one in decisions(store)] == [(GOOD, "idle")]


@pytest.mark.parametrize("dismissed", ["idle", "all"])
def test_an_acknowledgement_does_not_take_a_dismissals_place_without_a_word(
    store, command, dismissed
):
    about = ("--store", store, "--cluster", PLAN.cluster)
    assert command("dismiss", OLD, dismissed, "--reason", "on call", *about)[0] == 0
    code, _, err = command("acknowledge", OLD, "idle", *about)
    assert code == 2
    assert f"{OLD}, {dismissed}: it was dismissed by " in err
    assert f": on call. Take that back first (gputailor dismiss {OLD} {dismissed}" in err
    assert [one.kind for one in decisions(store)] == ["dismissed"]
    assert command("dismiss", OLD, dismissed, "--withdraw", *about)[0] == 0
    assert command("acknowledge", OLD, "idle", *about)[0] == 0
    assert command("dismiss", OLD, "idle", "--reason", "after all", *about)[0] == 0
    assert [one.kind for one in decisions(store)] == ["dismissed"]


def test_a_dismissal_that_is_over_is_no_hindrance(store, command):
    about = ("--store", store, "--cluster", PLAN.cluster)
    with Store.open(store) as opened, opened.transaction() as tx:
        Ledger(tx).decide(
            PLAN.cluster,
            Decision(workload_id=OLD, rule="idle", kind="dismissed", reason="x", decided_by="me",
                     decided_at=1.0, until=2.0),
        )  # fmt: skip
    assert command("acknowledge", OLD, "idle", *about)[0] == 0


def test_reading_commands_leave_the_store_as_it_is(store, command, tmp_path):
    before = store.read_bytes()
    about = ("--store", store, "--cluster", PLAN.cluster)
    for read in (("tasks", *about), ("ledger", *about), ("store", "check", "--store", store)):
        assert command(*read)[0] == 0
    command("report", *about)  # there is no usage in it
    command("doctor", "--store", store)
    assert store.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["g.db"]


def test_the_ledger_tells_what_was_decided_since_the_agent_looked(store, command):
    """It looks once an hour: until then somebody who dismissed a finding sees that it was heard."""
    entry = Entry(
        cluster=PLAN.cluster, workload_id=OLD, rule="idle", number=1, state=State.OPEN,
        opened_at=1.0, changed_at=1.0, seen_at=1.0, updated_at=1.0,
        prediction=Prediction(made_at=1.0, confidence="high", gpu_hours_per_month=730.0,
                              money_per_month=None, slowdown=None, change="release"),
        before=Period(setup=Setup(gpus_per_pod=1, pods=1, gpus=1)),
    )  # fmt: skip
    with Store.open(store) as opened, opened.transaction() as tx:
        Ledger(tx).put([entry])
    about = ("--store", store, "--cluster", PLAN.cluster)
    assert command("dismiss", OLD, "idle", "--reason", "on call", *about)[0] == 0
    told = " ".join(command("ledger", *about)[1].split())
    assert "dismissed: on call" in told
    with Store.open(store) as opened, opened.transaction() as tx:
        Ledger(tx).put([replace(entry, state=State.DISMISSED, updated_at=9e9, reason="heard")])
    told = " ".join(command("ledger", *about)[1].split())
    assert "heard" in told
    assert "on call" not in told
