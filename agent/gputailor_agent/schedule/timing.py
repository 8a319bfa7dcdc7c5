"""When things run: cron expressions as people write them, and the scheduler's fixed jobs.

APScheduler numbers weekdays from Monday = 0, cron from Sunday = 0; numbers are turned into names
here, so that ``0 7 * * 1`` is Monday.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobEvent,
    JobSubmissionEvent,
)
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from gputailor_agent.schedule.settings import ServiceSettings

if TYPE_CHECKING:
    from apscheduler.triggers.base import BaseTrigger

_FIELDS: Final = 5
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ANY_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_LOOK_BACK_DAYS: Final = (1 / 24, 1, 8, 35, 370)

#: How late a job may still start. Work that is due is found again at the next tick anyway.
GRACE_SECONDS: Final[Mapping[str, int]] = {
    "start": 3600,
    "due": 3600,
    "hourly": 3600,
    "report": 86400,
    "deliver": 3600,
}

_OUTCOMES: Final = {
    EVENT_JOB_ERROR: "failed",
    EVENT_JOB_MISSED: "missed",
    EVENT_JOB_MAX_INSTANCES: "skipped",
}


class CronError(ValueError):
    """A cron expression cannot be used; the text says which part."""


def cron_trigger(expression: str) -> CronTrigger:
    """Return the trigger of five cron fields in UTC (weekday 0 and 7 are Sunday).

    Raises ``CronError``.
    """
    fields = expression.split()
    if len(fields) != _FIELDS:
        raise CronError(
            f"{expression!r} has {len(fields)} fields; expected five: minute hour day month weekday"
        )
    try:
        days = ",".join(_weekdays(part) for part in fields[4].split(","))
        trigger = CronTrigger.from_crontab(" ".join([*fields[:4], days]), timezone=UTC)
    except ValueError as error:
        raise CronError(f"{expression!r} is no cron expression: {error}") from error
    if trigger.get_next_fire_time(None, _ANY_DAY) is None:
        raise CronError(f"{expression!r} is no cron expression: such a day never comes")
    return trigger


def _weekdays(part: str) -> str:
    body, slash, step = part.partition("/")
    first, dash, last = body.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        return part
    end = int(last) if dash else int(first)
    numbers = range(int(first), end + 1, int(step) if slash else 1)
    if not numbers or end >= len(_DAYS):
        raise CronError(f"weekday {part!r} is not in 0-7")
    return ",".join(dict.fromkeys(_DAYS[number] for number in numbers))


def last_fire(trigger: CronTrigger, now: float) -> float | None:
    """Return the trigger's last time at or before ``now``; None when it had none in a year."""
    at = datetime.fromtimestamp(now, UTC)
    for days in _LOOK_BACK_DAYS:
        found = None
        fire = trigger.get_next_fire_time(None, at - timedelta(days=days))
        while fire is not None and fire <= at:
            found = fire
            fire = trigger.get_next_fire_time(fire, fire)
        if found is not None:
            return float(found.timestamp())
    return None


def build_scheduler(
    settings: ServiceSettings,
    work: Mapping[str, Callable[[], object]],
    count: Callable[[str, str], None],
) -> BackgroundScheduler:
    """Return a scheduler with the jobs of ``work``, not yet started.

    ``work``: what runs at ``start`` (once, at once), ``scrape``, ``due`` (each tick), ``hourly``
    (one minute past the hour), ``report`` and ``deliver`` (the outbox).
    ``count`` hears (job, outcome) of runs that were missed, skipped or failed.
    """
    triggers: dict[str, BaseTrigger] = {
        "start": DateTrigger(timezone=UTC),
        "scrape": IntervalTrigger(seconds=settings.scrape_seconds, timezone=UTC),
        "due": IntervalTrigger(seconds=settings.tick_seconds, timezone=UTC),
        "hourly": CronTrigger(minute=1, timezone=UTC),
        "deliver": IntervalTrigger(seconds=settings.deliver_seconds, timezone=UTC),
        "report": cron_trigger(settings.report_cron),
    }
    scheduler = BackgroundScheduler(
        timezone=UTC, job_defaults={"coalesce": True, "max_instances": 1}
    )
    for name, job in work.items():
        scheduler.add_job(
            job,
            triggers[name],
            id=name,
            name=name,
            replace_existing=True,
            misfire_grace_time=GRACE_SECONDS.get(name, max(1, int(settings.scrape_seconds))),
        )

    def hear(event: JobEvent | JobSubmissionEvent) -> None:
        count(event.job_id, _OUTCOMES[event.code])

    scheduler.add_listener(hear, EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
    return scheduler
