"""Health: devices that report faults, told of between plans.

Where a plan is made every five minutes it tells of broken hardware as soon. In a large cluster a
plan comes seldom, and heat shows in it only once it lasted for a share of the whole window: here
counters are compared from one look to the next, and only workloads whose devices reported something
are judged. Errors are judged over the window of plans, so that counts compare; heat over one day.
"""

from typing import Final

from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.jobs.idle import only, without_strangers
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import every

_HOT_SECONDS: Final = 86_400.0


def watch(parts: Parts, now: float) -> None:
    """Judge workloads whose devices reported faults, and put notices into the outbox."""
    with parts.due, parts.telemetry.run("health", now):
        suspects = parts.faults.look(parts.measuring.holdings())
        if parts.judging.plan is None or not (suspects.broken or suspects.hot):
            return
        parts.measuring.write(now)
        known, problems = parts.judging.inventory(now)
        for pods, start in ((suspects.broken, None), (suspects.hot, now - _HOT_SECONDS)):
            if not pods:
                continue
            found = parts.judging.assess(
                only(known, set(pods)), now, now, problems, start=start, strangers=False
            )
            with parts.store.transaction() as tx:
                parts.delivery.keep_faults(tx, without_strangers(found), whole=start is None)


JOB = Job(
    name="health",
    meaning="looks for devices that report errors or heat, between plans",
    when="every watch_idle_seconds; not with prometheus_url",
    trigger=lambda settings: every(settings.watch_idle_seconds),
    tick=watch,
    used=lambda parts: parts.measuring.source is not None,
)
