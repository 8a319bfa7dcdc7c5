"""Smaller GPU: does the slowdown that the product states hold the measured one on another card.

Judged is ``slowdown.smaller_gpu`` with every resource unknown, since the profiles have throughputs
and no activity, as it is and widened by the product's margins.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.evaluation.base import Cell, EvaluationError, Outcome, Source, Study, Table
from gputailor_agent.evaluation.intervals import (
    Stated,
    by_group,
    figures,
    left_out,
    margins_for,
    same_margins,
    told_margins,
)
from gputailor_agent.evaluation.throughputs import Move, moves, read_throughputs
from gputailor_agent.model.usage import NO_USE
from gputailor_agent.rules.margins import is_dropped, smaller_gpu_margins
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
        "Margins are chosen on all model families but one so that 98 % lie inside, and reported "
        "on the one left out (divided by job), apart for cards that CUDA 12 has dropped (Kepler) "
        "and for all others. Bootstrap over families."
    ),
)
_CANNOT: Final = (
    (
        "The form with measured activities (SM, tensor, DRAM histograms): none was recorded, so "
        "the interval here is the widest that the rule can state."
    ),
    "Cards later than V100: the profiles have none.",
)


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


def _dropped(move: Move) -> bool:
    return is_dropped(move.then.compute_capability)


def _widened(told: Sequence[_Told]) -> list[_Told]:
    """As the product widens: by the margins of the candidate's kind."""
    return [
        (move, stated.with_margins(smaller_gpu_margins(dropped=_dropped(move))))
        for move, stated in told
    ]


def _seen(told: Sequence[_Told]) -> list[Stated]:
    return [stated for _, stated in told]


def run(folder: Path) -> Outcome:
    """Judge stated slowdowns on slower cards by measured ones."""
    found, strangers = read(folder)
    told = [(move, _stated(move)) for move in found]
    one = [(move, stated) for move, stated in told if move.gpus == 1]
    several = [(move, stated) for move, stated in told if move.gpus > 1]
    kinds = [[item for item in one if _dropped(item[0]) is old] for old in (False, True)]
    unseen = [stated for kind in kinds for stated in left_out(_seen(kind))]
    today = left_out(_seen(kinds[0]))
    notes = [told_margins(smaller_gpu_margins()), told_margins(smaller_gpu_margins(dropped=True))]
    if strangers:
        notes.append(f"not in the catalogue, left out: {', '.join(strangers)}")
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=_METHOD,
        figures=(
            *figures("roofline without activity, no margin", _seen(one), goal=False),
            *figures("roofline without activity, margins of other jobs", unseen),
            *figures(
                "roofline without activity, the product's margins",
                _seen(_widened(one)),
                seen=same_margins(smaller_gpu_margins(), margins_for(_seen(kinds[0]))),
            ),
            *figures("without dropped cards, margins of other jobs", today),
        ),
        tables=(
            Table(
                title="By model family, margins of other jobs",
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
    """Margins that jobs on one GPU need, apart for cards that CUDA has dropped."""
    found, _ = read(folder)
    one = [move for move in found if move.gpus == 1]
    if not one:
        raise EvaluationError(f"{folder}: {THROUGHPUTS.file}: no job ran on two known cards")
    source = f"all jobs on one GPU of: {THROUGHPUTS.origin}; what others reach: each left out"
    chosen: dict[str, object] = {}
    for key, old in (("smaller_gpu", False), ("dropped_gpu", True)):
        margins = margins_for([_stated(move) for move in one if _dropped(move) is old])
        chosen[key] = {"source": source, "low": margins.low, "high": margins.high}
    return chosen


STUDY: Final = Study(
    id="smaller_gpu",
    title="Smaller GPU: slowdown stated and measured",
    sources=(THROUGHPUTS,),
    run=run,
    order=40,
    calibrate=calibrate,
)
