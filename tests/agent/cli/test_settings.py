"""Settings of the agent: flags over environment over file over defaults."""

import contextlib
import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from gputailor_agent.cli import serve
from gputailor_agent.cli.app import build
from gputailor_agent.cli.delivery import DeliveryKeys
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.kubernetes import KubernetesKeys
from gputailor_agent.cli.placing import PlaceKeys
from gputailor_agent.cli.scraping import ScrapingKeys
from gputailor_agent.cli.serve import service_settings
from gputailor_agent.cli.settings import (
    AgentSettings,
    exporter_url,
    load_settings,
    split_listen,
    threshold,
)
from gputailor_agent.cli.web import WebKeys
from gputailor_agent.inventory.identity import IdentitySettings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in AgentSettings.model_fields:
        monkeypatch.delenv(f"GPUTAILOR_{name.upper()}", raising=False)


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_listen_on_this_machine_only():
    settings = load_settings({}, None)
    assert settings.listen.startswith("127.0.0.1:")
    assert settings.store.startswith("sqlite:///")


def test_flags_win_over_environment_over_file(tmp_path, monkeypatch):
    path = config(tmp_path, "cluster: file\nscrape_seconds: 10\nwindow_days: 7\n")
    monkeypatch.setenv("GPUTAILOR_CLUSTER", "environment")
    monkeypatch.setenv("GPUTAILOR_SCRAPE_SECONDS", "20")
    settings = load_settings({"cluster": "flag", "listen": None, "targets": []}, path)
    assert (settings.cluster, settings.scrape_seconds, settings.window_days) == ("flag", 20, 7)


def test_one_load_leaves_nothing_behind_for_the_next(tmp_path):
    load_settings({}, config(tmp_path, "cluster: file\n"))
    assert load_settings({}, None).cluster == "default"


@pytest.mark.parametrize("given", ["a:1, http://b:2/metrics", ["a:1", "http://b:2/metrics"]])
def test_targets_may_be_a_list_or_one_text_with_commas(given):
    settings = load_settings({"targets": given}, None)
    assert settings.targets == ("http://a:1/metrics", "http://b:2/metrics")


def test_targets_come_from_the_environment_with_commas(monkeypatch):
    monkeypatch.setenv("GPUTAILOR_TARGETS", "a:1,b:2")
    assert load_settings({}, None).targets == ("http://a:1/metrics", "http://b:2/metrics")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clutser: x\n", "clutser"),
        ("scrape_seconds: soon\n", "scrape_seconds"),
        ("scrape_seconds: 0\n", "scrape_seconds"),
        ("listen: nowhere\n", "expected HOST:PORT"),
        ("targets: 'ftp://x'\n", "expected a URL"),
        ("- a\n- b\n", "expected a mapping"),
        ("a: [\n", "not YAML"),
    ],
)
def test_a_wrong_file_is_told_with_the_settings_name(tmp_path, text, told):
    with pytest.raises(UsageError, match=told):
        load_settings({}, config(tmp_path, text))


def test_what_does_not_fit_together_has_no_empty_name_before_it(tmp_path):
    with pytest.raises(UsageError, match=r"agent\.yaml\): mail_to is given, but no smtp_host"):
        load_settings({}, config(tmp_path, "mail_to: a@example.org\n"))


def test_every_wrong_value_is_told_in_words_of_ours(tmp_path):
    """Not in those of the library, which speaks of types of Python and of inputs."""
    texts = []
    for name in AgentSettings.model_fields:
        for value in (["x"], {"x": ["y"]}, True, -7.5, "", 10**12):
            path = config(tmp_path, json.dumps({name: value}))
            with contextlib.suppress(UsageError):
                load_settings({}, path)
                continue
            with pytest.raises(UsageError) as caught:
                load_settings({}, path)
            texts.append(str(caught.value))
    assert len(texts) > 100
    for text in texts:
        assert not re.search(r"Input should|dictionary|tuple|unable to|Extra inputs|: :", text), (
            text
        )


def test_prices_that_are_not_there_are_told_at_once(tmp_path):
    with pytest.raises(UsageError, match=r"prices: nowhere\.csv does not exist"):
        load_settings({}, config(tmp_path, "prices: nowhere.csv\n"))


def test_a_mistyped_setting_is_told_with_those_that_are_like_it(tmp_path):
    with pytest.raises(UsageError, match="clutser: there is no such setting; did you mean cluster"):
        load_settings({}, config(tmp_path, "clutser: x\n"))


def test_what_a_secret_holds_is_not_repeated(tmp_path):
    text = "smtp_password: [hunter2]\nwebhook_url: {a: hunter2}\nprometheus_headers: hunter2\n"
    with pytest.raises(UsageError, match="smtp_password") as caught:
        load_settings({}, config(tmp_path, text))
    assert "hunter2" not in str(caught.value)


def test_thresholds_come_from_file_environment_and_flags_and_add_up(tmp_path, monkeypatch):
    path = config(
        tmp_path,
        "thresholds:\n  idle: {warn_minutes: 1, act_minutes: 2}\n  smaller_gpu: {coverage: 0.5}\n",
    )
    monkeypatch.setenv(
        "GPUTAILOR_THRESHOLDS", '{"idle": {"act_minutes": 20, "notebook_minutes": 30}}'
    )
    flags = {"thresholds": {"idle": {"notebook_minutes": 300.0}}}
    assert load_settings(flags, path).thresholds == {
        "idle": {"warn_minutes": 1, "act_minutes": 20, "notebook_minutes": 300},
        "smaller_gpu": {"coverage": 0.5},
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"idel": {}}', "no such rule; did you mean idle"),
        ('{"idle": {"warn": 1}}', "idle.warn: no such threshold; there are: .*warn_minutes"),
        (
            '{"idle": {"warn_minutes": -1}}',
            "thresholds.idle.warn_minutes: expected a number of at least 0, found '-1'",
        ),
        ('{"idle": {"warn_minutes": NaN}}', "thresholds.idle.warn_minutes: .*finite"),
        ('{"idle": {"warn_minutes": "soon"}}', "thresholds.idle.warn_minutes: .*number"),
        ('{"idle": 3}', "thresholds.idle: expected a mapping"),
        ("idle=3", "GPUTAILOR_THRESHOLDS: expected JSON"),
    ],
)
def test_a_wrong_threshold_is_told_with_its_name(monkeypatch, text, told):
    monkeypatch.setenv("GPUTAILOR_THRESHOLDS", text)
    with pytest.raises(UsageError, match=told):
        load_settings({}, None)


def test_a_threshold_of_the_command_line_is_read():
    assert threshold("idle.warn_minutes=120") == ("idle", "warn_minutes", 120.0)
    for wrong in ("idle", "idle=3", "idle.warn_minutes", "idle.=3", "idle.warn_minutes=soon"):
        with pytest.raises(UsageError, match=r"expected RULE\.NAME=VALUE"):
            threshold(wrong)


def test_the_keys_that_name_a_team_are_settings_of_the_judging(tmp_path, monkeypatch):
    path = config(tmp_path, "team_keys: [cost-centre, example.org/squad]\n")
    judged = service_settings(load_settings({}, path)).assessment
    assert judged.identity.team_keys == ("cost-centre", "example.org/squad")
    monkeypatch.setenv("GPUTAILOR_TEAM_KEYS", "squad, tribe")
    judged = service_settings(load_settings({}, path)).assessment
    assert judged.identity.team_keys == ("squad", "tribe")
    assert service_settings(load_settings({"team_keys": ["a"]}, path)).assessment.identity == (
        IdentitySettings(team_keys=("a",))
    )


def test_every_setting_but_those_of_delivery_and_access_can_be_given_as_a_flag():
    options = {one.name for one in get_command(build()).commands["serve"].params}
    singular = {
        "targets": "target",
        "namespaces": "namespace",
        "team_keys": "team_key",
        "prometheus_headers": "prometheus_header",
        "prometheus_labels": "prometheus_label",
        "prometheus_parameters": "prometheus_parameter",
    }
    kinds = (DeliveryKeys, KubernetesKeys, PlaceKeys, ScrapingKeys, WebKeys)
    unflagged = {name for kind in kinds for name in kind.model_fields}
    named = set(AgentSettings.model_fields) - unflagged
    assert {singular.get(name, name) for name in named} <= options


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*none\.yaml"):
        load_settings({}, tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("node-1:9836", "http://node-1:9836/metrics"),
        ("http://node-1:9836/", "http://node-1:9836/metrics"),
        ("dns+http://exporters.lab.svc:9836", "dns+http://exporters.lab.svc:9836/metrics"),
        ("https://[::1]:9836/x/metrics", "https://[::1]:9836/x/metrics"),
    ],
)
def test_a_target_becomes_the_address_of_its_metrics(target, url):
    assert exporter_url(target) == url


def test_addresses_are_split():
    assert split_listen("127.0.0.1:8080") == ("127.0.0.1", 8080)
    assert split_listen(":80") == ("0.0.0.0", 80)
    assert split_listen("[::1]:80") == ("::1", 80)
    with pytest.raises(ValueError, match="HOST:PORT"):
        split_listen("127.0.0.1:99999")


def test_a_broken_line_is_named_and_not_shown(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text('smtp_host: x\nsmtp_password: "hunter2pass\nsmtp_port: 1\n', "utf-8")
    with pytest.raises(UsageError, match=r"bad\.yaml, line \d is not YAML: \w") as told:
        load_settings({}, path)
    assert "hunter2pass" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "no exporter to scrape"), ("targets: []\n", "no exporter to scrape"),
     ('targets: ["a:1"]\nreport_cron: "61 7 * * 1"\n', "report_cron: ")],
)  # fmt: skip
def test_the_agent_takes_no_settings_it_would_not_start_with(tmp_path, monkeypatch, text, told):
    monkeypatch.delenv("GPUTAILOR_TARGETS", raising=False)
    path = tmp_path / "agent.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=told):
        serve._checked({}, path)
