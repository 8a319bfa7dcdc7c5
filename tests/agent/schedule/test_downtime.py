"""The agent was away for days: what can still be known is counted, and what was missed is said."""

import json

import pytest

from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, service_of

HOUR, DAY = 3600, 86_400
AWAY = 7 * DAY
BACK = T0 + 2 * HOUR + AWAY


@pytest.fixture(scope="module")
def after_a_week():
    """A store in which an agent worked two hours, and one hour after a week away."""
    lives = Job(lambda _: 0.5, T0 + 5)
    ended = Job(lambda _: 1.0, T0 + 5, T0 + DAY, pod="ended", pod_uid="u2", gpu_uuid="GPU-9")
    exporter = Exporter([lives, ended], T0)
    source = ExporterSource(exporter)
    with Store.open() as store:
        first = service_of(store, exporter, T0, source=source)
        for now in range(T0, T0 + 2 * HOUR, 300):
            assert first.tick_scrape(now)
        first.run_due(T0 + 2 * HOUR)
        first.stop()
        second = service_of(store, exporter, BACK, source=source)
        for now in range(BACK, BACK + HOUR + 1, 300):
            assert second.tick_scrape(now)
        tried = second.run_due(BACK + HOUR)
        second.flush(BACK + HOUR)
        yield store, second, tried


def seconds(store, pod):
    rows = [row for row in store.usage("c1", T0, BACK + DAY) if row.key.pod == pod]
    assert all(row.allocated_seconds <= HOUR + 1 / 512 for row in rows)
    assert len({row.key.hour for row in rows}) == len(rows)
    return sum(row.allocated_seconds for row in rows), sum(row.spread_seconds for row in rows)


def test_after_a_week_away_the_counters_tell_what_a_living_pod_used_marked_as_spread(after_a_week):
    held, spread = seconds(after_a_week[0], "train-0")
    assert held == pytest.approx(BACK + HOUR - T0 - 5, abs=1)
    assert AWAY - HOUR <= spread <= AWAY + HOUR


def test_what_a_pod_that_ended_meanwhile_used_after_the_last_look_is_missing(after_a_week):
    held, _ = seconds(after_a_week[0], "ended")
    assert held <= 2 * HOUR


def test_the_report_of_the_week_is_made_once_late_and_says_so(after_a_week):
    store, service, tried = after_a_week
    assert "report" in tried
    (report,) = store.reports("c1")
    problems = json.loads(store.report("c1", report.period)[0])["plan"]["problems"]
    assert any("late" in problem for problem in problems)
    assert "report" not in service.run_due(BACK + HOUR + 600)


def test_the_days_that_went_by_are_summed_up_and_sound(after_a_week):
    store, service, _ = after_a_week
    service.run_due(BACK + 2 * HOUR)
    checked = store.check()
    assert checked.problems == ()
    (held,) = checked.clusters
    assert held.days >= AWAY // DAY
