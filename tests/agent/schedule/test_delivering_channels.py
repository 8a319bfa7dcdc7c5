"""Chats, teams, quiet hours and digests through the outbox: each gets theirs, once, on its own."""

from datetime import UTC, datetime

import msgspec
import pytest

from gputailor_agent.reports.delivery import signing
from gputailor_agent.reports.delivery.quiet import QuietHours
from gputailor_agent.reports.delivery.settings import Receivers
from gputailor_agent.store import Outbox, Store
from tests.agent.reports.plans import sample_plan, workload
from tests.agent.schedule.test_delivering import PERIOD, delivery, keep, letters, run
from tests.agent.schedule.test_noticing import T0, idle
from tests.fakes.hooks import Hook
from tests.fakes.mailbox import Mailbox

NOWHERE = {"mail_to": [], "mail_from": "", "smtp_host": ""}
TEAMS = {
    "vision": Receivers(channels=("vision",)),
    "default": Receivers(mail_to=("rest@example.org",)),
}


@pytest.fixture
def store():
    with Store.open() as opened:
        yield opened


@pytest.fixture
def hooks():
    with Hook() as first, Hook() as second:
        yield first, second


def chats(**hooks):
    return {name: f"json://{hook.place}/SECRET" for name, hook in hooks.items()}


def of_team(team, number, now):
    name = f"{team}/Deployment/old-{number}/main"
    found = idle(now, now - 7200)
    own = workload(name, team="" if team == "none" else team)
    return msgspec.structs.replace(
        found,
        workload=own,
        primary=msgspec.structs.replace(found.primary, workload_id=name),
    )


def notice(store, agent, now, *verdicts):
    agent.at.now = now
    with store.transaction() as tx:
        agent.keep_notices(tx, sample_plan(made_at=now, verdicts=verdicts))


def states(store):
    return {letter.recipient: letter.state for letter in letters(store)}


def test_a_report_goes_once_to_every_channel_and_its_address_is_kept_nowhere(store, hooks):
    one, other = hooks
    agent = delivery(store, **NOWHERE, channels=chats(one=one, other=other))
    for _ in range(2):
        keep(store, agent)
    assert run(agent, T0) == 2
    assert run(agent, T0 + 9000) == 0
    for hook in hooks:
        ((_headers, body),) = hook.got
        assert body["title"].startswith("GPU report test")
        assert "GPU Tailor report" in body["message"]
    assert "SECRET" not in str(letters(store))


def test_a_channel_that_fails_delays_no_other_and_is_tried_again(store, hooks, caplog):
    broken, fine = hooks
    broken.status = 500
    agent = delivery(store, **NOWHERE, channels=chats(broken=broken, fine=fine))
    keep(store, agent)
    assert run(agent, T0) == 1
    assert states(store) == {"broken": "waiting", "fine": "sent"}
    assert "broken answered 500" in caplog.text
    assert "SECRET" not in caplog.text
    broken.status = 200
    assert run(agent, T0 + 15) == 0  # not before its time
    assert run(agent, T0 + 60) == 1
    assert states(store) == {"broken": "sent", "fine": "sent"}
    assert (len(broken.got), len(fine.got)) == (2, 1)


def test_a_mail_server_that_is_away_delays_no_chat(store, hooks, tmp_path):
    with Mailbox(tmp_path) as box:
        port = box.port
    more = {"smtp_host": "127.0.0.1", "smtp_port": port, "smtp_tls": "none"}
    agent = delivery(store, **more, mail_to=["a@example.org"], channels=chats(one=hooks[0]))
    keep(store, agent)
    assert run(agent, T0) == 1
    assert states(store) == {"one": "sent", "a@example.org": "waiting"}


def test_a_channel_that_is_no_longer_set_is_given_up(store, hooks):
    keep(store, delivery(store, **NOWHERE, channels=chats(old=hooks[0])))
    run(delivery(store, **NOWHERE, channels=chats(new=hooks[1])), T0)
    (letter,) = letters(store)
    assert (letter.state, letter.reason) == ("given_up", "its channel is no longer in the settings")


def test_a_signed_call_is_verified_by_its_receiver(store, hooks):
    secret = b"s" * 32
    agent = delivery(store, **NOWHERE, webhook_url=hooks[0].url, webhook_secrets=(secret,))
    keep(store, agent)
    assert run(agent, T0) == 1
    ((headers, body),) = hooks[0].got
    assert headers["webhook-timestamp"] == str(int(T0))
    assert headers["Content-Type"] == "application/json"
    own = {name: headers[name] for name in headers if name.startswith("webhook-")}
    assert own == signing.headers((secret,), body["id"], T0, hooks[0].raw[0])


def test_every_team_gets_its_own_part_and_no_more(store, hooks, tmp_path):
    vision, whole = hooks
    verdicts = tuple(of_team(team, 1, T0) for team in ("vision", "speech", "none"))
    with Mailbox(tmp_path) as box:
        agent = delivery(
            store,
            mail_to=["boss@example.org"],
            smtp_host="127.0.0.1",
            smtp_port=box.port,
            smtp_tls="none",
            channels=chats(vision=vision, whole=whole),
            teams=TEAMS,
        )
        put = agent.report(sample_plan(made_at=T0, verdicts=verdicts), PERIOD)
        with store.transaction() as tx:
            put(tx)
        assert run(agent, T0) == 4
    told = {str(one["To"]): one.get_body(("plain",)).get_content() for one in box.mails}
    told |= {
        name: hook.got[0][1]["message"]
        for name, hook in zip(("vision", "whole"), hooks, strict=True)
    }
    named = {
        name: {team for team in ("vision", "speech", "none") if f"{team}/" in text}
        for name, text in told.items()
    }
    assert named == {
        "boss@example.org": {"vision", "speech", "none"},
        "whole": {"vision", "speech", "none"},
        "vision": {"vision"},
        "rest@example.org": {"speech", "none"},
    }


def test_a_notice_goes_to_the_team_of_its_workload(store, hooks):
    vision, whole = hooks
    agent = delivery(store, channels=chats(vision=vision, whole=whole), teams=TEAMS)
    notice(store, agent, T0, of_team("vision", 1, T0), of_team("speech", 1, T0))
    found = {(letter.recipient, letter.scope.split("/")[2]) for letter in letters(store)}
    assert found == {("vision", "vision"), ("rest@example.org", "speech")}


def test_a_notice_in_quiet_hours_waits_for_their_end_and_goes_once(store, hooks):
    begin = datetime(2027, 1, 15, 22, 30, tzinfo=UTC).timestamp()
    quiet = QuietHours.read("22:00-07:00", "UTC")
    agent = delivery(store, **NOWHERE, channels=chats(one=hooks[0]), quiet=quiet)
    for now in (begin, begin + 300):
        notice(store, agent, now, of_team("vision", 1, begin))
    assert run(agent, begin + 8 * 3600) == 0  # half past six
    assert run(agent, begin + 8.5 * 3600) == 1
    assert run(agent, begin + 9 * 3600) == 0
    assert len(hooks[0].got) == 1


def test_a_report_does_not_wait_for_the_end_of_quiet_hours(store, hooks):
    quiet = QuietHours.read("00:00-23:59", "UTC")
    agent = delivery(store, **NOWHERE, channels=chats(one=hooks[0]), quiet=quiet)
    keep(store, agent)
    assert run(agent, T0) == 1


def test_many_notices_at_a_time_go_as_one_message_that_names_them_all(store, hooks):
    agent = delivery(
        store, **NOWHERE, channels=chats(one=hooks[0]), webhook_url=hooks[1].url, notices_at_once=3
    )
    notice(store, agent, T0, *(of_team("vision", number, T0) for number in range(4)))
    hooks[0].status = 503
    assert run(agent, T0) == 1  # the web address took its digest
    hooks[0].status = 200
    assert run(agent, T0 + 60) == 1
    ((_headers, body),) = hooks[1].got
    assert "(+3)" in body["subject"]
    assert len(body["document"]) == 4
    for _headers, shown in (hooks[0].got[-1], hooks[1].got[-1]):
        text = (shown.get("message") or shown["text"]).replace("\\", "")
        assert all(f"vision/old-{number} " in text for number in range(4))
    assert {letter.state for letter in letters(store)} == {"sent"}


def test_as_many_notices_as_are_allowed_go_one_by_one(store, hooks):
    agent = delivery(store, **NOWHERE, channels=chats(one=hooks[0]), notices_at_once=3)
    notice(store, agent, T0, *(of_team("vision", number, T0) for number in range(3)))
    assert run(agent, T0) == 3


def test_a_notice_in_a_digest_that_cannot_be_read_costs_the_others_nothing(store, hooks):
    agent = delivery(store, **NOWHERE, channels=chats(one=hooks[0]), notices_at_once=1)
    notice(store, agent, T0, *(of_team("vision", number, T0) for number in range(2)))
    with store.transaction() as tx:
        lost = Outbox(tx).letters("test")[0]
        tx.connection.exec_driver_sql("DELETE FROM outbox_contents WHERE scope = ?", (lost.scope,))
    assert run(agent, T0) == 1
    assert sorted(letter.state for letter in letters(store)) == ["sent", "waiting"]


def test_a_chinese_notice_arrives_by_mail_with_both_parts_in_its_charset(store, tmp_path):
    with Mailbox(tmp_path) as box:
        agent = delivery(
            store,
            mail_to=["a@example.org"],
            smtp_host="127.0.0.1",
            smtp_port=box.port,
            smtp_tls="none",
            language="zh",
        )
        notice(store, agent, T0, of_team("vision", 1, T0))
        assert run(agent, T0) == 1
    (got,) = box.mails
    assert "上空闲的 GPU" in got["Subject"]
    assert got["List-Id"] == "<idle.test.gputailor.example.org>"
    for kind in ("plain", "html"):
        part = got.get_body((kind,))
        assert part.get_content_charset() == "utf-8"
        assert "gputailor.io/notify" in part.get_content()
        assert "空闲时间只发送一次" in part.get_content().replace("\n", "")


def test_a_digest_speaks_the_language_of_its_notices(store, tmp_path):
    with Mailbox(tmp_path) as box:
        agent = delivery(
            store,
            mail_to=["a@example.org"],
            smtp_host="127.0.0.1",
            smtp_port=box.port,
            smtp_tls="none",
            language="zh",
            notices_at_once=1,
        )
        notice(store, agent, T0, *(of_team("vision", number, T0) for number in range(2)))
        assert run(agent, T0) == 1
    (got,) = box.mails
    assert "(+1)" in got["Subject"]
    assert '<html lang="zh-Hans-CN">' in got.get_body(("html",)).get_content()
