"""A store that goes away and comes back: one line in the log, and well again at the next tick."""

import logging
from datetime import UTC, datetime

import pytest

from gputailor_agent.schedule.jobs.heartbeat import beat
from gputailor_agent.schedule.saying import Saying
from gputailor_agent.schedule.timing import build_scheduler
from gputailor_agent.schedule.troubles import Troubles, cause_of
from gputailor_agent.store import Store, StoreError, StoreLockedError
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, service_of

HOUR = 3600


@pytest.fixture
def said(caplog):
    """A function: lines of the log so far, each with whether a trace came with it."""
    caplog.set_level(logging.INFO)

    def lines():
        told = [(one.levelname, one.getMessage(), bool(one.exc_info)) for one in caplog.records]
        caplog.clear()
        return told

    return lines


def away(text="its file was deleted or moved while it was open"):
    return StoreError(f"the store g.db cannot be used: {text}")


def test_what_fails_is_said_once_until_it_changes_and_once_when_it_works(said):
    saying = Saying()
    for at in range(0, 600, 30):
        saying.failed("scrape", at, away())
        saying.failed("heartbeat", at, away("connection refused"))  # the same: out of reach
    ((level, told, trace),) = said()
    assert (level, trace) == ("ERROR", False)
    assert told.startswith("scrape failed: the store g.db cannot be used: its file was deleted")
    saying.failed("scrape", 600, away("database or disk is full"))
    assert [line[1][:30] for line in said()] == ["scrape failed: the store g.db "]
    saying.well("scrape", 650)  # what the heartbeat fails for goes on
    assert said() == [("INFO", "the store works again, after 50 s", False)]
    saying.well("heartbeat", 660)
    assert said() == [("INFO", "the store works again, after 11 min", False)]
    saying.well("heartbeat", 690)
    assert said() == []


def test_a_fault_of_ours_comes_with_its_trace_once(said):
    saying = Saying()
    for at in (0, 30, 60):
        saying.failed("report", at, ValueError("no such thing"))
    assert said() == [("ERROR", "report failed", True)]
    saying.failed("report", 90, ValueError("another thing"))
    assert said() == [("ERROR", "report failed", True)]


def test_causes_are_told_apart_by_what_the_store_says():
    assert cause_of(away("database is locked")) == cause_of(StoreLockedError("x: lock is locked"))
    assert cause_of(away("quota of weeks")) != cause_of(away("quota of days"))


def test_a_trouble_shows_no_password_and_whether_the_store_made_it():
    troubles = Troubles()
    troubles.begin("scrape", 0.0, "GET http://u:hunter2@h/m?token=hunter2 failed", store=True)
    assert troubles.of_store() == {"scrape"}
    assert "hunter2" not in troubles.told()[0]
    troubles.begin("scrape", 0.0, "something else")
    assert troubles.of_store() == set()


class Agent:
    """An agent whose clock a test sets, ticked as its scheduler would."""

    def __init__(self, store):
        self.now = T0 + HOUR - 600
        self.service = service_of(store, Exporter([Job(lambda _: 0.5, T0 + 5)], T0), T0)
        self.service.parts.clock = lambda: self.now

    def tick(self, seconds=60):
        """A minute of heartbeats, scrapes and due work."""
        for _ in range(2):
            self.now += seconds / 2
            self.service.tick_scrape(self.now)
            beat(self.service.parts, self.now)
        self.service._tick(self.now)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "g.db"


@pytest.fixture
def agent(path):
    with Store.open(path) as store:
        yield Agent(store)


def test_a_store_that_is_moved_away_and_back_is_told_in_two_lines(agent, path, said):
    agent.tick()
    said()
    path.rename(path.with_name("away"))
    for _ in range(40):  # two hours: due work of two of them, every job failing
        agent.tick(180)
    (line,) = said()
    assert line[0] == "ERROR"
    assert "put it back" in line[1]
    assert "Traceback" not in line[1]
    assert not line[2]
    assert agent.service.troubles()
    path.with_name("away").rename(path)
    agent.tick()
    (line,) = said()
    assert line[1].startswith("the store works again, after 1 h 59 min")


def test_within_a_minute_of_the_stores_return_nothing_is_failing(agent, path):
    """Also what comes once an hour, such as compact: the store was at fault, not the job."""
    agent.tick()
    path.rename(path.with_name("away"))
    for _ in range(24):
        agent.tick(180)
    path.with_name("away").rename(path)
    agent.tick()
    assert agent.service.troubles() == []
    assert [task.job for task in agent.service.tasks() if task.outcome == "failed"] == []


def test_a_job_that_the_store_made_fail_is_woken_long_before_its_own_time(agent):
    service = agent.service
    service._scheduler = build_scheduler(service._wakes(), service.telemetry.ran)
    service._scheduler.start(paused=True)
    try:
        idle = service._scheduler.get_job("idle")
        for trouble, seconds in ((None, 200), (away(), 0)):
            idle.modify(next_run_time=datetime.fromtimestamp(agent.now + 200, UTC))
            if trouble is not None:
                service.telemetry.failed("idle", agent.now, trouble)
            service.mind_clock()
            assert idle.next_run_time.timestamp() == agent.now + seconds
    finally:
        service._scheduler.shutdown(wait=True)
        service._scheduler = None


def test_a_plan_that_the_store_could_not_take_is_made_at_the_next_tick(agent, path):
    """Not after minutes that double with each try: the store was at fault, not the plan."""
    agent.tick()
    path.rename(path.with_name("away"))
    for _ in range(40):
        agent.tick(360)
    path.with_name("away").rename(path)
    agent.tick()
    newest = agent.service.latest_plan()
    assert newest is not None
    assert newest.made_at == agent.now


def test_a_round_that_comes_while_another_is_under_way_is_left_out(agent):
    """Waiting for it, it would date what exporters tell by a time before that."""
    service, measuring = agent.service, agent.service.parts.measuring
    assert service.tick_scrape(agent.now)
    with measuring._scraping:
        assert not service.tick_scrape(agent.now + 30)
    assert service.last_round().at == agent.now
    assert service.tick_scrape(agent.now + 60)
