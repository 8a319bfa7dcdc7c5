"""Fewer GPUs: does the slowdown that the product states hold what was measured.

Judged are the product's own functions: ``slowdown.fewer_gpus`` with and without an activity, and
``slowdown.fitted`` from runs of other sizes, as they are and widened by the product's margins.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gputailor_agent.evaluation.base import Figure, Outcome, Source, Study, Table
from gputailor_agent.evaluation.intervals import (
    Stated,
    by_group,
    figures,
    left_out,
    margins_for,
    same_margins,
    told_margins,
)
from gputailor_agent.evaluation.scaling import PATTERN, Fewer, fewer_cases, read_setups
from gputailor_agent.model.judgement import Interval
from gputailor_agent.rules.calibrated import Margins
from gputailor_agent.rules.margins import fewer_gpus_margins
from gputailor_agent.rules.slowdown import fewer_gpus, fitted

SCALING: Final = Source(
    file=PATTERN,
    origin="Sia artifact: data-parallel training on three clusters",
    licence="none stated: not part of the project, quoted as figures only",
)
_METHOD: Final = (
    (
        "A case is one application with one batch per GPU on N GPUs and on k < N GPUs of as many "
        "nodes. Measured slowdown: samples per second on N over those on k."
    ),
    (
        "The share of a step that is not synchronisation stands in for SM activity, which was not "
        "recorded and can only be lower; 'without activity' states what holds if nothing is known; "
        "'fitted' is what the product says after runs of three or more sizes, the smaller size "
        "unseen."
    ),
    (
        "Margins are chosen on all applications but one so that 98 % lie inside, and reported on "
        "the one left out (divided by job). Bootstrap over applications."
    ),
)
_CANNOT: Final = (
    "The measured-activity form (SM-seconds packed perfectly): no SM activity was recorded.",
    (
        "Tensor and pipeline parallelism, and GPUs that never worked: all of these jobs are "
        "data-parallel and use every GPU."
    ),
)
Predictor = Callable[[Fewer], Interval | None]


def _with_activity(case: Fewer) -> Interval:
    return fewer_gpus(case.now, case.then, case.busy)


def _without(case: Fewer) -> Interval:
    return fewer_gpus(case.now, case.then, 0.0)


def _fitted(case: Fewer) -> Interval | None:
    """As the rule does: the fit where there is one, inside the plain interval."""
    plain = _with_activity(case)
    found = fitted(case.others, case.now, case.then)
    if found is None:
        return None
    low = min(max(found.low, plain.low), plain.high)
    return Interval(low=low, high=max(low, min(found.high, plain.high)))


def stated_by(cases: Sequence[Fewer], predict: Predictor) -> list[Stated]:
    """What a predictor states for each case that it can say something of."""
    told = ((case, predict(case)) for case in cases)
    return [Stated(case.job, case.slowdown, one) for case, one in told if one is not None]


def _forms(cases: Sequence[Fewer]) -> tuple[tuple[str, list[Stated]], ...]:
    return (
        ("compute share as activity", stated_by(cases, _with_activity)),
        ("without activity", stated_by(cases, _without)),
        ("fitted from other sizes", stated_by(cases, _fitted)),
    )


def run(folder: Path) -> Outcome:
    """Judge stated slowdowns by measured ones."""
    cases = fewer_cases(read_setups(folder))
    shipped = fewer_gpus_margins()
    forms = _forms(cases)
    seen = same_margins(shipped, _margins(forms))
    found: list[Figure] = []
    tables = []
    for name, stated in forms:
        found += figures(f"{name}, no margin", stated, goal=False)
        found += figures(f"{name}, margins of other jobs", left_out(stated))
        with_margins = [one.with_margins(shipped) for one in stated]
        found += figures(f"{name}, the product's margins", with_margins, seen=seen)
        tables.append(
            Table(
                title=f"By application, {name}, the product's margins",
                columns=("application", "cases", "inside", "slower than stated", "median width"),
                units=("", "count", "ratio", "ratio", "factor"),
                rows=by_group(with_margins),
            )
        )
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=_METHOD,
        figures=tuple(found),
        tables=tuple(tables),
        not_evaluable=_CANNOT,
        notes=(told_margins(shipped),),
    )


def _margins(forms: Sequence[tuple[str, list[Stated]]]) -> Margins:
    return margins_for([one for _, told in forms for one in told])


def calibrate(folder: Path) -> dict[str, object]:
    """Margins that all forms need on these jobs."""
    margins = _margins(_forms(fewer_cases(read_setups(folder))))
    source = f"all applications of: {SCALING.origin}; what others reach: each left out in turn"
    return {"fewer_gpus": {"source": source, "low": margins.low, "high": margins.high}}


STUDY: Final = Study(
    id="fewer_gpus",
    title="Fewer GPUs: slowdown stated and measured",
    sources=(SCALING,),
    run=run,
    order=30,
    calibrate=calibrate,
)
