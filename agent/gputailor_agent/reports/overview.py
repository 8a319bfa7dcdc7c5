"""What every report shows, as values: totals, lines worth acting on, one row per workload.

Formats only lay these out. Means over the cluster are weighted by observed GPU time: what was not
observed is left out of the mean and shown as a share of its own, never counted as zero.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Workload
from gputailor_agent.model.judgement import (
    Confidence,
    Finding,
    Message,
    Money,
    OtherMoney,
    Plan,
    Severity,
    Silence,
    SilenceKind,
    Verdict,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.currencies import saved, spent, together
from gputailor_agent.reports.recorded import of_logs, retold
from gputailor_agent.reports.translating import translated
from gputailor_agent.reports.wording import say, sentence

STATES: Final = ("finding", "watching", "unknown", "ok")
STATE_WORDS: Final = {
    "finding": "to change",
    "watching": "watching",
    "unknown": "unknown",
    "ok": "fine",
}
#: Whether a workload's use is known: ``use_of``.
MEASURED: Final = "measured"
NOT_YET: Final = "not_measured_yet"
UNKNOWN: Final = "unknown"
#: Use is rolled up by the hour: who held a GPU for no longer has nothing to show yet.
_FIRST_HOURS: Final = 1.0
_SEVERITIES: Final = tuple(Severity)
_REASON_ORDER: Final = (
    SilenceKind.UNKNOWN,
    SilenceKind.WATCHING,
    SilenceKind.OPTED_OUT,
    SilenceKind.FINE,
    SilenceKind.NOT_APPLICABLE,
)
#: Rules whose silence does not tell why nothing is asked: they look at something beside the GPUs'
#: use, or at it for longer than all others.
_ASIDE: Final = frozenset(
    {"environment_drift", "excess_cpu_memory", "health", "other_vendor", "reserve", "time_limit"}
)
_STATE_KINDS: Final = {
    "unknown": (SilenceKind.UNKNOWN,),
    "watching": (SilenceKind.WATCHING,),
    "ok": (SilenceKind.FINE, SilenceKind.OPTED_OUT, SilenceKind.NOT_APPLICABLE),
}


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster in one line. None is unknown."""

    gpus: float | None
    allocated: float | None
    free: float | None
    unavailable: float | None
    unknown: float | None
    mean_kernel_of_observed: float | None
    observed_share: float | None
    window_cost: Money | None
    unpriced_gpus: float | None
    saving: Money | None
    other_money: tuple[OtherMoney, ...]  # in none of these figures
    saving_gpu_hours_per_month: float
    states: dict[str, int]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One workload of a report, ready to lay out."""

    verdict: Verdict
    state: str
    headline: str
    saving: str
    slowdown: str


def totals(plan: Plan) -> Totals:
    """Totals of a plan; capacity is None where no node is known."""
    lines = plan.capacity
    known = bool(lines)
    mean, share = use_of_observed(plan.verdicts)
    return Totals(
        gpus=sum(line.capacity for line in lines) if known else None,
        allocated=sum(line.allocated for line in lines) if known else _allocated_now(plan),
        free=sum(line.free for line in lines) if known else None,
        unavailable=sum(line.unavailable for line in lines) if known else None,
        unknown=sum(line.unknown for line in lines) if known else None,
        mean_kernel_of_observed=mean,
        observed_share=share,
        window_cost=_window_cost(plan),
        unpriced_gpus=plan.cost.unpriced_gpus if plan.cost else None,
        saving=plan.saving_money_per_month,
        other_money=plan.other_money,
        saving_gpu_hours_per_month=plan.saving_gpu_hours_per_month,
        states={
            state: sum(1 for verdict in plan.verdicts if verdict.state == state) for state in STATES
        },
    )


def state_word(state: str) -> str:
    """What a workload's state is called."""
    words = {
        "finding": _("to change"),
        "watching": _("watching"),
        "unknown": _("unknown"),
        "ok": _("fine"),
    }
    return words.get(state, state)


def use_of(verdict: Verdict) -> str:
    """Whether the workload's use is measured, unknown, or can only be known in an hour.

    SM activity will do, since a MIG instance has no other. "Not yet" is who has held its GPUs for
    no longer than the hour in which use is rolled up; everybody else whose use nobody told is
    unknown.
    """
    if verdict.mean_kernel is not None or verdict.mean_sm is not None:
        return MEASURED
    young = verdict.gpu_hours <= _FIRST_HOURS * verdict.gpus_now
    return NOT_YET if verdict.coverage is None or (verdict.gpus_now > 0 and young) else UNKNOWN


def tracked_text(workload: Workload) -> str:
    """Experiments and runs as trackers name them; '' where none is known."""
    return ", ".join(
        " ".join(filter(None, (one.tracker, one.experiment, one.run))) for one in workload.tracked
    )


def belongs_text(workload: Workload) -> str:
    """Team, queue and tracker of a workload; '' where nothing says them."""
    parts = (workload.team, workload.queue, tracked_text(workload))
    return " · ".join(part for part in parts if part)


def measured_ratio(verdict: Verdict, value: float | None) -> str:
    """A share of the workload's time as percent, unknown, or not measured yet."""
    return _("not measured yet") if use_of(verdict) == NOT_YET else units.ratio(value)


def _allocated_now(plan: Plan) -> float | None:
    return sum(verdict.gpus_now for verdict in plan.verdicts) if plan.verdicts else None


def _window_cost(plan: Plan) -> Money | None:
    if plan.cost is not None:
        return Money(amount=plan.cost.nodes, currency=plan.cost.currency)
    others = {one.currency for one in plan.other_money}
    costs = [verdict.cost for verdict in plan.verdicts if verdict.cost is not None]
    priced = [cost for cost in costs if cost.currency not in others]
    if not priced or len({cost.currency for cost in priced}) > 1:
        return None
    return Money(amount=sum(cost.amount for cost in priced), currency=priced[0].currency)


def use_of_observed(verdicts: Sequence[Verdict]) -> tuple[float | None, float | None]:
    """Mean kernel activity of the observed GPU time, and its share of the time held."""
    allocated = sum(verdict.gpu_hours for verdict in verdicts)
    observed = [
        (verdict.gpu_hours * verdict.coverage, verdict.mean_kernel)
        for verdict in verdicts
        if verdict.coverage and verdict.mean_kernel is not None
    ]
    hours = sum(weight for weight, _ in observed)
    if hours <= 0:
        return None, (0.0 if allocated > 0 else None)
    mean = sum(weight * value for weight, value in observed) / hours
    return mean, (hours / allocated if allocated > 0 else None)


def lines(plan: Plan) -> list[Line]:
    """One line per workload: what saves most first, then watching, unknown, fine by cost."""
    verdicts = map(retold, plan.verdicts) if of_logs(plan) else plan.verdicts
    return [line_of(verdict) for verdict in sorted(verdicts, key=rank)]


def judged(plan: Plan) -> bool:
    """Whether there was anything to judge by: any use of a GPU that was measured."""
    return any(verdict.coverage for verdict in plan.verdicts)


def to_do(plan: Plan) -> list[Line]:
    """Lines that ask for a change, the largest saving first."""
    return [line for line in lines(plan) if line.state == "finding"]


def counted_findings(plan: Plan) -> list[Verdict]:
    """Verdicts whose first finding is in the sums: sure enough, and with a saving."""
    return counted_among(plan.verdicts)


def counted_among(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Of these verdicts."""
    return [one for one in verdicts if one.primary is not None and _adds_up(one.primary)]


def _adds_up(finding: Finding) -> bool:
    saving = finding.saving
    known = saving.money_per_month is not None or saving.gpu_hours_per_month is not None
    return known and finding.confidence is not Confidence.LOW


def rank(verdict: Verdict) -> tuple[float, ...]:
    """The report's order as a key to sort by: what to change first, then what saves most."""
    state = STATES.index(verdict.state) if verdict.state in STATES else len(STATES)
    finding = verdict.primary
    counted = finding is not None and finding.confidence is not Confidence.LOW
    saving = finding.saving.money_per_month if finding else None
    hours = finding.saving.gpu_hours_per_month if finding else None
    return (
        state,
        0.0 if counted else 1.0,
        -(saving.amount if saving else 0.0),
        -(hours or 0.0),
        -float(_SEVERITIES.index(finding.severity)) if finding else 0.0,
        -(verdict.cost.amount if verdict.cost else 0.0),
        -verdict.gpu_hours,
    )


def line_of(verdict: Verdict) -> Line:
    """The line of one workload."""
    finding = verdict.primary
    return Line(
        verdict=verdict,
        state=verdict.state,
        headline=sentence(say(finding.message)) if finding else reason(verdict),
        saving=saving_text(finding) if finding else "",
        slowdown=slowdown_text(finding) if finding else "",
    )


def leading_silence(verdict: Verdict) -> Silence | None:
    """The silence that best tells why a workload without a finding is in its state."""
    wanted = _STATE_KINDS.get(verdict.state, ())

    def rank(silence: Silence) -> tuple[bool, int]:
        return silence.kind not in wanted, _REASON_ORDER.index(silence.kind)

    if not verdict.silences:
        return None
    heard = [one for one in verdict.silences if one.rule not in _ASIDE] or verdict.silences
    best = min(map(rank, heard))
    fitting = [silence for silence in heard if rank(silence) == best]
    # of several rules that found nothing, the later one in the registry looked deeper
    return fitting[-1] if verdict.state == "ok" else fitting[0]


def reason(verdict: Verdict) -> str:
    """Why nothing is asked of a workload, in a sentence."""
    silence = leading_silence(verdict)
    if silence is None:
        return say(Message(key="report.ok"))
    text = say(silence.message)
    if silence.ready_at is not None:
        text = _("{text} (ready {time})", text=text, time=units.utc(silence.ready_at))
    return sentence(text)


def saving_text(finding: Finding, *, per: str = "month") -> str:
    """The saving per month in money, else GPU-hours, else that it is not quantified.

    With ``per=""`` the month is left out: it stands in the column's title.
    """
    saving = finding.saving
    if saving.money_per_month is not None:
        return units.money(saving.money_per_month, per=per)
    if saving.gpu_hours_per_month is not None:
        hours = _("{number} GPU-hours", number=units.count(round(saving.gpu_hours_per_month)))
        return f"{hours}/{_(per)}" if per else hours
    return say(Message(key="report.no_saving"))


def slowdown_text(finding: Finding) -> str:
    """The slowdown interval of a change; '' where none applies."""
    if finding.slowdown is None:
        return ""
    low, high = units.factor(finding.slowdown.low), units.factor(finding.slowdown.high)
    return low if low == high else _("{low} to {high}", low=low, high=high)


def window_text(window: Window) -> str:
    """A window with both ends and its length."""
    return _(
        "{start} to {end} ({length})",
        start=units.utc(window.start),
        end=units.utc(window.end),
        length=units.duration(window.seconds),
    )


def problems(plan: Plan) -> tuple[str, ...]:
    """What went wrong while reading, in the language spoken, and sums that do not agree."""
    return (*map(translated, plan.problems), *broken_checks(plan))


def broken_checks(plan: Plan) -> list[str]:
    """Conservation checks that do not hold, with both sides."""
    return [
        _(
            "{check}: {left} is not {right}",
            check=translated(check.name),
            left=units.count(check.left),
            right=units.count(check.right),
        )
        for check in plan.checks
        if not check.holds
    ]


def totals_text(summary: Totals) -> list[tuple[str, str]]:
    """Totals as (label, text) pairs, in reading order."""
    allocated = units.count(summary.allocated)
    if summary.gpus and summary.allocated is not None:
        allocated += f" ({units.ratio(summary.allocated / summary.gpus)})"
    observed = units.ratio(summary.mean_kernel_of_observed)
    if summary.observed_share is not None:
        observed = _(
            "{mean} (observed {share} of the allocated GPU time)",
            mean=observed,
            share=units.ratio(summary.observed_share),
        )
    pairs = [
        (_("GPUs"), units.count(summary.gpus)),
        (_("allocated now"), allocated),
        (_("mean kernel activity"), observed),
        (_("cost of the window"), together(spent(summary.window_cost, summary.other_money))),
        (_("can be saved"), saving_of(summary)),
    ]
    rest = other_gpus(summary)
    if rest:
        pairs.insert(2, (_("other GPUs"), rest))
    return pairs


def saving_of(summary: Totals) -> str:
    """What can be saved per month in money and GPU-hours, or why there is no such figure."""
    saving = together(saved(summary.saving, summary.other_money), per="month")
    if summary.saving is None and not summary.other_money and not summary.states.get("finding"):
        measured = bool(summary.observed_share)
        saving = say(Message(key="report.none_found" if measured else "report.unmeasured"))
    hours = summary.saving_gpu_hours_per_month
    if not hours:
        return saving
    told = _("{number} GPU-hours", number=units.count(round(hours)))
    return _("{saving} ({hours})", saving=saving, hours=told)


def other_gpus(summary: Totals) -> str:
    """GPUs that nobody holds or of which too little is known; '' where there are none."""
    return _(", ").join(
        text
        for value, text in (
            (summary.free, _("{number} free", number=units.count(summary.free))),
            (
                summary.unavailable,
                _("{number} unavailable", number=units.count(summary.unavailable)),
            ),
            (
                summary.unknown,
                _("{number} whereabouts unknown", number=units.count(summary.unknown)),
            ),
            (
                summary.unpriced_gpus,
                _("{number} without a known price", number=units.count(summary.unpriced_gpus)),
            ),
            *(
                (
                    one.gpus,
                    _(
                        "{number} priced in {currency}",
                        number=units.count(one.gpus),
                        currency=one.currency,
                    ),
                )
                for one in summary.other_money
            ),
        )
        if value
    )
