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


SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/SECRETkdnlazkcOXrIdevi7F/#gpus"


def chat_file(tmp_path):
    path = tmp_path / "chats"
    path.write_text(f'chat: "{SLACK}"\n', "utf-8")
    return path


def test_channels_teams_and_quiet_hours_come_from_files(tmp_path):
    teams = tmp_path / "teams.yaml"
    teams.write_text("vision: [chat]\nspeech: s@example.org\ndefault: [chat, r@example.org]\n")
    key = tmp_path / "key"
    key.write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    text = (
        f"channels_file: {chat_file(tmp_path)}\nteams_file: {teams}\n"
        "mail_from: gpu@example.org\nsmtp_host: mail\nwebhook_url: https://hooks.example.org/\n"
        f"webhook_secret_file: {key}\nquiet_hours: 22:00-07:00\n"
        "report_time_zone: Asia/Shanghai\nreport_language: zh\n"
    )
    settings = load_settings({}, config(tmp_path, text))
    found = settings.delivery
    assert found.channels == {"chat": SLACK}
    assert found.teams["vision"].channels == ("chat",)
    assert found.teams["speech"].mail_to == ("s@example.org",)
    assert (found.quiet.zone.key, found.language) == ("Asia/Shanghai", "zh")
    assert len(found.webhook_secrets) == 1
    for shown in (repr(settings), repr(found), settings.model_dump_json()):
        assert "SECRET" not in shown
        assert "MfKQ9r8" not in shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("channels_file: FOLDER/missing", "channels_file: cannot read"),
        ("channels_file: FOLDER/nonsense", "expected a mapping of names"),
        ("channels_file: FOLDER/broken.yaml", "broken.yaml, line 2 is no YAML"),
        ("channels_file: FOLDER/chats.yaml", "channels_file, chat: expected the URL of a chat"),
        ("teams_file: FOLDER/missing", "teams_file: cannot read"),
        ("teams_file: FOLDER/list.yaml", "expected a mapping of names"),
        ("teams_file: FOLDER/unknown.yaml", "vision: 'chat' is no mail address and no channel"),
        ("teams_file: FOLDER/number.yaml", "vision: expected addresses and channels"),
        ("teams_file: FOLDER/mail.yaml", "teams_file names mail addresses, but there is no"),
        ("channels_file: FOLDER/strange.yaml", "channels_file, chat: expected a URL, or {url: …"),
        ("channels_file: FOLDER/asked.yaml", "channels_file, chat: expected a URL, or {url: …"),
        ("notify: {team-a: chat}", "notify.team-a: 'chat' is no mail address and no channel"),
        ("objects_url: bucket", "objects_url: expected s3://BUCKET"),
        ("objects_endpoint: https://s3.example.org", "but no objects_url"),
        ("objects_url: s3://abc\nobjects_endpoint: s3.example.org", "objects_endpoint: expected a"),
        (
            "objects_url: s3://abc\nobjects_credentials_file: FOLDER/nonsense",
            "objects_credentials_file: FOLDER/nonsense is no file of credentials",
        ),
        ("quiet_hours: at night", "quiet_hours: expected hours such as 22:00-07:00"),
        ("notices_at_once: 0", "notices_at_once"),
        ("webhook_secret_file: FOLDER/empty", "is empty"),
        ("webhook_secret_file: FOLDER/nonsense", "expected 24 to 64 bytes in base64"),
    ],
)
def test_wrong_channels_teams_and_hours_are_told_by_name(tmp_path, text, told):
    files = {
        "nonsense": "SECRET",
        "broken.yaml": "a: SECRET\nb: [SECRET",
        "chats.yaml": "chat: https://example.org/SECRET",
        "list.yaml": "[a]",
        "strange.yaml": f'chat: {{url: "{SLACK}", reports: true}}',
        "asked.yaml": f'chat: {{url: "{SLACK}", workloads: SECRET}}',
        "unknown.yaml": "vision: [chat]",
        "number.yaml": "vision: 3",
        "mail.yaml": "vision: a@example.org",
        "empty": "",
    }
    for name, held in files.items():
        (tmp_path / name).write_text(held, "utf-8")
    with pytest.raises(UsageError) as error:
        load_settings({}, config(tmp_path, text.replace("FOLDER", str(tmp_path))))
    assert told.replace("FOLDER", str(tmp_path)) in str(error.value)
    assert "SECRET" not in str(error.value)


def test_a_channel_may_be_there_for_workloads(tmp_path):
    chats = tmp_path / "chats"
    chats.write_text(f'all: "{SLACK}"\nopen: {{url: "{SLACK}", workloads: true}}\n', "utf-8")
    text = f"channels_file: {chats}\nnotify: {{team-a: all}}\nsevere_in_quiet_hours: true\n"
    found = load_settings({}, config(tmp_path, text)).delivery
    assert (set(found.channels), found.open_channels) == ({"all", "open"}, {"open"})
    assert found.whole.channels == ("all",)
    assert found.notify == {"team-a": "all"}
    assert found.severe_in_quiet_hours


def test_reports_are_kept_in_a_folder_and_an_object_store(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = A\naws_secret_access_key = SECRET\n")
    text = (
        f"report_folder: {tmp_path}/kept\nobjects_url: s3://reports/gpu/\n"
        f"objects_endpoint: https://s3.example.org:9000/\nobjects_credentials_file: {keys}\n"
        "objects_region: eu-1\nobjects_path_style: false\n"
    )
    settings = load_settings({}, config(tmp_path, text))
    found = settings.delivery
    assert found.wanted
    assert found.folder == tmp_path / "kept"
    kept = found.objects
    assert (kept.bucket, kept.prefix, kept.region) == ("reports", "gpu", "eu-1")
    assert (kept.endpoint, kept.path_style) == ("https://s3.example.org:9000", False)
    assert found.objects_name == "s3://reports/gpu at s3.example.org:9000"
    for shown in (repr(settings), repr(found), settings.model_dump_json()):
        assert "SECRET" not in shown
