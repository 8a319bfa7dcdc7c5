"""The whole agent with objects to tell: plans know nothing of how that goes."""

import pytest

from gputailor_agent.reports.delivery.kubernetes_writing import WriteError
from gputailor_agent.schedule.jobs import jobs
from gputailor_agent.schedule.standing import ANNOTATION, EVENT
from gputailor_agent.schedule.telling import Telling
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, service_of
from tests.agent.schedule.telling_parts import Cluster

TELL = next(job for job in jobs() if job.name == "tell")


@pytest.fixture
def exporter():
    return Exporter([Job(lambda _: 0.0, T0 + 5)], T0)


def run(service, times):
    for now in times:
        service.tick_scrape(now)
        service.run_due(now)
        TELL.tick(service.parts, now)
    return service


def telling(store, cluster):
    return Telling((EVENT, ANNOTATION), store, "c1", cluster, clock=lambda: float(T0), holder="me")


def test_an_idle_pod_is_told_from_the_plan_and_once(store, exporter):
    cluster = Cluster()
    service = service_of(store, exporter, T0, telling=telling(store, cluster))
    run(service, range(T0, T0 + 5400, 300))
    assert [(one["reason"], one["regarding"]["kind"]) for one in cluster.posted] == [
        ("GpuIdle", "Pod")
    ]
    assert service.troubles() == []


def test_an_agent_that_was_started_again_tells_of_the_plan_that_it_finds(store, exporter):
    """A crash between the plan and its telling loses nothing: the store's plan is told."""
    times = range(T0, T0 + 5400, 300)
    before = service_of(store, exporter, T0)
    for now in times:
        before.tick_scrape(now)
        before.run_due(now)
    cluster = Cluster()
    after = service_of(store, exporter, times[-1], telling=telling(store, cluster))
    assert after.parts.judging.newest is None
    TELL.tick(after.parts, float(times[-1] + 30))
    assert [one["reason"] for one in cluster.posted] == ["GpuIdle"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (WriteError("403: forbidden"), "403: forbidden"),
        (RuntimeError("a fault of ours"), "RuntimeError: a fault of ours"),
    ],
)
def test_whatever_fails_plans_are_made_and_the_trouble_is_told(store, exporter, error, told):
    cluster = Cluster()
    cluster.refuse = error
    service = service_of(store, exporter, T0, telling=telling(store, cluster))
    run(service, range(T0, T0 + 5400, 300))
    assert service.latest_plan().verdicts[0].state == "finding"
    assert service.not_ready() == ""
    (trouble,) = service.troubles()
    assert trouble.startswith(f"failing: tell: {told}")


def test_an_agent_that_tells_nobody_has_no_such_job(store, exporter):
    names = {name for name, *_ in service_of(store, exporter, T0)._wakes()}
    assert "tell" not in names
    told = service_of(store, exporter, T0, telling=telling(store, Cluster()))
    assert "tell" in {name for name, *_ in told._wakes()}
