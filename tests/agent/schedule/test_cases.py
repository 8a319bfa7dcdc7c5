"""Cases from the field that only show with the agent's jobs together."""

import threading
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from gputailor_agent.model.inventory import (
    Inventory,
    OwnerReference,
    Pod,
)
from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.schedule.timing import build_scheduler, every
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, running_pod, service_of

RUNS, SECONDS, SCRAPE = 5, 40, 60


def runs() -> list[Job]:
    """Jobs of 40 s, each of them begun and over between two scrapes."""
    return [
        Job(
            lambda _: 1.0,
            start := T0 + 600 * number + SCRAPE + 10,
            start + SECONDS,
            pod=f"train-{number:05d}-x7k2p",
            pod_uid=f"uid-{number}",
        )
        for number in range(RUNS)
    ]


def as_pod(job: Job) -> Pod:
    name = job.pod.rsplit("-", 1)[0]
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=name, uid=f"job-{name}")
    return msgspec.structs.replace(
        running_pod(job), phase="Succeeded", owners=(owner,), finished=float(job.end)
    )


def test_case_30_runs_under_a_minute_between_two_scrapes_are_told_and_too_short_to_judge():
    jobs = runs()
    exporter = Exporter(jobs, T0)

    def reader(at: float) -> Inventory:
        ended = tuple(as_pod(job) for job in jobs if job.end <= at)
        return Inventory(cluster="c1", at=at, pods=ended)

    with Store.open() as store:
        settings = ServiceSettings(cluster="c1", scrape_seconds=SCRAPE)
        service = service_of(store, exporter, T0, settings=settings, reader=reader)
        for now in range(T0, T0 + 3600 + 1, SCRAPE):
            assert service.tick_scrape(now)
        assert "recommend" in service.run_due(T0 + 3600)
        plan = service.latest_plan()
        rows = list(store.usage("c1", T0, T0 + 3600))
    assert sum(row.allocated_seconds for row in rows) == RUNS * SECONDS
    assert sum(row.signals["kernel"].active_seconds for row in rows) == RUNS * SECONDS
    (verdict,) = plan.verdicts
    assert verdict.gpu_hours == pytest.approx(RUNS * SECONDS / 3600)
    assert verdict.mean_kernel == 1.0
    told = [one for one in verdict.silences if one.message.key == "gate.too_short"]
    assert told
    assert {one.message.params["runs"] for one in told} == {RUNS}


def test_case_35_a_late_run_is_run_within_its_grace_and_counted_where_it_is_later():
    ran, heard, missed = threading.Event(), [], threading.Event()

    def count(job: str, outcome: str) -> None:
        heard.append((job, outcome))
        missed.set()

    late = datetime.now(UTC) - timedelta(seconds=30)  # APScheduler by itself forgives one second
    wakes = [
        ("rollup", every(3600), 3600.0, ran.set),
        ("scrape", every(3600), 15.0, lambda: heard.append(("scrape", "ran"))),
    ]
    scheduler = build_scheduler(wakes, count)
    scheduler.start(paused=True)
    try:
        for job in scheduler.get_jobs():
            job.modify(next_run_time=late)
        scheduler.resume()
        assert ran.wait(10)
        assert missed.wait(10)
    finally:
        scheduler.shutdown()
    assert heard == [("scrape", "missed")]
