"""``gputailor preview`` writes what would be sent, and sends nothing."""

import json
import re
from email import message_from_bytes
from email.policy import default

import msgspec
import pytest

from gputailor_agent.cli.app import run
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.preview import NOBODY, write_preview
from gputailor_agent.model.profile import Window
from gputailor_agent.reports.delivery.content import unpack
from gputailor_agent.reports.delivery.settings import Receivers, delivery_settings
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.store import Outbox, Store
from tests.agent.cli.clusters import inventory, log, pages
from tests.agent.reports.plans import END, sample_plan

NAMES = ("report.html", "report.md", "report.json", "report.eml")


def mails(paths):
    return [
        message_from_bytes(path.read_bytes(), policy=default)
        for path in paths
        if path.suffix == ".eml"
    ]


def test_every_form_of_the_report_is_written(tmp_path):
    paths = write_preview(sample_plan(), tmp_path / "new" / "out", delivery_settings(), at=END)
    assert tuple(path.name for path in paths) == NAMES
    page, text, document, _ = (path.read_text("utf-8") for path in paths)
    assert page.startswith("<!doctype html>")
    assert text.startswith("# GPU Tailor report: test")
    assert json.loads(document)["plan"]["cluster"] == "test"
    assert [str(mail["To"]) for mail in mails(paths)] == [NOBODY]


def test_the_mails_text_has_no_markup_and_its_subject_a_length_in_words(tmp_path):
    day = Window(start=END - 86400, end=END)
    (mail,) = mails(write_preview(sample_plan(window=day), tmp_path, delivery_settings(), at=END))
    assert "GPU report test, 1 day to 2025-12-01 00:00 UTC" in str(mail["Subject"])
    text = mail.get_body(("plain",)).get_content()
    assert text.splitlines()[0] == "GPU Tailor report: test"
    assert not re.search(r"\\[_*\[<|]|\*\*|^#", text, re.MULTILINE)
    assert "team-a/Deployment/old/main" in text


def test_there_is_a_mail_for_each_recipient_of_the_settings(tmp_path):
    settings = delivery_settings(
        mail_to=["a@example.org", "b@example.org"],
        mail_from="GPU <gpu@example.org>",
        smtp_host="mail",
    )
    written = mails(write_preview(sample_plan(), tmp_path, settings, at=END))
    assert [str(mail["To"]) for mail in written] == ["a@example.org", "b@example.org"]
    assert {str(mail["From"]) for mail in written} == {"GPU <gpu@example.org>"}
    assert len({str(mail["Message-ID"]) for mail in written}) == 2


SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/SECRETkdnlazkcOXrIdevi7F/#gpus"


def everything(tmp_path):
    """Settings with every way out, and a team of its own."""
    return delivery_settings(
        mail_to=["boss@example.org"],
        mail_from="gpu@example.org",
        smtp_host="mail",
        smtp_username="u",
        smtp_password="SECRETpassword",
        webhook_url="https://hooks.example.org/SECRETpath",
        webhook_secrets=(b"SECRET" * 5,),
        channels={"gpu-slack": SLACK, "vision chat": "json://127.0.0.1/SECRETroom"},
        teams={
            "vision/a": Receivers(mail_to=("v@example.org",), channels=("vision chat",)),
            "default": Receivers(mail_to=("rest@example.org",)),
            "nobody": Receivers(mail_to=("n@example.org",)),
        },
        folder=tmp_path / "kept",
    )


def teamed():
    plan = sample_plan()
    seen = plan.verdicts[-1]
    own = msgspec.structs.replace(seen.workload, team="vision/a")
    return msgspec.structs.replace(
        plan, verdicts=(*plan.verdicts[:-1], msgspec.structs.replace(seen, workload=own))
    )


def test_everybodys_part_is_there_and_no_secret(tmp_path):
    out = tmp_path / "out"
    paths = write_preview(teamed(), out, everything(tmp_path), at=END)
    forms = ["report.html", "report.md", "report.json", "report.eml"]
    assert [str(path.relative_to(out)) for path in paths] == [
        *forms, "chat-gpu-slack.json", "webhook.json",
        *(f"teams/vision-a/{name}" for name in (*forms, "chat-vision-chat.json")),
        *(f"teams/default/{name}" for name in forms),
        *(f"kept/{place}report.{kind}" for place in ("", "teams/vision-a/", "teams/default/")
          for kind in ("html", "md", "json", "csv")),
    ]  # fmt: skip
    assert not (tmp_path / "kept").exists()  # nothing is sent, not even to a folder
    for path in paths:
        assert b"SECRET" not in path.read_bytes(), path


def test_chats_and_the_web_call_show_what_they_would_get(tmp_path):
    write_preview(teamed(), tmp_path, everything(tmp_path), at=END)
    chat = json.loads((tmp_path / "chat-gpu-slack.json").read_bytes())
    assert (chat["service"], chat["markdown"]) == ("Slack", True)
    assert chat["title"].startswith("GPU report test")
    assert "team-a/Deployment/old/main" in chat["body"].replace("\\", "")
    call = json.loads((tmp_path / "webhook.json").read_bytes())
    assert call["kind"] == "report"
    assert call["document"]["plan"]["cluster"] == "test"
    own = json.loads((tmp_path / "teams/vision-a/chat-vision-chat.json").read_bytes())
    assert "team-a/Deployment/old/main" in own["body"].replace("\\", "")
    assert "team-b/" not in own["body"]
    rest = (tmp_path / "teams/default/report.md").read_text("utf-8")
    assert "team-a/Deployment/old/main" not in rest.replace("\\", "")


def test_what_is_previewed_is_what_is_sent(tmp_path):
    settings = everything(tmp_path)
    write_preview(teamed(), tmp_path, settings, at=END)
    sent = {}
    with Store.open() as store:
        agent = Delivery(settings, store, "test", clock=lambda: END)
        with store.transaction() as tx:
            agent.report(teamed(), "2025-12-01T00:00")(tx)
            for letter in Outbox(tx).letters("test"):
                sent[letter.recipient] = (letter.message_id, unpack(Outbox(tx).body(letter)))
    for mail in mails(tmp_path.rglob("*.eml")):
        identity, made = sent[str(mail["To"])]
        assert (mail["Message-ID"], mail["Subject"]) == (identity, made.subject)
    call = json.loads((tmp_path / "webhook.json").read_bytes())
    identity, made = sent[settings.webhook_name]
    assert (call["id"], call["text"]) == (identity.strip("<>"), made.text)
    assert len(sent) == 7


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="--out: cannot write to"):
        write_preview(sample_plan(), tmp_path / "file", delivery_settings(), at=END)


def test_a_store_that_is_not_there_is_told(tmp_path, capsys):
    asked = ["preview", "--store", f"sqlite:///{tmp_path}/none.db", "--out", str(tmp_path / "o")]
    assert run("gputailor", asked) == 1
    assert "none.db does not exist" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_the_command_writes_from_recorded_usage_and_names_the_files(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("GPUTAILOR_STORE", raising=False)
    asked = ("--archive", pages(tmp_path), "--inventory", inventory(tmp_path))
    out = tmp_path / "out"
    assert run("gputailor", ["preview", *map(str, asked), "--out", str(out)]) == 0
    named = capsys.readouterr().out.split()
    assert named == [str(out / name) for name in NAMES]
    assert (out / "report.md").read_text("utf-8").startswith("# GPU Tailor report: default")


@pytest.mark.parametrize("option", ["--prices", "--archive", "--config"])
def test_a_file_that_is_not_there_is_wrong_usage(tmp_path, capsys, option):
    asked = ["preview", "--out", str(tmp_path / "o"), "--archive", str(pages(tmp_path))]
    assert run("gputailor", [*asked, option, str(tmp_path / "none")]) == 2
    assert option in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_prices_that_are_not_there_are_wrong_usage_for_a_log_too(tmp_path, capsys):
    assert run("gputailor", ["analyse", str(log(tmp_path)), "--prices", "none.csv"]) == 2
    assert "--prices: none.csv does not exist" in capsys.readouterr().err


def test_a_scenario_that_is_not_there_is_wrong_usage_and_told_before_any_work(capsys):
    assert run("gputailor", ["demo", "--once", "--scenario", "none.yaml"]) == 2
    told = capsys.readouterr().err
    assert "--scenario: none.yaml does not exist" in told
    assert "Simulating" not in told
