"""Sharing by utilisation alone: how many pairs called safe slow down by more than 10 %.

The product's own form of it is ``rules.interference``; the score it uses, its table of what to
expect and whether it advises at all were chosen on half of the job configurations.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
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
    at_most,
)
from gputailor_agent.evaluation.pairs import Pair, read_alone, read_pairs
from gputailor_agent.evaluation.plots import series_of
from gputailor_agent.evaluation.predicting import predicted_figures
from gputailor_agent.evaluation.risk import (
    LOST_A_TENTH,
    TOLERATED,
    UNSAFE_SPEED,
    Reached,
    Scored,
    better_score,
    halves,
    largest_safe,
    many_splits,
    reached,
    scored,
)
from gputailor_agent.evaluation.statistics import share, statistic_interval, upper_bound
from gputailor_agent.rules.calibrated import SharingLimit, calibrated
from gputailor_agent.rules.interference import SCORES, SharingOutlook, sharing_outlook

RISK_MOST: Final = 0.03
#: Limits are chosen for less, so that other configurations still hold 3 %.
_CHOSEN_RISK: Final = 0.02
_RECALL: Final = 0.8
_BINS: Final = 6
_COVERED: Final = 0.95
#: What a stated bound is chosen to hold, so that other jobs still hold 95 %.
_CHOSEN_FOR: Final = 0.98
_RECALLS: Final = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ALONE: Final = Source(file="profiles/*single_job*.csv*", origin="S-Lab Lucid", licence="BSD")
PAIRS: Final = Source(file="profiles/*colocation*.csv*", origin="S-Lab Lucid", licence="BSD")
_METHOD: Final = (
    (
        "A pair is unsafe if either job runs at less than 0.9 of its speed alone. The score of a "
        "pair is made of the two jobs' utilisation when alone: their sum, or the share of time in "
        "which both would want the card."
    ),
    (
        "Divided by job configuration (model, data set, batch size, precision), not by pair: pairs "
        "with one configuration on each side are left out. Which score, and up to where it may be "
        "advised (95 % upper bound of the risk at most 3 %), is chosen on one side and reported on "
        "the other: once by a hash of the name, and over 100 random divisions."
    ),
    (
        "A larger slowdown than 10 % may be tolerated (a setting): for each, score and limit are "
        "chosen for 2 % on all pairs that share no configuration with the pair at hand (eight "
        "parts by a hash of the name), so that every pair is judged once; the product has the "
        "limit of all pairs where that held 3 %."
    ),
    (
        "A logistic regression on utilisation and bandwidth of both sides (sums, products, the "
        "larger and the smaller), by the same eight parts, is held against the plain scores: it "
        "is no better, so the product keeps the score that can be said in one sentence."
    ),
    (
        "Where nothing is good enough the product says 'try' with the slowdown to expect; its "
        "stated 95 % bound is held against the other side."
    ),
)
_CANNOT: Final = (
    (
        "The form of the rule that reads SM width and DRAM activity second by second (rule "
        "share): these profiles have no SM, tensor or DRAM activity, only utilisation; there the "
        "rule says 'try' at most."
    ),
    "Sharing by MIG: no slice was measured.",
    "Which pairs fight over the host's CPU: nothing of the host was recorded.",
)


def read(folder: Path) -> tuple[list[Pair], int]:
    """Pairs of the folder, and how many rows name a configuration that was not measured alone."""
    return read_pairs(PAIRS.files(folder), read_alone(ALONE.files(folder)))


def _curve(found: Scored, score: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for recall in _RECALLS:
        most = found.at_recall(recall)
        if most is not None:
            count, wrong = found.called_safe(most)
            rows.append((found.recall(most), most, count, wrong, wrong / count,
                         upper_bound(wrong, count)))  # fmt: skip
    return Table(
        title=f"Risk against coverage, score: {score}, all pairs",
        columns=("recall", "score up to", "called safe", "unsafe", "risk", "95 % upper bound"),
        units=("ratio", "ratio", "count", "count", "ratio", "ratio"),
        rows=tuple(rows),
    )


def _outlook(pair: Pair) -> SharingOutlook:
    return sharing_outlook((pair.first.busy, pair.second.busy))


def _inside(pairs: Sequence[Pair]) -> float | None:
    """Share of the pairs that stay below the slowdown that the product states for them."""
    told = [(pair.slowdown, _outlook(pair).expected) for pair in pairs]
    known = [(seen, one.slowdown_most) for seen, one in told if one is not None]
    return share(sum(seen <= most for seen, most in known), len(known))


def _shipped(pairs: Sequence[Pair]) -> tuple[Figure, ...]:
    """The product's form as it is, on pairs that it has not seen."""
    part = "other half"
    advised = [pair for pair in pairs if _outlook(pair).advised(LOST_A_TENTH)]
    wrong = sum(pair.worst_speed < UNSAFE_SPEED for pair in advised)
    safe = sum(pair.worst_speed >= UNSAFE_SPEED for pair in pairs)
    low, high = statistic_interval(pairs, _inside) or (None, None)
    bound = upper_bound(wrong, len(advised)) if advised else None
    note = "no pair is advised: no score is good enough" if not advised else ""
    return (
        at_least(f"the product's recall, {part}", share(len(advised) - wrong, safe), _RECALL,
                 cases=len(pairs), note=note),
        at_most(f"the product's risk (95 % upper bound), {part}", bound, RISK_MOST,
                cases=len(advised), note=note),
        at_least(f"slowdown stays below the stated bound, {part}", _inside(pairs), _COVERED,
                 low=low, high=high, cases=len(pairs)),
    )  # fmt: skip


def _limits(pairs: Sequence[Pair]) -> list[tuple[Reached, SharingLimit]]:
    """For each slowdown: what limits of other configurations reached, and the limit of all pairs.

    A limit is kept only where it held on configurations that it was not chosen on.
    """
    found = scored(pairs, better_score(pairs))
    made = []
    for slowdown in TOLERATED:
        came = reached(pairs, slowdown, _CHOSEN_RISK)
        held = came.risk_most is not None and came.risk_most <= RISK_MOST
        beyond = found.beyond(slowdown)
        most = largest_safe(beyond, _CHOSEN_RISK) if held else None
        count, wrong = beyond.called_safe(most) if most is not None else (0, 0)
        made.append((came, SharingLimit(
            slowdown=round(slowdown, 4),
            score_most=None if most is None else round(most, 4),
            pairs=count,
            exceeded=wrong,
            risk_most=None if most is None else round(upper_bound(wrong, count), 4),
        )))  # fmt: skip
    return made


def _tolerated(limits: Sequence[tuple[Reached, SharingLimit]]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (f"{came.slowdown:.2f}x", came.called_safe, came.exceeded,
         share(came.exceeded, came.called_safe), came.risk_most, came.recall, limit.score_most)
        for came, limit in limits
    ]  # fmt: skip
    return Table(
        title="Slowdown that is tolerated, limits of other configurations (every pair once)",
        columns=("tolerated", "advised", "took longer", "risk", "95 % upper bound", "recall",
                 "the product's limit (overlap)"),
        units=("", "count", "count", "ratio", "ratio", "ratio", "ratio"),
        rows=tuple(rows),
    )  # fmt: skip


def _best_of(limits: Sequence[tuple[Reached, SharingLimit]]) -> tuple[Figure, ...]:
    """Recall where a larger slowdown is tolerated, of limits that held on other configurations."""
    return tuple(
        Figure(
            name=f"recall where {came.slowdown:.2f}x is tolerated, other configurations",
            value=came.recall, cases=came.called_safe,
            note=f"risk {share(came.exceeded, came.called_safe) or 0:.1%}, 95 % upper bound "
            f"{came.risk_most:.1%}",
        )
        for came, _ in limits
        if came.risk_most is not None and came.risk_most <= RISK_MOST
    )  # fmt: skip


def _noise(pairs: Sequence[Pair]) -> Figure:
    """What no sharing can do: a job that got faster. So much do the measurements stray."""
    seconds = [max(pair.speed_first, pair.speed_second) for pair in pairs]
    value = share(sum(one > LOST_A_TENTH for one in seconds), len(seconds))
    return Figure(name="pairs of which one got more than 10 % faster (noise of the measurement)",
                  value=value, cases=len(pairs))  # fmt: skip


def _chosen(fitted: list[Pair], rest: list[Pair]) -> tuple[Figure, ...]:
    if not fitted or not rest:
        return ()
    score = better_score(fitted)
    most = largest_safe(scored(fitted, score), RISK_MOST)
    later = scored(rest, score)
    at = later.at_recall(_RECALL)
    count, wrong = later.called_safe(at) if at is not None else (0, 0)
    return (
        Figure(name="score up to which sharing is safe enough, chosen on one half", value=most,
               cases=len(fitted), note=f"by {score}; unknown: no score is"),
        Figure(name="risk at recall 0.8, other half", value=share(wrong, count), cases=count,
               high=upper_bound(wrong, count)),
    )  # fmt: skip


def _plots(curves: Sequence[Table], tolerated: Table) -> tuple[Plot, ...]:
    return (
        Plot(
            name="sharing-risk", title="Pairs called safe of which one lost 10 %, all pairs",
            x="recall", y="risk (bar: to its 95 % upper bound)", x_unit="ratio", y_unit="ratio",
            goal=RISK_MOST,
            series=tuple(
                series_of(table, name, "recall", "risk", ("risk", "95 % upper bound"))
                for table, name in zip(curves, SCORES, strict=True)
            ),
        ),
        Plot(
            name="sharing-tolerated", title="What a larger tolerated slowdown brings",
            x="tolerated slowdown", y="share of pairs", x_unit="factor", y_unit="ratio",
            series=(
                series_of(tolerated, "recall", "tolerated", "recall"),
                series_of(tolerated, "risk", "tolerated", "risk", ("risk", "95 % upper bound")),
            ),
        ),
    )  # fmt: skip


def run(folder: Path) -> Outcome:
    """Judge advice to share by measured pairs."""
    pairs, strangers = read(folder)
    fitted, rest = halves(pairs)
    splits = many_splits(pairs, RISK_MOST)
    limits = _limits(pairs)
    figures = (
        *_shipped(rest),
        Figure(name="slowdown stays below the stated bound, all pairs", value=_inside(pairs),
               cases=len(pairs)),
        *_chosen(fitted, rest),
        *_best_of(limits),
        _noise(pairs),
        *predicted_figures(pairs, RISK_MOST),
        Figure(name="random divisions in which any score was good enough",
               value=share(splits.advised, splits.made), cases=splits.made),
        Figure(name="recall over random divisions",
               value=share(splits.called_safe - splits.unsafe, splits.safe), cases=splits.safe),
    )  # fmt: skip
    curves = tuple(_curve(scored(pairs, name), name) for name in SCORES)
    tolerated = _tolerated(limits)
    notes = (f"{strangers} pairs name a configuration that was not measured alone: left out",)
    return Outcome(
        study=STUDY.id,
        title=STUDY.title,
        sources=STUDY.sources,
        method=_METHOD,
        figures=figures,
        tables=(*curves, tolerated, _expected(rest)),
        plots=_plots(curves, tolerated),
        not_evaluable=_CANNOT,
        notes=notes if strangers else (),
    )


def _expected(pairs: Sequence[Pair]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in calibrated().sharing.bins:
        inside = [pair.slowdown for pair in pairs if _outlook(pair).expected == one]
        if inside:
            rows.append((one.score_most, len(inside), one.slowdown_median,
                         float(np.median(inside)), one.slowdown_most,
                         float(np.mean(np.array(inside) <= one.slowdown_most)), one.risk,
                         float(np.mean(1 / np.array(inside) < UNSAFE_SPEED))))  # fmt: skip
    return Table(
        title="Slowdown to expect against the measured one, other half",
        columns=("score up to", "pairs", "median: stated", "seen", "95 % bound: stated",
                 "share below it", "risk: stated", "seen"),
        units=("ratio", "count", "factor", "factor", "factor", "ratio", "ratio", "ratio"),
        rows=tuple(rows),
    )  # fmt: skip


def calibrate(folder: Path) -> dict[str, object]:
    """Score, limit of advice and slowdown to expect, of one half of the configurations."""
    pairs, _ = read(folder)
    fitted, _ = halves(pairs)
    score = better_score(fitted)
    found = scored(fitted, score)
    return {
        "sharing": {
            "source": f"half of the job configurations (limits: all) of: {PAIRS.origin} "
            f"({PAIRS.licence})",
            "score": score,
            "risk_goal": RISK_MOST,
            "limits": [msgspec.to_builtins(limit) for _, limit in _limits(pairs)],
            "bins": _bins(found),
        }
    }


def _bins(found: Scored) -> list[dict[str, float]]:
    """Bins with as many pairs each; bounds never fall with a rising score."""
    bins: list[dict[str, float]] = []
    most = 1.0
    for places in np.array_split(np.arange(len(found)), _BINS):
        slow, unsafe = found.slowdowns[places], int(np.sum(found.unsafe[places]))
        # one more than the quantile's rank: the bound is for pairs that were not seen
        rank = min(len(slow) - 1, int(np.ceil(_CHOSEN_FOR * (len(slow) + 1))) - 1)
        most = max(most, float(np.sort(slow)[rank]))
        bins.append({
            "score_most": round(float(found.scores[places[-1]]), 4),
            "risk": round(unsafe / len(places), 4),
            "risk_most": round(upper_bound(unsafe, len(places)), 4),
            "slowdown_median": round(float(np.median(slow)), 3),
            "slowdown_most": round(most, 3),
        })  # fmt: skip
    return bins


STUDY: Final = Study(
    id="sharing",
    title="Sharing a GPU, by utilisation alone",
    sources=(ALONE, PAIRS),
    run=run,
    order=20,
    calibrate=calibrate,
)
