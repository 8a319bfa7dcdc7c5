"""What the store knows beside a plan: former reports, the ledger, and the course of use.

Former reports are read out of the JSON that was kept of them, and no more of it than their totals
and first findings; one that cannot be read any more is left out. A document of 20,000 workloads
(90 MB) takes 0.2 s, so only as many as the trend shows are read, one after another.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from gputailor_agent.assessment import Assessment
from gputailor_agent.model.inventory import Resolution, Workload
from gputailor_agent.model.judgement import Plan, Saving
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import UsageRow
from gputailor_agent.profiles.tally import DeviceTally
from gputailor_agent.reports import overview
from gputailor_agent.reports.beside import (
    Beside,
    Former,
    FormerFinding,
    Week,
    course,
    courses_of,
)
from gputailor_agent.reports.overview import Totals
from gputailor_agent.reports.plan_page import TOP
from gputailor_agent.rules.base import RuleSettings

if TYPE_CHECKING:
    from gputailor_agent.store import Store  # a second that files do not need

#: Former reports in the trend.
WEEKS: Final = 8
#: Pods of one workload whose use is read for its course, as its page shows them.
_MOST_PODS: Final = 64


class _Finding(msgspec.Struct, frozen=True):
    rule: str
    saving: Saving


class _Workload(msgspec.Struct, frozen=True):
    id: str


class _Verdict(msgspec.Struct, frozen=True):
    workload: _Workload
    primary: _Finding | None = None


class _Plan(msgspec.Struct, frozen=True):
    window: Window
    verdicts: tuple[_Verdict, ...]
    made_at: float


class _Document(msgspec.Struct, frozen=True):
    totals: Totals
    plan: _Plan


class _Span(msgspec.Struct, frozen=True):
    window: Window


class _Sums(msgspec.Struct, frozen=True):
    totals: Totals
    plan: _Span


def of_files(assessment: Assessment, rules: RuleSettings | None = None) -> Beside:
    """What is known beside a plan that was made of files: courses, and the user's thresholds."""
    plan = assessment.plan
    wanted = {line.verdict.workload.id for line in overview.to_do(plan)[:TOP]}
    known = (one for one in assessment.profiles if one.workload.id in wanted)
    return Beside(courses=courses_of(known, plan.window), thresholds=thresholds(rules))


def of_store(
    store: "Store", plan: Plan, resolution: Resolution, rules: RuleSettings | None = None
) -> Beside:
    """What the store knows beside a plan. Reads only; raises ``StoreError``."""
    from gputailor_agent.store.ledger import Ledger  # noqa: PLC0415 - as above

    former, weeks = former_reports(store, plan)
    with store.transaction() as tx:
        entries = tuple(Ledger(tx).entries(plan.cluster))
    top = [line.verdict.workload for line in overview.to_do(plan)[:TOP]]
    return Beside(
        former=former,
        weeks=weeks,
        entries=entries,
        courses=stored_courses(store, plan, resolution, top),
        thresholds=thresholds(rules),
    )


def thresholds(rules: RuleSettings | None) -> dict[str, float]:
    """The user's own thresholds as "rule.name"."""
    if rules is None:
        return {}
    return {
        f"{rule}.{name}": value
        for rule, own in rules.thresholds.items()
        for name, value in own.items()
    }


def former_reports(store: "Store", plan: Plan) -> tuple[Former | None, tuple[Week, ...]]:
    """The last report before this plan, and the totals of the last ones, oldest first."""
    kept = [one for one in store.reports(plan.cluster) if one.made_at < plan.made_at]
    former: Former | None = None
    weeks: list[Week] = []
    for place, one in enumerate(kept[:WEEKS]):
        told = store.report(plan.cluster, one.period)
        if told is None:
            continue
        if place == 0:
            former = read_former(told[0])
        week = read_week(told[0])
        weeks += [week] if week is not None else []
    return former, tuple(reversed(weeks))


def read_former(document: str) -> Former | None:
    """First findings out of a kept report's JSON; None for one that cannot be read."""
    try:
        read = msgspec.json.decode(document, type=_Document)
    except msgspec.MsgspecError:
        return None
    return Former(
        made_at=read.plan.made_at,
        window=read.plan.window,
        findings={
            one.workload.id: FormerFinding(
                workload_id=one.workload.id,
                rule=one.primary.rule,
                saving=one.primary.saving.money_per_month,
                gpu_hours_per_month=one.primary.saving.gpu_hours_per_month,
            )
            for one in read.plan.verdicts
            if one.primary is not None
        },
    )


def read_week(document: str) -> Week | None:
    """Totals out of a kept report's JSON; None for one that cannot be read."""
    try:
        read = msgspec.json.decode(document, type=_Sums)
    except msgspec.MsgspecError:
        return None
    totals = read.totals
    return Week(
        window=read.plan.window,
        gpus=totals.gpus,
        mean_kernel=totals.mean_kernel_of_observed,
        observed_share=totals.observed_share,
        cost=totals.window_cost,
        saving=totals.saving,
        findings=totals.states.get("finding", 0),
    )


def stored_courses(
    store: "Store", plan: Plan, resolution: Resolution, workloads: Iterable[Workload]
) -> dict[str, tuple[float | None, ...]]:
    """Courses of some workloads, out of the store's hours."""
    wanted = {one.id: one for one in workloads}
    pods: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in resolution.assignments:
        if one.workload_id in wanted:
            pods[one.workload_id].append((one.namespace, one.pod))
    found = {}
    for name, own in pods.items():
        names = list(dict.fromkeys(own))[-_MOST_PODS:]
        hours = list(_hours(store, plan, wanted[name].container, names))
        if hours:
            found[name] = course(hours, plan.window)
    return found


def _hours(
    store: "Store", plan: Plan, container: str, names: list[tuple[str, str]]
) -> Iterator[tuple[int, float, float]]:
    """(start, observed, active seconds) of the hours of these pods' containers."""
    tally = DeviceTally()
    with store.reading_usage(plan.cluster) as reading:
        for used in reading.parts(plan.window.start, plan.window.end, names):
            if isinstance(used, UsageRow):
                continue  # of no pod
            place, part = used
            if place[3] == container:
                tally.add_part(part)
    yield from tally.hours()
