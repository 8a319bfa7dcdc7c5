"""Unallocated GPUs: by pool, over the hours that are known, beside what waits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import RuleSettings, SettingsError, check_settings
from gputailor_agent.rules.cluster_rules import ClusterView, cluster_registry
from gputailor_agent.rules.unallocated import CLUSTER_RULE, evaluate
from tests.agent.factories import HOUR, NOW, context, inventory
from tests.agent.rules.pool_parts import WINDOW, hours, queued


def answers(*nodes, waiting=(), complete=True, **thresholds):
    own = {"unallocated": thresholds} if thresholds else {}
    view = ClusterView(WINDOW, nodes, tuple(waiting), complete)
    found = evaluate(view, context(inventory(), **own))
    for answer in found:
        said = [answer.message, *answer.not_chosen]
        if isinstance(answer, Finding):
            said += [*answer.risks, *([answer.saving.why] if answer.saving.why else [])]
            assert answer.change.undo or not answer.change.command
        for message in said:
            assert say(message, strict=True)
        assert all(item.formula for item in answer.evidence)
    return found


def only(*nodes, **options):
    (answer,) = answers(*nodes, **options)
    return answer


def test_a_node_that_stood_empty_for_a_day_could_be_given_back():
    answer = only(hours("a"), hours("b", (0.0,) * 24))
    assert isinstance(answer, Finding)
    assert say(answer.message) == (
        "4 of 8 GPUs A100 of pool train were held by nobody in any of the last 24 hours; 4 of them "
        "are on 1 node that stood empty"
    )
    assert answer.saving.gpu_hours_per_month == 4 * 730
    assert answer.saving.money_per_month is not None
    assert answer.saving.money_per_month.amount == 4 * 4.0 * 730
    assert answer.change.command == "kubectl cordon a"
    assert answer.change.undo == "kubectl uncordon a"
    assert (answer.severity, answer.confidence) == (Severity.MEDIUM, Confidence.MEDIUM)
    assert (answer.workload_id, answer.id) == ("", "test/A100/train/unallocated")


def test_gpus_beside_others_on_a_node_are_told_but_save_nothing():
    answer = only(hours("a", (2.0,) * 24), hours("b", (1.0,) * 24))
    assert isinstance(answer, Finding)
    assert say(answer.message) == (
        "3 of 8 GPUs A100 of pool train were held by nobody in any of the last 24 hours, on nodes "
        "that others use"
    )
    assert answer.severity == Severity.LOW
    assert answer.saving.money_per_month is None
    assert answer.saving.why is not None
    assert answer.saving.why.key == "unallocated.no_empty_node"
    assert answer.change.kind == "repack_pool"


@pytest.mark.parametrize(
    ("free", "fires"),
    [
        ((1.0,) * 24, True),
        ((1.0,) * 23, False),
        ((1.0,) * 10 + (0.99,) + (1.0,) * 13, False),
        ((0.0,) * 5 + (1.0,) * 24, True),
    ],
)
def test_a_gpu_counts_when_it_was_free_in_each_of_the_last_hours(free, fires):
    assert isinstance(only(hours("a", free)), Finding) is fires


def test_a_node_that_a_pod_took_a_moment_ago_is_not_given_back():
    """Its whole hours were empty: to cordon it now would be advice against a job that runs."""
    full = hours("b", (0.0,) * 24)
    taken = only(hours("a", now=0.0), full)
    assert not isinstance(taken, Finding)
    assert say(taken.message) == (
        "no GPU of 8 A100 of pool train was free in each of the last 24 hours and is now: at the "
        "fullest, 0 were"
    )
    part = only(hours("a", now=3.0), full)
    assert isinstance(part, Finding)
    assert say(part.message).startswith("3 of 8 GPUs A100 of pool train were held by nobody")
    assert part.change.kind == "repack_pool", "one of its GPUs is held: the node stays"
    other = only(hours("a", now=3.0), hours("b"))
    assert isinstance(other, Finding)
    assert other.change.command == "kubectl cordon b"


def test_what_moves_from_node_to_node_is_free_in_the_sum():
    """One node is full when the other is empty: four are always free."""
    swaps = tuple(4.0 * (hour % 2) for hour in range(24))
    answer = only(hours("a", swaps), hours("b", tuple(4.0 - free for free in swaps)))
    assert isinstance(answer, Finding)
    assert answer.message.params["free"] == 4
    assert answer.message.params["whole"] == 0


def test_pods_that_wait_for_such_gpus_make_it_urgent_and_nothing_is_given_back():
    answer = only(hours("a"), waiting=[queued(pods=3)])
    assert isinstance(answer, Finding)
    assert answer.message.key == "unallocated.beside"
    assert "while 3 pods wait for such" in say(answer.message)
    assert answer.severity == Severity.HIGH
    assert answer.saving.money_per_month is None
    assert answer.change.kind == "serve_waiting"
    assert "FailedScheduling" in answer.change.command
    waits = next(item for item in answer.evidence if item.name == "team-b/Job/wide waits since")
    assert waits.value == NOW - 3600


@pytest.mark.parametrize(
    ("one", "urgent"),
    [
        (queued(10), True),
        (queued(9), False),
        (queued(devices=4.0), True),
        (queued(devices=5.0), False),
        (queued(resource="amd.com/gpu"), False),
    ],
)
def test_only_pods_that_have_waited_and_would_find_so_many_on_a_node_count(one, urgent):
    answer = only(hours("a"), waiting=[one])
    assert (answer.message.key == "unallocated.beside") is urgent


def test_where_only_now_is_known_it_speaks_of_now():
    answer = only(hours("a", ()))
    assert (answer.kind, answer.message.key) == (SilenceKind.UNKNOWN, "unallocated.now_only")
    assert "4 of 4 GPUs A100 of pool train are held by nobody now" in say(answer.message)
    wanted = only(hours("a", ()), waiting=[queued()])
    assert isinstance(wanted, Finding)
    assert (wanted.message.key, wanted.confidence) == ("unallocated.now", Confidence.LOW)
    assert wanted.saving.money_per_month is None


def test_too_few_known_hours_are_watched_until_they_are_enough():
    answer = only(hours("a", (4.0,) * 20))
    assert (answer.kind, answer.message.key) == (SilenceKind.WATCHING, "unallocated.watching")
    assert answer.ready_at == NOW + 4 * HOUR


def test_a_full_pool_is_fine():
    full = only(hours("a", (), now=0.0))
    used = only(hours("a", (0.0,) * 24))
    assert (full.kind, full.message.key) == (SilenceKind.FINE, "unallocated.all_held")
    assert (used.kind, used.message.key) == (SilenceKind.FINE, "unallocated.used")


def test_nodes_of_which_only_now_is_known_are_named_and_not_counted():
    answer = only(hours("a"), hours("b", ()))
    assert isinstance(answer, Finding)
    assert answer.message.params["free"] == 4
    unseen = next(one for one in answer.risks if one.key == "unallocated.risk_unseen")
    assert unseen.params["nodes"] == 1


def test_an_inventory_with_gaps_leaves_a_doubt_and_no_saving():
    answer = only(hours("a"), complete=False)
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.LOW
    assert answer.saving.money_per_month is None


def test_without_a_price_hours_are_told_and_money_is_not():
    answer = only(hours("a", price=None, currency=""))
    assert isinstance(answer, Finding)
    assert answer.saving.gpu_hours_per_month == 4 * 730
    assert answer.saving.money_per_month is None
    assert answer.saving.why is not None
    assert answer.saving.why.key == "unallocated.unpriced"


def test_pools_and_models_are_judged_apart():
    found = answers(hours("a"), hours("b", (0.0,) * 24, pool="serve"), hours("c", model="L4"))
    assert [isinstance(one, Finding) for one in found] == [False, True, True]
    assert sorted(one.id for one in found if isinstance(one, Finding)) == [
        "test/A100/train/unallocated",
        "test/L4/train/unallocated",
    ]


def test_its_thresholds_can_be_set_like_those_of_any_rule():
    assert isinstance(only(hours("a", (4.0,) * 6), least_hours=6.0), Finding)
    assert not isinstance(only(hours("a"), least_gpus=5.0), Finding)
    assert isinstance(only(hours("a"), least_gpus=4.0), Finding)
    check_settings(RuleSettings({"unallocated": {"least_hours": 6.0}}))
    with pytest.raises(SettingsError, match=r"unallocated\.hours: no such threshold"):
        check_settings(RuleSettings({"unallocated": {"hours": 6.0}}))


def test_the_rule_is_registered():
    assert CLUSTER_RULE in cluster_registry()
    names = [threshold.name for threshold in CLUSTER_RULE.thresholds]
    assert len(names) == len(set(names))


free_hours = st.lists(st.sampled_from([0.0, 1.0, 2.5, 4.0]), min_size=24, max_size=24).map(tuple)


@given(st.lists(free_hours, min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_nodes_changes_nothing(nodes, order):
    made = [hours(f"n{place}", free) for place, free in enumerate(nodes)]
    shuffled = list(made)
    order.shuffle(shuffled)
    assert answers(*made) == answers(*shuffled)


@given(st.lists(free_hours, min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 23))
@settings(max_examples=50, deadline=None)
def test_more_use_never_makes_more_gpus_unallocated(nodes, which, when):
    def told(all_hours):
        answer = only(*(hours(f"n{place}", free) for place, free in enumerate(all_hours)))
        if not isinstance(answer, Finding):
            return 0.0, 0.0
        return float(answer.message.params["free"]), answer.saving.gpu_hours_per_month or 0.0

    busier = [list(free) for free in nodes]
    busier[which % len(nodes)][when] = 0.0
    before, after = told(nodes), told([tuple(free) for free in busier])
    assert after[0] <= before[0]
    assert after[1] <= before[1]


@given(st.lists(free_hours, min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_no_more_is_saved_than_the_free_gpus_cost(nodes):
    answer = only(*(hours(f"n{place}", free) for place, free in enumerate(nodes)))
    if isinstance(answer, Finding) and answer.saving.money_per_month is not None:
        assert answer.saving.money_per_month.amount <= len(nodes) * 4 * 4.0 * 730
        assert answer.message.params["whole"] <= answer.message.params["free"]
