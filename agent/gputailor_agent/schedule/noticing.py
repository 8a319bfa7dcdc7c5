"""Which workloads went idle and are to be told of, and who is told: pure, from plans.

One notice per workload and idle spell. A spell begins with a finding of the rule ``idle`` and ends
when a plan shows the workload at work, without pods, or idle too short to be called so. What a plan
does not know changes nothing: no spell begins or ends by missing data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import (
    Finding,
    Plan,
    SilenceKind,
    Verdict,
)
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.reports.delivery.settings import DeliverySettings, Receivers, receivers
from gputailor_agent.store import Spell

#: On a workload, its owner, its pods or its namespace: who is told, or "none".
ANNOTATION: Final = "gputailor.io/notify"

_RULE: Final = "idle"
_NOBODY: Final = frozenset({"none", "off", "false"})
_ENDING: Final = frozenset({SilenceKind.FINE, SilenceKind.NOT_APPLICABLE, SilenceKind.WATCHING})


@dataclass(frozen=True, slots=True)
class Notice:
    """A workload that went idle and is to be told of."""

    verdict: Verdict
    finding: Finding
    spell: Spell

    @property
    def period(self) -> str:
        """The spell's name: the UTC minute since when nothing ran."""
        return minute(self.spell.since)


def minute(at: float) -> str:
    """The UTC minute of a time (Unix seconds), as periods are named."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M")


def finding_of(verdict: Verdict, rule: str) -> Finding | None:
    """What a rule found, whether it is what is to be done first or not.

    ``idle`` finds at its time of a notice already. Its confidence is low then; the notice says so,
    and how long such idleness lasted elsewhere.
    """
    for found in (verdict.primary, *verdict.alternatives):
        if found is not None and found.rule == rule:
            return found
    return None


def idle_since(finding: Finding) -> float | None:
    """Since when (Unix seconds) nothing ran on any of its devices; None where it does not say."""
    idle = finding.message.params.get("idle")
    if isinstance(idle, bool) or not isinstance(idle, int | float):
        return None
    return finding.window.end - idle


def follow_spells(
    plan: Plan, known: Mapping[str, Spell], cool_down_seconds: float
) -> tuple[list[Spell], list[Notice]]:
    """Spells that change by ``plan``, and what is to be told now.

    Within ``cool_down_seconds`` of a workload's last notice a new spell waits; it is told
    afterwards if it still lasts.
    """
    changed: list[Spell] = []
    notices: list[Notice] = []
    for verdict, finding, before, spell in _spells(plan, known):
        if finding is None or spell.told or _cooling(spell, plan.made_at, cool_down_seconds):
            if spell != before:
                changed.append(spell)
            continue
        told = msgspec.structs.replace(spell, told=True, told_at=plan.made_at)
        changed.append(told)
        notices.append(Notice(verdict, finding, told))
    return changed, notices


def _spells(
    plan: Plan, known: Mapping[str, Spell]
) -> Iterator[tuple[Verdict, Finding | None, Spell | None, Spell]]:
    """Each workload's spell before and as the plan shows it; without a finding it has ended."""
    for verdict in plan.verdicts:
        before, finding = known.get(verdict.workload.id), finding_of(verdict, _RULE)
        since = None if finding is None else idle_since(finding)
        if finding is not None and since is not None:
            yield verdict, finding, before, _lasting(verdict, before, since, plan.made_at)
        elif before is not None and before.lasting and over(verdict, _RULE):
            yield verdict, None, before, msgspec.structs.replace(before, lasting=False)


def _lasting(verdict: Verdict, before: Spell | None, since: float, now: float) -> Spell:
    if before is not None and before.lasting:
        return before
    return Spell(
        workload_id=verdict.workload.id,
        since=since,
        lasting=True,
        told=False,
        told_at=None if before is None else before.told_at,
        seen_at=now,
    )


def over(verdict: Verdict, rule: str) -> bool:
    """Whether a rule looked and found nothing, which is not the same as knowing nothing."""
    return any(one.rule == rule and one.kind in _ENDING for one in verdict.silences)


def _cooling(spell: Spell, now: float, cool_down_seconds: float) -> bool:
    return spell.told_at is not None and now - spell.told_at < cool_down_seconds


@dataclass(frozen=True, slots=True)
class Route:
    """Who is told of a workload. ``problem``: why its own wish could not be followed, or ''.

    ``channels``: those that were named for it; ``webhook``: whether general ones are told, too.
    """

    mail_to: tuple[str, ...]
    channels: tuple[str, ...] = ()
    webhook: bool = True
    problem: str = ""


def unsubscribed(workload: Workload) -> bool:
    """Whether its annotation says that nobody is to be told."""
    return workload.annotations.get(ANNOTATION, "").strip().lower() in _NOBODY


def route(workload: Workload, settings: DeliverySettings) -> Route:
    """By the workload's annotation, else the setting ``notify``, else the general recipients.

    An annotation can only name addresses of known domains, and channels that are there for it:
    whoever may annotate a pod must not make the agent write to the whole world. A label or an
    annotation of the namespace counts like the workload's own, where that says nothing.
    """
    if unsubscribed(workload):
        return Route((), webhook=False)
    wish = workload.annotations.get(ANNOTATION, "").strip()
    problem = ""
    if wish:
        asked, problem = _wished(wish, settings)
        if asked.mail_to or asked.channels:
            return Route(asked.mail_to, asked.channels, problem=problem)
    for pattern, given in settings.notify.items():
        if fnmatchcase(workload.namespace, pattern) or fnmatchcase(workload.id, pattern):
            named = receivers(given, ANNOTATION, given.split(","))
            return Route(named.mail_to, named.channels, problem=problem)
    return Route(settings.mail_to, problem=problem)


def _wished(wish: str, settings: DeliverySettings) -> tuple[Receivers, str]:
    """Whom an annotation names, as far as it may, and what is wrong with the rest."""
    try:
        asked = receivers(wish, ANNOTATION, settings.open_channels)
    except DeliveryError as error:
        return Receivers(), str(error)
    allowed = tuple(one for one in asked.mail_to if settings.may_notify(one))
    problem = ""
    if len(allowed) < len(asked.mail_to):
        problem = f"{ANNOTATION}: the domain of an address is not in notify_domains"
    return Receivers(mail_to=allowed, channels=asked.channels), problem
