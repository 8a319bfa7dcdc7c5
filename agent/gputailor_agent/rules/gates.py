"""What must be known before a rule may speak: coverage, enough history, no failed runs.

Gates belong to rules: each rule splices the thresholds of the gates it uses into its own, so that
they can be set per rule. The defaults are this project's own.
"""

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.judgement import Evidence, Silence, SilenceKind
from gputailor_agent.model.profile import GpuUse, Profile, RunUse
from gputailor_agent.model.usage import NO_USE, SignalUse
from gputailor_agent.profiles import Tally, busy_signal, merge_uses
from gputailor_agent.profiles.courses import takes_part
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
_SIZING_VALUES: Final = itemgetter(*(one.name for one in SIZING_THRESHOLDS))


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
    """What a sizing rule may judge by: devices of runs that did not fail, and their sum.

    ``unused``: devices that did nothing while others of their run did (for a service: of their
    pod). They are in no mean: how busy a job keeps its GPUs is a question of those that it uses.
    """

    uses: tuple[GpuUse, ...]
    total: Tally
    signals: dict[str, SignalUse]
    busy: str  # the signal that tells whether a device worked
    evidence: tuple[Evidence, ...]
    unused: tuple[GpuUse, ...] = ()

    def use(self, signal: str) -> SignalUse:
        """Use of a signal; empty where it could not be read or has stuck at zero."""
        return self.signals.get(signal, NO_USE)


def sizing(rule: str, profile: Profile, context: Context, limits: Limits) -> Basis | Silence:
    """Return what may be judged by, or why a sizing rule has to be silent.

    The answer for one profile is remembered: most rules ask for it with the same thresholds.
    """
    known, key = context.about(profile), ("sizing", _SIZING_VALUES(limits))
    answer: Basis | Silence | None = known.get(key)
    if answer is None:
        answer = known[key] = _sizing(rule, profile, context, limits)
    if isinstance(answer, Silence) and answer.rule != rule:
        return msgspec.structs.replace(answer, rule=rule)
    return answer


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
    sound = _sound(profile, context, busy)
    if not sound.uses:
        why = message("gate.only_failed")
        return silence(rule, profile, SilenceKind.NOT_APPLICABLE, why, (covered, *early))
    contradicted = _contradicted(rule, profile, context, limits, (*sound.uses, *sound.unused))
    if contradicted is not None:
        return contradicted
    evidence = (covered, *early, *sound.evidence)
    return replace(sound, evidence=evidence)


def _sound(profile: Profile, context: Context, busy: str) -> Basis:
    """Return what no threshold decides: devices of runs that did not fail, and their sum.

    Remembered, for adding devices up is most of the work.
    """
    known = context.about(profile)
    if "sound" not in known:
        failed = {run.id for run in profile.runs if not _counts(run)}
        watched = [use for use in profile.gpus if use.run_id not in failed and _observed(use, busy)]
        uses, unused = _parted(watched, service=is_service(profile))
        total = merge_uses(uses)
        signals = total.signals()
        stuck = _stuck(signals, busy) if uses else []
        for name in stuck:
            del signals[name]
        evidence = tuple(
            noted(
                f"{name} not believed",
                None,
                profile=profile,
                signal=name,
                formula=f"{name} stayed at zero while {busy} was active",
            )
            for name in stuck
        )
        known["sound"] = Basis(uses, total, signals, busy, evidence, unused)
    sound: Basis = known["sound"]
    return sound


def _parted(uses: list[GpuUse], *, service: bool) -> tuple[tuple[GpuUse, ...], tuple[GpuUse, ...]]:
    """Devices that are used, and those that did nothing beside them."""

    def group(use: GpuUse) -> tuple[str, ...]:
        return (use.namespace, use.pod, use.pod_uid) if service else (use.run_id,)

    at_work = [takes_part(use) for use in uses]
    if all(at_work):
        return tuple(uses), ()
    working = {group(use) for use, works in zip(uses, at_work, strict=True) if works}
    kept = [works or group(use) not in working for use, works in zip(uses, at_work, strict=True)]
    return (
        tuple(use for use, keep in zip(uses, kept, strict=True) if keep),
        tuple(use for use, keep in zip(uses, kept, strict=True) if not keep),
    )


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
        if use.energy_joules is None or (busy.mean or 0.0) >= _NOTHING_RAN:
            continue
        limit = idle_watts_limit(context, use, limits)
        if limit is None:
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


#: Devices whose means were asked for last, and those means: rules ask about one workload in a row.
_LastMeans = tuple[tuple[GpuUse, ...], dict[str, float | None]]
_last_means: Final[list[_LastMeans]] = [((), {})]


def steady_mean(uses: tuple[GpuUse, ...], signal: str) -> float | None:
    """Mean of a signal over devices without warm-up; None where it was never observed."""
    last = _last_means[0]
    if last[0] is not uses:
        last = _last_means[0] = (uses, {})
    if signal not in last[1]:
        last[1][signal] = _steady_mean(uses, signal)
    return last[1][signal]


def _steady_mean(uses: tuple[GpuUse, ...], signal: str) -> float | None:
    parts = [steady(use, signal) for use in uses]
    observed = sum(part.observed_seconds for part in parts)
    return sum(part.active_seconds for part in parts) / observed if observed > 0 else None
