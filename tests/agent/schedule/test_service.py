import threading
import time
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import msgspec
import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from prometheus_client import generate_latest

from gputailor_agent import metrics
from gputailor_agent.schedule import ServiceSettings, Telemetry
from gputailor_agent.store import StoreError
from gputailor_agent.store.writing import Transaction
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, service_of

MONDAY = T0 + 3 * 86400 + 7 * 3600  # 2027-01-18 07:00 UTC


def scrape(service, start, until, every=30):
    for now in range(start, until + 1, every):
        assert service.tick_scrape(now)


def usage(store):
    return sorted(store.usage("c1", 0, 1e11), key=lambda row: row.key)


def value(service, family, **labels):
    return service.registry.get_sample_value(family.name, labels)


def test_the_first_tick_rolls_up_and_recommends_and_owes_no_report(store, exporter):
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 600)
    assert service.not_ready() == "the first plan is not made yet"
    assert service.run_due(T0 + 600) == ["rollup", "recommend", "ledger", "compact"]
    assert service.not_ready() == ""
    [row] = usage(store)
    assert row.allocated_seconds == 595
    assert [v.workload.namespace for v in service.latest_plan().verdicts] == ["team-a"]
    assert store.latest_plan("c1") == service.latest_plan()


def test_an_hour_is_rolled_up_once_even_by_a_new_process(store, exporter):
    service = service_of(store, exporter, T0)
    service.run_due(T0 + 10)
    assert "rollup" not in service.run_due(T0 + 3000)
    assert "rollup" not in service_of(store, exporter, T0).run_due(T0 + 3300)
    assert service.run_due(T0 + 3601)[:2] == ["rollup", "recommend"]


def plan_times(service, start, end, every=60):
    return [
        now - start for now in range(start, end + 1, every) if "recommend" in service.run_due(now)
    ]


def test_plans_follow_soon_at_first_and_then_every_five_minutes(store, exporter):
    service = service_of(store, exporter, T0)
    assert plan_times(service, T0, T0 + 1500) == [0, 60, 120, 240, 480, 780, 1080, 1380]


def test_a_plan_holds_the_open_hour(store, exporter):
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 60)
    service.run_due(T0 + 60)
    [row] = usage(store)
    assert row.allocated_seconds == 55
    assert service.latest_plan().verdicts[0].coverage == pytest.approx(1, abs=0.01)


def test_a_new_process_waits_as_long_for_its_plan_as_the_old_one(store, exporter):
    service_of(store, exporter, T0).run_due(T0 + 1000)
    again = service_of(store, exporter, T0 + 1100)
    assert again.run_due(T0 + 1100) == []
    assert again.run_due(T0 + 1300) == ["recommend"]


def test_plans_that_take_long_are_rare(store, exporter):
    service = service_of(store, exporter, T0)
    service.run_due(T0)
    service.parts.judging.seconds = 60.0
    assert plan_times(service, T0 + 60, T0 + 1140) == []
    assert service.run_due(T0 + 1200) == ["recommend"]


def test_a_plan_that_failed_is_tried_again_ever_more_slowly(store, exporter, monkeypatch):
    service = service_of(store, exporter, T0)
    service.run_due(T0 + 600)
    with monkeypatch.context() as patched:
        patched.setattr(service.parts.judging, "assess", lambda *_: 1 / 0)
        assert plan_times(service, T0 + 900, T0 + 1900) == [0, 60, 180, 420, 900]
    assert service.latest_plan().made_at == T0 + 600


def test_a_new_process_has_the_last_plan_at_once(store, exporter):
    service_of(store, exporter, T0).run_due(T0 + 10)
    again = service_of(store, exporter, T0)
    assert again.not_ready() == ""
    assert again.latest_plan().made_at == T0 + 10


def reports(store):
    return [(kept.period, kept.made_at, kept.window.end) for kept in store.reports("c1")]


def test_a_report_is_made_once_a_week_and_kept(store, exporter):
    service = service_of(store, exporter, T0)
    for now in range(T0, MONDAY + 7 * 86400 + 30000, 6 * 3600):
        service.run_due(now)
    assert [period for period, *_ in reports(store)] == ["2027-01-25T07:00", "2027-01-18T07:00"]
    document, markdown = service.report("2027-01-18T07:00")
    assert msgspec.json.decode(document)["plan"]["made_at"] == reports(store)[1][1]
    assert markdown.startswith("# GPU Tailor report: c1")
    assert service.report("2027-02-01T07:00") is None


def test_a_report_missed_while_down_is_made_once_for_its_own_time(store, exporter):
    service_of(store, exporter, T0)
    late = MONDAY + 2 * 86400
    for now in (late, late + 86400):
        service_of(store, exporter, now).run_due(now)
    assert reports(store) == [("2027-01-18T07:00", late, MONDAY)]


def test_a_report_is_of_whole_hours_whenever_it_is_made(store, exporter):
    settings = ServiceSettings(cluster="c1", report_cron="30 7 * * 1")
    service = service_of(store, exporter, T0, settings=settings)
    service.run_due(MONDAY + 2000)
    assert reports(store) == [("2027-01-18T07:30", MONDAY + 2000, MONDAY)]


@pytest.mark.parametrize("error", [ValueError("too long"), StoreError()])
def test_a_report_that_could_not_be_kept_is_tried_again_later(store, exporter, monkeypatch, error):
    """After a while that grows with each try; where the store was at fault, at the next tick."""
    waits = not isinstance(error, StoreError)
    service_of(store, exporter, T0)
    service = service_of(store, exporter, MONDAY)
    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "put_report", Mock(side_effect=error))
        assert "report" in service.run_due(MONDAY)
    period = store.period("c1/report", "2027-01-18T07:00")
    assert reports(store) == []
    assert (period and period.reason) == ("ValueError: too long" if waits else None)
    assert ("report" in service.run_due(MONDAY + 30)) is not waits
    assert ("report" in service.run_due(MONDAY + 60)) is waits
    assert "report" not in service.run_due(MONDAY + 600)
    assert len(reports(store)) == 1
    assert value(service, metrics.RUNS, job="report", outcome="failed") == 1
    assert value(service, metrics.RUNS, job="report", outcome="done") == 1


def test_an_inventory_that_cannot_be_read_is_told_and_the_last_one_used(store, exporter):
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 600)
    service.run_due(T0 + 600)

    def broken(at):
        raise ConnectionError("the API server did not answer")

    again = service_of(store, exporter, T0, reader=broken)
    plan = again.recommend(T0 + 700)
    assert any("did not answer" in problem for problem in plan.problems)
    assert [v.workload.name for v in plan.verdicts] == [
        v.workload.name for v in service.latest_plan().verdicts
    ]


def test_a_failed_scrape_is_counted_by_target_and_the_others_go_on(store, exporter):
    other = Exporter([Job(lambda _: 1.0, T0 + 5, pod="b", gpu_uuid="GPU-1")], T0, "http://b")
    source = ExporterSource(exporter, other)
    source.down.add("http://b")
    service = service_of(store, exporter, T0, source=source)
    scrape(service, T0, T0 + 60)
    service.flush(T0 + 60)
    assert [row.key.pod for row in usage(store)] == ["train-0"]
    failures = value(service, metrics.SCRAPE_FAILURES, target="http://b", reason="timeout")
    assert failures == 3
    assert value(service, metrics.SCRAPES, target=exporter.name, outcome="read") == 3


def test_a_source_that_raises_is_counted_and_the_service_goes_on(store, exporter):
    class Broken:
        def scrape(self, at):
            raise RuntimeError("broken")

    service = service_of(store, exporter, T0, source=Broken())
    assert service.tick_scrape(T0) is False
    assert value(service, metrics.RUNS, job="scrape", outcome="failed") == 1
    assert service.run_due(T0)[:2] == ["rollup", "recommend"]


def test_rows_that_could_not_be_written_are_written_later(store, exporter, monkeypatch):
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 600)
    with monkeypatch.context() as patched:

        def full(self, name, body):
            raise StoreError("disk is full")

        patched.setattr(Transaction, "put_checkpoint", full)
        assert service.flush(T0 + 600) is False
    assert usage(store) == []
    assert service.flush(T0 + 601) is True
    assert [row.allocated_seconds for row in usage(store)] == [595]


def test_a_checkpoint_that_cannot_be_read_costs_the_past_only(store, exporter):
    with store.transaction() as tx:
        tx.put_checkpoint("c1/rollup", b"garbage")
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 60)
    assert service.flush(T0 + 60) is True
    assert value(service, metrics.RUNS, job="restore", outcome="failed") == 1


def test_after_a_restart_living_pods_tell_what_they_used_meanwhile(store):
    lived, ended = Job(lambda _: 1.0, T0 + 5), Job(lambda _: 1.0, T0 + 5, T0 + 1200, "short", "u2")
    exporter = Exporter([lived, ended], T0)
    scrape(service_of(store, exporter, T0), T0, T0 + 900)
    back = service_of(store, exporter, T0)  # the first was killed: nothing was flushed
    scrape(back, T0 + 9000, T0 + 9060)
    back.flush(T0 + 9060)
    rows = {(row.key.pod, row.key.hour): row for row in usage(store)}
    assert [rows["train-0", T0 + hour * 3600].allocated_seconds for hour in range(3)] == [
        3595,
        3600,
        1860,
    ]
    assert rows["train-0", T0 + 3600].spread_seconds == 3600
    assert rows["short", T0].allocated_seconds == 895
    assert ("short", T0 + 3600) not in rows


def test_checkpoints_can_be_rarer_than_scrapes(store, exporter):
    settings = ServiceSettings(cluster="c1", checkpoint_seconds=300)
    service = service_of(store, exporter, T0, settings=settings)
    scrape(service, T0, T0 + 30)
    first = store.checkpoint("c1/rollup")
    scrape(service, T0 + 60, T0 + 270)
    assert store.checkpoint("c1/rollup") == first
    scrape(service, T0 + 300, T0 + 300)
    assert store.checkpoint("c1/rollup") != first


def test_after_the_clock_was_set_back_far_it_goes_on_at_once(store, exporter):
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 600)
    service.run_due(T0 + 600)
    wrong = ExporterSource(exporter)
    real = wrong.scrape

    def scraped_at(clock):  # the exporter lives on while our clock jumps
        def scrape(at):
            result = real(clock)
            pages = tuple(msgspec.structs.replace(page, at=float(at)) for page in result.pages)
            return type(result)(pages)

        return scrape

    years = 10 * 365 * 86400
    service.parts.measuring.source = wrong
    wrong.scrape = scraped_at(T0 + 630)
    assert service.tick_scrape(T0 + years)
    assert service.run_due(T0 + years)
    for clock in range(T0 + 7200, T0 + 10801, 60):
        wrong.scrape = scraped_at(clock)
        assert service.tick_scrape(clock)
    service.flush(T0 + 10800)
    rows = {row.key.hour: row for row in usage(store)}
    assert rows[T0 + 7200].allocated_seconds >= 3600 - 60
    assert all(row.allocated_seconds <= 3600 for row in rows.values())
    assert value(service, metrics.ROLLUP_PROBLEMS, problem="clock_set_back") == 1
    assert "recommend" in service.run_due(T0 + 10800)


def test_jobs_do_not_wait_until_a_clock_that_was_set_back_has_caught_up(store, exporter):
    ran = threading.Event()
    settings = ServiceSettings(cluster="c1", scrape_seconds=5)
    service = service_of(store, exporter, T0, settings=settings)
    service._begin = lambda: None
    service.parts.measuring.scrape = lambda _now: ran.set()
    service.start()
    try:
        job = service._scheduler.get_job("scrape")
        job.modify(next_run_time=job.next_run_time + timedelta(hours=9))
        service.parts.clock = time.time
        service.mind_clock()
        assert ran.wait(10)
    finally:
        service.stop()


def test_a_start_that_a_signal_breaks_into_leaves_nothing_running(store, exporter, monkeypatch):
    start = BackgroundScheduler.start

    def broken_into(scheduler):
        start(scheduler)
        raise KeyboardInterrupt

    monkeypatch.setattr(BackgroundScheduler, "start", broken_into)
    service = service_of(store, exporter, T0)
    service._begin = lambda: None
    with pytest.raises(KeyboardInterrupt):
        service.start()
    assert not any(thread.name == "APScheduler" for thread in threading.enumerate())


def test_a_target_that_fails_is_logged_once_and_when_it_is_back(store, exporter, caplog):
    source = ExporterSource(exporter)
    service = service_of(store, exporter, T0, source=source)
    with caplog.at_level("INFO"):
        source.down.add(exporter.name)
        scrape(service, T0, T0 + 300)
        source.down.clear()
        scrape(service, T0 + 330, T0 + 400)
    told = [record.getMessage() for record in caplog.records if exporter.name in record.message]
    assert told == [f"{exporter.name}: did not answer", f"{exporter.name}: answers again"]


def test_every_declared_metric_is_exported_and_no_other(store, exporter, tmp_path):
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 600)
    service.run_due(T0 + 600)
    service.telemetry.reloaded(T0, well=True)
    service.telemetry.store_size(tmp_path / "g.db")
    names = {metric.name for metric in service.registry.collect()}
    assert names == {family.name.removesuffix("_total") for family in metrics.FAMILIES}
    assert value(service, metrics.ROLLUP_ROWS) == 1
    assert value(service, metrics.LAST_SUCCESS, job="recommend") == T0 + 600
    assert value(service, metrics.PLAN_TIME) == T0 + 600


def test_before_the_first_plan_its_figures_are_absent_and_failures_are_zero(store, exporter):
    service = service_of(store, exporter, T0)
    assert value(service, metrics.SAVING_GPU_HOURS) is None
    assert value(service, metrics.PLAN_TIME) is None
    assert value(service, metrics.RUNS, job="recommend", outcome="failed") == 0
    service.run_due(T0 + 600)
    assert value(service, metrics.SAVING_GPU_HOURS) == 0
    again = service_of(store, exporter, T0)
    assert value(again, metrics.PLAN_TIME) == T0 + 600


def test_a_page_of_metrics_has_no_second_series_for_each_counter(store, exporter):
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 60)
    assert b"_created" not in generate_latest(service.registry)


def test_problems_of_the_rollup_are_counted_once():
    telemetry = Telemetry()
    telemetry.rollup_problems({"page_out_of_order": 2})
    telemetry.rollup_problems({"page_out_of_order": 3})
    name = metrics.ROLLUP_PROBLEMS.name
    assert telemetry.registry.get_sample_value(name, {"problem": "page_out_of_order"}) == 3


def test_started_in_the_background_it_scrapes_at_once_and_makes_a_plan(store):
    now = int(time.time())
    exporter = Exporter([Job(lambda _: 1.0, now - 90)], now - 100)
    service = service_of(store, exporter, now)
    service.parts.clock = time.time
    service.start()
    deadline = time.monotonic() + 20
    while service.not_ready() and time.monotonic() < deadline:
        time.sleep(0.02)
    service.stop()
    assert service.not_ready() == ""
    assert value(service, metrics.RUNS, job="scrape", outcome="done") >= 1
    assert store.checkpoint("c1/rollup") is not None


def test_jobs_that_wait_for_a_long_plan_keep_no_heartbeat_waiting(store, exporter):
    settings = ServiceSettings(
        cluster="c1", lease_seconds=2, scrape_seconds=0.2, tick_seconds=0.2, recommend_seconds=0.2
    )
    service = service_of(store, exporter, T0, settings=settings)
    with service.parts.due:
        service.start()
        for job in service._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))
        time.sleep(0.5)
        before = value(service, metrics.RUNS, job="heartbeat", outcome="done")
        time.sleep(1.2)
        assert value(service, metrics.RUNS, job="heartbeat", outcome="done") >= before + 2
    service.stop()
