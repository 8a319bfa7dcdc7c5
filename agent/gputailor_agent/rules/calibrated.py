"""Figures that were chosen on real data, as ``calibrated.yaml`` beside this module holds them.

``python -m gputailor_agent.evaluation --calibrate FILE`` writes it; docs/accuracy.md says on which
part of which data each was chosen and what it reached on the other part. Nobody edits it by hand.
"""

from functools import cache
from importlib import resources

import msgspec
import yaml


class IdleStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be expected of a GPU that has been idle for ``idle_minutes``. None: not known.

    ``*_least`` and ``*_most``: of single months of 30 days; the others are of all of them.
    """

    idle_minutes: float
    stays_an_hour: float | None  # share of such GPUs that were idle for another hour
    stays_an_hour_least: float | None
    median_hours: float | None  # half of them stay idle for longer than this; 24: a day or more
    mean_hours: float | None  # mean of the idle hours within the next 24
    mean_hours_least: float | None
    mean_hours_most: float | None


class IdleFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``act_minutes``: when another hour is as sure as ``goal``; None: not within the data."""

    source: str
    goal: float
    act_minutes: dict[str, float | None]  # by "from_start", "went_idle"
    outlook: dict[str, tuple[IdleStep, ...]]


class SharingBin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pairs with a score of at most ``score_most`` and above the bin before."""

    score_most: float
    risk: float  # share of pairs in which one took more than 10 % longer
    risk_most: float  # its 95 % upper bound
    slowdown_median: float  # of the slower one
    slowdown_most: float  # 95 % of pairs stay below


class SharingLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Up to which score a slowdown is as good as never exceeded; None: nowhere."""

    slowdown: float  # of the slower one, times its time alone
    score_most: float | None
    pairs: int  # recorded up to that score
    exceeded: int  # of these
    risk_most: float | None  # 95 % upper bound of their share


class SharingFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``limits``: by slowdown, where the risk of exceeding it is at most ``risk_goal``."""

    source: str
    score: str  # "overlap" or "sum"
    risk_goal: float
    limits: tuple[SharingLimit, ...]
    bins: tuple[SharingBin, ...]


class Margins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Factors (1 or more) by which an interval of slowdown is widened at both ends."""

    source: str
    low: float
    high: float


class SpeedUps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Speed with a change over speed without it, of ``cases`` recorded jobs; below 1: slower."""

    source: str
    cases: int
    least: float
    median: float
    most: float


class Calibrated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of the file."""

    idle: IdleFigures
    sharing: SharingFigures
    fewer_gpus: Margins
    smaller_gpu: Margins
    mixed_precision: SpeedUps


@cache
def calibrated() -> Calibrated:
    """Return the figures of this release."""
    text = resources.files(__package__).joinpath("calibrated.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), Calibrated)
