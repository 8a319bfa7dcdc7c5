"""The weekly mail arrives once at a real SMTP server over TLS, however often the agent is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputailor_agent.store import Outbox, Store
from tests.fakes.mailbox import PASSWORD, USER, Mailbox

ROOT = Path(__file__).resolve().parents[2]
DAY = 86400.0

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def letters(path):
    with Store.open(path) as store, store.transaction() as tx:
        return Outbox(tx).letters("test")


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("it did not come to pass in time")


@pytest.fixture
def agent(start, tmp_path):
    """A function that starts ``gputailor serve``, told to mail; a report has been due since Monday."""
    path = tmp_path / "agent.db"
    with Store.open(path) as store, store.transaction() as tx:
        tx.mark_period("test/start", "first", at=time.time() - 8 * DAY)

    def begin(box, **more):
        environment = {
            "GPUTAILOR_MAIL_TO": "ops@example.org, boss@example.org",
            "GPUTAILOR_MAIL_FROM": "GPU Tailor <gpu@example.org>",
            "GPUTAILOR_SMTP_HOST": "127.0.0.1",
            "GPUTAILOR_SMTP_PORT": str(box.port),
            "GPUTAILOR_SMTP_TLS": box.tls,
            "GPUTAILOR_SMTP_USERNAME": USER,
            "GPUTAILOR_SMTP_PASSWORD": PASSWORD,
            "GPUTAILOR_SMTP_CA_FILE": box.ca_file,
            "GPUTAILOR_PUBLIC_URL": "https://gpu.example.org",
            **more,
        }
        return start(
            "gputailor_agent.cli.entry",
            *("serve", "--cluster", "test", "--target", "127.0.0.1:9", "--listen", "127.0.0.1:0"),
            *("--store", f"sqlite:///{path}", "--scrape-seconds", "30"),
            env=os.environ | environment,
        )

    begin.path = path
    return begin


def test_killed_before_sending_and_after_its_commit_the_mail_arrives_once(agent, tmp_path):
    with Mailbox(tmp_path / "tls", "starttls") as box:
        process = agent(box)
        wait_for(lambda: len(letters(agent.path)) == 2)
        process.kill()
        assert box.mails == []
        assert {one.state for one in letters(agent.path)} == {"waiting"}

        process = agent(box)
        wait_for(lambda: {one.state for one in letters(agent.path)} == {"sent"})
        process.kill()

        process = agent(box)
        process.url()
        time.sleep(17)  # one look into the outbox, at least
        assert process.stop() == 0
        assert PASSWORD not in process.output

    assert sorted(str(mail["To"]) for mail in box.mails) == ["boss@example.org", "ops@example.org"]
    assert all(box.tls_seen)
    first = box.mails[0]
    assert "GPU report test, 14 days to " in first["Subject"]
    kinds = [part.get_content_type() for part in first.walk() if not part.is_multipart()]
    assert kinds == ["text/plain", "text/html", "application/json"]
    attached = next(first.iter_attachments())
    assert json.loads(attached.get_content())["plan"]["cluster"] == "test"


SENDER = """
import os, signal, sys
from gputailor_agent.reports.delivery import mail
from gputailor_agent.reports.delivery.settings import delivery_settings
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.store import Outbox, Store
from tests.agent.reports.plans import sample_plan
path, port, ca, moment, now = sys.argv[1:4] + sys.argv[4:5] + [float(sys.argv[5])]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "before":
    mail.send = die
if moment == "between":
    Outbox.sent = die
settings = delivery_settings(
    mail_to=["ops@example.org"], mail_from="gpu@example.org", smtp_host="127.0.0.1",
    smtp_port=int(port), smtp_tls="tls", smtp_username="agent", smtp_password="s3cret-pass",
    smtp_ca_file=ca,
)
with Store.open(path) as store:
    agent = Delivery(settings, store, "test", clock=lambda: now)
    with store.transaction() as tx:
        agent.report(sample_plan(made_at=now), "2027-01-11T07:00")(tx)
    agent.run(now)
    if moment == "after":
        die()
"""


def send(box, path, moment, now):
    command = [
        sys.executable,
        "-c",
        SENDER,
        str(path),
        str(box.port),
        box.ca_file,
        moment,
        str(now),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=60).returncode


@pytest.mark.parametrize(
    ("moments", "arrivals"),
    [
        (("before", "after", "never"), 1),  # before the server had it, and after our commit
        (("between", "never"), 2),  # the server has it, we could not note it
    ],
)
def test_only_a_kill_between_the_servers_answer_and_the_commit_sends_again(
    tmp_path, moments, arrivals
):
    with Mailbox(tmp_path / "tls", "tls") as box:
        for number, moment in enumerate(moments):
            ended = send(box, tmp_path / "g.db", moment, 1_800_000_000.0 + 5 * number)
            assert ended == (0 if moment == "never" else -signal.SIGKILL)
    assert len(box.mails) == arrivals
    assert len({str(mail["Message-ID"]) for mail in box.mails}) == 1
    assert [one.state for one in letters(tmp_path / "g.db")] == ["sent"]
