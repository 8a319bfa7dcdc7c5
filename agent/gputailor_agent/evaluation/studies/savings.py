"""What advice saves, as a share of an oracle that knows how every pause ends.

The oracle gives a GPU back at the first idle sample of each spell that goes on for an hour or more.
A policy gives it back when the spell is as old as its threshold. Unsafe: the GPU was at work again
within the hour.
"""

from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from gputailor_agent.evaluation.base import (
    Cell,
    Figure,
    Outcome,
    Plot,
    Point,
    Series,
    Study,
    Table,
    at_least,
    at_most,
)
from gputailor_agent.evaluation.flags import (
    GRID_MINUTES,
    HOUR_MINUTES,
    KINDS,
    Thresholds,
    choose,
    flag_policy,
    steps_of,
)
from gputailor_agent.evaluation.levels import Began, Ended, Spells, read_trace
from gputailor_agent.evaluation.statistics import ratio_interval, upper_bound
from gputailor_agent.evaluation.studies.idle import LEVELS, divided, times_to_act
from gputailor_agent.rules import idle
from gputailor_agent.rules.calibrated import calibrated

_GOAL: Final = 0.9
_UNSAFE_GOAL: Final = 1.0  # per 1,000 runs
_LEAST_RUNS: Final = 3_000
_BEGAN: Final = (
    (Began.FROM_START, "from start"),
    (Began.WENT_IDLE, "went idle"),
    (Began.UNCLEAR, "unclear"),
)
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
        "The oracle knows how every pause ends; no advice does. Reachable: the thresholds of each "
        "kind that free most on this later part itself, as nobody can choose beforehand, once as "
        "right as the default's goal (97 % stay another hour) and once with no other bound than "
        "at most one unsafe flag per 1,000 runs (95 % upper bound). Where the rest of the oracle's "
        "hours goes is a table: hours that are over before any rule could tell, hours of spells "
        "that ended before the threshold, and hours waited in spells that were flagged."
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


def _lost(spells: Spells, thresholds: Thresholds) -> Table:
    """Where the oracle's hours go, by how a spell began: the rows of each kind add up to it."""
    oracle = oracle_hours(spells)
    total = float(np.sum(oracle))
    steps = steps_of(spells, thresholds)
    hour = spells.steps(HOUR_MINUTES)
    each = spells.step_seconds / 3600
    long, flagged = spells.ticks >= hour, spells.ticks >= steps
    worked = spells.ended == int(Ended.WORK)
    past = np.where(long, (spells.ticks - hour) * each, 0.0)
    parts = (
        ("the first hour, in which nothing can be known", np.where(long, hour * each, 0.0)),
        ("ended before the threshold: at work again", np.where(~flagged & worked, past, 0.0)),
        ("ended before the threshold: given back, or the trace ends",
         np.where(~flagged & ~worked, past, 0.0)),
        ("waited from an hour to the threshold, then flagged",
         np.where(flagged, (np.minimum(spells.ticks, steps) - hour) * each, 0.0)),
        ("freed", np.where(flagged, (spells.ticks - steps) * each, 0.0)),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for why, hours in parts:
        by_kind = [float(np.sum(hours[spells.began == int(began)])) for began, _ in _BEGAN]
        whole = float(np.sum(hours))
        rows.append((why, whole, whole / total if total > 0 else None, *by_kind))
    return Table(
        title="Where the oracle's hours go, the rule's action, later part",
        columns=("what becomes of them", "GPU-hours", "share", *(name for _, name in _BEGAN)),
        units=("", "hours", "ratio", *("hours" for _ in _BEGAN)),
        rows=tuple(rows),
    )


def reachable(spells: Spells, runs: int) -> dict[str, float | None] | None:
    """Thresholds that free most with at most one unsafe flag per 1,000 runs (upper bound).

    Chosen with hindsight. None where no runs were seen or nothing is safe enough.
    """
    best: dict[str, float | None] | None = None
    most = 0.0
    for values in product((*GRID_MINUTES, None), repeat=len(KINDS)):
        thresholds = dict(zip(KINDS, values, strict=True))
        flagged = flag_policy(spells, thresholds)
        hours, unsafe = float(np.sum(flagged.hours_left)), int(np.sum(flagged.resumed))
        if hours <= most or unsafe > _UNSAFE_GOAL * runs / _THOUSAND:
            continue
        if upper_bound(unsafe, runs) * _THOUSAND <= _UNSAFE_GOAL:
            best, most = thresholds, hours
    return best


def _reach(spells: Spells, runs: int, shipped: float | None) -> tuple[Figure, ...]:
    """What advice could reach at all, and the product's share of it."""
    right = choose(spells, calibrated().idle.goal)
    safe = reachable(spells, runs)
    figures = []
    for name, thresholds in (("as right as the default", right), ("as safe as the goal", safe)):
        value = saved_share(spells, thresholds).value if thresholds is not None else None
        told = "" if thresholds is None else _told(thresholds)
        figures.append(
            Figure(name=f"reachable with hindsight on thresholds, {name}", value=value, note=told)
        )
        share = None if not value or shipped is None else shipped / value
        figures.append(Figure(name=f"the product's share of that, {name}", value=share))
    return tuple(figures)


def _told(thresholds: Thresholds) -> str:
    return ", ".join("never" if at is None else f"{at:g} min" for at in thresholds.values())


def _traded(spells: Spells, runs: int) -> Plot:
    """What saving more costs in unsafe flags, by policies that wait the same of either kind."""
    points = []
    for minutes in GRID_MINUTES:
        policy = dict.fromkeys(KINDS, minutes)
        value = saved_share(spells, policy).value
        unsafe = int(np.sum(flag_policy(spells, policy).resumed))
        if value is not None and runs:
            points.append(Point(x=value, y=unsafe / runs * _THOUSAND))
    own = saved_share(spells, times_to_act()).value
    flagged = int(np.sum(flag_policy(spells, times_to_act()).resumed))
    mine = () if own is None or not runs else (Point(x=own, y=flagged / runs * _THOUSAND),)
    return Plot(
        name="savings-traded", title="Savings against unsafe flags, later part",
        x="share of the oracle's hours", x_unit="ratio", y="unsafe flags per 1,000 runs",
        goal=_UNSAFE_GOAL,
        series=(
            Series(name="one threshold for both kinds", points=tuple(points)),
            Series(name="the rule's action", points=mine),
        ),
    )  # fmt: skip


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
            *_reach(later, runs, share.value),
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
            _lost(later, shipped),
        ),
        plots=(_traded(later, runs),),
        not_evaluable=_CANNOT,
    )  # fmt: skip


STUDY: Final = Study(
    id="savings", title="Savings against an oracle", sources=(LEVELS,), run=run, order=80
)
