"""``config show`` tells what ``serve`` would refuse, all of it, and neither makes a store."""

import pytest
import yaml

from gputailor_agent.cli.app import run
from gputailor_agent.cli.settings import AgentSettings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in AgentSettings.model_fields:
        monkeypatch.delenv(f"GPUTAILOR_{name.upper()}", raising=False)


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """A function: what a command says of settings, and its exit code."""
    monkeypatch.chdir(tmp_path)

    def call(settings, *command):
        (tmp_path / "agent.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        code = run("gputailor", [*command, "--config", "agent.yaml"])
        return code, capsys.readouterr().err

    return call


WRONG = [
    ({"report_cron": "61 7 * * 1"}, "report_cron: '61 7 * * 1' is no cron expression"),
    ({"inventory": ["nowhere.yaml"]}, "inventory: nowhere.yaml does not exist"),
    ({"kubeconfig": "nowhere"}, "kubeconfig: nowhere does not exist"),
    ({"prices": "nowhere.csv"}, "prices: nowhere.csv does not exist"),
    ({"prices": "agent.yaml"}, "prices: "),
    ({"targets": [], "prometheus_url": "ftp://me:hunter2@p"}, "prometheus_url: 'ftp://p' is no"),
    ({"targets": [], "prometheus_url": "http://p", "prometheus_ca_file": "nowhere"}, "nowhere"),
    ({"targets": [], "prometheus_url": "http://p", "prometheus_headers": {"a b": "c"}}, "header"),
    ({"targets": [], "prometheus_url": "http://p", "prometheus_key_file": "k"},
     "prometheus_key_file: give prometheus_certificate_file, too"),
    ({"prometheus_url": "http://p"}, "both targets and prometheus_url are set"),
    ({"store": "mysql://me:hunter2@db/x"}, "store: the store cannot be a mysql database"),
    ({"store": "."}, "store: . is a folder; name a file in it"),
    ({"listen": "0.0.0.0:8080"}, "nothing says who may read"),
    ({"web_token_file": "nowhere"}, "nowhere"),
    ({"smtp_host": "mail"}, "smtp_host is given, but no mail_from"),
    ({"thresholds": {"idel": {}}}, "no such rule; did you mean idle?"),
    ({"targets": ["::::"]}, "targets: expected a URL or HOST:PORT"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "fault"), WRONG)
def test_what_serve_refuses_config_show_tells_too(told, tmp_path, settings, fault):
    given = {"targets": ["node-1:9836"], "listen": "127.0.0.1:0", "store": "g.db", **settings}
    shown, served = told(given, "config", "show"), told(given, "serve")
    assert fault in shown[1]
    assert shown == served
    assert shown[0] == 2
    assert "hunter2" not in shown[1]
    assert [path.name for path in tmp_path.iterdir()] == ["agent.yaml"]


def test_every_fault_is_told_at_once(told):
    code, err = told(
        {
            "targets": ["::::"],
            "report_cron": "never",
            "inventory": ["nowhere.yaml"],
            "prometheus_url": "ftp://p",
            "clutser": "x",
        },
        *("config", "show"),
    )
    assert code == 2
    for name in ("targets: ", "report_cron: ", "inventory: ", "prometheus_url: ", "clutser: "):
        assert name in err
    code, err = told({"store": ".", "targets": ["a:1"], "listen": "0.0.0.0:80"}, "config", "show")
    assert code == 2
    assert "the settings have 2 faults:\n  store: . is a folder" in err


def test_settings_without_a_source_are_shown_with_a_note_since_flags_may_name_it(told):
    code, err = told({"cluster": "lab"}, "config", "show")
    assert code == 0
    assert err.startswith("note: no exporter to scrape")


def test_an_address_that_is_taken_leaves_no_store_behind(told, tmp_path):
    import socket  # noqa: PLC0415 - here alone

    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        code, err = told({"targets": ["a:1"], "listen": listen, "store": "g.db"}, "serve")
    assert (code, "cannot listen on" in err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["agent.yaml"]


def test_no_address_shows_its_password_or_token(tmp_path, monkeypatch, capsys):
    path = tmp_path / "agent.yaml"
    path.write_text(
        "targets: ['http://h:9400/metrics?token=hunter2', 'u:hunter2@h:1']\n"
        "public_url: https://u:hunter2@gpu.example.org/\n"
        "store: postgresql+psycopg://u:hunter2@db/g?sslpassword=hunter2\n",
        "utf-8",
    )
    monkeypatch.chdir(tmp_path)
    run("gputailor", ["config", "show", "--origin", "--config", str(path)])
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert "http://h:9400/metrics?token=***" in out
    assert "http://(secret)@h:1/metrics" in out
