"""Mails to a real server, calls to a real address; what goes wrong is told without secrets."""

import json

import pytest

from gputailor_agent.reports.delivery import content, mail, webhook
from gputailor_agent.reports.delivery.mail import SendError
from gputailor_agent.reports.delivery.settings import MailServer
from tests.agent.reports.plans import sample_plan
from tests.fakes.hooks import Hook
from tests.fakes.mailbox import PASSWORD, USER, Mailbox

MADE = content.report_content(sample_plan(), "2025-12-01T07:00")


def server_of(box, **more):
    given = {"host": "127.0.0.1", "port": box.port, "tls": box.tls, "ca_file": box.ca_file}
    if box.tls != "none":
        given |= {"username": USER, "password": PASSWORD}
    return MailServer(**(given | {"timeout_seconds": 5.0} | more))


def deliver(server, recipient="a@example.org"):
    built = mail.build(
        MADE, mail_from="GPU <gpu@example.org>", recipient=recipient, identity="<1@x>"
    )
    with mail.connected(server) as session:
        mail.send(session, built, server)


@pytest.mark.parametrize("tls", ["none", "starttls", "tls"])
def test_a_mail_arrives_whole(tmp_path, tls):
    with Mailbox(tmp_path, tls) as box:
        deliver(server_of(box))
    (got,) = box.mails
    assert box.tls_seen == [tls != "none"]
    assert got.envelope_to == ["a@example.org"]
    assert got["Subject"] == MADE.subject
    attached = next(got.iter_attachments())
    assert json.loads(attached.get_content())["plan"]["cluster"] == "test"


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_a_certificate_nobody_vouches_for_is_refused(tmp_path, tls):
    with Mailbox(tmp_path, tls) as box:
        with pytest.raises(SendError, match=r"is not trusted.*smtp_ca_file") as told:
            deliver(server_of(box, ca_file=""))
        assert box.mails == []
    assert told.value.everyone


def test_a_wrong_password_is_told_and_not_shown(tmp_path):
    with Mailbox(tmp_path, "starttls") as box:
        with pytest.raises(SendError, match="refused the login: 535") as told:
            deliver(server_of(box, password="wrong-pass"))
        assert told.value.everyone
        assert "wrong-pass" not in str(told.value)
        assert told.value.__cause__ is None


def test_a_server_without_encryption_gets_nothing(tmp_path):
    with Mailbox(tmp_path) as box:
        with pytest.raises(SendError, match="smtp_tls"):
            deliver(server_of(box, tls="starttls"))
        assert box.mails == []


def test_a_refused_recipient_stops_only_itself(tmp_path):
    with Mailbox(tmp_path) as box:
        box.refuse["gone@example.org"] = "550 no such user"
        with pytest.raises(SendError, match="refused the recipient: 550 no such user") as told:
            deliver(server_of(box), "gone@example.org")
        assert not told.value.everyone


def test_no_server_is_told(tmp_path):
    with Mailbox(tmp_path) as box:
        server = server_of(box)
    with pytest.raises(SendError, match=r"127\.0\.0\.1.* cannot be reached") as told:
        deliver(server)
    assert told.value.everyone


@pytest.fixture
def hook():
    with Hook() as listening:
        yield listening


def test_a_call_carries_the_message_and_its_key(hook):
    webhook.post(hook.url, "hooks#1", MADE, "<1@x>")
    ((headers, body),) = hook.got
    assert headers["Idempotency-Key"] == "1@x"
    assert (body["id"], body["subject"]) == ("1@x", MADE.subject)


@pytest.mark.parametrize("status", [302, 404, 500])
def test_any_other_answer_is_a_failure_and_redirects_are_not_followed(hook, status):
    hook.status = status
    with pytest.raises(SendError, match=f"hooks#1 answered {status}"):
        webhook.post(hook.url, "hooks#1", MADE, "<1@x>")
    assert len(hook.got) == 1


def test_an_address_where_nobody_listens_is_told_without_its_path(hook):
    hook.shutdown()
    hook.server_close()
    with pytest.raises(SendError, match=r"hooks#1 cannot be reached \(ConnectError\)") as told:
        webhook.post(hook.url, "hooks#1", MADE, "<1@x>")
    assert "SECRET" not in str(told.value)
