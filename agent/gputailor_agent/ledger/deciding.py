"""What people decided, in force: a dismissed finding is not made again until the decision ends.

A decision works as the opt-out annotation on the workload does, so that rules know one way only of
being silenced, and reports show the reason.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Verdict
from gputailor_agent.model.ledger import Decision, Entry, State
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.opting_out import IGNORE, IGNORE_UNTIL, REASON

DISMISSED: Final = "dismissed"
ACKNOWLEDGED: Final = "acknowledged"
ALL: Final = "all"

#: States of a finding that somebody can still decide about.
_LIVING: Final = frozenset({State.NEW, State.OPEN, State.ACKNOWLEDGED, State.DISMISSED})


def decidable(
    verdict: Verdict, entries: Iterable[Entry], decisions: Iterable[Decision]
) -> frozenset[str]:
    """Return the rules of a workload that there is something to decide about.

    These are the ones with a finding in the plan, with one that lives in the ledger, or with a
    decision already. ``entries`` and ``decisions`` may be of other workloads too.
    """
    named = verdict.workload.id
    found = {one.rule for one in (verdict.primary, *verdict.alternatives) if one is not None}
    found |= {one.rule for one in entries if one.workload_id == named and one.state in _LIVING}
    return frozenset(found | {one.rule for one in decisions if one.workload_id == named})


def set_aside(
    profiles: Iterable[Profile], decisions: Iterable[Decision], now: float
) -> list[Profile]:
    """Profiles whose workloads bear the dismissals that hold at ``now`` as annotations."""
    by_workload: dict[str, list[Decision]] = {}
    for one in decisions:
        if one.kind == DISMISSED and one.holds(now):
            by_workload.setdefault(one.workload_id, []).append(one)
    return [
        _annotated(profile, by_workload[profile.workload.id], now)
        if profile.workload.id in by_workload
        else profile
        for profile in profiles
    ]


def _annotated(profile: Profile, decisions: list[Decision], now: float) -> Profile:
    workload = profile.workload
    own = workload.annotations
    rules = [one.rule for one in decisions]
    reasons = [one.reason for one in decisions]
    annotations = {name: text for name, text in own.items() if name != IGNORE_UNTIL}
    if IGNORE in own or IGNORE_UNTIL in own:
        # an opt-out of its own with an end of its own cannot stand beside others' in one
        # annotation: it is kept while it lasts
        if _lasts(own.get(IGNORE_UNTIL, ""), now):
            rules.append(own.get(IGNORE, ALL))
        reasons.append(own.get(REASON, ""))
    annotations[IGNORE] = ",".join(rules)
    annotations[REASON] = "; ".join(dict.fromkeys(text for text in reasons if text))
    return msgspec.structs.replace(
        profile, workload=msgspec.structs.replace(workload, annotations=annotations)
    )


def _lasts(until: str, now: float) -> bool:
    """Whether an annotation's end, a date or time in UTC, is still to come; unreadable: yes."""
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        return True
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() > now
