"""What is sent, to whom, and how: contents, addresses, secrets."""

import gzip
import json
import re
from email import message_from_bytes
from email.policy import default

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Message
from gputailor_agent.reports import html
from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.delivery import content, mail
from gputailor_agent.reports.delivery.settings import (
    DeliveryError,
    address,
    delivery_settings,
    sender,
)
from gputailor_agent.reports.document import Column, Document, Heading, Item, Listing, Table
from tests.agent.reports.plans import END, IDLE, finding, sample_plan, verdict

PERIOD = "2025-12-01T07:00"
MAIL = {"mail_to": ["a@example.org"], "mail_from": "gpu@example.org", "smtp_host": "mail"}


def report(**more):
    return content.report_content(sample_plan(**more), PERIOD, public_url="https://gpu.example.org")


def parsed(made):
    built = mail.build(
        made, mail_from="GPU <gpu@example.org>", recipient="a@example.org", identity="<1@x>"
    )
    return message_from_bytes(built.as_bytes(), policy=default)


def test_a_mail_holds_the_report_as_text_as_html_and_as_json():
    made = report()
    read = parsed(made)
    kinds = [part.get_content_type() for part in read.walk() if not part.is_multipart()]
    assert kinds == ["text/plain", "text/html", "application/json"]
    text, page, attached = (part for part in read.walk() if not part.is_multipart())
    assert text.get_content().splitlines() == made.plain.splitlines()
    assert page.get_content().splitlines() == made.html.splitlines()
    assert json.loads(attached.get_content())["plan"]["cluster"] == "test"
    assert attached.get_filename() == "gputailor-report-test-2025-12-01T07-00.json"


def test_subject_and_body_name_cluster_and_period():
    made = report()
    assert (
        made.subject == "GPU report test, 14 days to 2025-12-01 00:00 UTC: USD 2,500/month to save"
    )
    for body in (made.text.replace("\\", ""), made.html):
        assert "cluster test due 2025-12-01 07:00 UTC" in body


def test_what_an_earlier_version_kept_is_sent_as_it_was():
    kept = msgspec.structs.replace(report(), plain="")
    assert parsed(kept).get_body(("plain",)).get_content().startswith("# GPU Tailor report")


def test_headers_say_who_when_and_that_a_machine_wrote_it():
    read = parsed(report())
    assert (read["From"], read["To"]) == ("GPU <gpu@example.org>", "a@example.org")
    assert read["Message-ID"] == "<1@x>"
    assert read["Date"].datetime.timestamp() == END
    assert read["Auto-Submitted"] == "auto-generated"


@settings(max_examples=25)  # a whole report each
@given(st.text(max_size=80))
def test_no_cluster_name_adds_a_header_or_breaks_a_line(name):
    made = content.report_content(
        sample_plan(cluster=f"x\r\nBcc: evil@example.org\r\n{name}"), PERIOD
    )
    read = parsed(made)
    assert read["Bcc"] is None
    assert "\n" not in made.subject
    assert [*read.keys()].count("Subject") == 1


def test_a_mail_is_plain_ascii_on_the_wire():
    built = mail.build(
        report(), mail_from="gpu@example.org", recipient="a@example.org", identity="<1@x>"
    )
    wire = built.as_bytes()
    assert wire.isascii()
    assert max(len(line) for line in wire.split(b"\r\n")) <= 998


def test_a_large_document_is_attached_compressed():
    made = msgspec.structs.replace(report(), document=json.dumps(["x" * 1_100_000]))
    attached = list(parsed(made).iter_attachments())[-1]
    assert attached.get_filename().endswith(".json.gz")
    assert json.loads(gzip.decompress(attached.get_content())) == ["x" * 1_100_000]


def test_a_long_table_is_shortened_in_the_mail_and_says_so():
    many = tuple(verdict(f"team/Job/train-{n}/main", "ok") for n in range(100))
    made = report(verdicts=many)
    assert "40 more rows are in the attached JSON" in made.html
    assert made.html.count("team/Job/train-") < 2 * content.SHOWN_ROWS + 5
    assert len(json.loads(made.document)["plan"]["verdicts"]) == 100


def test_a_content_is_the_same_after_it_was_kept():
    assert content.unpack(content.pack(report())) == report()


def test_html_loads_nothing_runs_nothing_and_escapes_everything():
    evil = '<script>alert("x")</script>'
    page = html.draw(
        Document(
            title=evil,
            blocks=(
                Heading(text=evil, level=1),
                Listing(items=(Item(name=evil, figure=evil, text=evil, link='a"b/c d'),)),
                Table(columns=(Column(title=evil),), rows=((evil,),), links=("a/b",), caption=evil),
            ),
        ),
        public_url="https://gpu.example.org/",
    )
    assert "<script" not in page
    assert not re.search(r"\bsrc=|@import|url\(", page)
    assert 'href="https://gpu.example.org/workloads/a%22b/c%20d"' in page


def test_without_a_public_address_there_is_no_link():
    assert "href" not in content.report_content(sample_plan(), PERIOD).html


def test_unknown_looks_unlike_a_figure_in_html():
    assert '<i style="color:#8250df">unknown</i>' in report().html


def notice():
    found = finding(
        IDLE,
        "idle",
        2000.0,
        message=Message(key="idle.from_start", params={"gpus": 1, "idle": 7200.0}),
    )
    return content.notice_content(
        verdict(IDLE, "finding", primary=found),
        found,
        content.Occasion(
            kind=content.IDLE, period="2025-11-30T22:00", since=END - 7200, made_at=END
        ),
        public_url="https://gpu.example.org",
    )


def test_a_notice_says_what_where_since_when_and_what_it_costs():
    made = notice()
    assert made.subject == "Idle GPUs on test: team-a/old since 2025-11-30 22:00 UTC"
    text = made.text.replace("\\", "")
    assert "1 GPU held for 2 h and never used" in text
    assert "USD 2,000/month" in text
    assert "gputailor.io/notify" in text
    assert json.loads(made.document)["rule"] == "idle"


def test_a_web_call_carries_words_and_values():
    sent = content.payload(report(), "id-1")
    assert sent["text"].startswith("# GPU Tailor report")
    assert (sent["kind"], sent["cluster"], sent["period"]) == ("report", "test", PERIOD)
    assert sent["document"]["plan"]["cluster"] == "test"


def test_the_message_id_comes_of_the_key_alone():
    one = mail.message_id(("p", "s", "mail", "a@x.org"), "gpu@example.org")
    assert one == mail.message_id(("p", "s", "mail", "a@x.org"), "GPU <gpu@example.org>")
    assert one != mail.message_id(("p", "s", "mail", "b@x.org"), "gpu@example.org")
    assert re.fullmatch(r"<[0-9a-f]{40}@example\.org>", one)


@pytest.mark.parametrize("good", ["a@b", "first.last+tag@sub.example.org", " a@example.org "])
def test_addresses_are_taken(good):
    assert address(good, "mail_to") == good.strip()


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "a",
        "a@",
        "@b",
        "a b@c",
        "a@b\nBcc: x@y",
        "a@b,c@d",
        "<a@b>",
        "a@b..c",
        "a@-b",
        "ä@b.org",
    ],
)
def test_what_is_no_address_is_told_with_the_settings_name(bad):
    with pytest.raises(DeliveryError, match="mail_to: expected a mail address"):
        address(bad, "mail_to")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu@example.org", "gpu@example.org"),
        ("GPU Tailor <gpu@example.org>", '"GPU Tailor" <gpu@example.org>'),
    ],
)
def test_a_sender_may_have_a_name(text, shown):
    assert sender(text, "mail_from") == shown


@pytest.mark.parametrize("bad", ["GPU", "x\r\nBcc: a@b <c@d>", "a@b <", "Ä <a@b>"])
def test_a_wrong_sender_is_told(bad):
    with pytest.raises(DeliveryError, match="mail_from"):
        sender(bad, "mail_from")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mail_to": ["a@b"]}, "no smtp_host"),
        ({"smtp_host": "mail"}, "no mail_from"),
        (MAIL | {"smtp_tls": "ssl"}, "smtp_tls: expected starttls, tls, none"),
        (MAIL | {"smtp_username": "u"}, "belong together"),
        (
            MAIL | {"smtp_username": "u", "smtp_password": "p", "smtp_tls": "none"},
            "password in the clear",
        ),
        ({"webhook_url": "ftp://x"}, "webhook_url: expected a URL"),
        ({"webhook_url": "https://x/\r\nHost: y"}, "webhook_url: expected a URL"),
        ({"public_url": "gpu"}, "public_url: expected a URL"),
        (
            MAIL | {"notify": {"team-a": "nobody"}},
            "notify.team-a: 'nobody' is no mail address and no channel",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_told(given, told):
    with pytest.raises(DeliveryError, match=re.escape(told)):
        delivery_settings(**given)


def test_the_port_follows_from_the_kind_of_encryption():
    ports = {
        tls: delivery_settings(**MAIL, smtp_tls=tls).server.port
        for tls in ("starttls", "tls", "none")
    }
    assert ports == {"starttls": 587, "tls": 465, "none": 25}


def test_secrets_show_nowhere():
    hook = "https://hooks.example.org/T0P/SECRET"
    settings = delivery_settings(
        **MAIL, smtp_username="u", smtp_password="hunter2", webhook_url=hook
    )
    for shown in (repr(settings), settings.webhook_name, settings.fingerprint):
        assert "hunter2" not in shown
        assert "SECRET" not in shown
    with pytest.raises(DeliveryError) as told:
        delivery_settings(webhook_url="hooks.example.org/SECRET")
    assert "SECRET" not in str(told.value)


def test_a_workload_may_name_addresses_of_known_domains_only():
    settings = delivery_settings(**MAIL, notify_domains=["Team.example"])
    assert settings.may_notify("x@EXAMPLE.org")
    assert settings.may_notify("x@team.example")
    assert not settings.may_notify("x@elsewhere.org")


def test_a_mail_is_in_the_language_spoken_with_its_charset():
    with speaking("zh"):
        made = content.report_content(sample_plan(), PERIOD)
    built = parsed(made)
    assert "GPU 报告 test" in built["Subject"]
    assert "可节省 US$2,500/月" in built["Subject"]
    for kind in ("plain", "html"):
        part = built.get_body((kind,))
        assert part.get_content_charset() == "utf-8"
        assert "首先要做的" in part.get_content()
