"""Reserve: a commitment for what works round the clock."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.catalog import Price
from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, SilenceKind
from gputailor_agent.model.profile import Window
from gputailor_agent.planner import make_plan
from gputailor_agent.profiles.courses import hour_of_week
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.commitments import Steadiness, steadiness
from gputailor_agent.rules.reserve import RULE
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    device,
    node,
    profile,
    row,
    workload,
)
from tests.agent.rules.advice_parts import check_words, key, number
from tests.agent.rules.service_parts import service, web

DAYS = 30
WINDOW = Window(start=NOW - DAYS * DAY, end=NOW)
NODE = node("node-a", instance_type="p4d", region="us-east-1", capacity_type="on-demand")


class Committed(FakeCatalogue):
    """A commitment at 0.6 of the price on demand, sold by ``whole`` GPUs; none where None."""

    def __init__(
        self, year: float | None = 2.4, three: float | None = None, whole: float = 1, **more: Any
    ) -> None:
        super().__init__(**more)
        self.terms = {"reserved-1y": year, "reserved-3y": three}
        self.whole = whole

    def price(self, spec, *, capacity_type="on-demand", **where) -> Price | None:
        listed = super().price(spec, capacity_type=capacity_type, **where)
        amount = self.terms.get(capacity_type)
        if listed is None or amount is None:
            return listed  # as the real catalogue: the price on demand stands in
        return msgspec.structs.replace(
            listed,
            amount_per_gpu_hour=amount,
            kind=capacity_type.replace("-", "_"),
            gpu_count=self.whole,
            provider="aws",
        )


def steady(names=("web-0",), days=DAYS, works=lambda _hour: True, **options):
    start = NOW - days * DAY
    usage = [
        row(hour, pod=name, gpu=f"G-{name}", kernel=0.6 if works(hour) else 0.0, **options)
        for hour in range(start, NOW, HOUR)
        for name in names
    ]
    return usage, service(names, days=days, kernel=0.5)[1]


def reserved(usage, pods, work=None, *, catalogue=None, nodes=(NODE,), thresholds=None, **options):
    work = work or web()
    made, world = profile(usage, pods, work, nodes=nodes, window=WINDOW, **options)
    own = {"reserve": thresholds} if thresholds else {}
    answer = RULE.evaluate(made, context(world, catalogue or Committed(), **own))
    check_words(answer)
    return answer


def test_what_works_round_the_clock_for_a_month_is_worth_a_commitment():
    answer = reserved(*steady(("web-0", "web-1")))
    assert isinstance(answer, Finding)
    assert say(answer.message) == (
        "2 of its GPUs work for 100 % of all hours: committed for 1 year (2 x p4d) they cost 60 % "
        "of the present price"
    )
    assert answer.saving.money_per_month is not None
    assert answer.saving.money_per_month.amount == pytest.approx(2 * 1.6 * 730)
    assert answer.saving.gpu_hours_per_month == 0
    assert answer.change.params["instances"] == 2
    assert answer.change.links == ("https://aws.amazon.com/ec2/pricing/reserved-instances/",)
    assert "cannot be taken back" in answer.change.undo
    assert answer.confidence == Confidence.MEDIUM
    assert "reserve.risk_bound" in {risk.key for risk in answer.risks}


def night(hours):
    """Works for all but so many hours of each day."""
    return lambda hour: (hour // HOUR) % 24 >= hours


@pytest.mark.parametrize(("off", "fires"), [(7, True), (8, True), (9, True), (10, False)])
def test_it_pays_down_to_the_share_of_time_that_the_discount_buys(off, fires):
    """0.6 of the price: at work for 14.4 of 24 hours or more. 15 of 24 save 4 %: see the next."""
    answer = reserved(*steady(works=night(off)), thresholds={"least_saving": 0.0})
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "reserve.not_steady")


@pytest.mark.parametrize(("least", "fires"), [(0.0999, True), (0.1001, False)])
def test_a_saving_that_is_hardly_one_is_not_named(least, fires):
    """1 - 0.6 x 24 / 16 = 0.1."""
    answer = reserved(*steady(works=night(8)), thresholds={"least_saving": least})
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert key(answer) == "reserve.little"


def test_a_service_of_office_hours_is_not_steady_whatever_its_hours_say_in_sum():
    """Case 28: weekends count as they fall in a week, not as they fall in the window."""

    def weekdays(hour):
        return (hour // DAY + 3) % 7 < 5

    share = number(reserved(*steady(works=weekdays)), "hours with 1 GPU(s) at work")
    assert share.value == pytest.approx(5 / 7)
    dear = reserved(*steady(works=weekdays), catalogue=Committed(year=2.9))
    assert key(dear) == "reserve.not_steady"


def test_only_those_that_work_round_the_clock_are_committed():
    usage, pods = steady(("web-0", "web-1", "web-2"))
    quiet = [one for one in usage if one.key.pod != "web-2"]
    third, _ = steady(("web-2",), works=lambda hour: (hour // HOUR) % 24 < 6)
    answer = reserved([*quiet, *third], pods)
    assert isinstance(answer, Finding)
    assert answer.change.params["gpus"] == 2
    assert "reserve.not_all" in {other.key for other in answer.not_chosen}


def test_a_part_of_an_instance_is_not_sold():
    part = reserved(*steady(("web-0", "web-1")), catalogue=Committed(whole=8))
    assert (part.kind, key(part)) == (SilenceKind.FINE, "reserve.part")
    pairs = reserved(*steady(("web-0", "web-1", "web-2")), catalogue=Committed(whole=2))
    assert isinstance(pairs, Finding)
    assert (pairs.change.params["gpus"], pairs.change.params["instances"]) == (2, 1)


def test_without_a_price_of_a_commitment_nothing_is_guessed():
    """The price on demand, which stands in for reserved nodes elsewhere, has no discount."""
    answer = reserved(*steady(), catalogue=Committed(year=None))
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "reserve.no_price")
    assert "p4d" in say(answer.message)


def test_the_shorter_term_is_named_and_the_longer_one_beside_it():
    answer = reserved(*steady(), catalogue=Committed(three=1.6))
    assert isinstance(answer, Finding)
    assert answer.message.params["years"] == 1
    longer = next(other for other in answer.not_chosen if other.key == "reserve.longer")
    assert longer.params == {"years": 3, "ratio": pytest.approx(0.4)}


@pytest.mark.parametrize(
    ("capacity", "kind", "why"),
    [
        ("spot", SilenceKind.NOT_APPLICABLE, "not_on_demand"),
        ("reserved", SilenceKind.NOT_APPLICABLE, "not_on_demand"),
        ("", SilenceKind.UNKNOWN, "unknown_capacity"),
    ],
)
def test_nodes_must_be_known_to_be_on_demand(capacity, kind, why):
    nodes = [msgspec.structs.replace(NODE, capacity_type=capacity)]
    answer = reserved(*steady(), nodes=nodes)
    assert (answer.kind, key(answer)) == (kind, f"reserve.{why}")


def test_pods_on_several_kinds_of_instances_are_settled_first():
    usage, pods = steady(("web-0", "web-1"))
    other = node("node-b", instance_type="p5", region="us-east-1", capacity_type="on-demand")
    moved = [pods[0], msgspec.structs.replace(pods[1], node="node-b")]
    answer = reserved(usage, moved, nodes=[NODE, other])
    assert key(answer) == "reserve.several"


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (workload("nb", "Notebook", TaskClass.NOTEBOOK), "notebook"),
        (workload(), "not_service"),
    ],
)
def test_only_services_are_committed(work, why):
    answer = reserved(*steady(), work)
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, f"reserve.{why}")


def test_less_than_thirty_days_is_watched():
    usage, pods = steady(days=29)
    answer = reserved(usage, pods)
    assert (answer.kind, key(answer)) == (SilenceKind.WATCHING, "gate.service_days")
    assert answer.ready_at == NOW + DAY


def test_hours_that_were_not_observed_are_never_taken_for_use():
    usage, pods = steady(works=night(8))
    gaps = [one for place, one in enumerate(usage) if place % 24 != 20]
    answer = reserved(gaps, pods, thresholds={"least_saving": 0.0, "coverage": 0.9})
    assert isinstance(answer, Finding)
    assert number(answer, "hours with 1 GPU(s) at work").value == pytest.approx(15 / 24, abs=0.01)


def test_a_plan_commits_to_nothing_that_another_rule_would_take_away():
    """Two replicas of three do nothing: first they go, then the plan may commit."""
    usage, pods = steady(("web-0",), sm=0.9, tensor=0.9, dram=0.4)
    idle, more = steady(("web-1", "web-2"), works=lambda _hour: False)
    made, world = profile([*usage, *idle], [*pods, *more], web(), nodes=[NODE], window=WINDOW)
    plan = make_plan([made], context(world, Committed()), window=WINDOW, made_at=float(NOW))
    (verdict,) = plan.verdicts
    assert verdict.primary is not None
    assert verdict.primary.rule == "too_many_replicas"
    held = next(one for one in verdict.silences if one.rule == "reserve")
    assert held.message.key == "reserve.after_others"
    assert "too_many_replicas" in say(held.message)


def test_a_plan_of_a_steady_and_full_service_commits():
    usage, pods = steady(("web-0",), sm=0.58, tensor=0.5, dram=0.2)
    made, world = profile(
        usage, pods, web(), nodes=[NODE], window=WINDOW, devices=[device("G-web-0")]
    )
    plan = make_plan([made], context(world, Committed()), window=WINDOW, made_at=float(NOW))
    (verdict,) = plan.verdicts
    assert verdict.primary is not None
    assert (verdict.primary.rule, verdict.alternatives) == ("reserve", ())
    assert plan.cost is not None
    month = plan.cost.workloads * 730 / (DAYS * 24)
    assert plan.saving_money_per_month is not None
    assert 0 < plan.saving_money_per_month.amount <= month


series = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=168, max_size=168)


@given(hours=series, least=st.floats(0.3, 0.9), more=st.sampled_from([0.0, 0.05, 0.3]))
@settings(max_examples=60, deadline=None)
def test_a_smaller_discount_never_commits_more(hours, least, more):
    steadiness = Steadiness(tuple(hours), tuple(hours))
    assert steadiness.round_the_clock(least + more, 3) <= steadiness.round_the_clock(least, 3)


@given(hours=series, least=st.floats(0.3, 0.9), where=st.integers(0, 167))
@settings(max_examples=60, deadline=None)
def test_more_use_never_commits_less(hours, least, where):
    busier = [*hours]
    busier[where] += 1.0
    before = Steadiness(tuple(hours), tuple(hours)).round_the_clock(least, 4)
    assert Steadiness(tuple(busier), tuple(busier)).round_the_clock(least, 4) >= before


@given(hours=series, least=st.floats(0.05, 1.0))
@settings(max_examples=60, deadline=None)
def test_k_is_the_most_that_reaches_the_share(hours, least):
    """k* = max k with P(q >= k) >= 1 - discount."""
    found = Steadiness(tuple(hours), tuple(hours)).round_the_clock(least, 3)
    shares = [sum(hour >= k for hour in hours) / 168 for k in (1, 2, 3)]
    assert found == max([k for k, share in enumerate(shares, 1) if share >= least], default=0)


def test_each_hour_of_the_week_has_its_own_mean():
    """Works on Mondays; the window of thirty days begins on one and holds five of them."""
    usage, pods = steady(works=lambda hour: hour_of_week(hour) < 24)
    made, world = profile(usage, pods, web(), nodes=(NODE,), window=WINDOW)
    found = steadiness(made, context(world), made.gpus)
    assert found.week[:24] == (1.0,) * 24
    assert found.week[24:] == (0.0,) * 144
    assert sum(found.hours) == 5 * 24
