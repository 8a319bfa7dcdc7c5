"""Counting a replay: precision, recall, delay, savings and harm, by rule and confidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from types import MappingProxyType
from typing import Final

import numpy as np
from msgspec.structs import replace

from gputailor_agent.evaluation.backtest.hindsight import Advice, Verdict
from gputailor_agent.evaluation.backtest.openings import Opening
from gputailor_agent.evaluation.backtest.replay import Replay
from gputailor_agent.evaluation.base import Cell, Figure, Outcome, Plot, Table
from gputailor_agent.evaluation.plots import series_of
from gputailor_agent.evaluation.statistics import (
    rate_interval,
    ratio_interval,
    share,
    upper_bound,
)

_THOUSAND: Final = 1_000
#: What a word of confidence is taken to claim: so many of 100 are right. A ``low`` finding counts
#: no saving and is a trial: it may be wrong as often as right. This project's own reading.
CLAIMED: Final[Mapping[str, float]] = MappingProxyType({"high": 0.95, "medium": 0.8, "low": 0.5})
_LEAST_RUNS: Final = 3_000
_AT_ONCE: Final = "savings, had every notice been followed, too"
_METHOD: Final = (
    (
        "At each moment every rule judged what was known then: rows of hours that were over, pods "
        "as they were. A finding counts once, when it is first made, and again when its confidence "
        "rises: a notice and the advice to act are judged apart. Right and wrong are told by "
        "what was recorded later: a released GPU that worked within the hour, a GPU or replica "
        "given up that worked later, a memory peak above the advised card's."
    ),
    (
        "The oracle takes every opening at its first hour. Found and delay are of the first word "
        "of it; saved is what was left when it was advised with a confidence at which savings are "
        "counted (medium or high). Intervals: bootstrap over workloads."
    ),
)
_CANNOT: Final = (
    (
        "How much slower a change would have made a run: the history has only runs without it. "
        "gputailor ledger tells of changes that were made."
    ),
    (
        "Advice of rules whose harm would not show in a history (for example mixed precision, "
        "spot) is counted as unjudged."
    ),
)


@dataclass(frozen=True, slots=True)
class _Found:
    """An opening, when it was found, and when it was advised with a saving."""

    opening: Opening
    at: float | None
    acted: float | None

    @property
    def saved(self) -> float:
        """GPU-hours that following the advice would have saved."""
        return 0.0 if self.acted is None else self.opening.left_at(self.acted)


def outcome_of(replay: Replay) -> Outcome:
    """Return the figures and tables of a replay."""
    found = [_find(opening, replay.advice) for opening in replay.openings]
    unsafe = sum(one.verdict is Verdict.WRONG for one in replay.advice)
    told = (_by_confidence(replay.advice), _openings(found))
    figures = [
        _precision(replay.advice),
        _recall(found),
        _savings(found),
        _savings([replaced(one, acted=one.at) for one in found], _AT_ONCE),
        Figure(name="unsafe advice", value=float(unsafe), unit="count", cases=len(replay.advice)),
        _unsafe_rate(unsafe, replay.runs),
    ]
    return Outcome(
        study="backtest",
        title="What would have been advised, and what became of it",
        sources=(),
        method=_METHOD,
        figures=tuple(figures),
        tables=(_by_rule(replay), *told),
        plots=_plots(told),
        not_evaluable=_CANNOT,
        notes=(f"{replay.moments} moments, {replay.runs} runs",),
    )


def _answers(advice: Advice, opening: Opening) -> bool:
    """Whether the advice would have taken the opening; idle time by any rule that releases."""
    same = advice.rule == opening.rule or (
        opening.rule == "idle" and advice.rule in {"idle", "idle_notebook", "standby"}
    )
    return (
        same
        and advice.workload == opening.workload
        and advice.verdict is not Verdict.WRONG
        and opening.start <= advice.at < opening.end
    )


def _find(opening: Opening, advice: Iterable[Advice]) -> _Found:
    told = [one for one in advice if _answers(one, opening)]
    acted = [one.at for one in told if one.counts]
    return _Found(opening, min((one.at for one in told), default=None), min(acted, default=None))


def _judged(advice: Iterable[Advice]) -> list[Advice]:
    return [one for one in advice if one.verdict in {Verdict.RIGHT, Verdict.WRONG}]


def _precision(advice: Sequence[Advice], name: str = "precision") -> Figure:
    judged = _judged(advice)
    right = np.array([one.verdict is Verdict.RIGHT for one in judged], dtype=float)
    names = np.array([one.workload for one in judged])
    low, high = rate_interval(names, right, np.ones(len(judged))) or (None, None)
    value = share(int(right.sum()), len(judged))
    return Figure(name=name, value=value, low=low, high=high, cases=len(judged))


def _recall(found: Sequence[_Found], name: str = "recall, share of openings found") -> Figure:
    hits = np.array([one.at is not None for one in found], dtype=float)
    names = np.array([one.opening.workload for one in found])
    low, high = rate_interval(names, hits, np.ones(len(found))) or (None, None)
    value = share(int(hits.sum()), len(found))
    return Figure(name=name, value=value, low=low, high=high, cases=len(found))


def _savings(found: Sequence[_Found], name: str = "savings, share of the oracle's") -> Figure:
    saved = np.array([one.saved for one in found])
    total = np.array([one.opening.gpu_hours for one in found])
    names = np.array([one.opening.workload for one in found])
    low, high = ratio_interval(names, saved, total) or (None, None)
    whole = float(total.sum()) if len(found) else 0.0
    value = float(saved.sum()) / whole if whole > 0 else None
    return Figure(name=name, value=value, low=low, high=high, cases=len(found))


def _unsafe_rate(unsafe: int, runs: int) -> Figure:
    """Per 1,000 runs; below 3,000 runs only the bound is worth reading, and the note says so."""
    return Figure(
        name="unsafe advice per 1,000 runs",
        value=unsafe / runs * _THOUSAND if runs else None,
        high=upper_bound(unsafe, runs) * _THOUSAND if runs else None,
        unit="count",
        cases=runs,
        note="" if runs >= _LEAST_RUNS else f"fewer than {_LEAST_RUNS:,} runs: no claim",
    )


def _counts(advice: Sequence[Advice]) -> tuple[int, ...]:
    return tuple(sum(one.verdict is verdict for one in advice) for verdict in Verdict)


def _by_rule(replay: Replay) -> Table:
    rows: list[tuple[Cell, ...]] = []
    keys = sorted({(one.rule, one.confidence) for one in replay.advice})
    for rule, confidence in keys:
        own = [one for one in replay.advice if (one.rule, one.confidence) == (rule, confidence)]
        figure = _precision(own)
        wrong = sum(one.verdict is Verdict.WRONG for one in own)
        rate = wrong / replay.runs * _THOUSAND if replay.runs else None
        rows.append((rule, confidence, len(own), *_counts(own), figure.value, figure.low,
                     figure.high, rate))  # fmt: skip
    return Table(
        title="Advice by rule and confidence",
        columns=("rule", "confidence", "advice", *Verdict, "precision", "low", "high",
                 "unsafe per 1,000 runs"),
        units=("", "", *["count"] * 5, "ratio", "ratio", "ratio", "count"),
        rows=tuple(rows),
    )  # fmt: skip


def _by_confidence(advice: Sequence[Advice]) -> Table:
    """What each word claims beside what came; kept: unknown until enough was judged to tell."""
    rows: list[tuple[Cell, ...]] = []
    for confidence, claimed in CLAIMED.items():
        own = [one for one in advice if one.confidence == confidence]
        if own:
            figure = _precision(own)
            rows.append((
                confidence, len(own), figure.cases, claimed, figure.value, figure.low, figure.high,
                _kept(figure, claimed),
            ))  # fmt: skip
    return Table(
        title="Calibration: stated confidence against what came",
        columns=("confidence", "advice", "judged", "claimed", "right", "low", "high", "kept"),
        units=("", "count", "count", "ratio", "ratio", "ratio", "ratio", ""),
        rows=tuple(rows),
    )


def _kept(figure: Figure, claimed: float) -> str | None:
    """Whether as many came right as the word claims, as far as the interval can tell."""
    if figure.low is None or figure.high is None:
        return None
    if figure.low >= claimed:
        return "yes"
    return "no" if figure.high < claimed else None


def _plots(tables: Sequence[Table]) -> tuple[Plot, ...]:
    """Calibration, and savings by delay, of the tables that say the same in numbers."""
    by_confidence, openings = tables
    return (
        Plot(
            name="backtest-confidence", title="What a confidence claims against what came",
            x="claimed", y="right", x_unit="ratio", y_unit="ratio", diagonal=True,
            series=(
                series_of(by_confidence, "high, medium, low", "claimed", "right", ("low", "high")),
            ),
        ),
        Plot(
            name="backtest-delay", title="Savings by the median delay of each rule",
            x="median delay (hours)", y="saved of the oracle's", y_unit="ratio",
            series=tuple(
                series_of(replace(openings, rows=(row,)), str(row[0]), "median delay",
                          "saved of the oracle's")
                for row in openings.rows
            ),
        ),
    )  # fmt: skip


def _openings(found: Sequence[_Found]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for rule in sorted({one.opening.rule for one in found}):
        own = [one for one in found if one.opening.rule == rule]
        delays = [(one.at - one.opening.start) / 3600 for one in own if one.at is not None]
        recall, saved = _recall(own), _savings(own)
        rows.append((
            rule, len(own), recall.value, recall.low, recall.high,
            float(np.median(delays)) if delays else None,
            sum(one.opening.gpu_hours for one in own), saved.value, saved.low, saved.high,
        ))  # fmt: skip
    return Table(
        title="What there was to find, by rule",
        columns=("rule", "openings", "found", "low", "high", "median delay", "GPU-hours",
                 "saved of the oracle's", "low", "high"),
        units=("", "count", "ratio", "ratio", "ratio", "hours", "hours", "ratio", "ratio", "ratio"),
        rows=tuple(rows),
    )  # fmt: skip
