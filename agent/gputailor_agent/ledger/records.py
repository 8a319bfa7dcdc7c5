"""How each rule's findings fared: counts by state, savings foretold and realised, precision."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from gputailor_agent.model.judgement import Money
from gputailor_agent.model.ledger import Entry, Result, RuleRecord, State

_JUDGED: Final = frozenset({Result.REAL, Result.PARTLY, Result.NONE, Result.SLOWER, Result.FAILED})


def records(entries: Iterable[Entry]) -> list[RuleRecord]:
    """One record per rule, by its name. Precision: judged changes whose saving was real."""
    by_rule: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_rule[entry.rule].append(entry)
    return [_record(rule, by_rule[rule]) for rule in sorted(by_rule)]


def _record(rule: str, entries: list[Entry]) -> RuleRecord:
    states = Counter(str(entry.state) for entry in entries)
    judged = [one for one in entries if one.state == State.APPLIED and one.result in _JUDGED]
    real = sum(one.result == Result.REAL for one in judged)
    money: Counter[str] = Counter()
    for one in judged:
        if one.realised_money_per_month is not None:
            earned = one.realised_money_per_month
            money[earned.currency] += earned.amount  # type: ignore[assignment]  # a sum of floats
    return RuleRecord(
        rule=rule,
        states={str(state): states[str(state)] for state in State},
        judged=len(judged),
        real=real,
        precision=real / len(judged) if judged else None,
        predicted_gpu_hours_per_month=sum(
            one.prediction.gpu_hours_per_month or 0.0 for one in judged
        ),
        realised_gpu_hours_per_month=sum(one.realised_gpu_hours_per_month or 0.0 for one in judged),
        realised_money_per_month=tuple(
            Money(amount=amount, currency=currency) for currency, amount in sorted(money.items())
        ),
    )
