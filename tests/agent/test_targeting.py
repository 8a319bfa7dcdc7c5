"""Which changes reach a saving, and what if some rules were left out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Confidence, Money, Saving
from gputailor_agent.planner.targeting import Allowed, course
from gputailor_agent.reports import plan_target
from gputailor_agent.reports.console import draw
from gputailor_agent.reports.formats import Look
from tests.agent.reports.plans import FEWER, FINE, IDLE, finding, sample_plan, verdict

ALL = Allowed()


def plan_of(*findings_by_workload):
    """A plan of workloads with (rule, money) findings, best first."""
    verdicts = []
    for place, found in enumerate(findings_by_workload):
        work = f"team-a/Job/w{place}/main"
        made = [
            finding(work, rule, money, **({"confidence": Confidence(sure[0])} if sure else {}))
            for rule, money, *sure in found
        ]
        state = "finding" if made else "ok"
        primary = made[0] if made else None
        verdicts.append(verdict(work, state, primary=primary, alternatives=tuple(made[1:])))
    return sample_plan(verdicts=tuple(verdicts))


def chosen(found):
    return [(step.finding.rule, step.finding.saving.money_per_month.amount) for step in found.steps]


def test_the_fewest_changes_that_reach_the_target_are_those_that_save_most():
    plan = plan_of([("idle", 100.0)], [("idle", 900.0)], [("too_many_gpus", 400.0)])
    found = course(plan, ALL, 1200.0)
    assert chosen(found) == [("idle", 900.0), ("too_many_gpus", 400.0)]
    assert [step.running for step in found.steps] == [900.0, 1300.0]
    assert (found.saved, found.reached) == (1300.0, True)
    assert [step.finding.saving.money_per_month.amount for step in found.left] == [100.0]


@pytest.mark.parametrize(("target", "steps"), [(900.0, 1), (900.01, 2), (0.0, 0), (None, 2)])
def test_it_stops_where_the_target_is_reached_exactly(target, steps):
    plan = plan_of([("idle", 900.0)], [("idle", 100.0)])
    assert len(course(plan, ALL, target).steps) == steps


def test_a_target_that_cannot_be_reached_is_said_to_be_missed():
    found = course(plan_of([("idle", 100.0)]), ALL, 500.0)
    assert not found.reached
    text = draw(plan_target.compose(sample_plan(), found, ALL), Look(width=200))
    assert "The target is not reached: 1 change, and USD 400/month are missing." in text


def test_of_a_workload_one_change_is_made_and_alternatives_are_never_added():
    plan = plan_of([("idle", 300.0), ("smaller_gpu", 200.0), ("spot", 100.0)])
    found = course(plan, ALL, None)
    assert chosen(found) == [("idle", 300.0)]
    assert found.saved == 300.0


def test_what_is_denied_gives_way_to_the_next_best_of_the_workload():
    plan = plan_of([("idle", 300.0), ("smaller_gpu", 200.0), ("spot", 100.0)])
    denied = course(plan, Allowed(deny=frozenset({"idle", "smaller_gpu"})), None)
    assert chosen(denied) == [("spot", 100.0)]
    allowed = course(plan, Allowed(allow=frozenset({"smaller_gpu"})), None)
    assert chosen(allowed) == [("smaller_gpu", 200.0)]
    none = course(plan, Allowed(frozenset({"idle"}), frozenset({"idle"})), None)
    assert none.steps == ()


def test_the_order_of_changes_holds_among_what_is_left():
    """Fewer GPUs before a smaller one, whatever that promises of the present number."""
    plan = plan_of([("idle", 900.0), ("smaller_gpu", 300.0), ("too_many_gpus", 200.0)])
    found = course(plan, Allowed(deny=frozenset({"idle"})), None)
    assert chosen(found) == [("too_many_gpus", 200.0)]


def test_low_confidence_and_money_that_is_not_known_are_not_in_the_sum():
    plan = plan_of([("smaller_gpu", 900.0, "low")], [("idle", None)])
    found = course(plan, ALL, None)
    assert found.steps == ()
    assert found.unpriced == 1


def test_another_currency_is_not_added():
    euros = Saving(gpu_hours_per_month=10.0, money_per_month=Money(amount=5.0, currency="EUR"))
    plan = sample_plan(
        verdicts=(
            verdict(IDLE, "finding", primary=finding(IDLE, "idle", 2000.0)),
            verdict(FEWER, "finding", primary=finding(FEWER, "idle", None, saving=euros)),
        )
    )
    found = course(plan, ALL, None)
    assert (found.currency, found.saved, found.unpriced) == ("USD", 2000.0, 1)


def test_without_a_plan_of_money_the_currency_is_that_of_most_findings():
    euros = Saving(gpu_hours_per_month=10.0, money_per_month=Money(amount=5.0, currency="EUR"))
    plan = sample_plan(
        saving_money_per_month=None,
        verdicts=(
            verdict(FEWER, "finding", primary=finding(FEWER, "idle", None, saving=euros)),
            verdict(FINE, "ok"),
        ),
    )
    assert course(plan, ALL, None).currency == "EUR"


def test_the_page_tells_each_change_its_command_and_the_sum():
    plan = sample_plan()
    allowed = Allowed(deny=frozenset({"spot"}))
    found = course(plan, allowed, 2000.0)
    text = draw(plan_target.compose(plan, found, allowed), Look(width=220))
    assert "1 change reach the target" not in text
    assert "The target is reached by 1 change: USD 2,000/month." in text
    assert IDLE in text
    assert "rules denied" in text
    assert "1 more change would save USD 500/month beyond the target." in text


def test_the_values_say_the_same():
    plan = sample_plan()
    told = plan_target.values(plan, course(plan, ALL, 2100.0), ALL)
    assert told.reached
    assert [(step.workload, step.running) for step in told.steps] == [
        (IDLE, 2000.0),
        (FEWER, 2500.0),
    ]
    assert told.saved == told.present == 2500.0


amounts = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["idle", "too_many_gpus", "smaller_gpu", "spot"]),
            st.floats(1.0, 1000.0),
        ),
        max_size=3,
    ),
    max_size=6,
)


@given(amounts, st.floats(0.0, 4000.0), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_a_target_is_reached_with_no_change_to_spare_and_in_any_order_alike(found, target, order):
    plan = plan_of(*found)
    told = course(plan, ALL, target)
    everything = course(plan, ALL, None)
    assert told.saved <= everything.saved + 1e-9
    assert told.reached == (everything.saved >= target)
    if told.steps and told.reached:
        least = min(step.finding.saving.money_per_month.amount for step in told.steps)
        assert told.saved - least < target
    shuffled = list(plan.verdicts)
    order.shuffle(shuffled)
    again = course(sample_plan(verdicts=tuple(shuffled)), ALL, target)
    assert [step.verdict.workload.id for step in again.steps] == [
        step.verdict.workload.id for step in told.steps
    ]


@given(amounts, st.sets(st.sampled_from(["idle", "too_many_gpus", "smaller_gpu", "spot"])))
@settings(max_examples=80, deadline=None)
def test_no_rule_that_is_denied_is_used_and_each_workload_at_most_once(found, denied):
    told = course(plan_of(*found), Allowed(deny=frozenset(denied)), None)
    assert not {step.finding.rule for step in told.steps} & denied
    works = [step.verdict.workload.id for step in told.steps]
    assert len(works) == len(set(works))
