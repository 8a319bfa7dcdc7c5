"""Smaller GPU: does the slowdown that the product states hold the measured one on another card.

Judged is ``slowdown.smaller_gpu`` with every resource unknown, since the profiles have throughputs
and no activity, as it is and widened by the product's margins.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.evaluation.base import Cell, EvaluationError, Outcome, Source, Study, Table
from gputailor_agent.evaluation.intervals import (
    Stated,
    by_group,
    figures,
    left_out,
    predicted_margins,
    same_margins,
    told_margins,
)
from gputailor_agent.evaluation.throughputs import Move, moves, read_throughputs
from gputailor_agent.model.usage import NO_USE
from gputailor_agent.rules.margins import smaller_gpu_margins
from gputailor_agent.rules.slowdown import smaller_gpu

THROUGHPUTS: Final = Source(
    file="profiles/*throughput*.json*",
    origin="Gavel (stanford-futuredata)",
    licence="MIT",
)
_FIGURES: Final = ("fp32_flops", "bandwidth_bytes_per_second")
_UNITS: Final = ("", "count", "ratio", "ratio", "factor")
_METHOD: Final = (
    (
        "A case is one job (model, batch size) on one GPU of a card and of a card with less "
        "bandwidth; the figures of both are the catalogue's. Measured slowdown: steps per second "
        "of the one over those of the other. Jobs on several GPUs are in a table of their own: "
        "their links count, too."
    ),
    (
        "Stated: the product's roofline interval for FP32 and bandwidth with no activity known. "
        "These jobs ran in FP32, so tensor cores are left out."
    ),
    (
        "Margins are chosen on some cases and reported on others, three ways: each job (model and "
        "batch size) left out, the others on the same two cards; each model family left out; each "
        "family and each pair of cards left out together. Conformal prediction needs 39 groups "
        "for 95 % at two ends, and there are 26 jobs of 7 families: so margins are a prediction "
        "interval for a case of a group that was not seen, by Student's t on the logarithms of "
        "what strayed, one degree less than there are groups (for 98 % by jobs, 95 % by families; "
        "the product's are by families, since its cards and models are others). "
        "Bootstrap over families."
    ),
)
_CANNOT: Final = (
    (
        "The form with measured activities (SM, tensor, DRAM histograms): none was recorded, so "
        "the interval here is the widest that the rule can state."
    ),
    "Cards later than V100: the profiles have none.",
)


#: By jobs on the same cards the spread is small and estimated well: 98 % leave 95 % for others.
_OF_JOBS: Final = 0.98

_Told = tuple[Move, Stated]


def _stated(move: Move) -> Stated:
    rhos = [getattr(move.now, name) / getattr(move.then, name) for name in _FIGURES]
    interval = smaller_gpu([(NO_USE, rho) for rho in rhos], 1.0)
    return Stated(move.family, move.slowdown, interval)


def _pair(move: Move) -> str:
    return f"{move.now.key} to {move.then.key}"


def read(folder: Path) -> tuple[list[Move], tuple[str, ...]]:
    """Jobs that ran on two cards, and cards that the catalogue does not know."""
    return moves(read_throughputs(THROUGHPUTS.files(folder)), load_catalogue(None))


def _by_pair(title: str, told: Sequence[_Told]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in sorted({_pair(move) for move, _ in told}):
        rows += by_group((one for move, one in told if _pair(move) == name), lambda _: name)  # noqa: B023 - used at once
    return Table(
        title=title,
        columns=("cards", "cases", "inside", "slower than stated", "median width"),
        units=_UNITS,
        rows=tuple(rows),
    )


def _widened(told: Sequence[_Told]) -> list[_Told]:
    """As the product widens."""
    return [(move, stated.with_margins(smaller_gpu_margins())) for move, stated in told]


def _seen(told: Sequence[_Told]) -> list[Stated]:
    return [stated for _, stated in told]


def _by_job(told: Sequence[_Told]) -> list[Stated]:
    """Each job with the margins of all other jobs on the same cards, grouped by family again."""
    found = []
    families = {move.job: move.family for move, _ in told}
    for pair in sorted({_pair(move) for move, _ in told}):
        of_job = [replace(stated, job=move.job) for move, stated in told if _pair(move) == pair]
        held = left_out(of_job, lambda others: predicted_margins(others, _OF_JOBS))
        found += [replace(one, job=families[one.job]) for one in held]
    return found


def _strange(told: Sequence[_Told]) -> list[Stated]:
    """Each case with the margins of other families on other pairs of cards."""
    found = []
    for family, pair in sorted({(move.family, _pair(move)) for move, _ in told}):
        others = [one for move, one in told if move.family != family and _pair(move) != pair]
        own = [one for move, one in told if (move.family, _pair(move)) == (family, pair)]
        if others:
            margins = predicted_margins(others)
            found += [one.with_margins(margins) for one in own]
    return found


def run(folder: Path) -> Outcome:
    """Judge stated slowdowns on slower cards by measured ones."""
    found, strangers = read(folder)
    told = [(move, _stated(move)) for move in found]
    one = [(move, stated) for move, stated in told if move.gpus == 1]
    several = [(move, stated) for move, stated in told if move.gpus > 1]
    unseen = left_out(_seen(one), predicted_margins)
    seen = same_margins(smaller_gpu_margins(), predicted_margins(_seen(one)))
    notes = [told_margins(smaller_gpu_margins())]
    if strangers:
        notes.append(f"not in the catalogue, left out: {', '.join(strangers)}")
    name = "roofline without activity"
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=_METHOD,
        figures=(
            *figures(f"{name}, no margin", _seen(one), goal=False),
            *figures(f"{name}, margins of other jobs on the same cards", _by_job(one)),
            *figures(f"{name}, margins of other families", unseen),
            *figures(f"{name}, margins of other families on other cards", _strange(one)),
            *figures(f"{name}, the product's margins", _seen(_widened(one)), seen=seen),
            *figures(
                f"several GPUs, {name}, the product's margins",
                _seen(_widened(several)),
                goal=False,
            ),
        ),
        tables=(
            Table(
                title="By model family, margins of other families",
                columns=("family", "cases", "inside", "slower than stated", "median width"),
                units=_UNITS,
                rows=by_group(unseen),
            ),
            _by_pair("By cards, one GPU, no margin", one),
            _by_pair("By cards, one GPU, the product's margins", _widened(one)),
            _by_pair("By cards, several GPUs, the product's margins", _widened(several)),
        ),
        not_evaluable=_CANNOT,
        notes=tuple(notes),
    )


def calibrate(folder: Path) -> dict[str, object]:
    """Margins for a job of a family that was not seen, of all jobs on one GPU."""
    found, _ = read(folder)
    one = [_stated(move) for move in found if move.gpus == 1]
    if not one:
        raise EvaluationError(f"{folder}: {THROUGHPUTS.file}: no job ran on two known cards")
    source = f"all jobs on one GPU of: {THROUGHPUTS.origin}; what others reach: each left out"
    margins = predicted_margins(one)
    return {"smaller_gpu": {"source": source, "low": margins.low, "high": margins.high}}


STUDY: Final = Study(
    id="smaller_gpu",
    title="Smaller GPU: slowdown stated and measured",
    sources=(THROUGHPUTS,),
    run=run,
    order=40,
    calibrate=calibrate,
)
