"""The agent sums days up by itself."""

from gputailor_agent.store import Store, tables
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import service_of
from tests.agent.store.database_parts import count

MIDNIGHT = 1_800_000_000 // 86400 * 86400


def test_a_running_agent_sums_up_the_day_that_is_over_once_and_goes_on(store):
    exporter = Exporter([Job(lambda _: 0.5, MIDNIGHT + 60)], MIDNIGHT)
    service = service_of(store, exporter, float(MIDNIGHT))
    for at in range(MIDNIGHT, MIDNIGHT + 27 * 3600, 1800):
        exporter.advance(at)
        service.tick_scrape(float(at))
        service.run_due(float(at))
    assert count(store, tables.usage_daily) == 1
    assert store.period_done("c1/compact", "2027-01-16T02")
    rows = sorted(store.usage("c1", MIDNIGHT, MIDNIGHT + 27 * 3600), key=lambda row: row.key.hour)
    assert [row.key.hour for row in rows] == list(range(MIDNIGHT, MIDNIGHT + 27 * 3600, 3600))
    assert sum(row.allocated_seconds for row in rows) == 26.5 * 3600 - 60


def test_an_agent_that_was_down_for_days_sums_up_all_of_them(tmp_path):
    with Store.open(tmp_path / "g.db") as store:
        exporter = Exporter([Job(lambda _: 0.5, MIDNIGHT + 60)], MIDNIGHT)
        service = service_of(store, exporter, float(MIDNIGHT))
        for day in (0, 3):
            at = MIDNIGHT + day * 86400 + 3 * 3600
            exporter.advance(at)
            service.tick_scrape(float(at))
            service.run_due(float(at))
        assert count(store, tables.usage_daily) == 3
