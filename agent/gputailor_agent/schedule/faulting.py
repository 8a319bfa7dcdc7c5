"""Which faults of devices are to be told of now: pure, from plans and from pages.

A fault is a code of the driver that means broken hardware, or clocks held down by heat or power, of
devices that a workload holds: what the rule ``health`` finds, by its thresholds. It is told when it
is first seen, and again when more such errors were counted since, each after a cool-down of its
own, so that what is told of heat does not keep back a GPU that fell off the bus. A fault is over
when the rule no longer finds it for a day. What is not known changes nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gputailor_agent.dialects import conditions
from gputailor_agent.model.judgement import Finding, Plan, Severity, Verdict
from gputailor_agent.rules.health import HARDWARE_ERRORS, THROTTLING
from gputailor_agent.schedule.measuring import Holding
from gputailor_agent.schedule.noticing import finding_of, minute, over
from gputailor_agent.store import FaultSpell

RULE: Final = "health"
#: The name of clocks held down; errors are called by their codes, as ``xid/79``.
THROTTLED: Final = "throttled"
#: Broken in another way, such as a memory row that could not be remapped.
HARDWARE: Final = "hardware"
#: Share of the time between two looks with the clocks held down: the rule's own threshold.
HOT_SHARE: Final = 0.05

_BROKEN: Final = "health.hardware"
#: Names of the numbers that the rule gives as evidence.
_COUNTED: Final = {"uncorrected ECC errors": conditions.ECC_UNCORRECTED}
_XID: Final = re.compile(r"Xid (\d+)")
_HALF: Final = 0.5  # of a count: counts that were split over hours lie on a grid
_OVER_SECONDS: Final = 86_400.0
_NOTED_SECONDS: Final = 3600.0  # "still there" is written no more often

Known = Mapping[tuple[str, str], FaultSpell]


@dataclass(frozen=True, slots=True)
class FaultNotice:
    """A workload whose devices have faults that are to be told of."""

    verdict: Verdict
    finding: Finding
    faults: tuple[str, ...]
    seen: float  # Unix seconds

    @property
    def period(self) -> str:
        """The UTC minute in which they were seen."""
        return minute(self.seen)

    @property
    def about(self) -> str:
        """What tells it from other notices of that minute."""
        return "/".join((self.verdict.workload.id, *self.faults))

    @property
    def nodes(self) -> str:
        """Where the devices are; '' where that is not known."""
        return str(self.finding.change.params.get("nodes") or "")

    @property
    def severe(self) -> bool:
        """Whether hardware broke: heat alone is less."""
        return self.finding.severity is Severity.HIGH


def faults_of(finding: Finding) -> dict[str, float]:
    """The faults that a finding of the rule ``health`` tells, with their counts; 0: not counted."""
    if finding.message.key != _BROKEN:
        return {THROTTLED: 0.0}
    counted = {}
    for row in finding.evidence:
        named = _XID.fullmatch(row.name)
        fault = f"{conditions.XID}{named.group(1)}" if named else _COUNTED.get(row.name, "")
        count = row.value
        if fault in HARDWARE_ERRORS and isinstance(count, int | float) and count > _HALF:
            counted[fault] = float(count)
    return counted or {HARDWARE: 0.0}


def follow_faults(
    plan: Plan, known: Known, cool_down_seconds: float, *, whole: bool = True
) -> tuple[list[FaultSpell], list[FaultNotice]]:
    """Faults as the plan changes what is known of them, and what is to be told now.

    ``whole``: the plan looks as far back as plans do. One that looks back less knows of fewer
    errors, so it neither ends a fault nor lowers its count.
    """
    changed: list[FaultSpell] = []
    notices: list[FaultNotice] = []
    lasting: dict[str, list[FaultSpell]] = {}
    for one in known.values():
        if one.lasting:
            lasting.setdefault(one.workload_id, []).append(one)
    for verdict in plan.verdicts:
        name, finding = verdict.workload.id, finding_of(verdict, RULE)
        found = {} if finding is None else faults_of(finding)
        told = []
        for fault, level in found.items():
            now = FaultSpell(
                workload_id=name, fault=fault, since=plan.made_at, lasting=True,
                level=level, told_at=plan.made_at, seen_at=plan.made_at,
            )  # fmt: skip
            before = known.get((name, fault))
            after = _seen(before, now, cool_down_seconds)
            told += [fault] if after.told_at == plan.made_at else []
            if whole and level < after.level:
                after = msgspec.structs.replace(after, level=level)
            if after != before:
                changed.append(after)
        if told and finding is not None:
            notices.append(FaultNotice(verdict, finding, tuple(told), plan.made_at))
        if whole and (finding is not None or over(verdict, RULE)):
            changed += _ended(lasting.get(name, ()), found, plan.made_at)
    return changed, notices


def _seen(before: FaultSpell | None, now: FaultSpell, cool_down_seconds: float) -> FaultSpell:
    """What is known of a fault after it is seen as ``now`` says, which would be told of it."""
    if before is None:
        return now
    news = not before.lasting or now.level > before.level + _HALF
    cooling = before.told_at is not None and now.seen_at - before.told_at < cool_down_seconds
    if news and not cooling:
        return msgspec.structs.replace(now, since=before.since) if before.lasting else now
    fresh = now.seen_at - before.seen_at < _NOTED_SECONDS
    return before if fresh else msgspec.structs.replace(before, seen_at=now.seen_at)


def _ended(
    lasting: Iterable[FaultSpell], found: Mapping[str, float], now: float
) -> Iterator[FaultSpell]:
    for one in lasting:
        if one.fault not in found and now - one.seen_at >= _OVER_SECONDS:
            yield msgspec.structs.replace(one, lasting=False)


@dataclass(frozen=True, slots=True)
class Suspects:
    """Pods (namespace, name) with a device that reported errors, or that heat holds down."""

    broken: frozenset[tuple[str, str]] = frozenset()
    hot: frozenset[tuple[str, str]] = frozenset()


@dataclass(slots=True)
class FaultWatch:
    """Compares devices' counters from one look to the next. Used by one thread at a time.

    A device that is seen for the first time reports nothing new: what its counters hold may be
    old, and plans tell of it. One whose exporter is silent stays as it was.
    """

    _last: dict[str, tuple[float, Mapping[str, float]]] = field(default_factory=dict)

    def look(self, holdings: Iterable[Holding]) -> Suspects:
        """Whose devices reported a fault since the last look."""
        seen: dict[str, tuple[float, Mapping[str, float]]] = {}
        broken, hot = set(), set()
        for one in holdings:
            if one.gpu_uuid and one.device:
                seen[one.gpu_uuid] = (one.at, one.device)
                at, before = self._last.get(one.gpu_uuid, (one.at, one.device))
                pod = (one.namespace, one.pod)
                if _rise(before, one.device, HARDWARE_ERRORS) > _HALF:
                    broken.add(pod)
                if one.at > at and _rise(before, one.device, THROTTLING) >= HOT_SHARE * (
                    one.at - at
                ):
                    hot.add(pod)
        self._last = seen
        return Suspects(frozenset(broken), frozenset(hot))


def _rise(before: Mapping[str, float], now: Mapping[str, float], names: frozenset[str]) -> float:
    """The largest rise of a counter; one that fell was set back, and counts from 0."""
    rises = (
        now[name] - was if now[name] >= was else now[name]
        for name in names & now.keys()
        for was in (before.get(name, 0.0),)
    )
    return max(rises, default=0.0)
