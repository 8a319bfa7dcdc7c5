"""Mixed precision: what it did to jobs that were measured with and without it.

The rule needs SM, tensor and FP32 activity, which these profiles lack. What can be judged is the
speed-up that it quotes, and whether utilisation alone would tell who gains.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gputailor_agent.evaluation.base import Cell, EvaluationError, Figure, Outcome, Study, Table
from gputailor_agent.evaluation.pairs import read_alone, told
from gputailor_agent.evaluation.statistics import half, share, statistic_interval, upper_bound
from gputailor_agent.evaluation.studies.sharing import ALONE
from gputailor_agent.rules import mixed_precision

_GAIN: Final = 1.1
_LOSS: Final = 0.95
_GATES: Final = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
_METHOD: Final = (
    (
        "A case is one model, data set and batch size measured without and with mixed precision. "
        "Speed-up: speed with over speed without. A gate on utilisation is chosen on half of the "
        "models (by a hash of the name) for the highest share that gains 10 %, and reported on the "
        "other half."
    ),
    (
        "The rule quotes the least and the most speed-up of all these jobs and counts no saving. "
        "What that is worth for another model: each model's jobs held against the least and the "
        "most of all others."
    ),
)
_CANNOT: Final = (
    (
        "Precision of the rule mixed_precision itself: SM, tensor and FP32 activity were not "
        "recorded, and without them the rule says nothing."
    ),
)


@dataclass(frozen=True, slots=True)
class Twin:
    """One job without mixed precision, and what changed with it."""

    model: str
    name: str
    busy: float
    speed_up: float
    memory_ratio: float


def twins(folder: Path) -> list[Twin]:
    """Jobs that were measured both ways."""
    alone = read_alone(ALONE.files(folder))
    found = []
    for name, job in alone.items():
        other = alone.get((*name[:3], "1"))
        if name[3] != "0" or other is None or job.speed <= 0 or job.memory_mib <= 0:
            continue
        speed_up, memory = other.speed / job.speed, other.memory_mib / job.memory_mib
        found.append(Twin(name[0], told(name[:3]), job.busy, speed_up, memory))
    return found


def _gains(cases: Sequence[Twin]) -> float | None:
    return share(sum(one.speed_up >= _GAIN for one in cases), len(cases))


def _gated(cases: Sequence[Twin], least: float) -> list[Twin]:
    return [one for one in cases if one.busy >= least]


def _best_gate(cases: Sequence[Twin]) -> float | None:
    """Gate with the highest share that gains, of at least a quarter of the jobs."""
    options = [gate for gate in _GATES if len(_gated(cases, gate)) * 4 >= len(cases)]
    return max(options, key=lambda gate: (_gains(_gated(cases, gate)) or 0.0, -gate), default=None)


def _quoted(cases: Sequence[Twin]) -> float | None:
    own = {one.name: one.default for one in mixed_precision.RULE.thresholds}
    low, high = own["speed_up_low"], own["speed_up_high"]
    return share(sum(low <= one.speed_up <= high for one in cases), len(cases))


def _left_out(cases: Sequence[Twin]) -> float | None:
    """Share of speed-ups that lie between the least and the most of other models' jobs."""
    held = []
    for one in cases:
        others = [other.speed_up for other in cases if other.model != one.model]
        if others:
            held.append(min(others) <= one.speed_up <= max(others))
    return share(sum(held), len(held))


def _median(cases: Sequence[Twin]) -> float | None:
    return float(np.median([one.speed_up for one in cases])) if cases else None


def run(folder: Path) -> Outcome:
    """Judge what the rule says of mixed precision by jobs measured both ways."""
    cases = twins(folder)
    fitted = [one for one in cases if half(one.model)]
    rest = [one for one in cases if not half(one.model)]
    gate = _best_gate(fitted)
    gated = _gated(rest, gate) if gate is not None else []
    low, high = statistic_interval(cases, _median) or (None, None)
    losers = sum(one.speed_up < _LOSS for one in cases)
    freed = [1 - one.memory_ratio for one in cases]
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=_METHOD,
        figures=(
            Figure(name="median speed-up", value=_median(cases), unit="factor", low=low, high=high,
                   cases=len(cases)),
            Figure(name="speed-up inside what the rule quotes", value=_quoted(cases),
                   cases=len(cases), note="chosen on these jobs, so no proof"),
            Figure(name="speed-up inside what other models' jobs span", value=_left_out(cases),
                   cases=len(cases)),
            Figure(name="slower by more than 5 %", value=share(losers, len(cases)),
                   high=upper_bound(losers, len(cases)) if cases else None, cases=len(cases)),
            Figure(name="median share of memory freed",
                   value=float(np.median(freed)) if freed else None, cases=len(cases)),
            Figure(name="gain 10 % or more, all jobs of the other half", value=_gains(rest),
                   cases=len(rest)),
            Figure(name="gain 10 % or more, behind the gate chosen on one half",
                   value=_gains(gated), cases=len(gated),
                   note="no gate" if gate is None else f"utilisation of at least {gate:g}"),
        ),
        tables=(_table(cases),),
        not_evaluable=_CANNOT,
    )  # fmt: skip


def _table(cases: Sequence[Twin]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model in sorted({one.model for one in cases}):
        own = [one for one in cases if one.model == model]
        speeds = [one.speed_up for one in own]
        rows.append((model, len(own), min(speeds), float(np.median(speeds)), max(speeds),
                     float(np.median([one.busy for one in own])),
                     float(np.median([1 - one.memory_ratio for one in own]))))  # fmt: skip
    return Table(
        title="By model",
        columns=("model", "cases", "least speed-up", "median", "most", "median utilisation without",
                 "median memory freed"),
        units=("", "count", "factor", "factor", "factor", "ratio", "ratio"),
        rows=tuple(rows),
    )  # fmt: skip


def calibrate(folder: Path) -> dict[str, object]:
    """Speed-ups of the jobs that were measured both ways."""
    cases = twins(folder)
    if not cases:
        raise EvaluationError(f"{folder}: {ALONE.file}: no job was measured with and without")
    speeds = [one.speed_up for one in cases]
    figures = {
        "least": math.floor(min(speeds) * 100) / 100,  # outward, so that all lie inside
        "median": round(float(np.median(speeds)), 2),
        "most": math.ceil(max(speeds) * 100) / 100,
    }
    source = f"jobs measured with and without it: {ALONE.origin} ({ALONE.licence})"
    return {"mixed_precision": {"source": source, "cases": len(cases), **figures}}


STUDY: Final = Study(
    id="mixed_precision",
    title="Mixed precision: what it really brought",
    sources=(ALONE,),
    run=run,
    order=50,
    calibrate=calibrate,
)
