"""What a report tells beside its plan: what was said before, what became of it, courses of use.

All of it is optional: a plan made of files has no former report, no ledger and no weeks, and its
report leaves those parts out. The store is read by ``reports.remembering``.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Money
from gputailor_agent.model.ledger import Entry
from gputailor_agent.model.profile import Profile, Window

#: Points of a course: half a day each where the window is a fortnight.
POINTS: Final = 28


class FormerFinding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a former report recommended first for a workload."""

    workload_id: str
    rule: str
    saving: Money | None = None  # per month
    gpu_hours_per_month: float | None = None


class Former(msgspec.Struct, frozen=True, kw_only=True):
    """A report made before; ``findings`` by workload."""

    made_at: float  # Unix seconds
    window: Window
    findings: dict[str, FormerFinding]


class Week(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a report, for the trend; None is unknown."""

    window: Window
    gpus: float | None
    mean_kernel: float | None
    observed_share: float | None
    cost: Money | None
    saving: Money | None
    findings: int


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known beside a plan.

    ``former``: the last report; ``weeks``: the last ones, oldest first; ``entries``: the ledger,
    None where there is none; ``courses``: busy share over the window by workload, None
    in them where nothing was observed; ``thresholds``: the user's own, as "rule.name", for the part
    on methods; ``scope``: of whom the report is.
    """

    former: Former | None = None
    weeks: tuple[Week, ...] = ()
    entries: tuple[Entry, ...] | None = None
    courses: dict[str, tuple[float | None, ...]] = {}
    thresholds: dict[str, float] = {}
    scope: str = ""


NOTHING: Final = Beside()


def course(
    hours: Iterable[tuple[int, float, float]], window: Window, points: int = POINTS
) -> tuple[float | None, ...]:
    """Busy share 0..1 in each of ``points`` equal parts of the window; None where none was seen.

    ``hours``: start of the hour (Unix seconds), observed and active seconds.
    """
    observed, active = [0.0] * points, [0.0] * points
    for hour, seen, busy in hours:
        place = int((hour - window.start) / window.seconds * points)
        if 0 <= place < points:
            observed[place] += seen
            active[place] += busy
    return tuple(
        None if seen <= 0 else min(1.0, busy / seen)
        for seen, busy in zip(observed, active, strict=True)
    )


def courses_of(profiles: Iterable[Profile], window: Window) -> dict[str, tuple[float | None, ...]]:
    """Courses of the workloads whose profiles hold their hours (those of a store's do not)."""
    found = {}
    for profile in profiles:
        hours = [hour for use in profile.gpus for hour in use.hours]
        if hours:
            found[profile.workload.id] = course(hours, window)
    return found


def scoped_beside(beside: Beside, workloads: Iterable[str], scope: str) -> Beside:
    """What is known beside the plan of a scope; the trend is of the whole cluster, so left out."""
    ids = frozenset(workloads)
    former = beside.former
    if former is not None:
        own = {name: one for name, one in former.findings.items() if name in ids}
        former = msgspec.structs.replace(former, findings=own)
    entries = beside.entries
    return msgspec.structs.replace(
        beside,
        former=former,
        weeks=(),
        entries=None
        if entries is None
        else tuple(one for one in entries if one.workload_id in ids),
        courses={name: told for name, told in beside.courses.items() if name in ids},
        scope=scope,
    )
