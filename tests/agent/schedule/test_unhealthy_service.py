"""The whole agent and a device that breaks: owner and admin hear of it within minutes."""

import msgspec
import pytest

from gputailor_agent.reports.delivery.settings import delivery_settings
from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.schedule.delivering import Delivery
from gputailor_agent.schedule.jobs.health import watch
from gputailor_agent.store import Outbox
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, service_of

HOUR = 3600


class FaultyExporter(Exporter):
    """Its device reports what ``faults`` says at a second."""

    faults = staticmethod(lambda _now: {})

    def page(self, linger=180):
        page = super().page(linger)
        told = {"throttled/hw_thermal_slowdown": 0.0, **self.faults(self.now)}
        sick = [msgspec.structs.replace(one, device=told) for one in page.containers]
        return msgspec.structs.replace(page, containers=tuple(sick))


@pytest.fixture
def exporter():
    return FaultyExporter([Job(lambda t: (t % 4) / 4, T0 + 5)], T0)


def delivery_of(store):
    settings = delivery_settings(
        mail_to=["admin@example.org"],
        mail_from="gpu@example.org",
        smtp_host="127.0.0.1",
        smtp_tls="none",
        notify={"team-a": "owner@example.org"},
    )
    return Delivery(settings, store, "c1", clock=lambda: T0, holder="me")


def letters(store):
    with store.transaction() as tx:
        return Outbox(tx).letters("c1")


def course(store, exporter, until, *, plan_every=HOUR, silent_from=None):
    """The agent as in a large cluster: a plan an hour, a look at the devices every five minutes."""
    source = ExporterSource(exporter)
    settings = ServiceSettings(cluster="c1", recommend_seconds=plan_every)
    service = service_of(
        store, exporter, T0, source=source, settings=settings, delivery=delivery_of(store)
    )
    heard = {}
    for now in range(T0, until, 100):
        if silent_from is not None and now >= silent_from:
            source.down = {exporter.name}
        service.tick_scrape(now)
        if (now - T0) % plan_every == 0:
            service.recommend(now)
        if (now - T0) % 300 == 0:
            watch(service.parts, now)
        for letter in letters(store):
            heard.setdefault((letter.scope, letter.recipient), now)
    return heard


def test_an_error_of_the_hardware_is_told_to_owner_and_admin_before_the_next_plan(store, exporter):
    broke = T0 + HOUR + 700
    exporter.faults = lambda now: {"xid/79": float(now >= broke)}
    heard = course(store, exporter, T0 + 2 * HOUR + 600)
    scope = "c1/unhealthy/team-a/Pod/train/main/xid/79"
    assert set(heard) == {(scope, "owner@example.org"), (scope, "admin@example.org")}
    assert all(broke < at <= broke + 600 for at in heard.values())


def test_heat_is_told_once_it_lasted_for_a_share_of_the_day(store, exporter):
    began = T0 + HOUR
    exporter.faults = lambda now: {"throttled/hw_thermal_slowdown": 0.5 * max(0, now - began)}
    heard = course(store, exporter, T0 + 2 * HOUR + 1200, plan_every=24 * HOUR)
    scope = "c1/unhealthy/team-a/Pod/train/main/throttled"
    assert {place[0] for place in heard} == {scope}
    assert all(began < at <= began + HOUR for at in heard.values())


def test_an_exporter_that_is_gone_and_comes_back_is_no_fault(store, exporter):
    exporter.faults = lambda _now: {"xid/13": 5.0, "throttled/sw_power_cap": 1e5}
    assert course(store, exporter, T0 + 2 * HOUR, silent_from=T0 + HOUR) == {}


def test_a_plan_alone_tells_of_it_too_where_nobody_scrapes(store, exporter):
    broke = T0 + HOUR + 700
    exporter.faults = lambda now: {"xid/95": float(now >= broke)}
    service = service_of(store, exporter, T0, delivery=delivery_of(store))
    for now in range(T0, T0 + 2 * HOUR, 100):
        service.tick_scrape(now)
    service.recommend(T0 + 2 * HOUR)
    service.recommend(T0 + 2 * HOUR + 300)
    assert [letter.scope for letter in letters(store)] == [
        "c1/unhealthy/team-a/Pod/train/main/xid/95"
    ] * 2
