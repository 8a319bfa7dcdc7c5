"""Report: each period's report once; one that was missed is made late, and says so.

Of several that were missed only the last is made: its window holds what the others would have told,
as far as it reaches. The others are noted as skipped, and the late one names them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.delivery.lateness import lateness
from gputailor_agent.reports.formats import render
from gputailor_agent.reports.remembering import of_store
from gputailor_agent.schedule.due import Due
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import cron_trigger, fires, last_fire, offset

_LOOKED_AT: Final = 1000


def _due(parts: Parts, now: float) -> Iterator[Due]:
    settings = parts.settings
    trigger = cron_trigger(settings.report_cron, settings.report_time_zone)
    fire = last_fire(trigger, now - offset(settings.cluster, settings.jitter_seconds))
    if fire is None or fire < parts.first_start:
        return
    if parts.backfill is None or parts.backfill.ready(fire, now):
        yield Due(period_of(fire), partial(_make, parts, fire, now))


def period_of(fire: float) -> str:
    """Name of the report that was due at ``fire`` (Unix seconds): its UTC minute."""
    return datetime.fromtimestamp(fire, UTC).strftime("%Y-%m-%dT%H:%M")


def _make(parts: Parts, fire: float, now: float) -> None:
    period = period_of(fire)
    skipped = _skipped(parts, fire)
    told = lateness(fire, now, skipped)  # in English, for the period's reason
    inventory, problems = parts.judging.inventory(now)
    end = fire // HOUR_SECONDS * HOUR_SECONDS  # whole hours: the same whenever it is made
    assessment = parts.judging.assess(inventory, end, now, problems)
    plan = assessment.plan
    if told:
        with speaking(parts.settings.report_language):
            problem = lateness(fire, now, skipped)
        plan = msgspec.structs.replace(plan, problems=(problem, *plan.problems))
    rules = parts.settings.assessment.rules
    beside = of_store(parts.store, plan, assessment.resolution, rules)
    with speaking(parts.settings.report_language):
        document = render(plan, "json", beside=beside)
        markdown = render(plan, "markdown", beside=beside)
        deliver = parts.delivery.report(plan, period, late=bool(told), beside=beside)
    with parts.store.transaction() as tx:
        tx.put_report(
            plan.cluster,
            period,
            made_at=now,
            window=plan.window,
            document=document,
            markdown=markdown,
        )
        deliver(tx)
        for other in skipped:
            reason = f"overtaken by the report of {period}"
            tx.mark_period(parts.name("report"), other, at=now, state="skipped", reason=reason)
        parts.mark(tx, "report", period, now, told)


def _skipped(parts: Parts, fire: float) -> tuple[str, ...]:
    """Periods before ``fire`` that nobody made a report of, newest first, since the last one."""
    settings = parts.settings
    trigger = cron_trigger(settings.report_cron, settings.report_time_zone)
    earliest = max(parts.first_start, fire - 400 * 86400.0)
    times = list(islice(fires(trigger, earliest - 1, fire - 1), _LOOKED_AT))
    found = []
    for time in reversed(times):
        period = period_of(time)
        if parts.store.period(parts.name("report"), period) is not None:
            break
        found.append(period)
    return tuple(found)


JOB = Job(
    name="report",
    meaning="makes the period's report and puts it into the outbox; late and marked if missed",
    when="report_cron in report_time_zone",
    trigger=lambda settings: cron_trigger(settings.report_cron, settings.report_time_zone),
    due=_due,
    after=("recommend",),
    grace=lambda _settings: 86400.0,
)
