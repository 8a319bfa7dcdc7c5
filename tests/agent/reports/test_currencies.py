"""A cluster with prices in two currencies: both are told, and what would make one sum of them."""

import pytest

from gputailor_agent.model.judgement import CostLine, Money, OtherMoney
from gputailor_agent.reports.changes_page import headline
from gputailor_agent.reports.delivery.content import report_content
from gputailor_agent.reports.formats import render
from gputailor_agent.reports.overview import saving_of, totals, totals_text
from gputailor_agent.reports.scoping import Scope, scoped
from tests.agent.api.standing import PERIOD
from tests.agent.reports.plans import FEWER, FINE, IDLE, finding, sample_plan, verdict

DOLLARS = OtherMoney(
    currency="USD", gpus=13.0, models=("H100", "L4"), nodes=20265.4, workloads=12988.2,
    saving_per_month=840.0,
)  # fmt: skip


def both(**more):
    return sample_plan(other_money=(DOLLARS,), **more)


def euros(**more):
    cost = CostLine(
        currency="EUR", nodes=8083.0, workloads=5369.0, free=2714.0, unavailable=0.0, unknown=0.0,
        unpriced_gpus=0.0,
    )  # fmt: skip
    saving = Money(amount=8156.0, currency="EUR")
    return both(**{"cost": cost, "saving_money_per_month": saving, **more})


def test_the_first_lines_tell_both_and_add_up_neither():
    facts = dict(totals_text(totals(euros())))
    assert facts["cost of the window"] == "EUR 8,083 and USD 20,265"
    assert facts["can be saved"] == "EUR 8,156/month and USD 840/month (1,460 GPU-hours)"
    assert facts["other GPUs"] == "2 free, 1 whereabouts unknown, 13 priced in USD"
    assert "cost" not in headline(euros()), "a share of one of the currencies"


@pytest.mark.parametrize("output", ["table", "text", "markdown", "html", "mail"])
def test_every_format_says_what_stands_outside_and_what_to_do(output):
    words = " ".join(render(euros(), output).split())
    assert "13 GPUs priced in USD (H100, L4)" in words
    assert "Give own prices in EUR" in words


def test_a_saving_in_another_currency_alone_is_not_called_unknown():
    plan = both(saving_money_per_month=None)
    assert saving_of(totals(plan)) == "USD 840/month (1,460 GPU-hours)"


def test_a_team_sees_its_money_in_both():
    def in_euros(amount):
        return Money(amount=amount, currency="EUR")

    plan = euros(
        verdicts=(
            verdict(IDLE, "finding", cost=in_euros(900.0), primary=finding(IDLE, "idle", 2000.0)),
            verdict(FEWER, "finding", primary=finding(FEWER, "too_many_gpus", 500.0)),
            verdict(FINE, "ok", cost=in_euros(50.0)),
        )
    )
    part = scoped(plan, Scope(namespaces=("team-a", "team-b")))
    facts = dict(totals_text(totals(part)))
    assert facts["cost of the window"] == "EUR 900 and USD 1,000"
    assert facts["can be saved"].startswith("USD 2,500/month")
    assert "other GPUs" not in facts
    alone = scoped(plan, Scope(namespaces=("team-b",)))
    assert dict(totals_text(totals(alone)))["cost of the window"] == "USD 1,000"
    assert alone.other_money == ()


def test_a_mail_s_subject_names_both():
    subject = report_content(euros(), PERIOD).subject
    assert subject.endswith(": EUR 8,156/month and USD 840/month to save")
    none = euros(saving_money_per_month=Money(amount=0.0, currency="EUR"))
    assert report_content(none, PERIOD).subject.endswith(": USD 840/month to save")
