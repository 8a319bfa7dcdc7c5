"""Money in several currencies: each in sums of its own, none lost and none converted."""

import msgspec
import pytest

from gputailor_agent.model.judgement import Confidence, Money, OtherMoney
from gputailor_agent.planner.currencies import other_money, savings
from tests.agent.planner.planning_parts import book, finding, judged


def costing(item, amount, currency):
    return msgspec.structs.replace(item, cost=Money(amount=amount, currency=currency))


TOLD = (
    costing(judged("a", finding(money=30.0, hours=2.0)), 100.0, "USD"),
    costing(judged("b", finding(money=40.0, hours=4.0, currency="EUR")), 200.0, "EUR"),
    costing(judged("c", finding(money=5.0, hours=8.0, currency="EUR")), 20.0, "EUR"),
    costing(
        judged("d", finding(money=7.0, hours=16.0, sure=Confidence.LOW, currency="EUR")), 1.0, "EUR"
    ),
    costing(judged("e"), 9.0, "CNY"),
    judged("f", finding(hours=32.0)),
)
BOOKS = (
    book(4.0),
    book(3.0, name="b", price=2.0, currency="EUR", model="L4"),
    book(1.0, name="c", price=8.0, currency="EUR", model="H100"),
    book(2.0, name="d", price=None),
)


def test_what_is_not_in_the_plan_s_currency_is_told_by_currency():
    assert other_money(TOLD, "USD", BOOKS, 10.0) == (
        OtherMoney(
            currency="CNY", gpus=0.0, models=(), nodes=0.0, workloads=9.0, saving_per_month=0.0
        ),
        OtherMoney(
            currency="EUR",
            gpus=4.0,
            models=("H100", "L4"),
            nodes=(3 * 2.0 + 8.0) * 10.0,
            workloads=221.0,
            saving_per_month=45.0,
        ),
    )
    assert [one.currency for one in other_money(TOLD, "EUR", BOOKS, 10.0)] == ["CNY", "USD"]


def test_where_all_is_of_one_currency_there_is_no_other():
    assert other_money(TOLD[:1], "USD", BOOKS[:1], 10.0) == ()
    assert other_money((), "", ()) == ()


@pytest.mark.parametrize("currency", ["USD", "EUR", "CNY"])
def test_no_money_is_lost_and_none_is_told_twice(currency):
    hours, own = savings(TOLD, currency)
    others = other_money(TOLD, currency, BOOKS, 10.0)
    assert hours == 2.0 + 4.0 + 8.0 + 32.0, "GPU-hours are of no currency"
    total = (own.amount if own else 0.0) + sum(one.saving_per_month for one in others)
    assert total == 30.0 + 40.0 + 5.0
    assert currency not in {one.currency for one in others}
