from datetime import UTC, datetime

import pytest

from gputailor_agent.schedule import (
    CronError,
    ServiceSettings,
    build_scheduler,
    cron_trigger,
    last_fire,
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def fires(expression: str, start: str, count: int) -> list[str]:
    trigger, now, found = cron_trigger(expression), datetime.fromtimestamp(at(start), UTC), []
    for _ in range(count):
        fire = trigger.get_next_fire_time(found[-1] if found else None, found[-1] if found else now)
        found.append(fire)
    return [fire.strftime("%a %d %H:%M") for fire in found]


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 7 * * 1", "Mon Mon Mon"),
        ("0 7 * * 0", "Sun Sun Sun"),
        ("0 7 * * 7", "Sun Sun Sun"),
        ("0 7 * * 1-5", "Mon Tue Wed"),
        ("0 7 * * 5-7", "Fri Sat Sun"),
        ("0 7 * * 1-5/2", "Mon Wed Fri"),
        ("0 7 * * mon,3", "Mon Wed Mon"),
        ("0 7 * * *", "Mon Tue Wed"),
    ],
)
def test_weekdays_are_numbered_as_cron_does(expression, days):
    found = fires(expression, "2026-01-05T00:00", 3)  # a Monday
    assert " ".join(fire[:3] for fire in found) == days


@pytest.mark.parametrize(
    "expression", ["", "0 7 * *", "x 7 * * 1", "0 25 * * 1", "0 7 * * 8", "0 0 30 2 *"]
)
def test_a_wrong_expression_is_explained(expression):
    with pytest.raises(CronError, match=r"expected five|no cron expression"):
        cron_trigger(expression)


@pytest.mark.parametrize(
    ("expression", "now", "expected"),
    [
        ("0 7 * * 1", "2026-01-05T07:00", "2026-01-05T07:00"),
        ("0 7 * * 1", "2026-01-05T06:59", "2025-12-29T07:00"),
        ("* * * * *", "2026-01-05T06:59:30", "2026-01-05T06:59"),
        ("0 0 29 2 *", "2026-01-05T00:00", None),
        ("0 0 1 1 *", "2026-12-31T00:00", "2026-01-01T00:00"),
    ],
)
def test_the_last_time_is_found_up_to_a_year_back(expression, now, expected):
    assert last_fire(cron_trigger(expression), at(now)) == (expected and at(expected))


def test_every_job_has_a_fixed_id_and_an_explicit_grace():
    settings = ServiceSettings(cluster="c1", scrape_seconds=15.0)
    names = ("start", "scrape", "due", "hourly", "report")
    scheduler = build_scheduler(settings, dict.fromkeys(names, print), print)
    scheduler.start(paused=True)
    try:
        jobs = {job.id: job for job in scheduler.get_jobs()}
        assert set(jobs) == set(names)
        assert all(job.coalesce and job.max_instances == 1 for job in jobs.values())
        assert {name: job.misfire_grace_time for name, job in jobs.items()} == {
            "start": 3600,
            "scrape": 15,
            "due": 3600,
            "hourly": 3600,
            "report": 86400,
        }
        assert scheduler.timezone is UTC
    finally:
        scheduler.shutdown()


def test_runs_that_were_missed_or_skipped_are_told():
    heard = []
    settings = ServiceSettings(cluster="c1")
    scheduler = build_scheduler(settings, {"due": print}, lambda *event: heard.append(event))
    scheduler.start(paused=True)
    try:
        from apscheduler.events import (  # noqa: PLC0415
            EVENT_JOB_MAX_INSTANCES,
            EVENT_JOB_MISSED,
            JobExecutionEvent,
            JobSubmissionEvent,
        )

        when = datetime.now(UTC)
        scheduler._dispatch_event(JobExecutionEvent(EVENT_JOB_MISSED, "due", "default", when))
        scheduler._dispatch_event(
            JobSubmissionEvent(EVENT_JOB_MAX_INSTANCES, "due", "default", [when])
        )
    finally:
        scheduler.shutdown()
    assert heard == [("due", "missed"), ("due", "skipped")]
