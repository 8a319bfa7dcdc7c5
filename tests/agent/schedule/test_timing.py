from datetime import UTC, datetime

import pytest
from apscheduler.events import (
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobExecutionEvent,
    JobSubmissionEvent,
)

from gputailor_agent.schedule import (
    CronError,
    build_scheduler,
    cron_trigger,
    fires,
    last_fire,
    next_fire,
)
from gputailor_agent.schedule.timing import every, offset


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def first_fires(expression: str, start: str, count: int) -> list[str]:
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
    found = first_fires(expression, "2026-01-05T00:00", 3)  # a Monday
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


def in_zone(expression: str, zone: str, start: str, end: str) -> list[str]:
    """UTC times at which a report is due."""
    trigger = cron_trigger(expression, zone)
    return [
        datetime.fromtimestamp(one, UTC).strftime("%m-%d %H:%M")
        for one in fires(trigger, at(start), at(end))
    ]


def test_a_report_keeps_its_time_of_day_when_clocks_change():
    days = ("0 7 * * *", "Europe/Berlin")
    spring = in_zone(*days, "2027-03-27T00:00", "2027-03-29T12:00")
    assert spring == ["03-27 06:00", "03-28 05:00", "03-29 05:00"]
    autumn = in_zone(*days, "2027-10-30T00:00", "2027-11-01T12:00")
    assert autumn == ["10-30 05:00", "10-31 06:00", "11-01 06:00"]


def test_a_time_that_comes_twice_is_due_once():
    found = in_zone("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", "2027-11-01T12:00")
    assert found == ["10-31 00:30", "11-01 01:30"]


def test_a_time_that_is_left_out_is_due_an_hour_later_by_the_wall():
    found = in_zone("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00", "2027-03-29T12:00")
    assert found == ["03-28 01:30", "03-29 00:30"]  # 03:30 and 02:30 on the wall


def test_what_is_due_every_hour_is_due_in_the_hour_that_comes_twice_too():
    found = in_zone("30 * * * *", "Europe/Berlin", "2027-10-31T00:00", "2027-10-31T03:00")
    assert found == ["10-31 00:30", "10-31 01:30", "10-31 02:30"]


def test_the_time_that_came_first_is_the_last_one_while_it_comes_again():
    trigger = cron_trigger("30 2 * * *", "Europe/Berlin")
    assert last_fire(trigger, at("2027-10-31T01:45")) == at("2027-10-31T00:30")
    assert next_fire(trigger, at("2027-10-31T00:45")) == at("2027-11-01T01:30")


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "", "../etc/passwd", "Europe"])
def test_a_wrong_time_zone_is_explained(zone):
    with pytest.raises(CronError, match=r"no time zone.*Europe/Berlin"):
        cron_trigger("0 7 * * 1", zone)


def test_jitter_gives_each_cluster_a_place_that_stays():
    places = [offset(f"cluster-{number}", 600) for number in range(200)]
    assert places == [offset(f"cluster-{number}", 600) for number in range(200)]
    assert 0 <= min(places) < 60
    assert 540 < max(places) < 600
    assert offset("any", 0.0) == 0.0


def test_a_scheduler_runs_one_of_a_job_at_a_time_and_states_its_grace():
    wakes = [("scrape", every(15), 15.0, print), ("tick", every(60), 3600.0, print)]
    scheduler = build_scheduler(wakes, print)
    scheduler.start(paused=True)
    try:
        jobs = {job.id: job for job in scheduler.get_jobs()}
        assert all(job.coalesce and job.max_instances == 1 for job in jobs.values())
        grace = {name: job.misfire_grace_time for name, job in jobs.items()}
        assert grace == {"scrape": 15, "tick": 3600}
        assert scheduler.timezone is UTC
    finally:
        scheduler.shutdown()


@pytest.mark.parametrize("outcome", ["missed", "skipped"])
def test_case_35_runs_that_were_missed_or_skipped_are_told(outcome):
    heard = []
    scheduler = build_scheduler(
        [("tick", every(60), 3600.0, print)], lambda *one: heard.append(one)
    )
    scheduler.start(paused=True)
    when = datetime.now(UTC)
    event = {
        "missed": JobExecutionEvent(EVENT_JOB_MISSED, "tick", "default", when),
        "skipped": JobSubmissionEvent(EVENT_JOB_MAX_INSTANCES, "tick", "default", [when]),
    }
    try:
        scheduler._dispatch_event(event[outcome])
    finally:
        scheduler.shutdown()
    assert heard == [("tick", outcome)]
