"""What advice saves, as a share of an oracle that knows how every pause ends.

The oracle gives a GPU back at the first idle sample of each spell that goes on for an hour or more.
A policy gives it back when the spell is as old as its threshold. Unsafe: the GPU was at work again
within the hour.
"""

from pathlib import Path
from typing import Final

import numpy as np

from gputailor_agent.evaluation.base import (
    Cell,
    Figure,
    Outcome,
    Study,
    Table,
    at_least,
    at_most,
)
from gputailor_agent.evaluation.flags import HOUR_MINUTES, Thresholds, flag_policy
from gputailor_agent.evaluation.levels import Spells, read_trace
from gputailor_agent.evaluation.statistics import ratio_interval, upper_bound
from gputailor_agent.evaluation.studies.idle import LEVELS, divided, times_to_act
from gputailor_agent.rules import idle

_GOAL: Final = 0.9
_UNSAFE_GOAL: Final = 1.0  # per 1,000 runs
_LEAST_RUNS: Final = 3_000
_THOUSAND: Final = 1_000
_METHOD: Final = (
    (
        "Reported on the later 40 % of the trace, with thresholds from the earlier part or the "
        "product's settings. Oracle: every spell of an hour or more is given back at its first "
        "idle sample. Hours count as far as they were seen: to the spell's end or its cut. A rule "
        "that waits an hour to see that a GPU is idle can free no more than the first policy of "
        "the table."
    ),
    (
        "Unsafe advice: flags whose GPU was at work again within the hour. A run is one holding "
        "of one GPU by one unchanged list of users; unsafe flags per 1,000 of them with the 95 % "
        "upper bound (Clopper and Pearson), claimed only with 3,000 runs or more."
    ),
)
_CANNOT: Final = (
    (
        "Savings in money, and of other rules than idle: the trace has no prices, memory, run "
        "times or jobs. Sharing by utilisation alone advises nothing (see there), so it saves "
        "nothing; fewer GPUs without an unused one counts no saving by design."
    ),
)


def policies() -> tuple[tuple[str, Thresholds], ...]:
    """Thresholds that are compared: the rule's defaults to tell and to act, and what others do.

    The first is the most that any rule can free that waits for an hour to see that a GPU is idle.
    """
    own = {one.name: one.default for one in idle.RULE.thresholds}
    notice = {"from_start": own["start_warn_minutes"], "went_idle": own["warn_minutes"]}
    return (
        ("every GPU after an hour", {"from_start": 60.0, "went_idle": 60.0}),
        ("the rule's notice", notice),
        ("Job Defense Shield's times to cancel", {"from_start": 120.0, "went_idle": 300.0}),
        ("the rule's action", times_to_act()),
    )


def oracle_hours(spells: Spells) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Hours that the oracle frees of each spell."""
    long = spells.ticks >= spells.steps(HOUR_MINUTES)
    return np.where(long, spells.ticks * spells.step_seconds / 3600, 0.0)


def saved_share(spells: Spells, thresholds: Thresholds) -> Figure:
    """Hours that a policy frees as a share of the oracle's, with a bootstrap over weeks."""
    flagged = flag_policy(spells, thresholds)
    oracle = oracle_hours(spells)
    total = float(np.sum(oracle))
    value = float(np.sum(flagged.hours_left)) / total if total > 0 else None
    low, high = _interval(spells, flagged.weeks, flagged.hours_left, oracle) or (None, None)
    return Figure(name="", value=value, low=low, high=high, cases=len(flagged.stayed))


def _interval(
    spells: Spells,
    weeks: np.ndarray[tuple[int], np.dtype[np.int64]],
    freed: np.ndarray[tuple[int], np.dtype[np.float64]],
    oracle: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[float, float] | None:
    """Both sums by the same weeks."""
    groups = np.concatenate([weeks, spells.weeks])
    above = np.concatenate([freed, np.zeros(len(oracle))])
    below = np.concatenate([np.zeros(len(freed)), oracle])
    return ratio_interval(groups, above, below)


def _row(name: str, spells: Spells, thresholds: Thresholds, runs: int) -> tuple[Cell, ...]:
    flagged = flag_policy(spells, thresholds)
    share = saved_share(spells, thresholds)
    unsafe = int(np.sum(flagged.resumed))
    told = ", ".join("never" if at is None else f"{at:g}" for at in thresholds.values())
    return (
        f"{name} ({told} min)", len(flagged.stayed), share.value, share.low, share.high,
        float(np.sum(flagged.hours_left)), unsafe, flagged.precision,
        unsafe / runs * _THOUSAND if runs else None,
        upper_bound(unsafe, runs) * _THOUSAND if runs else None,
    )  # fmt: skip


def run(folder: Path) -> Outcome:
    """Hold the product's idle policies against an oracle."""
    trace = read_trace(LEVELS.files(folder))
    _, later = divided(trace.spells)
    runs = int(np.sum(trace.holdings >= later.started.min()))
    shipped = times_to_act()
    flagged = flag_policy(later, shipped)
    unsafe = int(np.sum(flagged.resumed))
    share = saved_share(later, shipped)
    bound = upper_bound(unsafe, runs) * _THOUSAND if runs >= _LEAST_RUNS else None
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=_METHOD,
        figures=(
            at_least("idle GPU-hours freed, share of the oracle's", share.value, _GOAL,
                     low=share.low, high=share.high, cases=share.cases),
            at_most("unsafe flags per 1,000 runs, 95 % upper bound", bound, _UNSAFE_GOAL,
                    unit="count", cases=runs,
                    note=f"{unsafe} unsafe of {len(flagged.stayed)} flags; "
                    f"{unsafe / max(1, runs) * _THOUSAND:.2g} per 1,000 runs"),
            Figure(name="unsafe flags", value=float(unsafe), unit="count",
                   cases=len(flagged.stayed)),
        ),
        tables=(
            Table(
                title="Policies on idle GPUs, later part",
                columns=("policy (from start, went idle)", "flags", "share of the oracle", "low",
                         "high", "GPU-hours freed", "unsafe flags", "stay an hour",
                         "unsafe per 1,000 runs", "95 % upper bound"),
                units=("", "count", "ratio", "ratio", "ratio", "hours", "count", "ratio", "count",
                       "count"),
                rows=tuple(_row(name, later, one, runs) for name, one in policies()),
            ),
        ),
        not_evaluable=_CANNOT,
    )  # fmt: skip


STUDY: Final = Study(
    id="savings", title="Savings against an oracle", sources=(LEVELS,), run=run, order=80
)
