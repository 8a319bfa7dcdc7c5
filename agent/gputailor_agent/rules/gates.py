"""What must be known before a rule may speak: opt-outs, coverage, enough history, no failed runs.

Gates belong to rules: each rule splices the thresholds of the gates it uses into its own, so that
they can be set per rule. The defaults are this project's own.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.judgement import Evidence, Silence, SilenceKind
from gputailor_agent.model.profile import GpuUse, Profile, RunUse
from gputailor_agent.model.usage import NO_USE, SignalUse
from gputailor_agent.profiles import Tally, busy_signal, merge_uses
from gputailor_agent.rules.base import (
    Context,
    Limits,
    Threshold,
    held_against,
    message,
    noted,
    silence,
)
from gputailor_agent.rules.power import POWER_THRESHOLDS, idle_watts_limit
from gputailor_agent.rules.pricing import is_service

DAY_SECONDS: Final = 86_400
IGNORE: Final = "gputailor.io/ignore"
IGNORE_UNTIL: Final = "gputailor.io/ignore-until"
REASON: Final = "gputailor.io/reason"
#: Warm-up left out of means: the first 10 minutes, but at most a tenth of the run.
WARMUP_SECONDS: Final = 600.0
WARMUP_SHARE: Final = 0.1
#: A signal whose zero time exceeds the kernels' by this share of their active time has stuck.
_STUCK_SHARE: Final = 0.5
#: Means below this are "nothing ran" when power says otherwise.
_NOTHING_RAN: Final = 0.05

GATE_MESSAGES: Final = {
    "gate.opted_out": "opted out by annotation {annotation}, reason: {reason}",
    "gate.opted_out_until": "opted out until {until} by annotation {annotation}, reason: {reason}",
    "gate.never_held": "nothing is known to have run in the window: no pod of it held a GPU, "
    "{pending:count} wait for one",
    "gate.coverage": "unknown: {signal} was observed for {coverage:ratio} of the time the GPUs "
    "were held; {threshold:ratio} are needed. Is the exporter running on the node, and can it read "
    "the signal?",
    "gate.service_days": "watching: {days:count} full UTC days observed, {needed:count} are needed "
    "before a service is judged; ready on {ready:time}",
    "gate.window_too_short": "watching: the window holds {days:count} full UTC days and "
    "{needed:count} are needed before a service is judged; ask for a longer window",
    "gate.batch_runs": "watching: {runs:count} completed runs, the longest of {longest:seconds}; "
    "{needed:count} completed runs or one of {long_enough:seconds} are needed",
    "gate.too_short": "too short to judge: {runs:count} runs, the longest of {longest:seconds}; "
    "one of at least {needed:seconds} is needed",
    "gate.only_failed": "every run in the window failed or was killed for memory: nothing is "
    "taken from a workload that does not get through",
    "gate.power": "unknown: the counters say that nothing ran, but the card drew {watts:watts}, "
    "more than {limit:watts}; the counters may have stopped (look for Xid errors)",
}

SIZING_THRESHOLDS: Final = (
    Threshold("coverage", 0.9, "ratio", "least share of the held time that was observed"),
    Threshold("service_days", 7, "count", "full UTC days observed before a service is judged"),
    Threshold("batch_runs", 3, "count", "completed runs before a batch is judged"),
    Threshold("batch_run_seconds", 3600, "seconds", "one run this long will do instead"),
    Threshold("least_run_seconds", 60, "seconds", "shorter runs are too short to judge"),
    *POWER_THRESHOLDS,
)


def opted_out(profile: Profile, context: Context, rule: str) -> Silence | None:
    """Return the silence that the workload's annotations ask for, if they do.

    ``gputailor.io/ignore`` names rules (comma-separated) or ``all``; ``ignore-until`` a UTC date or
    time after which it no longer counts, and alone means ``all``. A time that cannot be read leaves
    the opt-out in force.
    """
    annotations = profile.workload.annotations
    until = annotations.get(IGNORE_UNTIL, "")
    named = annotations.get(IGNORE, "all" if until else "")
    rules = {name.strip().replace("-", "_") for name in named.split(",")}
    if not rules & {"all", rule}:
        return None
    ends = _moment(until)
    if ends is not None and ends <= context.now:
        return None
    return silence(
        rule,
        profile,
        SilenceKind.OPTED_OUT,
        message(
            "gate.opted_out_until" if until else "gate.opted_out",
            annotation=f"{IGNORE}={named}",
            reason=annotations.get(REASON) or "-",
            until=until,
        ),
        ready_at=ends,
    )


def _moment(text: str) -> float | None:
    """Unix seconds of a date (its first second) or time in UTC; None for anything else."""
    try:
        if len(text) <= len("2026-01-01"):
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def never_held(rule: str, profile: Profile) -> Silence | None:
    """Return the silence for a workload that held no device in the window."""
    if profile.allocated_seconds > 0 or profile.pods_now > 0:
        return None
    return silence(
        rule,
        profile,
        SilenceKind.UNKNOWN,
        message("gate.never_held", pending=profile.pending_pods),
        (noted("held", 0.0, unit="seconds", profile=profile, formula="seconds devices were held"),),
    )


@dataclass(frozen=True, slots=True)
class Basis:
    """What a sizing rule may judge by: devices of runs that did not fail, and their sum."""

    uses: tuple[GpuUse, ...]
    total: Tally
    signals: dict[str, SignalUse]
    busy: str  # the signal that tells whether a device worked
    evidence: tuple[Evidence, ...]

    def use(self, signal: str) -> SignalUse:
        """Use of a signal; empty where it could not be read or has stuck at zero."""
        return self.signals.get(signal, NO_USE)


def sizing(rule: str, profile: Profile, context: Context, limits: Limits) -> Basis | Silence:
    """Return what may be judged by, or why a sizing rule has to be silent.

    The answer for one profile is remembered: most rules ask for it with the same thresholds.
    """
    values = tuple(limits[one.name] for one in SIZING_THRESHOLDS)
    known = context.remembered.get("sizing")
    if known is None or known[0] is not profile or known[1] != values:
        known = (profile, values, _sizing(rule, profile, context, limits))
        context.remembered["sizing"] = known
    answer: Basis | Silence = known[2]
    return msgspec.structs.replace(answer, rule=rule) if isinstance(answer, Silence) else answer


def _sizing(rule: str, profile: Profile, context: Context, limits: Limits) -> Basis | Silence:
    silent = never_held(rule, profile)
    if silent is not None:
        return silent
    busy = busy_signal(profile.signals)
    covered = held_against(
        "coverage",
        profile.coverage(busy),
        ">=",
        limits["coverage"],
        unit="ratio",
        profile=profile,
        signal=busy,
        formula=f"observed seconds of {busy} / seconds held",
    )
    if not covered.passed:
        return _uncovered(rule, profile, covered, busy)
    early = _history(rule, profile, limits, covered)
    if isinstance(early, Silence):
        return early
    failed = {run.id for run in profile.runs if not _counts(run)}
    uses = tuple(use for use in profile.gpus if use.run_id not in failed and _observed(use, busy))
    if not uses:
        why = message("gate.only_failed")
        return silence(rule, profile, SilenceKind.NOT_APPLICABLE, why, (covered, *early))
    total = merge_uses(uses)
    signals = total.signals()
    contradicted = _contradicted(rule, profile, context, limits, uses)
    if contradicted is not None:
        return contradicted
    stuck = _stuck(signals, busy)
    evidence = [covered, *early]
    for name in stuck:
        del signals[name]
        evidence.append(
            noted(
                f"{name} not believed",
                None,
                profile=profile,
                signal=name,
                formula=f"{name} stayed at zero while {busy} was active",
            )
        )
    return Basis(uses, total, signals, busy, tuple(evidence))


def _observed(use: GpuUse, signal: str) -> bool:
    return use.signals.get(signal, NO_USE).observed_seconds > 0


def _counts(run: RunUse) -> bool:
    return run.outcome != Outcome.FAILED and not run.oom


def _uncovered(rule: str, profile: Profile, covered: Evidence, busy: str) -> Silence:
    coverage = covered.value
    return silence(
        rule,
        profile,
        SilenceKind.UNKNOWN,
        message("gate.coverage", signal=busy, coverage=coverage, threshold=covered.threshold),
        (covered,),
        missing_signals=(busy,),
    )


def run_seconds(run: RunUse) -> float:
    """Length of a run inside the window: its GPU-seconds by its GPUs."""
    return run.gpu_seconds / run.gpus if run.gpus > 0 else 0.0


def _history(
    rule: str, profile: Profile, limits: Limits, covered: Evidence
) -> tuple[Evidence, ...] | Silence:
    if is_service(profile):
        return _service_history(rule, profile, limits, covered)
    return _batch_history(rule, profile, limits, covered)


def _service_history(
    rule: str, profile: Profile, limits: Limits, covered: Evidence
) -> tuple[Evidence, ...] | Silence:
    needed = limits["service_days"]
    days = held_against(
        "full days",
        profile.full_days,
        ">=",
        needed,
        unit="count",
        profile=profile,
        formula="whole UTC days of the window of which at least 90 % were observed",
    )
    if days.passed:
        return (days,)
    possible = _whole_days(profile)
    if possible < needed and profile.full_days >= possible:
        why = message("gate.window_too_short", days=possible, needed=needed)
        return silence(rule, profile, SilenceKind.WATCHING, why, (covered, days))
    ready = _service_ready(profile, needed)
    why = message("gate.service_days", days=profile.full_days, needed=needed, ready=ready)
    return silence(rule, profile, SilenceKind.WATCHING, why, (covered, days), ready_at=ready)


def _whole_days(profile: Profile) -> int:
    first = -(-profile.window.start // DAY_SECONDS)
    return max(0, int(profile.window.end // DAY_SECONDS - first))


def _service_ready(profile: Profile, needed: float) -> float:
    """The midnight (UTC) at which enough full days will have been seen, if none is missed."""
    midnight = profile.window.end // DAY_SECONDS * DAY_SECONDS
    seen_at = min((use.first_hour for use in profile.gpus if use.hours), default=None)
    today_counts = seen_at is not None and seen_at <= midnight
    return float(midnight + (needed - profile.full_days + (0 if today_counts else 1)) * DAY_SECONDS)


def _batch_history(
    rule: str, profile: Profile, limits: Limits, covered: Evidence
) -> tuple[Evidence, ...] | Silence:
    sound = [run for run in profile.runs if _counts(run)]
    completed = [run for run in sound if run.outcome == Outcome.SUCCEEDED]
    longest = max((run_seconds(run) for run in sound), default=0.0)
    runs = held_against(
        "completed runs",
        len(completed),
        ">=",
        limits["batch_runs"],
        unit="count",
        profile=profile,
        formula="runs of the window that ended and did not fail",
    )
    length = held_against(
        "longest run",
        longest,
        ">=",
        limits["batch_run_seconds"],
        unit="seconds",
        profile=profile,
        formula="end (or the window's end) - start, of runs that did not fail",
    )
    if not sound:
        why = message("gate.only_failed")
        return silence(rule, profile, SilenceKind.NOT_APPLICABLE, why, (covered, runs, length))
    live = any(run.outcome == Outcome.RUNNING for run in sound)
    if longest < limits["least_run_seconds"] and not live:
        why = message(
            "gate.too_short", runs=len(sound), longest=longest, needed=limits["least_run_seconds"]
        )
        return silence(rule, profile, SilenceKind.WATCHING, why, (covered, runs, length))
    if runs.passed or length.passed:
        return (runs, length)
    why = message(
        "gate.batch_runs",
        runs=len(completed),
        longest=longest,
        needed=limits["batch_runs"],
        long_enough=limits["batch_run_seconds"],
    )
    ready = profile.window.end + limits["batch_run_seconds"] - longest if live else None
    evidence = (covered, runs, length)
    return silence(rule, profile, SilenceKind.WATCHING, why, evidence, ready_at=ready)


def _contradicted(
    rule: str, profile: Profile, context: Context, limits: Limits, uses: tuple[GpuUse, ...]
) -> Silence | None:
    """Return the silence where watts say that something ran and the counters that nothing did."""
    for use in uses:
        busy = use.signals.get(busy_signal(use.signals), NO_USE)
        limit = idle_watts_limit(context, use, limits)
        if limit is None or use.energy_joules is None or (busy.mean or 0.0) >= _NOTHING_RAN:
            continue
        watts = use.energy_joules / busy.observed_seconds if busy.observed_seconds > 0 else 0.0
        drawn = held_against(
            "mean power",
            watts,
            "<=",
            limit,
            unit="watts",
            profile=profile,
            formula="energy / observed seconds",
        )
        if not drawn.passed:
            why = message("gate.power", watts=watts, limit=limit)
            return silence(rule, profile, SilenceKind.UNKNOWN, why, (drawn,))
    return None


def _stuck(signals: dict[str, SignalUse], busy: str) -> list[str]:
    """Profiling signals that stayed at zero while kernels ran (their counters stop after Xid 31).

    A kernel that runs occupies an SM, so ``sm`` cannot be zero for much longer than ``busy``; where
    ``sm`` has stuck, the other profiling counters have as well.
    """
    profiling: list[str] = [n for n in ("sm", "tensor", "dram", "fp64") if n in signals]
    sm, base = signals.get("sm"), signals[busy]
    if sm is None or busy == "sm" or base.active_seconds <= 0:
        return []
    if sm.observed_seconds > 0 and sm.active_seconds == 0:
        return profiling
    if sm.histogram is None or base.histogram is None:
        return []
    seconds = sm.histogram.total_seconds
    whole = base.histogram.total_seconds
    if seconds <= 0 or whole <= 0:
        return []
    active = 1.0 - base.histogram.zero_seconds / whole
    excess = sm.histogram.zero_seconds / seconds - base.histogram.zero_seconds / whole
    return profiling if excess > _STUCK_SHARE * active else []


def steady(use: GpuUse, signal: str) -> SignalUse:
    """Observed and active seconds of a device's signal without the warm-up of its run."""
    whole = use.signals.get(signal, NO_USE)
    warm = use.warmup.get(signal)
    if warm is None or warm.observed_seconds <= 0:
        return whole
    skipped = min(WARMUP_SECONDS, WARMUP_SHARE * use.allocated_seconds)
    part = min(1.0, skipped / warm.observed_seconds)
    observed = whole.observed_seconds - part * warm.observed_seconds
    if observed <= 0:
        return whole
    active = max(0.0, whole.active_seconds - part * warm.active_seconds)
    return SignalUse(observed_seconds=observed, active_seconds=min(active, observed))


def steady_mean(uses: tuple[GpuUse, ...], signal: str) -> float | None:
    """Mean of a signal over devices without warm-up; None where it was never observed."""
    parts = [steady(use, signal) for use in uses]
    observed = sum(part.observed_seconds for part in parts)
    return sum(part.active_seconds for part in parts) / observed if observed > 0 else None
