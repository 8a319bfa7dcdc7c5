"""Which finding comes first, what a verdict says, and how far a target takes."""

import msgspec
import pytest

from gputailor_agent.model.judgement import (
    Confidence,
    Message,
    Money,
    Plan,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.planner.capacity import node_books
from gputailor_agent.planner.choosing import _state, counts, gpu_hours, ranked, verdict
from gputailor_agent.planner.costs import Taken
from gputailor_agent.planner.currencies import savings
from gputailor_agent.planner.interplay import LAST, stage, without_early_commitments
from gputailor_agent.planner.planning import (
    _agree,
    _hours_checks,
    _importance,
    _strangers,
    first_measured,
    make_plan,
)
from gputailor_agent.planner.targeting import Allowed, course
from gputailor_agent.rules import registry
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    device,
    inventory,
    node,
    pod,
    profile,
    row,
    rows,
)
from tests.agent.planner.planning_parts import finding, judged

WINDOW = Window(start=NOW - 14 * DAY, end=NOW)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (finding("smaller_gpu", 2.0), finding("mig_slice", 1.0)),
        (finding("mig_slice", 1.0, 5.0), finding("smaller_gpu", 1.0, 4.0)),
        (finding("mig_slice", 1.0, 4.0), finding("smaller_gpu", 1.0, 4.0, Confidence.MEDIUM)),
        (finding("smaller_gpu", 1.0), finding("mig_slice", 1.0)),  # the registry's order
        (finding("smaller_gpu", None, 1.0), finding("idle", None, None)),
        (finding("smaller_gpu", None, 1.0), finding("idle", 0.0, 0.0)),
        (finding("spot", 0.5), finding("idle", 99.0, 99.0, Confidence.LOW)),
        (finding("health", None, None), finding("idle", 9.0, 9.0, Confidence.LOW)),
        (finding("idle", None, None, Confidence.MEDIUM), finding("idle", 9.0, 9.0, Confidence.LOW)),
        (finding("idle", 1.0), finding("no such rule", 1.0)),
        (finding("compile", 1.0), finding("spot", 9.0)),
        (finding("too_many_gpus", 1.0), finding("compile", 9.0)),
    ],
)
def test_the_better_finding_comes_first_however_they_are_told(first, second):
    assert ranked([first, second]) == [first, second]
    assert ranked([second, first]) == [first, second]


def test_a_rule_that_nobody_knows_comes_after_all_others_of_its_step():
    last = registry()[-1].id
    assert [one.rule for one in ranked([finding("odd"), finding(last)])] == [last, "odd"]


def test_only_a_low_confidence_does_not_count():
    assert [counts(finding(sure=sure)) for sure in Confidence] == [False, True, True]


@pytest.mark.parametrize(
    ("rule", "place"),
    [("idle", 0), ("idle_notebook", 0), ("standby", 1), ("too_many_gpus", 1),
     ("too_many_replicas", 1), ("smaller_gpu", 2), ("mig_slice", 2), ("share", 2),
     ("compile", 2), ("serving", 2), ("spot", 3), ("reserve", 4)],
)  # fmt: skip
def test_each_rule_has_its_step(rule, place):
    assert stage(rule) == place
    assert LAST == 5


@pytest.mark.parametrize("rule", [one.id for one in registry() if one.id != "reserve"])
def test_a_commitment_waits_for_all_rules_that_change_gpus(rule):
    aside = {"health", "environment_drift", "excess_cpu_memory", "time_limit", "other_vendor"}
    kept, held = without_early_commitments([finding(rule), finding("reserve")])
    assert len(held) == (0 if rule in aside else 1)
    assert len(kept) + len(held) == 2


def test_gpu_hours_are_whole_gpus_by_the_time_they_were_held():
    start = NOW - 3 * HOUR
    usage = [msgspec.structs.replace(one, share=0.5) for one in rows(start, NOW)]
    made, world = profile(usage, [pod(start=start)])
    around = context(world)
    ((_, hours),) = gpu_hours(around, made)
    assert hours == 1.5
    assert gpu_hours(around, made) is gpu_hours(around, made)
    told = verdict(made, around)
    assert (told.gpu_hours, told.gpus_now) == (1.5, 0.5)
    assert told.cost is not None
    assert told.cost.amount == 6.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (judged("b", finding(money=2.0)), judged("a", finding(money=1.0, hours=9.0), hours=9.0)),
        (judged("b", finding(hours=2.0)), judged("a", finding(hours=1.0), hours=9.0)),
        (judged("b", finding(hours=0.5)), judged("a", finding(hours=0.25), hours=9.0)),
        (judged("b", hours=2.0), judged("a", hours=1.0)),
        (judged("b", finding(money=0.5)), judged("a", finding(money=9.0, sure=Confidence.LOW))),
        (judged("a"), judged("b", finding(money=9.0, sure=Confidence.LOW))),
        (judged("a", finding(money=None, hours=None)), judged("b", finding(money=0.0, hours=0.0))),
    ],
)
def test_what_saves_most_stands_first_in_the_plan(one, other):
    assert _importance(one) < _importance(other)


def test_a_plan_s_saving_is_of_counted_primaries_in_its_currency():
    told = [
        judged("a", finding(money=10.0, hours=1.0), finding(money=99.0, hours=99.0)),
        judged("b", finding(money=20.0, hours=None)),
        judged("c", finding(money=40.0, hours=4.0, currency="EUR")),
        judged("d", finding(money=80.0, hours=8.0, sure=Confidence.LOW)),
        judged("e"),
    ]
    assert savings(told, "USD") == (5.0, Money(amount=30.0, currency="USD"))
    assert savings(told, "EUR") == (5.0, Money(amount=40.0, currency="EUR"))
    assert savings(told, "GBP") == (5.0, None)
    assert savings([judged("e")], "USD") == (0.0, None)


def test_the_first_hour_with_a_row_is_when_measuring_began():
    start = NOW - 3 * HOUR
    one, _ = profile(rows(start, NOW), [pod(start=start)])
    later, _ = profile(rows(NOW - HOUR, NOW), [pod(start=start)])
    unseen, _ = profile([], [pod(start=start)])
    assert first_measured([later, one, unseen]) == start
    assert first_measured([unseen]) is None


@pytest.mark.parametrize(
    ("used", "holds"), [(4 * 336, True), (4 * 336 * 1.005, True), (4 * 336 * 1.006, False)]
)
def test_more_hours_than_a_node_has_are_told(used, holds):
    made = make_plan([], context(inventory(nodes=[node(gpus=4)])), window=WINDOW, made_at=NOW)
    assert all(check.holds for check in made.checks)
    books = node_books(context(inventory(nodes=[node(gpus=4)])), {}, float(NOW))
    told = list(_hours_checks([judged(hours=used)], {"node-a": Taken(used, 0.0)}, books, WINDOW))
    assert [one.holds for one in told] == ([True] if holds else [True, False])
    if not holds:
        assert (told[1].left, told[1].right) == (used, 4 * 336)


def test_sums_agree_to_a_billionth_or_a_millionth():
    assert _agree(1e12, 1e12 + 900)
    assert not _agree(1e12, 1e12 + 1100)
    assert _agree(0.0, 1e-6)
    assert not _agree(0.0, 1.1e-6)


def test_hours_on_nodes_that_nobody_knows_are_told_where_nodes_are_known():
    around = context(inventory(nodes=[node()]))
    (said,) = _strangers(around, {"": Taken(2.34, 1.0)})
    assert said.startswith("2.3 GPU-hours were used on nodes that are not in the inventory")
    assert list(_strangers(around, {"": Taken(0.0, 0.0)})) == []
    assert list(_strangers(around, {"a": Taken(2.0, 0.0)})) == []
    assert list(_strangers(context(inventory()), {"": Taken(2.0, 1.0)})) == []


def plan(*verdicts, saving=None):
    return Plan(cluster="test", window=WINDOW, made_at=float(NOW), verdicts=verdicts,
                saving_money_per_month=saving)  # fmt: skip


@pytest.mark.parametrize(
    ("allow", "deny", "held"),
    [((), (), True), (("idle",), (), True), (("spot",), (), False), ((), ("idle",), False),
     (("idle",), ("idle",), False)],
)  # fmt: skip
def test_a_rule_may_be_used_where_it_is_allowed_and_not_denied(allow, deny, held):
    assert Allowed(frozenset(allow), frozenset(deny)).holds("idle") is held


@pytest.mark.parametrize(
    ("target", "steps", "left", "saved", "reached"),
    [
        (None, "cab", "", 60.0, True),
        (30.0, "c", "ab", 30.0, True),
        (30.5, "ca", "b", 50.0, True),
        (60.0, "cab", "", 60.0, True),
        (60.5, "cab", "", 60.0, False),
        (0.0, "", "cab", 0.0, True),
    ],
)
def test_the_largest_savings_come_first_until_the_target_is_reached(
    target, steps, left, saved, reached
):
    told = plan(
        judged("a", finding(money=20.0)), judged("b", finding(money=10.0)),
        judged("c", finding(money=30.0)), judged("d", finding(money=None, hours=5.0)),
        judged("e", finding(money=0.0, hours=5.0)), saving=Money(amount=60.0, currency="USD"),
    )  # fmt: skip
    found = course(told, Allowed(), target)
    assert "".join(one.verdict.workload.name for one in found.steps) == steps
    assert "".join(one.verdict.workload.name for one in found.left) == left
    assert (found.saved, found.reached, found.present) == (saved, reached, 60.0)
    assert found.unpriced == 1


def test_equal_savings_stand_by_name_and_running_sums_grow():
    told = plan(judged("b", finding(money=5.0)), judged("a", finding(money=5.0)))
    steps = course(told, Allowed(), None).steps
    assert [(one.verdict.workload.name, one.running) for one in steps] == [("a", 5.0), ("b", 10.0)]


@pytest.mark.parametrize(
    ("findings", "currency"),
    [
        ((("USD", 1),), "USD"),
        ((("EUR", 1), ("USD", 1)), "EUR"),
        ((("EUR", 1), ("USD", 2)), "USD"),
        ((), "USD"),
    ],
)
def test_without_a_plan_of_money_the_currency_is_that_of_most_findings(findings, currency):
    told = [
        judged(f"{name}{place}", finding(money=1.0, currency=name))
        for name, count in findings
        for place in range(count)
    ]
    assert course(plan(*told), Allowed(), None).currency == currency


def state(*told):
    silences = tuple(
        Silence(rule=rule, workload_id="w", kind=kind, message=Message(key=key))
        for rule, kind, key in told
    )
    return _state([], silences)


FINE, WATCHING, UNKNOWN = SilenceKind.FINE, SilenceKind.WATCHING, SilenceKind.UNKNOWN


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ((("idle", FINE, "idle.x"),), "ok"),
        ((("idle", FINE, "idle.x"), ("spot", WATCHING, "spot.x")), "watching"),
        ((("idle", FINE, "idle.x"), ("reserve", WATCHING, "x")), "ok"),
        ((("idle", FINE, "idle.x"), ("spot", UNKNOWN, "spot.no_price")), "ok"),
        ((("spot", UNKNOWN, "spot.no_price"),), "unknown"),
        ((("idle", FINE, "x"), ("spot", UNKNOWN, "gate.coverage")), "unknown"),
        ((("idle", UNKNOWN, "idle.unknown_power"), ("spot", FINE, "x")), "unknown"),
        ((("spot", UNKNOWN, "spot.x"), ("share", WATCHING, "x")), "watching"),
        ((("reserve", UNKNOWN, "gate.coverage"), ("share", FINE, "x")), "ok"),
        ((("share", SilenceKind.NOT_APPLICABLE, "x"),), "ok"),
        ((("share", SilenceKind.NOT_APPLICABLE, "x"), ("spot", UNKNOWN, "x")), "unknown"),
    ],
)
def test_the_word_for_the_whole(told, word):
    assert state(*told) == word


def test_a_pods_cost_has_a_reason_where_it_is_not_known():
    made, world = profile([row(NOW - HOUR)], [pod(start=NOW - HOUR)], devices=[device(model="Foo")],
                          nodes=[])  # fmt: skip
    told = verdict(made, context(world, FakeCatalogue({})))
    assert told.cost is None
    assert told.cost_why is not None
    assert told.cost_why.key == "money.no_price"
