"""All clusters of a store together: each in a line, sums that are whole or unknown."""

import msgspec
import pytest

from gputailor_agent.model.judgement import Money
from gputailor_agent.reports import console, fleet, markdown
from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.reports.formats import DEFAULT_LOOK
from tests.agent.reports.plans import DAY, END, sample_plan


def of(*plans, at=END + 60.0):
    return fleet.fleet_of([(one.cluster, one) for one in plans], at)


def east_and_west(**more):
    west = {"cluster": "west", "saving_money_per_month": Money(amount=500.0)} | more
    return of(sample_plan(cluster="east"), sample_plan(**west))


def test_sums_are_those_of_the_clusters():
    found = east_and_west()
    assert [one.cluster for one in found.clusters] == ["east", "west"]
    assert (found.gpus, found.allocated, found.free) == (16, 10, 4)
    assert found.saving == Money(amount=3000.0)
    assert found.saving_gpu_hours_per_month == 2920.0
    assert (found.states("finding"), found.states("unknown"), found.states("ok")) == (4, 2, 2)


def test_what_saves_most_comes_first():
    found = of(
        sample_plan(cluster="a", saving_gpu_hours_per_month=1.0),
        sample_plan(cluster="c", saving_gpu_hours_per_month=7.0),
        sample_plan(cluster="b", saving_gpu_hours_per_month=7.0),
    )
    assert [one.cluster for one in found.clusters] == ["b", "c", "a"]


@pytest.mark.parametrize(
    "unknown",
    [
        {"saving_money_per_month": None},
        {"saving_money_per_month": Money(amount=500.0, currency="EUR")},
    ],
)
def test_a_sum_of_which_a_part_has_no_price_or_another_currency_is_unknown(unknown):
    found = east_and_west(**unknown)
    assert found.saving is None
    assert found.saving_gpu_hours_per_month == 2920.0


def test_a_cluster_in_which_nothing_was_found_makes_no_sum_unknown():
    found = east_and_west(saving_money_per_month=None, saving_gpu_hours_per_month=0.0)
    assert found.saving == Money(amount=2500.0)


def test_a_cluster_whose_nodes_nobody_may_read_makes_the_number_of_gpus_unknown():
    found = east_and_west(capacity=())
    assert found.gpus is None
    assert found.free is None


def test_a_mean_weighs_each_cluster_by_the_time_that_was_observed():
    one = sample_plan(cluster="one")
    busy = one.verdicts[0]  # 336 GPU-hours at 0.5, all observed
    rest = msgspec.structs.replace(busy, gpu_hours=112.0, mean_kernel=0.1, coverage=0.5)
    unseen = msgspec.structs.replace(busy, coverage=0.0, mean_kernel=None)
    found = of(
        sample_plan(cluster="one", verdicts=(busy,)),
        sample_plan(cluster="two", verdicts=(rest,)),
        sample_plan(cluster="three", verdicts=(unseen,)),
    )
    expected = (336 * 0.5 + 56 * 0.1) / (336 + 56)
    assert found.mean_kernel_of_observed == pytest.approx(expected)
    assert of(sample_plan(verdicts=(unseen,))).mean_kernel_of_observed is None


def test_old_plans_and_clusters_without_one_are_told_and_the_latter_left_out():
    found = fleet.fleet_of(
        [
            ("late", sample_plan(cluster="late", made_at=END - DAY)),
            ("now", sample_plan(cluster="now", made_at=END)),
            ("new", None),
        ],
        END + 1.0,
    )
    assert [one.cluster for one in found.stale] == ["late"]
    assert found.without_plan == ("new",)
    assert found.gpus == 16
    told = markdown.draw(fleet.page(found))
    assert "The newest plan of late is 1 d old: is its agent running?" in told
    assert "There is no plan of new yet; it is left out." in told
    exact = fleet.fleet_of([("x", sample_plan(made_at=END))], END + fleet.STALE_SECONDS)
    assert exact.stale == ()


def test_a_store_without_any_plan_shows_no_table_and_no_zero():
    told = markdown.draw(fleet.page(fleet.fleet_of([("new", None)], END)))
    assert "no plan of new" in told
    assert "|" not in told
    assert "GPUs" not in told


def test_unknown_and_nothing_look_unlike_zero():
    none = sample_plan(
        cluster="none", capacity=(), cost=None, verdicts=(), saving_gpu_hours_per_month=0.0,
        saving_money_per_month=None,
    )  # fmt: skip
    row = next(
        line for line in markdown.draw(fleet.page(of(none))).splitlines() if "| none" in line
    )
    cells = [one.strip() for one in row.strip("|").split("|")]
    assert cells[2:6] == ["unknown"] * 4
    assert cells[6:9] == ["0", "0", "0"]
    assert cells[9:] == ["unknown", "nothing found"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_hostile_names_of_clusters_harm_no_format(language):
    name = "x|y<script>\x1b[31m\u202e"
    with speaking(language):
        page = fleet.page(of(sample_plan(cluster=name)))
        assert "\x1b[31m" not in console.draw(page, DEFAULT_LOOK)
        assert "<script>" not in markdown.draw(page)
