"""Each finding's life, moved on by each plan: pure, from what is known and what the plan shows.

What a plan does not know changes nothing: a workload whose state is unknown neither expires nor is
taken for changed. An entry whose change was made keeps being followed for thirty days.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from gputailor_agent.ledger.asking import NOTHING_ASKED, Asked
from gputailor_agent.ledger.changes import AT_ONCE, GIVING_BACK, Made, can_be_seen, made
from gputailor_agent.ledger.deciding import ALL, DISMISSED
from gputailor_agent.ledger.savings import outcome
from gputailor_agent.ledger.setups import (
    Member,
    families,
    known_families,
    price_of,
    runs_of,
    setup_of,
)
from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.judgement import Finding, Plan, SilenceKind, Verdict
from gputailor_agent.model.ledger import Decision, Entry, Period, Prediction, Result, State
from gputailor_agent.model.profile import Profile

NEW_SECONDS: Final = 86_400.0
EXPIRE_SECONDS: Final = 7 * 86_400.0
FOLLOW_SECONDS: Final = 30 * 86_400.0
#: Between two plans that lie further apart it is not known what was held.
LONGEST_STEP_SECONDS: Final = 6 * 3600.0
#: An entry that only grew older is written so seldom.
REFRESH_SECONDS: Final = 3600.0

_LIVING: Final = frozenset({State.NEW, State.OPEN, State.ACKNOWLEDGED, State.DISMISSED})
_BY_ANNOTATION: Final = "by annotation"


class _View(NamedTuple):
    """What the newest plan shows."""

    now: float
    cluster: str
    found: dict[tuple[str, str], tuple[Finding, bool]]
    verdicts: dict[str, Verdict]
    families: dict[str, list[Member]]
    decisions: dict[tuple[str, str], Decision]
    asked: Asked


def follow(
    known: Mapping[tuple[str, str], Entry],
    plan: Plan,
    profiles: Iterable[Profile],
    decisions: Iterable[Decision] = (),
    asked: Asked = NOTHING_ASKED,
) -> list[Entry]:
    """Entries that change by ``plan``: new ones and those of ``known`` that moved on.

    ``known``: the newest entry of each workload and rule. ``profiles``: what the plan was made of;
    ``asked``: what the inventory told beside them.
    """
    view = _view(plan, profiles, decisions, asked)
    changed = []
    for key, (finding, primary) in view.found.items():
        entry = known.get(key)
        if entry is None or _over(entry, view.now):
            number = 1 if entry is None else entry.number + 1
            changed.append(_opened(finding, view, number, primary=primary))
    begun_anew = {entry.key for entry in changed}
    for key, entry in known.items():
        moved = None if key in begun_anew else _moved(entry, view)
        if moved is not None and moved is not entry:
            changed.append(moved)
    return changed


def _view(
    plan: Plan, profiles: Iterable[Profile], decisions: Iterable[Decision], asked: Asked
) -> _View:
    found = {
        (verdict.workload.id, finding.rule): (finding, finding is verdict.primary)
        for verdict in plan.verdicts
        for finding in (verdict.primary, *verdict.alternatives)
        if finding is not None
    }
    return _View(
        now=plan.made_at,
        cluster=plan.cluster,
        found=found,
        verdicts={verdict.workload.id: verdict for verdict in plan.verdicts},
        families=families(profiles, plan.verdicts),
        decisions={(one.workload_id, one.rule): one for one in decisions},
        asked=asked,
    )


def _over(entry: Entry, now: float) -> bool:
    """Whether a finding that is made again begins a new entry."""
    if entry.state != State.APPLIED:
        return entry.state == State.EXPIRED
    waits = entry.result in {None, Result.WAITING}
    return not waits or now - (entry.applied_at or 0.0) >= FOLLOW_SECONDS


def _opened(finding: Finding, view: _View, number: int, *, primary: bool) -> Entry:
    members = known_families(view.families, finding.workload_id)
    return Entry(
        cluster=view.cluster,
        workload_id=finding.workload_id,
        rule=finding.rule,
        number=number,
        state=State.NEW,
        opened_at=view.now,
        changed_at=view.now,
        seen_at=view.now,
        updated_at=view.now,
        prediction=_prediction(finding, view.now, primary=primary),
        before=_before(finding, members, view),
    )


def _prediction(finding: Finding, now: float, *, primary: bool) -> Prediction:
    return Prediction(
        made_at=now,
        confidence=str(finding.confidence),
        gpu_hours_per_month=finding.saving.gpu_hours_per_month,
        money_per_month=finding.saving.money_per_month,
        slowdown=finding.slowdown,
        change=finding.change.kind,
        params=finding.change.params,
        primary=primary,
    )


def _before(finding: Finding, members: list[Member], view: _View) -> Period:
    own = [one for one in members if one.profile.workload.id == finding.workload_id]
    return Period(
        setup=setup_of(own[-1], view.asked, finding.change.params),
        runs=runs_of(own, since=float("-inf"), until=view.now),
        price_per_gpu_hour=price_of(own[-1].verdict),
    )


def _with(entry: Entry, now: float, **values: Any) -> Entry:
    if "state" in values and values["state"] != entry.state:
        values["changed_at"] = now
    return msgspec.structs.replace(entry, updated_at=now, **values)


def _moved(entry: Entry, view: _View) -> Entry | None:
    if entry.state in _LIVING:
        return _living(entry, view)
    if entry.state == State.APPLIED and view.now - (entry.applied_at or 0.0) < FOLLOW_SECONDS:
        return _followed(entry, view)
    return None


def _living(entry: Entry, view: _View) -> Entry | None:
    decided = _decided(entry, view)
    if decided is not None:
        return decided
    members = known_families(view.families, entry.workload_id)
    applied = _applied(entry, members, view) if entry.state != State.DISMISSED else None
    if applied is not None:
        return applied
    if entry.key in view.found:
        return _found_again(entry, view, members)
    return _missing(entry, view)


def _decided(entry: Entry, view: _View) -> Entry | None:
    """What a person's word makes of it: the entry itself where that changes nothing.

    None where no word stops it from living on.
    """
    by_rule = view.decisions.get((entry.workload_id, entry.rule))
    decision = by_rule or view.decisions.get((entry.workload_id, ALL))
    holds = decision is not None and decision.holds(view.now)
    if decision is not None and holds:
        state = State.DISMISSED if decision.kind == DISMISSED else State.ACKNOWLEDGED
        told = {"state": state, "reason": decision.reason, "until": decision.until}
        if (entry.state, entry.reason, entry.until) == tuple(told.values()):
            return None if state == State.ACKNOWLEDGED else entry
        return _with(entry, view.now, **told)
    annotated = _annotation(entry, view)
    if annotated is not None:
        if (entry.state, entry.reason) == (State.DISMISSED, annotated):
            return entry
        return _with(entry, view.now, state=State.DISMISSED, reason=annotated, until=None)
    if entry.state in {State.DISMISSED, State.ACKNOWLEDGED} and entry.key in view.found:
        return _with(entry, view.now, state=State.OPEN, reason="", until=None, seen_at=view.now)
    return None


def _annotation(entry: Entry, view: _View) -> str | None:
    """The reason of an opt-out annotation; None without one."""
    verdict = view.verdicts.get(entry.workload_id)
    for silence in () if verdict is None else verdict.silences:
        if silence.rule == entry.rule and silence.kind == SilenceKind.OPTED_OUT:
            return f"{_BY_ANNOTATION}: {silence.message.params.get('reason') or '-'}"
    return None


def _applied(entry: Entry, members: list[Member], view: _View) -> Entry | None:
    """The entry as applied where the newest set-up of its family shows the change."""
    if not members or members[-1].verdict.state == "unknown":
        return None
    newest, now = members[-1], view.now
    setup = setup_of(newest, view.asked, entry.prediction.params)
    much = made(entry.prediction, entry.before.setup, setup)
    change = entry.prediction.change
    if much == Made.NO or (change in GIVING_BACK and _ended_by_itself(newest.profile, entry)):
        return None
    after = Period(setup=setup, price_per_gpu_hour=price_of(newest.verdict))
    return _with(
        entry,
        now,
        state=State.APPLIED,
        applied_at=now if change in AT_ONCE else min(_begun(newest.profile, entry, now), now),
        in_full=much == Made.FULL,
        after=after,
    )


def _begun(profile: Profile, entry: Entry, now: float) -> float:
    """When the new set-up began: its first run if its shape has an id of its own, else the last."""
    starts = [run.started for run in profile.runs if run.started is not None]
    since = [start for start in starts if start >= entry.opened_at]
    choose = max if profile.workload.id == entry.workload_id else min
    return choose(since, default=now)


def _ended_by_itself(profile: Profile, entry: Entry) -> bool:
    """Whether the last run came to its own end: nobody released anything."""
    ended = [run for run in profile.runs if run.finished is not None]
    last = max(ended, key=lambda run: run.finished or 0.0, default=None)
    own_end = {Outcome.SUCCEEDED, Outcome.FAILED}
    return (
        last is not None
        and last.outcome in own_end
        and (last.finished or 0.0) >= entry.opened_at - NEW_SECONDS
    )


def _found_again(entry: Entry, view: _View, members: list[Member]) -> Entry | None:
    old = entry.state == State.NEW and view.now - entry.opened_at >= NEW_SECONDS
    fresh = 0 <= view.now - entry.updated_at < REFRESH_SECONDS
    if fresh and not old and entry.missing_since is None:
        return None
    finding, primary = view.found[entry.key]
    return _with(
        entry,
        view.now,
        state=State.OPEN if old else entry.state,
        seen_at=view.now,
        missing_since=None,
        prediction=_prediction(finding, view.now, primary=primary),
        before=_before(finding, members, view),
    )


def _missing(entry: Entry, view: _View) -> Entry | None:
    """Not found: after a week in which its workload was looked at, or was gone, it expires."""
    verdict = view.verdicts.get(entry.workload_id)
    if verdict is not None and verdict.state == "unknown":
        return None
    if entry.missing_since is None:
        return _with(entry, view.now, missing_since=view.now)
    if view.now - entry.missing_since < EXPIRE_SECONDS:
        return None
    why = "the workload is gone" if verdict is None else "it is not found any more"
    if verdict is not None and not can_be_seen(entry.prediction.change):
        why = f"{why}; a change of this kind cannot be seen from outside"
    return _with(entry, view.now, state=State.EXPIRED, reason=entry.reason or why)


def _followed(entry: Entry, view: _View) -> Entry | None:
    """What came after the change so far."""
    step = view.now - entry.updated_at
    if entry.after is None or 0 <= step < REFRESH_SECONDS:
        return None
    members = known_families(view.families, entry.workload_id)
    newest = members[-1] if members else None
    after = entry.after
    if newest is not None:
        after = msgspec.structs.replace(
            after,
            setup=setup_of(newest, view.asked, entry.prediction.params),
            runs=runs_of(members, since=entry.applied_at or view.now, until=view.now),
            price_per_gpu_hour=price_of(newest.verdict) or after.price_per_gpu_hour,
        )
    if 0 < step <= LONGEST_STEP_SECONDS:
        held = sum(member.verdict.gpus_now for member in members)
        after = msgspec.structs.replace(
            after,
            followed_seconds=after.followed_seconds + step,
            gpu_seconds=after.gpu_seconds + held * step,
        )
    found = outcome(msgspec.structs.replace(entry, after=after))
    return _with(
        entry,
        view.now,
        after=after,
        result=found.result,
        realised_gpu_hours_per_month=found.gpu_hours_per_month,
        realised_money_per_month=found.money_per_month,
        slowdown=found.slowdown,
    )
