"""A report that comes late says so in its own language; a namespace's wish reaches the notice."""

import json

import msgspec
import pytest

from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.delivery.content import unpack
from gputailor_agent.reports.delivery.lateness import LATE_SECONDS, lateness
from gputailor_agent.reports.delivery.settings import delivery_settings
from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.schedule.noticing import ANNOTATION
from gputailor_agent.store import Outbox, Store
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, inventory_of, service_of

DUE = T0 + 3 * 86400 + 7 * 3600  # a Monday, 07:00
LATE = DUE + 5 * 3600
SKIPPED = tuple(f"2027-01-0{day}T07:00" for day in range(1, 8))


@pytest.fixture
def store():
    with Store.open() as opened:
        yield opened


def agent_of(store, exporter, now, **more):
    settings = delivery_settings(
        webhook_url="https://hooks.example.org/x",
        channels={"open": "json://127.0.0.1/x"},
        open_channels=["open"],
    )
    delivery = Delivery(settings, store, "c1", clock=lambda: now)
    return service_of(store, exporter, now, delivery=delivery, **more)


@pytest.mark.parametrize(("language", "word"), [("en", "Late: GPU report"), ("zh", "迟到")])
def test_a_late_report_says_so_in_subject_and_text(store, language, word):
    exporter = Exporter([Job(lambda _: 0.5, T0 + 5)], T0)
    settings = ServiceSettings(cluster="c1", report_language=language)
    agent_of(store, exporter, T0)
    service = agent_of(store, exporter, LATE, settings=settings)
    service.tick_scrape(LATE)
    assert "report" in service.run_due(LATE)
    with store.transaction() as tx:
        (letter, *_rest) = Outbox(tx).letters("c1")
        made = unpack(Outbox(tx).body(letter))
    assert made.subject.startswith(word)
    told = json.loads(made.document)["plan"]["problems"][0]
    assert ("made 5 hours late" in told) is (language == "en")
    assert ("晚了 5 小时" in told) is (language == "zh")
    assert "5 hours late" in store.period("c1/report", letter.period).reason


def test_an_hour_is_no_delay_worth_telling():
    assert lateness(DUE, DUE + LATE_SECONDS, ()) == ""
    assert lateness(DUE, DUE + LATE_SECONDS + 1, ()) != ""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_of_many_reports_that_were_not_made_the_first_are_named(language):
    with speaking(language):
        told = lateness(DUE, DUE + 7 * 86400, SKIPPED)
    assert told.endswith("…")
    assert all(one in told for one in SKIPPED[:5])
    assert SKIPPED[5] not in told


@pytest.mark.parametrize("broken", [False, True])
def test_what_a_namespace_says_reaches_the_notice_although_no_store_keeps_it(store, broken):
    exporter = Exporter([Job(lambda _: 0.0, T0 + 5)], T0)
    read, failing = inventory_of(exporter), []

    def reader(at):
        if failing:
            raise OSError("the API server is away")
        return msgspec.structs.replace(read(at), namespaces={"team-a": {ANNOTATION: "open"}})

    service = agent_of(store, exporter, T0, reader=reader)
    for now in range(T0, T0 + 3 * 3600, 60):
        service.tick_scrape(now)
        if now == T0 + 1800:
            service.recommend(now)
            failing += [1] if broken else []
    service.recommend(T0 + 3 * 3600)
    with store.transaction() as tx:
        told = {letter.recipient for letter in Outbox(tx).letters("c1")}
    assert "open" in told
