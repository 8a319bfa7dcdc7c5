import time

import pytest

from gputailor_agent import metrics
from gputailor_agent.schedule import ServiceSettings, Telemetry
from gputailor_agent.store import Store, StoreError
from gputailor_agent.store.writing import Transaction
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, service_of

MONDAY = T0 + 3 * 86400 + 7 * 3600  # 2027-01-18 07:00 UTC


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "g.db") as opened:
        yield opened


@pytest.fixture
def exporter():
    return Exporter([Job(lambda _: 0.5, T0 + 5)], T0)


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
    assert service.run_due(T0 + 600) == ["rollup", "recommend"]
    assert service.not_ready() == ""
    [row] = usage(store)
    assert row.allocated_seconds == 595
    assert [v.workload.namespace for v in service.latest_plan().verdicts] == ["team-a"]
    assert store.latest_plan("c1") == service.latest_plan()


def test_what_was_done_is_not_done_again_in_its_hour_even_by_a_new_process(store, exporter):
    service = service_of(store, exporter, T0)
    service.run_due(T0 + 10)
    assert service.run_due(T0 + 3000) == []
    assert service_of(store, exporter, T0).run_due(T0 + 3001) == []
    assert service.run_due(T0 + 3601) == ["rollup", "recommend"]


def test_a_new_process_has_the_last_plan_at_once(store, exporter):
    service_of(store, exporter, T0).run_due(T0 + 10)
    again = service_of(store, exporter, T0)
    assert again.not_ready() == ""
    assert again.latest_plan().made_at == T0 + 10


def test_a_report_is_made_once_a_week(store, exporter):
    published = []
    service = service_of(store, exporter, T0, publish=lambda plan, name: published.append(name))
    for now in range(T0, MONDAY + 7 * 86400 + 30000, 6 * 3600):
        service.run_due(now)
    assert published == ["2027-01-18T07:00", "2027-01-25T07:00"]


def test_a_report_missed_while_down_is_made_once_for_its_own_time(store, exporter):
    published = []
    service_of(store, exporter, T0)

    def publish(plan, name):
        published.append((name, plan.window.end))

    late = MONDAY + 2 * 86400
    for _ in range(2):
        service_of(store, exporter, late, publish=publish).run_due(late)
    assert published == [("2027-01-18T07:00", MONDAY)]


def test_a_report_that_could_not_be_sent_is_tried_again_later(store, exporter):
    calls = []

    def publish(plan, name):
        calls.append(name)
        if len(calls) == 1:
            raise OSError("no route to the mail server")

    service_of(store, exporter, T0)
    service = service_of(store, exporter, MONDAY, publish=publish)
    assert service.run_due(MONDAY) == ["rollup", "recommend", "report"]
    assert store.period("c1/report", "2027-01-18T07:00").reason == (
        "OSError: no route to the mail server"
    )
    assert service.run_due(MONDAY + 30) == []
    assert service.run_due(MONDAY + 60) == ["report"]
    assert service.run_due(MONDAY + 600) == []
    assert len(calls) == 2
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
    assert service.run_due(T0) == ["rollup", "recommend"]


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


def test_every_declared_metric_is_exported_and_no_other(store, exporter):
    service = service_of(store, exporter, T0)
    scrape(service, T0, T0 + 600)
    service.run_due(T0 + 600)
    names = {metric.name for metric in service.registry.collect()}
    assert names == {family.name.removesuffix("_total") for family in metrics.FAMILIES}
    assert value(service, metrics.ROLLUP_ROWS) == 1
    assert value(service, metrics.LAST_SUCCESS, job="recommend") == T0 + 600
    assert value(service, metrics.PLAN_TIME) == T0 + 600


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
    service._clock = time.time
    service.start()
    deadline = time.monotonic() + 20
    while service.not_ready() and time.monotonic() < deadline:
        time.sleep(0.02)
    service.stop()
    assert service.not_ready() == ""
    assert value(service, metrics.RUNS, job="scrape", outcome="done") >= 1
    assert store.checkpoint("c1/rollup") is not None
