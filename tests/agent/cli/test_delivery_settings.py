"""Delivery's settings come from environment and file, fit together, and keep their secrets."""

import os

import pytest

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.settings import load_settings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in os.environ:
        if name.startswith("GPUTAILOR_"):
            monkeypatch.delenv(name)


def config(tmp_path, text):
    path = tmp_path / "agent.yaml"
    path.write_text(text, "utf-8")
    return path


def test_by_default_nothing_is_sent():
    assert not load_settings({}, None).delivery.wanted


def test_recipients_come_from_the_file_and_secrets_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUTAILOR_SMTP_PASSWORD", "hunter2")
    text = (
        "mail_to: a@example.org, b@example.org\nmail_from: GPU <gpu@example.org>\n"
        "smtp_host: mail.example.org\nsmtp_username: gpu\nnotify: {team-a: t@example.org}\n"
        "cool_down_hours: 2\n"
    )
    settings = load_settings({}, config(tmp_path, text))
    found = settings.delivery
    assert found.mail_to == ("a@example.org", "b@example.org")
    assert (found.server.port, found.server.password) == (587, "hunter2")
    assert (found.notify, found.cool_down_seconds) == ({"team-a": "t@example.org"}, 7200.0)
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in settings.model_dump_json()


def test_recipients_may_be_one_text_in_the_environment(monkeypatch):
    monkeypatch.setenv("GPUTAILOR_MAIL_TO", "a@example.org,b@example.org")
    monkeypatch.setenv("GPUTAILOR_MAIL_FROM", "gpu@example.org")
    monkeypatch.setenv("GPUTAILOR_SMTP_HOST", "mail")
    assert load_settings({}, None).delivery.mail_to == ("a@example.org", "b@example.org")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mail_to: a@example.org", "no smtp_host"),
        ("mail_to: nobody", "mail_to: expected a mail address"),
        ("webhook_url: hooks", "webhook_url: expected a URL"),
        ("smtp_port: 0", "smtp_port"),
        ("smtp_tls: ssl", "expected starttls, tls, none"),
        ("cool_down_hours: -1", "cool_down_hours"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, text, told):
    with pytest.raises(UsageError, match=told):
        load_settings({}, config(tmp_path, text))


def test_a_wrong_setting_beside_a_secret_does_not_show_the_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUTAILOR_WEBHOOK_URL", "hooks.example.org/SECRET")
    monkeypatch.setenv("GPUTAILOR_SMTP_PASSWORD", "hunter2")
    with pytest.raises(UsageError) as told:
        load_settings({}, None)
    assert "SECRET" not in str(told.value)
    assert "hunter2" not in str(told.value)
