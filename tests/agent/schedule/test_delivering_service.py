"""The whole agent with a mail server: reports and notices arrive, and nothing waits for them."""

import json
import socket
import threading
import time

from gputailor_agent.reports.delivery.settings import delivery_settings
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.store import Outbox
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, service_of
from tests.fakes.mailbox import Mailbox

MONDAY = T0 + 3 * 86400 + 7 * 3600


def settings_for(port):
    return delivery_settings(
        mail_to=["ops@example.org"],
        mail_from="gpu@example.org",
        smtp_host="127.0.0.1",
        smtp_port=port,
        smtp_tls="none",
    )


def course(store, delivery, exporter, times, *, silent=False):
    source = ExporterSource(exporter)
    source.down = {exporter.name} if silent else set()
    service = service_of(store, exporter, times[0], delivery=delivery, source=source)
    for now in times:
        service.tick_scrape(now)
        service.run_due(now)
        delivery.run(now)
    return service


def delivery_of(store, port):
    return Delivery(settings_for(port), store, "c1", clock=lambda: T0, holder="me")


def test_a_workload_that_never_works_is_told_of_within_minutes_of_the_rules_time(tmp_path, store):
    exporter = Exporter([Job(lambda _: 0.0, T0 + 5)], T0)
    with Mailbox(tmp_path) as box:
        delivery = delivery_of(store, box.port)
        course(store, delivery, exporter, range(T0, T0 + 3 * 3600, 60))
    (notice,) = box.mails
    assert notice["Subject"] == "Idle GPUs on c1: team-a/train-0 since 2027-01-15 00:00 UTC"
    made = notice["Date"].datetime.timestamp()
    assert T0 + 3600 <= made <= T0 + 3600 + 600
    found = json.loads(next(notice.iter_attachments()).get_content())
    assert found["rule"] == "idle"


def test_neither_a_workload_at_work_is_told_of_nor_one_that_nobody_sees_any_more(tmp_path, store):
    exporter = Exporter([Job(lambda t: (t % 4) / 4, T0 + 5)], T0)
    with Mailbox(tmp_path) as box:
        delivery = delivery_of(store, box.port)
        course(store, delivery, exporter, range(T0, T0 + 2 * 3600, 60))
        later = range(T0 + 2 * 3600, T0 + 9 * 3600, 300)
        service = course(store, delivery, exporter, later, silent=True)
    (verdict,) = service.latest_plan().verdicts
    assert verdict.state == "unknown"
    assert box.mails == []


def test_the_weekly_report_is_mailed_once_and_is_the_one_that_is_kept(tmp_path, store):
    exporter = Exporter([Job(lambda _: 1.0, T0 + 5)], T0)
    with Mailbox(tmp_path) as box:
        delivery = delivery_of(store, box.port)
        for day in range(4):
            course(store, delivery, exporter, [T0 + day * 86400])
        course(store, delivery, exporter, range(MONDAY - 120, MONDAY + 600, 60))
    (mail,) = box.mails
    assert mail["X-Gputailor-Period"] == "2027-01-18T07:00"
    attached = json.loads(next(mail.iter_attachments()).get_content())
    document, _ = store.report("c1", "2027-01-18T07:00")
    assert attached == json.loads(document)


def test_a_mail_server_that_hangs_keeps_neither_scrapes_nor_the_stop_from_their_rows(store):
    exporter = Exporter([Job(lambda _: 1.0, T0 + 5)], T0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        delivery = delivery_of(store, silent.getsockname()[1])
        service = service_of(store, exporter, T0, delivery=delivery)
        service.tick_scrape(T0)
        put = delivery.report(service.recommend(T0), "2027-01-11T07:00")
        with store.transaction() as tx:
            put(tx)
        sending = threading.Thread(target=delivery.run, args=(T0,), daemon=True)
        sending.start()
        taken, _ = silent.accept()  # it connected, and waits for a greeting
        began = time.monotonic()
        assert service.tick_scrape(T0 + 60)
        assert service.flush(T0 + 60)
        assert time.monotonic() - began < 5
        taken.close()
        sending.join(10)
    with store.transaction() as tx:
        (letter,) = Outbox(tx).letters("c1")
    assert (letter.state, letter.attempts) == ("waiting", 1)
    assert sum(row.allocated_seconds for row in store.usage("c1", 0, 1e11)) > 50


def test_a_delivery_that_stops_begins_no_further_message(tmp_path, store):
    exporter = Exporter([Job(lambda _: 1.0, T0 + 5)], T0)
    with Mailbox(tmp_path) as box:
        delivery = delivery_of(store, box.port)
        service = service_of(store, exporter, T0, delivery=delivery)
        put = delivery.report(service.recommend(T0), "2027-01-11T07:00")
        with store.transaction() as tx:
            put(tx)
        delivery.stop()
        assert delivery.run(T0) == 0
        assert box.mails == []
        assert delivery_of(store, box.port).run(T0) == 1
