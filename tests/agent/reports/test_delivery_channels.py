"""Chats by apprise: payloads within what each service publishes, and nothing told of addresses."""

import json
import logging
import re
from dataclasses import dataclass, field

import msgspec
import pytest
import requests

from gputailor_agent.model.judgement import Message
from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.delivery import channels, content
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.mail import SendError
from tests.agent.reports.plans import END, IDLE, finding, sample_plan, verdict, workload

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#gpus"
TEAMS = "workflows://prod-1.logic.azure.com/SECRETworkflow/SECRETsignature"
FEISHU = "feishu://abcdefgh-1234-SECRET"
LARK = "lark://abcdefgh-1234-1234-1234-123456789012"
DINGTALK = "dingtalk://SECRETabcdefgh"
WECOM = "wecombot://12345678-SECRET-abcd"

MANY = tuple(verdict(f"team/Job/train-{n}/main", "ok") for n in range(400))


def long_report(language):
    with speaking(language):
        made = content.report_content(sample_plan(verdicts=MANY), "2025-12-01T07:00")
    filler = "显存不足。" * 20 if language == "zh" else "memory is short " * 8
    lines = "\n".join(f"{n} {filler}" for n in range(500))
    text, plain = f"{made.text}\n{lines}", f"{made.plain}\n{lines}"
    return msgspec.structs.replace(made, text=text, plain=plain)


@dataclass
class Wire:
    """What a chat would get; answers ``status`` to all."""

    sent: list = field(default_factory=list)
    status: int = 200

    def request(self, _method, url, **given):
        assert given.get("allow_redirects") is False
        data = given["data"]
        self.sent.append((url, data if isinstance(data, bytes) else data.encode()))
        answer = requests.Response()
        answer.status_code = self.status
        answer._content = b"ok" if "slack" in url else b'{"code": 0, "errcode": 0}'
        return answer

    @property
    def body(self):
        ((_url, data),) = self.sent
        return json.loads(data)


@pytest.fixture
def wire(monkeypatch):
    made = Wire()
    monkeypatch.setattr(requests, "request", made.request)
    monkeypatch.setattr(requests, "post", lambda url, **given: made.request("post", url, **given))
    return made


def post(url, made):
    channels.post(channels.opened("chat", url), "chat", made)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_slack_gets_markdown_within_its_limits(wire, language):
    made = long_report(language)
    post(SLACK, made)
    (shown,) = wire.body["attachments"]
    # "text" above 40,000 characters is cut by Slack (api.slack.com/changelog/2018-04)
    assert len(shown["text"]) <= 40_000
    assert shown["text"].rstrip().endswith("…")
    assert wire.body["mrkdwn"] is True


@pytest.mark.parametrize("language", ["en", "zh"])
def test_slack_blocks_hold_at_most_3000_characters_and_a_heading_150(wire, language):
    post(f"{SLACK}?blocks=yes", long_report(language))
    (attachment,) = wire.body["attachments"]
    head, section = attachment["blocks"][:2]
    assert len(head["text"]["text"]) <= 150
    assert len(section["text"]["text"]) <= 3000


@pytest.mark.parametrize("language", ["en", "zh"])
def test_teams_gets_a_card_within_28_kilobytes(wire, language):
    post(TEAMS, long_report(language))
    ((_url, data),) = wire.sent
    # learn.microsoft.com: webhooks and connectors, rate and size limits
    assert len(data) <= 28 * 1024
    (card,) = wire.body["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert card["content"]["type"] == "AdaptiveCard"


@pytest.mark.parametrize("url", [FEISHU, LARK, DINGTALK], ids=["feishu", "lark", "dingtalk"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_feishu_lark_and_dingtalk_get_a_request_within_20000_bytes(wire, url, language):
    post(url, long_report(language))
    ((_url, data),) = wire.sent
    assert 15_000 < len(data) <= 20_000


@pytest.mark.parametrize("language", ["en", "zh"])
def test_wecom_gets_plain_text_within_2048_bytes_of_utf8(wire, language):
    post(WECOM, long_report(language))
    text = wire.body["text"]["content"]
    assert 1200 < len(text.encode()) <= 2048
    assert not text.startswith("#")


def test_a_short_message_is_whole(wire):
    made = content.report_content(sample_plan(), "2025-12-01T07:00")
    short = msgspec.structs.replace(made, text="All is **well**.", plain="All is well.")
    post(DINGTALK, short)
    assert wire.body["markdown"]["text"].endswith("All is **well**.")
    assert wire.body["markdown"]["title"] == made.subject


@pytest.mark.parametrize("url", [SLACK, TEAMS, FEISHU, LARK, DINGTALK, WECOM])
def test_a_refusal_is_told_with_its_status_and_no_secret(wire, url, caplog):
    caplog.set_level(logging.DEBUG)
    wire.status = 404
    with pytest.raises(SendError, match="chat answered 404") as told:
        post(url, content.report_content(sample_plan(), "2025-12-01T07:00"))
    assert told.value.everyone
    for secret in re.findall(r"[\w-]*SECRET[\w-]*|TIiajkdnlazkcOXrIdevi7FQ|123456789012", url):
        assert secret not in f"{told.value}{caplog.text}"


@pytest.mark.parametrize("url", ["", "nonsense-SECRET", "https://example.org/SECRET", "slack://x"])
def test_what_is_no_channel_is_told_by_its_name_alone(url, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DeliveryError, match=r"channels_file, team: expected the URL") as told:
        channels.opened("team", url)
    assert "SECRET" not in f"{told.value}{caplog.text}"


def test_a_fault_inside_a_service_is_a_message_not_sent(monkeypatch):
    chat = channels.opened("chat", SLACK)
    monkeypatch.setattr(chat, "send", lambda **_given: 1 / 0)
    with pytest.raises(SendError, match=r"chat failed \(ZeroDivisionError\)"):
        channels.post(chat, "chat", content.report_content(sample_plan(), "2025-12-01T07:00"))


EVIL = "<!channel> <at user_id='all'></at> [x](http://evil.example)"


@pytest.mark.parametrize("url", [SLACK, f"{SLACK}?blocks=yes", TEAMS, FEISHU, LARK, DINGTALK])
def test_a_hostile_name_calls_nobody_makes_no_link_and_loads_nothing(wire, url):
    evil = msgspec.structs.replace(verdict(IDLE, "finding"), workload=workload(IDLE, team=""))
    named = msgspec.structs.replace(evil.workload, name=EVIL, container=EVIL)
    found = finding(
        IDLE, "idle", 1.0, message=Message(key="idle.from_start", params={"gpus": 1, "idle": 60.0})
    )
    made = content.notice_content(
        msgspec.structs.replace(evil, workload=named, primary=found),
        found,
        content.Occasion(
            kind=content.IDLE, period="2025-11-30T22:00", since=END - 7200, made_at=END
        ),
        public_url="",
    )
    post(url, made)
    ((_url, data),) = wire.sent
    text = json.dumps(json.loads(data), ensure_ascii=False)
    assert "evil.example" in text
    assert "<!channel>" not in text.replace("\\\\<!channel", "")
    assert "<at" not in text.replace("\\\\<at", "")
    assert " [x](" not in text or "slack" in url  # Slack writes links otherwise
    assert "github.com" not in text
