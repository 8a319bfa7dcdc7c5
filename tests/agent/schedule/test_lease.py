"""One agent per cluster and store: a second one refuses, an overtaken one writes nothing."""

import sqlite3
from contextlib import closing

import pytest

from gputailor_agent.schedule import Lease, LeaseError
from gputailor_agent.schedule.lease import LEASE_SECONDS
from gputailor_agent.store import Store, opening
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, service_of

ELSEWHERE = "other-boot:pid:[1]/7/123@node-a"


class Time:
    """A wall clock that a test sets, and a monotonic one that only its pauses move."""

    def __init__(self) -> None:
        self.wall, self.passed = float(T0), 0.0
        self.meanwhile = lambda: None

    def pause(self, seconds: float) -> None:
        self.wall += seconds
        self.passed += seconds
        self.meanwhile()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "g.db"


@pytest.fixture
def agent(path, time):
    """A function that opens the store as another process would, with a lease not taken yet."""
    opened = []

    def begin(holder: str, cluster: str = "c1") -> Lease:
        store = Store.open(path)
        opened.append(store)
        lease = Lease(store, cluster, clock=lambda: time.wall, holder=holder)
        lease.store = store
        return lease

    yield begin
    for store in opened:
        store.close()


def take(lease, time):
    lease.take(pause=time.pause, passed=lambda: time.passed)


def beat(lease):
    with lease.store.transaction() as tx:
        lease.beat(tx)


def write(lease):
    with lease.store.transaction() as tx:
        tx.put_checkpoint("c1/rollup", b"mine")


def test_the_first_agent_takes_the_store_at_once(agent, time):
    take(agent(ELSEWHERE), time)
    assert time.passed == 0


def test_a_second_agent_refuses_with_words_when_the_first_gives_a_sign_of_life(agent, time):
    first, second = agent(ELSEWHERE), agent("second")
    take(first, time)
    time.meanwhile = lambda: beat(first) if time.passed == 10 else None
    with pytest.raises(LeaseError, match=r"process 7 on node-a.*--store or --cluster"):
        take(second, time)
    assert time.passed == 10
    write(first)


def test_agents_of_two_clusters_share_a_store(agent, time):
    take(agent(ELSEWHERE), time)
    take(agent("second", cluster="c2"), time)
    assert time.passed == 0


def test_one_that_was_killed_elsewhere_is_waited_for_no_longer_than_its_lease(agent, time):
    take(agent(ELSEWHERE), time)
    second = agent("second")
    take(second, time)
    assert LEASE_SECONDS <= time.passed <= LEASE_SECONDS + 1
    write(second)


def test_one_that_was_killed_on_this_machine_is_not_waited_for(agent, time):
    killed = Lease(agent(ELSEWHERE).store, "c1", clock=lambda: time.wall)
    own = killed._holder.replace("@", "0@")  # a process that began at another time
    take(agent(own), time)
    take(agent("second"), time)
    assert time.passed == 0


def test_one_that_ended_cleanly_is_not_waited_for(agent, time):
    first = agent(ELSEWHERE)
    take(first, time)
    first.release()
    take(agent("second"), time)
    assert time.passed == 0


def test_a_clock_that_runs_a_day_ahead_keeps_nobody_out_for_a_day(agent, time):
    time.wall += 86_400
    take(agent(ELSEWHERE), time)
    time.wall -= 86_400
    take(agent("second"), time)
    assert time.passed <= LEASE_SECONDS + 1


def test_a_clock_that_runs_behind_lets_nobody_in_beside_a_living_agent(agent, time):
    first = agent(ELSEWHERE)
    take(first, time)
    second = agent("second")
    second._clock = lambda: time.wall + 120  # by which the lease is over
    time.meanwhile = lambda: beat(first)
    with pytest.raises(LeaseError, match="gave a sign of life"):
        take(second, time)


def test_of_two_that_wait_for_a_killed_one_only_one_takes_over(agent, time):
    take(agent(ELSEWHERE), time)
    second, third = agent("second"), agent("third")
    time.meanwhile = lambda: None

    def meanwhile():
        if time.passed == LEASE_SECONDS - 1:
            time.meanwhile = lambda: None
            with third.store.transaction() as tx:
                from gputailor_agent.store import Outbox  # noqa: PLC0415

                until = time.wall + LEASE_SECONDS
                Outbox(tx).hold("c1", "third", now=time.wall, until=until, gone=lambda _: True)

    time.meanwhile = meanwhile
    with pytest.raises(LeaseError, match="another agent works"):
        take(second, time)


def test_an_agent_that_went_on_after_another_took_over_writes_nothing(agent, time):
    told = []
    first = agent(ELSEWHERE)
    first._tell_lost = lambda: told.append("lost")
    take(first, time)
    write(first)
    second = agent("second")
    take(second, time)
    for _ in range(2):
        with pytest.raises(LeaseError, match="taken over"):
            write(first)
        with pytest.raises(LeaseError, match="taken over"):
            beat(first)
    assert first.lost
    assert told == ["lost"]
    first.release()
    assert not second.lost
    write(second)


def test_a_service_that_was_overtaken_keeps_no_row_and_says_why_it_is_not_ready(agent, time):
    first, second = agent(ELSEWHERE), agent("second")
    take(first, time)
    exporter = Exporter([Job(lambda _: 0.5, T0 + 5)], T0)
    source = ExporterSource(exporter)
    service = service_of(first.store, exporter, T0, lease=first, source=source)
    assert service.tick_scrape(T0 + 60)
    service.run_due(T0 + 60)
    before = list(second.store.usage("c1", 0, 1e11))
    take(second, time)
    assert not service.tick_scrape(T0 + 3700)
    service.run_due(T0 + 3700)
    assert not service.flush(T0 + 3700)
    service.stop()
    assert list(second.store.usage("c1", 0, 1e11)) == before
    assert second.store.period("c1/rollup", "2027-01-15T00") is None
    assert service.overtaken
    assert service.not_ready() == "another agent has taken over this store"


@pytest.fixture
def locked(path, monkeypatch):
    """A store that another process keeps in the middle of a transaction; how to end that."""
    Store.open(path).close()
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def test_a_store_that_is_locked_is_said_in_words_and_waited_for(locked, agent, time, caplog):
    second = agent("second")
    time.meanwhile = lambda: locked.execute("ROLLBACK") if time.passed == 20 else None
    with caplog.at_level("WARNING"):
        take(second, time)
    assert time.passed == 20
    write(second)
    (told,) = [one.getMessage() for one in caplog.records]
    assert "holds the store in the middle of writing and does not go on" in told


def test_a_store_that_stays_locked_is_given_up_with_words(locked, agent, time):
    with pytest.raises(LeaseError, match=r"kill -CONT.*waited 300 s and gives up"):
        take(agent("second"), time)


def test_who_froze_in_the_middle_of_writing_is_named(path, agent, time, monkeypatch):
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0)
    take(agent(ELSEWHERE), time)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LeaseError, match="the last was process 7 on node-a"):
            take(agent("second"), time)
