"""``gputailor preview`` writes what would be sent, and sends nothing."""

import json
import re
from email import message_from_bytes
from email.policy import default

import pytest

from gputailor_agent.cli.app import run
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.preview import NOBODY, write_preview
from gputailor_agent.model.profile import Window
from gputailor_agent.reports.delivery.settings import delivery_settings
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
