"""Before and after a change, like for like: what it really saved, and what it cost in time.

Where runs end (batch, training) one completed run before is compared with one after, by medians,
at the rate of runs from before: a saving is not claimed because fewer runs were started. Where
pods stay (services) the GPUs held before are compared with the mean held since, at 730 h a month.
"""

from typing import Final, NamedTuple

from gputailor_agent.ledger.changes import FREEING_NOTHING
from gputailor_agent.ledger.setups import HOURS_PER_MONTH
from gputailor_agent.model.judgement import Interval, Money
from gputailor_agent.model.ledger import Entry, Period, Result

#: As the gates of the sizing rules ask of a workload before it is judged.
ENOUGH_RUNS: Final = 3
ENOUGH_RUN_SECONDS: Final = 3600.0
ENOUGH_DAYS_SECONDS: Final = 7 * 86_400.0
#: A saving is real from this share of the foretold one on.
REAL_SHARE: Final = 0.5
#: Medians of run lengths differ by so much by chance.
SLOWER_TOLERANCE: Final = 1.1


class Outcome(NamedTuple):
    """What a change came to; None is unknown."""

    result: Result
    gpu_hours_per_month: float | None
    money_per_month: Money | None
    slowdown: float | None


def outcome(entry: Entry) -> Outcome:
    """Judge a change that was made by ``entry.before`` and ``entry.after``."""
    before, after = entry.before, entry.after
    if after is None:
        return Outcome(Result.WAITING, None, None, None)
    slowdown = _ratio(after.runs.seconds, before.runs.seconds)
    hours = _hours_per_month(before, after)
    if hours is None:
        return Outcome(_unfinished(before, after), None, None, slowdown)
    saved = hours[0] - hours[1]
    money = _money(before, after, hours)
    if _fails(before, after):
        return Outcome(Result.FAILED, saved, money, slowdown)
    if not _enough(before, after):
        return Outcome(Result.WAITING, saved, money, slowdown)
    if slowdown is not None and slowdown > _allowed(entry.prediction.slowdown):
        return Outcome(Result.SLOWER, saved, money, slowdown)
    return Outcome(_worth(entry, saved, money), saved, money, slowdown)


def _by_runs(before: Period) -> bool:
    return before.runs.gpu_hours is not None and before.runs.per_month is not None


def _hours_per_month(before: Period, after: Period) -> tuple[float, float] | None:
    """GPU hours a month before and after; None while there is nothing to compare."""
    if _by_runs(before):
        if after.runs.gpu_hours is None:
            return None
        rate = before.runs.per_month or 0.0
        return (before.runs.gpu_hours or 0.0) * rate, after.runs.gpu_hours * rate
    if before.setup.gpus <= 0 or after.followed_seconds <= 0:
        return None
    held = after.gpu_seconds / after.followed_seconds
    return before.setup.gpus * HOURS_PER_MONTH, held * HOURS_PER_MONTH


def _unfinished(before: Period, after: Period) -> Result:
    if _fails(before, after):
        return Result.FAILED
    known = _by_runs(before) or before.setup.gpus > 0
    return Result.WAITING if known else Result.UNKNOWN


def _enough(before: Period, after: Period) -> bool:
    if not _by_runs(before):
        return after.followed_seconds >= ENOUGH_DAYS_SECONDS
    long = (after.runs.seconds or 0.0) >= ENOUGH_RUN_SECONDS
    return after.runs.completed >= ENOUGH_RUNS or long


def _fails(before: Period, after: Period) -> bool:
    """Whether runs fail more often than before; one failure beside many good ones is chance."""
    if after.runs.failed == 0:
        return False
    share = after.runs.failed / (after.runs.failed + after.runs.completed)
    tried = before.runs.failed + before.runs.completed
    usual = before.runs.failed / tried if tried else 0.0
    return share >= max(0.5, 2 * usual)


def _allowed(foretold: Interval | None) -> float:
    return SLOWER_TOLERANCE * max(1.0, 1.0 if foretold is None else foretold.high)


def _worth(entry: Entry, saved_hours: float, saved_money: Money | None) -> Result:
    """By money where it was foretold and is known, else by GPU hours."""
    if entry.prediction.change in FREEING_NOTHING:
        return Result.UNKNOWN
    foretold, amount = entry.prediction.gpu_hours_per_month, saved_hours
    money = entry.prediction.money_per_month
    if money is not None and saved_money is not None and money.currency == saved_money.currency:
        foretold, amount = money.amount, saved_money.amount
    if amount <= 0:
        return Result.NONE
    if foretold is None or foretold <= 0 or amount >= REAL_SHARE * foretold:
        return Result.REAL
    return Result.PARTLY


def _money(before: Period, after: Period, hours: tuple[float, float]) -> Money | None:
    """Money a month saved, each side at its own price; nothing held afterwards costs nothing."""
    old, new = before.price_per_gpu_hour, after.price_per_gpu_hour
    if new is None and hours[1] == 0:
        new = old
    if old is None or new is None or old.currency != new.currency:
        return None
    return Money(amount=hours[0] * old.amount - hours[1] * new.amount, currency=old.currency)


def _ratio(after: float | None, before: float | None) -> float | None:
    return after / before if after is not None and before else None
