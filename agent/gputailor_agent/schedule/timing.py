"""When things run: cron expressions as people write them, time zones, and the scheduler.

APScheduler numbers weekdays from Monday = 0, cron from Sunday = 0; numbers are turned into names
here, so that ``0 7 * * 1`` is Monday. The scheduler only wakes jobs up: it has fixed ids, one run
of a job at a time, runs that were missed count as one, and a stated grace; what is due is decided
from the store.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobEvent,
    JobSubmissionEvent,
)
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from apscheduler.triggers.base import BaseTrigger

_FIELDS: Final = 5
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ANY_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_LOOK_BACK_DAYS: Final = (1 / 24, 1, 8, 35, 370)

_OUTCOMES: Final = {
    EVENT_JOB_ERROR: "failed",
    EVENT_JOB_MISSED: "missed",
    EVENT_JOB_MAX_INSTANCES: "skipped",
}


class CronError(ValueError):
    """A cron expression or a time zone cannot be used; the text says which part."""


def time_zone(name: str) -> ZoneInfo:
    """The zone of an IANA name such as ``Europe/Berlin``; raises ``CronError``."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:  # unknown, a folder, or no name at all
        raise CronError(
            f"{name!r} is no time zone; write an IANA name such as UTC or Europe/Berlin"
        ) from error


def cron_trigger(expression: str, zone: str = "UTC") -> CronTrigger:
    """Return the trigger of five cron fields in a time zone (weekday 0 and 7 are Sunday).

    Raises ``CronError``.
    """
    fields = expression.split()
    if len(fields) != _FIELDS:
        raise CronError(
            f"{expression!r} has {len(fields)} fields; expected five: minute hour day month weekday"
        )
    place = time_zone(zone)
    try:
        days = ",".join(_weekdays(part) for part in fields[4].split(","))
        trigger = CronTrigger.from_crontab(" ".join([*fields[:4], days]), timezone=place)
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


def fires(trigger: CronTrigger, after: float, until: float) -> Iterator[float]:
    """The trigger's times in (after, until], Unix seconds.

    A time of day that comes twice when clocks are set back counts once, the first time; with a
    wildcard for the hour every hour counts. A time that is left out when clocks are set forward
    comes an hour later by the clock on the wall.
    """
    begin, end = datetime.fromtimestamp(after, UTC), datetime.fromtimestamp(until, UTC)
    fire = trigger.get_next_fire_time(None, begin)
    while fire is not None and fire <= end:
        if fire > begin and not (fire.fold and _one_hour(trigger)):
            yield float(fire.timestamp())
        fire = trigger.get_next_fire_time(fire, fire)


def _one_hour(trigger: CronTrigger) -> bool:
    """Whether the expression names hours of the day."""
    hours = next(str(field) for field in trigger.fields if field.name == "hour")
    return "*" not in hours


def last_fire(trigger: CronTrigger, now: float) -> float | None:
    """Return the trigger's last time at or before ``now``; None when it had none in a year."""
    for days in _LOOK_BACK_DAYS:
        start = now - timedelta(days=days).total_seconds()
        found = None
        for found in fires(trigger, start, now):  # noqa: B007 - the last one is wanted
            pass
        if found is not None:
            return found
    return None


def next_fire(trigger: CronTrigger, now: float) -> float | None:
    """Return the trigger's first time after ``now`` (Unix seconds); None when it has none."""
    for days in _LOOK_BACK_DAYS:
        found = next(fires(trigger, now, now + timedelta(days=days).total_seconds()), None)
        if found is not None:
            return found
    return None


def every(seconds: float) -> "BaseTrigger":
    """A trigger each ``seconds``."""
    return IntervalTrigger(seconds=seconds, timezone=UTC)


def at_once() -> "BaseTrigger":
    """A trigger that fires when the scheduler starts."""
    return DateTrigger(timezone=UTC)


def hourly(minute: int) -> "BaseTrigger":
    """A trigger at that minute of each hour."""
    return CronTrigger(minute=minute, timezone=UTC)


def offset(name: str, jitter_seconds: float) -> float:
    """Where within the jitter ``name`` has its place: always the same, so a restart moves nothing.

    Agents of many clusters that ask one server spread over the jitter by their names.
    """
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32 * jitter_seconds


#: Id, trigger, seconds that a run may begin late, and what runs.
Wake = tuple[str, "BaseTrigger", float, Callable[[], object]]


def build_scheduler(
    wakes: Iterable[Wake], count: Callable[[str, str], None]
) -> BackgroundScheduler:
    """Return a scheduler with these jobs, not yet started.

    ``count`` hears (job, outcome) of runs that were missed, skipped or failed.
    """
    listed = list(wakes)
    scheduler = BackgroundScheduler(
        # a thread for each job: those that wait for a long plan keep no heartbeat from its thread
        executors={"default": ThreadPoolExecutor(max(1, len(listed)))},
        timezone=UTC,
        job_defaults={"coalesce": True, "max_instances": 1},
    )
    for name, trigger, grace_seconds, job in listed:
        scheduler.add_job(
            job,
            trigger,
            id=name,
            name=name,
            replace_existing=True,
            misfire_grace_time=max(1, int(grace_seconds)),
        )

    def hear(event: JobEvent | JobSubmissionEvent) -> None:
        count(event.job_id, _OUTCOMES[event.code])

    scheduler.add_listener(hear, EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
    return scheduler


def too_far_ahead(job: Any, now: float) -> bool:
    """Whether a job waits longer than its trigger asks for: the clock was set back."""
    if job.next_run_time is None or isinstance(job.trigger, DateTrigger):
        return False
    at = datetime.fromtimestamp(now, UTC)
    ahead = job.next_run_time - at
    if isinstance(job.trigger, IntervalTrigger):
        return bool(ahead > 2 * job.trigger.interval)
    wanted = job.trigger.get_next_fire_time(None, at)
    return bool(wanted is not None and job.next_run_time > wanted)
