"""Once to each recipient, whatever fails and whenever; one agent at a time."""

from contextlib import contextmanager
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.delivery import mail, webhook
from gputailor_agent.reports.delivery.mail import SendError
from gputailor_agent.reports.delivery.settings import delivery_settings
from gputailor_agent.schedule import holding
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.store import Outbox, Store
from tests.agent.reports.plans import sample_plan
from tests.agent.schedule.test_noticing import T0, idle

PERIOD = "2027-01-11T07:00"
HOOK = "https://hooks.example.org/T0P/SECRET"


class Kill(BaseException):
    """SIGKILL: nothing gets to clean up."""


class Receiver:
    """Takes what is sent in place of the network; ``down`` and ``refuse`` say what fails."""

    def __init__(self, monkeypatch):
        self.ids, self.down, self.refuse, self.kill = [], False, set(), ""
        monkeypatch.setattr(mail, "connected", self.connected)
        monkeypatch.setattr(mail, "send", self.send)
        monkeypatch.setattr(webhook, "post", self.post)

    @contextmanager
    def connected(self, server):
        if self.down:
            raise SendError("no server", everyone=True)
        yield self

    def take(self, recipient, identity):
        if self.kill == "before":
            raise Kill
        if recipient in self.refuse:
            raise SendError("550 no such user", everyone=False)
        self.ids.append((recipient, identity))
        if self.kill == "after":
            raise Kill

    def send(self, session, built, server):
        self.take(str(built["To"]), str(built["Message-ID"]))

    def post(self, url, name, made, identity, **_signing):
        if self.down:
            raise SendError("no server", everyone=True)
        self.take(name, identity)

    @property
    def recipients(self):
        return sorted(recipient for recipient, _ in self.ids)


@pytest.fixture
def receiver(monkeypatch):
    return Receiver(monkeypatch)


@pytest.fixture
def store():
    with Store.open() as opened:
        yield opened


def delivery(store, now=T0, counted=None, **more):
    options = {
        "mail_to": ["a@example.org", "b@example.org"],
        "mail_from": "gpu@example.org",
        "smtp_host": "mail",
    }
    holder = more.pop("holder", "me")
    counted = [] if counted is None else counted
    clock = Clock(now)
    made = Delivery(
        delivery_settings(**(options | more)),
        store,
        "test",
        clock=clock,
        count=lambda job, outcome: counted.append((job, outcome)),
        holder=holder,
    )
    made.at = clock
    return made


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def run(agent, now):
    agent.at.now = now
    return agent.run(now)


def keep(store, agent, period=PERIOD, now=T0, *, plan=None, language="en"):
    with speaking(language):
        put = agent.report(plan or sample_plan(made_at=now), period)
    with store.transaction() as tx:
        put(tx)


def letters(store):
    with store.transaction() as tx:
        return Outbox(tx).letters("test")


def test_a_report_goes_once_to_every_recipient(store, receiver):
    agent = delivery(store, webhook_url=HOOK)
    for _ in range(2):  # made again: nothing is doubled
        keep(store, agent)
    assert run(agent, T0) == 3
    for later in (15, 30, 9000):
        assert run(agent, T0 + later) == 0
    hook = agent.settings.webhook_name
    assert receiver.recipients == ["a@example.org", "b@example.org", hook]
    assert "SECRET" not in str(letters(store))


def test_changed_settings_do_not_send_a_period_again(store, receiver):
    first = delivery(store)
    keep(store, first)
    run(first, T0)
    first.release()
    second = delivery(store, public_url="https://gpu.example.org", holder="later")
    keep(store, second)
    assert run(second, T0 + 60) == 0
    assert len({letter.settings_hash for letter in letters(store)}) == 1


def test_a_new_recipient_gets_what_is_made_again_and_the_others_do_not(store, receiver):
    agent = delivery(store)
    keep(store, agent)
    run(agent, T0)
    more = delivery(store, mail_to=["a@example.org", "c@example.org"])
    keep(store, more)
    assert run(more, T0 + 15) == 1
    assert receiver.recipients[-1] == "c@example.org"


def test_nothing_is_kept_without_a_channel(store):
    agent = Delivery.nowhere(store, "test", lambda: T0)
    keep(store, agent)
    assert (run_plain(agent), letters(store)) == (0, [])


def run_plain(agent):
    return agent.run(T0)


def test_a_server_that_is_away_is_tried_again_later_and_later(store, receiver):
    counted = []
    agent = delivery(store, counted=counted)
    keep(store, agent)
    receiver.down = True
    tries, now = [], T0
    while now < T0 + 3 * 3600:
        before = letters(store)[0].attempts
        run(agent, now)
        if letters(store)[0].attempts > before:
            tries.append(now - T0)
        now += 15
    assert tries == [0, 60, 180, 420, 900, 1860, 3780, 7380]
    assert counted == [("deliver", "failed")] * len(tries)
    receiver.down = False
    assert run(agent, now + 3600) == 2
    assert counted[-1] == ("deliver", "done")


def test_a_refused_recipient_does_not_keep_others_from_theirs(store, receiver):
    agent = delivery(store)
    keep(store, agent)
    receiver.refuse = {"a@example.org"}
    assert run(agent, T0) == 1
    waiting = next(one for one in letters(store) if one.recipient == "a@example.org")
    assert (waiting.state, waiting.reason) == ("waiting", "550 no such user")
    receiver.refuse = set()
    run(agent, T0 + 60)
    assert receiver.recipients == ["a@example.org", "b@example.org"]


def test_what_waited_for_an_agent_that_did_not_run_is_sent_however_late(store, receiver):
    keep(store, delivery(store))
    run(delivery(store), T0 + 20 * 86400)
    assert {one.state for one in letters(store)} == {"sent"}


def test_after_a_week_it_is_given_up_and_says_so(store, receiver, caplog):
    agent = delivery(store)
    keep(store, agent)
    receiver.down = True
    for quarter in range(4 * 8):
        run(agent, T0 + quarter * 6 * 3600)
    assert {one.state for one in letters(store)} == {"given_up"}
    assert "no server" in letters(store)[0].reason
    assert "given up after 29 tries" in caplog.text


def test_a_web_address_that_is_no_longer_set_is_given_up(store, receiver):
    keep(store, delivery(store, webhook_url=HOOK))
    agent = delivery(store, webhook_url="https://other.example.org/x")
    run(agent, T0)
    assert receiver.recipients == ["a@example.org", "b@example.org"]
    assert "no longer in the settings" in next(
        one.reason for one in letters(store) if one.channel == "webhook"
    )


def test_a_second_agent_on_the_store_does_not_send(store, receiver, caplog):
    first, second = delivery(store), delivery(store, holder="second")
    run(first, T0)
    keep(store, first)
    assert run(second, T0 + 1) == 0
    assert "another agent on this store sends for test" in caplog.text
    assert run(first, T0 + 15) == 2


def test_the_second_agent_takes_over_once_the_first_is_silent(store, receiver):
    first, second = delivery(store), delivery(store, holder="second")
    run(first, T0)
    keep(store, first)
    assert run(second, T0 + 61) == 2
    assert run(first, T0 + 62) == 0


def test_an_agent_that_was_overtaken_between_two_mails_sends_no_more(store, receiver):
    first, second = delivery(store), delivery(store, holder="second")
    keep(store, first)
    send = receiver.send

    def slow(session, built, server):
        send(session, built, server)
        receiver.send = send
        first.at.now = T0 + 700  # the machine slept after the first mail
        mail.send = send
        run(second, T0 + 700)

    mail.send = slow
    assert run(first, T0) == 1
    assert [one for one in receiver.recipients if one == "b@example.org"] == ["b@example.org"]


@pytest.mark.parametrize(("moment", "times"), [("before", 1), ("after", 2)])
def test_a_crash_sends_again_only_between_the_servers_answer_and_the_commit(
    store, receiver, moment, times
):
    agent = delivery(store, mail_to=["a@example.org"])
    keep(store, agent)
    receiver.kill = moment
    with pytest.raises(Kill):
        run(agent, T0)
    receiver.kill = ""
    again = delivery(store, mail_to=["a@example.org"])
    run(again, T0 + 15)
    run(again, T0 + 30)
    assert len(receiver.ids) == times
    assert len(set(receiver.ids)) == 1  # the same Message-ID


def test_a_store_that_cannot_be_written_after_sending_sends_nothing_twice(store, receiver):
    agent = delivery(store, mail_to=["a@example.org"])
    keep(store, agent)
    full = [True]

    def refuse(_connection, _cursor, statement, parameters, *_):
        if full[0] and statement.startswith("UPDATE outbox SET state") and "sent" in parameters:
            raise OSError("disk full")

    event.listen(store._engine, "before_cursor_execute", refuse)
    run(agent, T0)
    run(agent, T0 + 15)
    full[0] = False
    run(agent, T0 + 30)
    assert len(receiver.ids) == 1
    assert letters(store)[0].state == "sent"


def test_a_notice_goes_to_whom_the_workload_names_and_once(store, receiver):
    agent = delivery(store)
    for now in (T0, T0 + 300):
        with store.transaction() as tx:
            agent.keep_notices(tx, sample_plan(made_at=now, verdicts=(idle(now, T0 - 7200),)))
        run(agent, now)
    assert receiver.recipients == ["a@example.org", "b@example.org"]
    assert letters(store)[0].scope == "test/idle/team-a/Deployment/old/main"


def test_notices_can_be_turned_off(store):
    agent = delivery(store, notices=False)
    with store.transaction() as tx:
        agent.keep_notices(tx, sample_plan(made_at=T0, verdicts=(idle(T0, T0 - 7200),)))
    assert letters(store) == []


def test_this_process_is_known_to_live_and_one_that_ended_to_be_gone():
    own = holding.own_name()
    place, pid, started = own.partition("@")[0].split("/")
    assert not holding.certainly_gone(own)
    assert holding.certainly_gone(f"{place}/{pid}/{int(started) - 1}")
    assert not holding.certainly_gone(f"elsewhere/{pid}/1")
    assert not holding.certainly_gone("nonsense")


steps = st.lists(
    st.tuples(
        st.sampled_from([1, 15, 60, 700, 4000]),  # seconds until then
        st.sampled_from(["run", "keep", "down", "kill", "second"]),
        st.integers(0, 14),  # at which statement
    ),
    max_size=10,
)


@contextmanager
def killed_at(store, number):
    left = [number]

    def count(*_):
        left[0] -= 1
        if left[0] < 0:
            raise Kill

    for name in ("before_cursor_execute", "commit"):
        event.listen(store._engine, name, count)
    try:
        yield
    except Kill:
        pass
    finally:
        for name in ("before_cursor_execute", "commit"):
            event.remove(store._engine, name, count)


@settings(max_examples=20, deadline=None)
@given(steps)
def test_whatever_dies_every_report_arrives_and_twice_only_after_a_kill(course):
    with (
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory() as folder,
        Store.open(f"{folder}/g.db") as store,
    ):
        receiver, now, kills = Receiver(patch), T0, 0
        agent = delivery(store)
        keep(store, agent, "p0", now)
        for after, what, statement in course:
            now += after
            receiver.down = what == "down"
            if what == "keep":
                keep(store, agent, f"p{now}", now)
            elif what == "kill":
                kills += 1
                agent.at.now = now
                with killed_at(store, statement):
                    agent.run(now)
                agent = delivery(store)
            elif what == "second":
                run(delivery(store, holder="second"), now)
            else:
                run(agent, now)
        receiver.down = False
        for _ in range(3):
            now += 4000
            run(agent, now)
        known = {(one.recipient, one.message_id) for one in letters(store)}
        assert set(receiver.ids) == known
        assert len(receiver.ids) - len(known) <= kills
        assert {one.state for one in letters(store)} == {"sent"}
