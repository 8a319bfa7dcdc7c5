"""What objects of the cluster are to be told by a plan, given what they were told: pure.

Each thing is told once, and again only when it is another one, at most once an hour: a plan is made
every few minutes, and what watches the objects should not notice. An annotation is taken back as
soon as a plan shows that there is nothing to recommend any more. What a plan does not know changes
nothing: neither a workload whose state is unknown nor a rule that lacks its data takes back what
was said. Who does not want to be told (``gputailor.io/notify: none``) is not; a rule that a
workload opted out of says nothing in the first place.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from gputailor_agent.model.inventory import OwnerReference
from gputailor_agent.model.judgement import Plan, SilenceKind, Verdict
from gputailor_agent.reports.delivery.kubernetes_words import (
    Recommendation,
    Series,
    Target,
    differs,
    recommended,
)
from gputailor_agent.reports.overview import rank
from gputailor_agent.schedule.noticing import unsubscribed
from gputailor_agent.store import ToldKey

EVENT: Final = "event"
ANNOTATION: Final = "annotation"

#: Least time between two tellings of one thing.
COOL_DOWN_SECONDS: Final = 3600.0
#: What was taken back is remembered so long, so that its return is known as one.
REMEMBER_SECONDS: Final = 30 * 86400.0
#: A bare pod is told by an Event alone: who may patch pods may do much more.
_NOT_ANNOTATED: Final = frozenset({"Pod"})


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an object was told last, at ``at``; ``stands``: it was not taken back since.

    ``number`` counts all tellings, ``series`` those of one recommendation.
    """

    target: Target
    said: Recommendation
    series: Series
    stands: bool
    number: int
    at: float


class Step(NamedTuple):
    """Something to tell or to take back (``told`` does not stand), and how it is kept."""

    key: ToldKey
    told: Told


Wanted = dict[ToldKey, tuple[Target, Recommendation]]


def wanted(plan: Plan, roots: Mapping[str, OwnerReference], channels: Collection[str]) -> Wanted:
    """What objects should have been told by the plan, in the language spoken.

    Each workload has an Event of its own; an object has one annotation, of what saves most.
    """
    found: Wanted = {}
    for verdict in sorted(plan.verdicts, key=lambda one: (rank(one), one.workload.id)):
        said = recommended(verdict, plan.made_at)
        root = _root(verdict, roots)
        if said is None or root is None or unsubscribed(verdict.workload):
            continue
        target = Target.of(root, verdict.workload.namespace)
        if EVENT in channels:
            found[ToldKey(EVENT, target.uid, said.workload_id)] = (target, said)
        if ANNOTATION in channels and target.kind not in _NOT_ANNOTATED:
            found.setdefault(ToldKey(ANNOTATION, target.uid, ""), (target, said))
    return found


def _root(verdict: Verdict, roots: Mapping[str, OwnerReference]) -> OwnerReference | None:
    """The object above a workload, or above the one that it was split from."""
    identity = verdict.workload.id
    return roots.get(identity) or roots.get(identity.partition("#")[0])


def steps(
    plan: Plan, asked: Wanted, known: Mapping[ToldKey, Told], channels: Collection[str]
) -> Iterator[Step]:
    """What to do so that objects have been told what is ``asked``, in its order."""
    for key, (target, said) in asked.items():
        before = known.get(key)
        if before is None:
            first = Series(began=plan.made_at)
            yield Step(key, _told(target, said, first, 1))
        elif _again(before, said):
            yield Step(key, _told(target, said, _series(before, said), before.number + 1))
    verdicts = {verdict.workload.id: verdict for verdict in plan.verdicts}
    for key, before in known.items():
        gone = before.stands and key not in asked and key.channel in channels
        if gone and not _unclear(verdicts.get(before.said.workload_id), before.said.rule):
            yield Step(
                key,
                msgspec.structs.replace(
                    before, stands=False, number=before.number + 1, at=plan.made_at
                ),
            )


def forgotten(known: Mapping[ToldKey, Told], now: float) -> list[ToldKey]:
    """What was taken back so long ago that nobody needs to know it."""
    return [
        key for key, told in known.items() if not told.stands and now - told.at > REMEMBER_SECONDS
    ]


def _told(target: Target, said: Recommendation, series: Series, number: int) -> Told:
    return Told(target=target, said=said, series=series, stands=True, number=number, at=said.at)


def _again(before: Told, said: Recommendation) -> bool:
    """Whether it is another thing, or the same that is back, and the last time is long enough ago.

    A clock that was set back ends the waiting.
    """
    if before.stands and not differs(before.said, said):
        return False
    return not 0 <= said.at - before.at < COOL_DOWN_SECONDS


def _series(before: Told, said: Recommendation) -> Series:
    """The same recommendation that is back goes on with its Event; another one begins its own."""
    if differs(before.said, said):
        return Series(began=said.at)
    return msgspec.structs.replace(before.series, count=before.series.count + 1)


def _unclear(verdict: Verdict | None, rule: str) -> bool:
    """Whether it cannot be known if a recommendation still holds."""
    if verdict is None:
        return False
    unknown = any(one.rule == rule and one.kind is SilenceKind.UNKNOWN for one in verdict.silences)
    return unknown or verdict.state == "unknown"
