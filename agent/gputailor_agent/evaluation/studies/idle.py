"""Idle: how sure is it that a GPU idle for so long stays idle for another hour.

Chosen on the first 60 % of the trace's time, reported on the rest. The product's own defaults and
its stated outlook (``rules.idle_outlook``) are judged on the later part as well, and on the whole.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gputailor_agent.evaluation.base import (
    Cell,
    Figure,
    Outcome,
    Plot,
    Source,
    Study,
    Table,
    at_least,
)
from gputailor_agent.evaluation.flags import (
    GRID_MINUTES,
    KINDS,
    Flagged,
    choose,
    curve_of,
    flag,
    flag_policy,
    of_kind,
)
from gputailor_agent.evaluation.levels import Spells, read_trace
from gputailor_agent.evaluation.outlooks import LEAST_SPELLS, OUTLOOK_MINUTES, outlook, outlooks
from gputailor_agent.evaluation.plots import series_of
from gputailor_agent.evaluation.statistics import share
from gputailor_agent.rules import idle

GOAL: Final = 0.97
LEVELS: Final = Source(
    file="usage/*gpu_levels*.csv*",
    origin="public status page of a university cluster, one page per 15 minutes (A100, V100)",
    licence="none stated: not part of the project, quoted as figures only",
)
_PLAIN_MINUTES: Final = 120.0
_FIT_SHARE: Final = 0.6
_METHOD: Final = (
    (
        "A spell is a run of samples of one GPU at level 0 while all GPUs of its node were "
        "allocated and the list of its users did not change. Each spell is flagged once, when it "
        "is as old as the threshold, and is right if the GPU stays at level 0 for another 60 "
        "minutes. Spells that are cut within that hour (the users changed, a gap) are neither "
        "right nor wrong; the two bounds count all of them as wrong and as right."
    ),
    (
        "Chosen on the first 60 % of the time, reported on the rest. The default for action is a "
        "pair of thresholds, one for GPUs never used since their users got them and one for those "
        "that paused: of all pairs in which each kind stays idle in at least 97 % and both "
        "together do with 95 % confidence (bootstrap over weeks), the one that frees the most "
        "idle hours."
    ),
    (
        "Expected remaining idle time: Kaplan-Meier estimate of the first part, of all its time "
        "and of each 30 days, held against that of the second."
    ),
)
_CANNOT: Final = (
    (
        "Idle in the strict sense (no kernel at all): level 0 may hide up to about 10 % of use, so "
        "every precision here is one of a coarser signal than the product's."
    ),
    "Idleness of a whole workload: which GPU belongs to which job is not in the trace.",
)


def divided(spells: Spells) -> tuple[Spells, Spells]:
    """Return the part on which is chosen and the later one on which is reported."""
    first, last = int(spells.started.min()), int(spells.started.max())
    cut = first + _FIT_SHARE * (last - first)
    return spells.where(spells.started < cut), spells.where(spells.started >= cut)


def _row(name: str, flagged: Flagged) -> tuple[Cell, ...]:
    interval = flagged.interval() or (None, None)
    return (
        name,
        len(flagged.stayed),
        flagged.judged,
        flagged.precision,
        *interval,
        flagged.least,
        flagged.most,
    )


def _curve(title: str, spells: Spells) -> Table:
    rows = (_row(f"{minutes:g}", flag(spells, minutes)) for minutes in GRID_MINUTES)
    return Table(
        title=title,
        columns=("minutes idle", "flagged", "judged", "stay an hour", "low", "high",
                 "if cut = resumed", "if cut = stayed"),
        units=("", "count", "count", *["ratio"] * 5),
        rows=tuple(row for row in rows if row[1]),
    )  # fmt: skip


def _figure(name: str, flagged: Flagged, note: str = "", goal: float | None = GOAL) -> Figure:
    low, high = flagged.interval() or (None, None)
    more = {"low": low, "high": high, "cases": flagged.judged, "note": note}
    if goal is None:
        return Figure(name=name, value=flagged.precision, **more)  # type: ignore[arg-type]
    return at_least(name, flagged.precision, goal, **more)


def _told(thresholds: dict[str, float | None]) -> str:
    return ", ".join(
        f"{kind.replace('_', ' ')}: {'never' if at is None else f'{at:g} min'}"
        for kind, at in thresholds.items()
    )


def _calibration(fitted: Spells, later: Spells) -> Iterator[Table]:
    for kind in KINDS:
        then, now = of_kind(fitted, kind), of_kind(later, kind)
        rows = tuple(_held_against(then, now, minutes) for minutes in OUTLOOK_MINUTES)
        yield Table(
            title=f"Expected remaining idle time against what came, {kind.replace('_', ' ')}",
            columns=("minutes idle", "stay an hour: stated", "least month", "seen",
                     "idle hours of the next 24: stated", "least month", "most", "seen",
                     "median hours left: stated", "share that outlasted it"),
            units=("", "ratio", "ratio", "ratio", *["hours"] * 5, "ratio"),
            rows=rows,
        )  # fmt: skip


def _held_against(then: Spells, now: Spells, minutes: float) -> tuple[Cell, ...]:
    stated, seen = outlook(then, minutes), outlook(now, minutes)
    outlasted = None
    if stated.median_hours is not None:
        at, more = now.steps(minutes), now.steps(stated.median_hours * 60)
        outlasted = curve_of(now).stays(at, more)
    return (
        f"{minutes:g}", stated.stays_an_hour, stated.stays_an_hour_least, seen.stays_an_hour,
        stated.mean_hours, stated.mean_hours_least, stated.mean_hours_most, seen.mean_hours,
        stated.median_hours, outlasted,
    )  # fmt: skip


def _calibrated(fitted: Spells, later: Spells) -> Figure:
    """Share of rows whose seen mean lies between the least and the most month before."""
    held = []
    for kind in KINDS:
        then, now = of_kind(fitted, kind), of_kind(later, kind)
        for minutes in OUTLOOK_MINUTES:
            stated, seen = outlook(then, minutes), outlook(now, minutes).mean_hours
            low, high = stated.mean_hours_least, stated.mean_hours_most
            enough = int(np.sum(now.ticks >= now.steps(minutes))) >= LEAST_SPELLS
            if enough and low is not None and high is not None and seen is not None:
                held.append(low <= seen <= high)
    return Figure(
        name="expected idle hours of the next 24 lie between the months' stated ones, later part",
        value=share(sum(held), len(held)),
        cases=len(held),
    )


def _by_time(spells: Spells, thresholds: dict[str, float | None]) -> Table:
    """Precision of the chosen default by time of day and week: whether it ought to depend on it."""
    hour = (spells.started // 3600) % 24
    weekend = (spells.started // 86_400 + 3) % 7 >= 5  # noqa: PLR2004 - 1970 began on a Thursday
    parts = (
        ("began Monday to Friday, 12-24 UTC", ~weekend & (hour >= 12)),  # noqa: PLR2004
        ("began Monday to Friday, 0-12 UTC", ~weekend & (hour < 12)),  # noqa: PLR2004
        ("began at a weekend", weekend),
    )
    return Table(
        title="The chosen default by time of day and weekday (later part)",
        columns=("part", "flagged", "judged", "stay an hour", "low", "high",
                 "if cut = resumed", "if cut = stayed"),
        units=("", "count", "count", *["ratio"] * 5),
        rows=tuple(_row(name, flag_policy(spells.where(chosen), thresholds))
                   for name, chosen in parts),
    )  # fmt: skip


def _plots(curves: Sequence[Table], calibration: Sequence[Table]) -> tuple[Plot, ...]:
    kinds = [kind.replace("_", " ") for kind in KINDS]
    return (
        Plot(
            name="idle-precision", title="Idle GPUs that stay idle for another hour, later part",
            x="minutes idle when flagged", y="stay an hour", y_unit="ratio", goal=GOAL,
            series=tuple(series_of(table, kind, "minutes idle", "stay an hour", ("low", "high"))
                         for kind, table in zip(kinds, curves, strict=True)),
        ),
        Plot(
            name="idle-calibration", title="Stated chance of another idle hour against what came",
            x="stated", y="seen, later part", x_unit="ratio", y_unit="ratio", diagonal=True,
            series=tuple(series_of(table, kind, "stay an hour: stated", "seen")
                         for kind, table in zip(kinds, calibration, strict=True)),
        ),
    )  # fmt: skip


def run(folder: Path) -> Outcome:
    """Judge thresholds on idle time by a trace."""
    spells = read_trace(LEVELS.files(folder)).spells
    fitted, later = divided(spells)
    chosen = choose(fitted, GOAL)
    shipped = times_to_act()
    figures = (
        _figure("plain 120-minute rule, later part", flag(later, _PLAIN_MINUTES), goal=None),
        _figure("default chosen here, later part", flag_policy(later, chosen), _told(chosen)),
        _figure("the product's default, later part", flag_policy(later, shipped), _told(shipped)),
        _figure("the product's default, all of it", flag_policy(spells, shipped), _told(shipped),
                goal=None),
        _calibrated(fitted, later),
        *(_figure(f"the product's default, {kind.replace('_', ' ')}, later part",
                  flag_policy(of_kind(later, kind), shipped), goal=None) for kind in KINDS),
    )  # fmt: skip
    whole = _curve("All spells, all of the time", spells)
    curves = tuple(
        _curve(f"{kind.replace('_', ' ').capitalize()}, later part", of_kind(later, kind))
        for kind in KINDS
    )
    calibration = tuple(_calibration(fitted, later))
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=_METHOD,
        figures=figures,
        tables=(whole, *curves, _by_time(later, shipped), *calibration),
        plots=_plots(curves, calibration),
        not_evaluable=_CANNOT,
    )


def times_to_act() -> dict[str, float | None]:
    """Idle minutes by kind after which the rule ``idle`` acts unless it is set otherwise."""
    own = {one.name: one.default for one in idle.RULE.thresholds}
    minutes = {"from_start": own["start_act_minutes"], "went_idle": own["act_minutes"]}
    return {kind: at if math.isfinite(at) else None for kind, at in minutes.items()}


def calibrate(folder: Path) -> dict[str, object]:
    """Thresholds and outlook of the first part of the trace."""
    fitted, _ = divided(read_trace(LEVELS.files(folder)).spells)
    figures = {
        "source": f"first {_FIT_SHARE:.0%} of the time of: {LEVELS.origin}",
        "goal": GOAL,
        "act_minutes": choose(fitted, GOAL),
        "outlook": {kind: outlooks(of_kind(fitted, kind)) for kind in KINDS},
    }
    return {"idle": figures}


STUDY: Final = Study(
    id="idle",
    title="Idle GPUs: does the idleness last",
    sources=(LEVELS,),
    run=run,
    order=10,
    calibrate=calibrate,
)
