"""Ways out of the outbox are worked on side by side: one that hangs delays no other."""

import threading
import time

import pytest

from gputailor_agent.reports.delivery import channels, webhook
from gputailor_agent.schedule import sending
from gputailor_agent.store import Outbox, Store
from tests.agent.schedule.test_delivering import delivery, keep, letters, run
from tests.agent.schedule.test_delivering_channels import NOWHERE, chats, states
from tests.agent.schedule.test_noticing import T0
from tests.fakes.hooks import Hook


@pytest.fixture
def store():
    with Store.open() as opened:
        yield opened


class Hanging(Hook):
    """Keeps what is posted waiting until ``go`` is set."""

    def __init__(self):
        super().__init__()
        self.go, self.came = threading.Event(), threading.Event()

    def finish_request(self, request, client_address):
        self.came.set()
        self.go.wait(20)
        super().finish_request(request, client_address)


@pytest.fixture
def hanging():
    with Hanging() as hook:
        yield hook


@pytest.fixture
def quick(monkeypatch):
    channels.opened("one", "json://127.0.0.1")  # the library is there before time counts
    monkeypatch.setattr(sending, "ROUND_SECONDS", 0.5)


@pytest.fixture
def agent_of(store, hanging):
    """A function that makes an agent on the store; what it has under way ends before the store."""
    made = []

    def make(**more):
        made.append(delivery(store, **NOWHERE, **more))
        return made[-1]

    yield make
    hanging.go.set()
    for agent in made:
        agent.release()


def waited(condition, seconds=10.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_receiver_that_hangs_delays_no_other_neither_in_its_round_nor_in_later_ones(
    store, hanging, quick, agent_of
):
    with Hook() as fine:
        agent = agent_of(webhook_url=hanging.url, channels=chats(fine=fine))
        name = agent.settings.webhook_name
        keep(store, agent, "p1")
        assert run(agent, T0) == 1
        keep(store, agent, "p2", T0 + 15)
        assert run(agent, T0 + 15) == 1
        assert len(fine.got) == 2
        assert {one.recipient for one in letters(store) if one.state != "sent"} == {name}
        hanging.go.set()
        waited(lambda: len(hanging.got) == 1)
        waited(lambda: run(agent, T0 + 30) or len(hanging.got) == 2)
        waited(lambda: run(agent, T0 + 45) or set(states(store).values()) == {"sent"})
    assert [body["period"] for _headers, body in hanging.got] == ["p1", "p2"]


def test_a_message_that_hangs_is_not_begun_again_meanwhile(store, hanging, quick, agent_of):
    agent = agent_of(webhook_url=hanging.url)
    keep(store, agent)
    for later in (0, 15, 3600):
        assert run(agent, T0 + later) == 0
    (letter,) = letters(store)
    assert (letter.state, letter.attempts) == ("sending", 1)


def test_while_a_message_hangs_no_other_agent_takes_the_right_to_send(
    store, hanging, quick, agent_of
):
    agent, other = (agent_of(webhook_url=hanging.url, holder=name) for name in ("one", "two"))
    keep(store, agent)
    run(agent, T0)
    run(agent, T0 + 300)
    assert run(other, T0 + 800) == 0
    assert letters(store)[0].attempts == 1


def test_the_order_of_a_receivers_letters_is_kept(store, agent_of):
    with Hook() as hook, Hook() as other:
        agent = agent_of(webhook_url=hook.url, channels=chats(other=other))
        for number in range(6):
            keep(store, agent, f"p{number}", T0 + number)
        assert run(agent, T0 + 60) == 12
    periods = [body["period"] for _headers, body in hook.got]
    assert periods == [f"p{number}" for number in range(6)]


def test_more_receivers_than_are_worked_on_at_a_time_all_get_theirs(store, monkeypatch, agent_of):
    monkeypatch.setattr(sending, "WAYS_AT_ONCE", 2)
    hooks = {f"chat{number}": Hook() for number in range(7)}
    for hook in hooks.values():
        hook.__enter__()
    agent = agent_of(channels=chats(**hooks))
    keep(store, agent)
    assert run(agent, T0) == 7
    for hook in hooks.values():
        hook.__exit__()
        assert len(hook.got) == 1


def test_a_fault_in_one_way_costs_the_others_nothing_and_is_told(
    store, monkeypatch, caplog, agent_of
):
    def break_down(*_, **__):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(webhook, "post", break_down)
    with Hook() as fine:
        more = {"webhook_url": "https://hooks.example.org/", "channels": chats(fine=fine)}
        counted = []
        agent = agent_of(**more, counted=counted)
        keep(store, agent)
        run(agent, T0)
        assert len(fine.got) == 1
    assert states(store)["fine"] == "sent"
    assert "no such thing" in caplog.text
    assert ("deliver", "failed") in counted
    assert agent.trouble == "no such thing"


def test_giving_the_right_to_send_back_waits_for_what_is_under_way(store, hanging, quick, agent_of):
    agent = agent_of(webhook_url=hanging.url)
    keep(store, agent)
    run(agent, T0)
    agent.stop()
    ending = threading.Thread(target=agent.release)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    hanging.go.set()
    ending.join(10)
    assert {one.state for one in letters(store)} == {"sent"}
    with store.transaction() as tx:
        held = Outbox(tx).hold("test", "next", now=T0 + 1, until=T0 + 2, gone=lambda _: False)
    assert held is not None
