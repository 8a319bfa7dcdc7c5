"""Idle: who stopped working, by last-active times, where plans are too rare to tell in time.

Where a plan is made every five minutes this finds nothing to do. In a large cluster a plan takes
minutes and comes seldom, and out of a Prometheus it knows whole hours only: here only workloads are
judged whose devices have all been quiet for the rule's time, over one day instead of the whole
window, up to now.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from gputailor_agent.assessment import Assessment
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.judgement import Plan
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.live import Live
from gputailor_agent.schedule.measuring import Holding
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import every
from gputailor_agent.sources.prometheus.lately import Lately

#: Least time without work before the rule ``idle`` is asked at all; notebooks are warned first.
QUIET_SECONDS: Final = 1800.0
_WINDOW_SECONDS: Final = 86400.0
#: Longer than any rule waits before it tells of an idle workload.
_YOUNG_SECONDS: Final = 6 * 3600.0


def watch(parts: Parts, now: float) -> None:
    """Judge workloads that went quiet since the newest plan, and put notices into the outbox."""
    with parts.due, parts.telemetry.run("idle", now):
        plan = parts.judging.plan
        if plan is None or 0 <= now - plan.made_at < parts.settings.watch_idle_seconds:
            return
        found = _of_pages(parts, now) if parts.live is None else _of_server(parts, parts.live, now)
        if found is not None:
            with parts.store.transaction() as tx:
                parts.delivery.keep_notices(tx, without_strangers(found))


def _of_pages(parts: Parts, now: float) -> Assessment | None:
    """Judge those that were quiet by the pages last scraped; None where there are none."""
    quiet = quiet_pods(parts.measuring.holdings(), now)
    if not quiet:
        return None
    parts.measuring.write(now)
    known, problems = parts.judging.inventory(now)
    start = now - _WINDOW_SECONDS
    return parts.judging.assess(
        only(known, set(quiet)), now, now, problems, start=start, strangers=False
    )


def _of_server(parts: Parts, live: Live, now: float) -> Assessment | None:
    """Judge those that a metric server knows to be quiet, but not for long: others are told of."""
    quiet = quiet_pods(live.holdings(now, QUIET_SECONDS), now)
    if not quiet:
        return None
    known, problems = parts.judging.inventory(now)
    inventory = only(known, young(quiet, known, now))
    if not inventory.pods:
        return None
    since = now if parts.backfill is None else parts.backfill.end(now)
    start = (now - _WINDOW_SECONDS) // HOUR_SECONDS * HOUR_SECONDS
    return parts.judging.assess_open(inventory, live.rows(since, now), start, now, problems)


def quiet_pods(
    holdings: Iterable[Holding | Lately], now: float
) -> dict[tuple[str, str], float | None]:
    """Pods (namespace, name) none of whose devices worked for long, and when one did last.

    None: none of them ever worked, as far as is known.
    """
    last: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for one in holdings:
        last[one.namespace, one.pod].append(one.last_active)
    return {
        pod: max((time for time in times if time is not None), default=None)
        for pod, times in last.items()
        if all(time is None or now - time >= QUIET_SECONDS for time in times)
    }


def young(
    quiet: Mapping[tuple[str, str], float | None], inventory: Inventory, now: float
) -> set[tuple[str, str]]:
    """Those of the pods that worked, or began, within the last hours: plans tell of the others."""
    since = now - _YOUNG_SECONDS
    return {
        (pod.namespace, pod.name)
        for pod in inventory.pods
        if (pod.namespace, pod.name) in quiet
        and max(quiet[pod.namespace, pod.name] or 0.0, pod.started or pod.created or 0.0) >= since
    }


def only(inventory: Inventory, pods: set[tuple[str, str]]) -> Inventory:
    """The inventory with the runs that these pods belong to, whole: siblings decide, too."""
    owners = {
        owner.uid
        for pod in inventory.pods
        if (pod.namespace, pod.name) in pods
        for owner in pod.owners
    }
    kept = tuple(
        pod
        for pod in inventory.pods
        if (pod.namespace, pod.name) in pods or any(owner.uid in owners for owner in pod.owners)
    )
    return msgspec.structs.replace(inventory, pods=kept)


def without_strangers(found: Assessment) -> Plan:
    """The plan of those workloads only whose pods were looked at."""
    known = {workload.id for workload in found.resolution.workloads}
    verdicts = tuple(
        one for one in found.plan.verdicts if one.workload.id.partition("#")[0] in known
    )
    return msgspec.structs.replace(found.plan, verdicts=verdicts)


JOB = Job(
    name="idle",
    meaning="looks for workloads that stopped working, between plans",
    when="every watch_idle_seconds",
    trigger=lambda settings: every(settings.watch_idle_seconds),
    tick=watch,
    used=lambda parts: parts.measuring.source is not None or parts.live is not None,
)
