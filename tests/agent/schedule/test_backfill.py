"""The agent that reads a server's history hourly instead of scraping."""

import pytest

from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.schedule.backfill import Backfill, settled_end
from gputailor_agent.sources.prometheus import PrometheusError
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, service_of

HOUR = 3600
MONDAY = T0 + 3 * 86400 + 7 * HOUR  # 2027-01-18 07:00 UTC


class Server:
    """What ``fill_store`` does with a server; ``fault`` is raised, ``problems`` are told."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, float]] = []
        self.fault: Exception | None = None
        self.problems: list[str] = []

    def __call__(self, start: float, end: float, _store: Store) -> list[str]:
        self.asked.append((start, end))
        if self.fault is not None:
            raise self.fault
        return self.problems


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def service(tmp_path, server):
    exporter = Exporter([Job(lambda _: 0.5, T0)], T0)
    settings = ServiceSettings(cluster="c1", window_days=2)
    with Store.open(tmp_path / "g.db") as store:
        yield service_of(store, exporter, T0, source=None, settings=settings, fill=server)


def test_the_last_day_is_asked_for_before_the_first_plan(service, server):
    now = T0 + 600
    assert service.run_due(now)[0] == "history"
    assert server.asked == [(T0 - 86400, now)]
    assert service.not_ready() == ""
    assert (
        "history is read back to 2027-01-14 00:00 UTC so far" in service.latest_plan().problems[0]
    )


class Clock:
    """Seconds that pass with every look."""

    def __init__(self, each: float) -> None:
        self.each, self.now = each, 0.0

    def __call__(self) -> float:
        self.now += self.each
        return self.now


def reading(server, days, goes, *, each=0.0):
    """How far back each call asked, in days, in so many goes of a back-fill."""
    backfill = Backfill(server, None, Clock(each))  # type: ignore[arg-type]
    for _ in range(goes):
        backfill.run(T0 - days * 86400, T0 + 600)
    return [(T0 - start) / 86400 for start, _ in server.asked], backfill


def test_the_next_go_walks_back_day_by_day(server):
    asked, backfill = reading(server, 4, 2)
    assert asked == [1, 1, 2, 3, 4]
    assert backfill.problems == ()


def test_a_go_begins_no_day_more_when_its_time_is_over(server):
    asked, backfill = reading(server, 14, 2, each=50.0)
    assert asked == [1, 1, 2, 3]
    assert "so far, older hours follow" in backfill.problems[0]


def test_trouble_with_older_days_leaves_the_last_day_in_use(server):
    def fill(start, end, store):
        if start < T0 - 86400:
            raise PrometheusError("http://p did not answer within 60 s")
        return server(start, end, store)

    backfill = Backfill(fill, None)  # type: ignore[arg-type]
    backfill.run(T0 - 3 * 86400, T0 + 600)
    backfill.run(T0 - 3 * 86400, T0 + 600)
    assert backfill.end(T0 + 600) == T0
    assert "did not answer within 60 s" in backfill.problems[0]


def test_a_window_of_less_than_a_day_is_read_at_once(server):
    asked, backfill = reading(server, 0.5, 1)
    assert asked == [0.5]
    assert backfill.problems == ()


def test_a_new_hour_is_read_as_soon_as_it_is_settled(service, server):
    service.run_due(T0 + HOUR - 60)
    before = len(server.asked)
    assert "history" not in service.run_due(T0 + HOUR)
    assert "history" in service.run_due(T0 + HOUR + 120)
    assert len(server.asked) > before


def test_a_plan_looks_up_to_the_last_hour_that_was_read_and_not_beyond(service, server):
    service.run_due(T0 + HOUR + 600)
    assert service.latest_plan().window.end == T0 + HOUR
    server.fault = PrometheusError("http://p cannot be reached")
    service.run_due(T0 + 5 * HOUR)
    assert service.latest_plan().window.end == T0 + HOUR


def test_a_plan_says_when_the_server_could_not_be_read(service, server):
    server.fault = PrometheusError("http://p cannot be reached")
    service.run_due(T0 + 600)
    (problem,) = [one for one in service.latest_plan().problems if "cannot be reached" in one]
    assert problem.startswith("usage is as last known")
    server.fault = None
    service.run_due(T0 + 4000)
    assert not [one for one in service.latest_plan().problems if "last known" in one]


def test_a_plan_says_how_far_history_came(service, server):
    server.problems = ["history was read up to 2027-01-14 and then stopped"]
    service.run_due(T0 + 600)
    assert server.problems[0] in service.latest_plan().problems


def test_the_weekly_report_waits_for_its_last_hour(service):
    assert "report" not in service.run_due(MONDAY + 30)
    assert "report" in service.run_due(MONDAY + 150)


def test_a_report_is_made_in_the_end_though_the_server_is_gone(service, server):
    server.fault = PrometheusError("gone")
    assert "report" not in service.run_due(MONDAY + HOUR)
    assert "report" in service.run_due(MONDAY + 7 * HOUR)


def test_an_hour_is_settled_two_minutes_after_its_end():
    assert settled_end(T0 + HOUR + 119) == T0
    assert settled_end(T0 + HOUR + 120) == T0 + HOUR


def test_before_anything_was_read_a_plan_looks_up_to_what_could_be(server):
    assert Backfill(server, None).end(T0 + 600) == T0  # type: ignore[arg-type]
