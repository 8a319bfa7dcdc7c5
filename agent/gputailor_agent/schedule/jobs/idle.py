"""Idle: who stopped working, by last-active times, where plans are too rare to tell in time.

Where a plan is made every five minutes this finds nothing to do. In a large cluster a plan takes
minutes and comes seldom: here only workloads are judged whose devices have all been quiet for the
rule's time, over one day instead of the whole window.
"""

from collections import defaultdict
from typing import Final

import msgspec

from gputailor_agent.assessment import Assessment
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.judgement import Plan
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.measuring import Holding
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import every

#: Least time without work before the rule ``idle`` is asked at all; notebooks are warned first.
QUIET_SECONDS: Final = 1800.0
_WINDOW_SECONDS: Final = 86400.0


def watch(parts: Parts, now: float) -> None:
    """Judge workloads that went quiet since the newest plan, and put notices into the outbox."""
    with parts.due, parts.telemetry.run("idle", now):
        plan = parts.judging.plan
        if plan is None or 0 <= now - plan.made_at < parts.settings.watch_idle_seconds:
            return
        quiet = quiet_pods(parts.measuring.holdings(), now)
        if not quiet:
            return
        parts.measuring.write(now)
        known, problems = parts.judging.inventory(now)
        inventory = only(known, quiet)
        found = parts.judging.assess(inventory, now, now, problems, start=now - _WINDOW_SECONDS)
        with parts.store.transaction() as tx:
            parts.delivery.keep_notices(tx, _without_strangers(found))


def quiet_pods(holdings: list[Holding], now: float) -> set[tuple[str, str]]:
    """Namespace and name of pods none of whose devices worked for long, as far as known."""
    last: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for one in holdings:
        last[one.namespace, one.pod].append(one.last_active)
    return {
        pod
        for pod, times in last.items()
        if all(time is None or now - time >= QUIET_SECONDS for time in times)
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


def _without_strangers(found: Assessment) -> Plan:
    """The plan of those workloads only whose pods were looked at."""
    known = {workload.id for workload in found.resolution.workloads}
    verdicts = tuple(
        one for one in found.plan.verdicts if one.workload.id.partition("#")[0] in known
    )
    return msgspec.structs.replace(found.plan, verdicts=verdicts)


JOB = Job(
    name="idle",
    meaning="looks for workloads that stopped working, between plans",
    when="every watch_idle_seconds; where exporters are scraped",
    trigger=lambda settings: every(settings.watch_idle_seconds),
    tick=watch,
    used=lambda parts: parts.measuring.source is not None,
)
