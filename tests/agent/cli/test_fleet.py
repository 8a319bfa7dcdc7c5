"""``gputailor fleet``: from a store of several agents to a table, JSON and an exit code."""

import json
import time

import pytest

from gputailor_agent.model.judgement import Money
from gputailor_agent.store import Store
from tests.agent.cli.test_running import bare_environment, command
from tests.agent.reports.plans import sample_plan

__all__ = ["bare_environment", "command"]  # the fixtures


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "fleet.db"
    with Store.open(path) as opened, opened.transaction() as tx:
        for cluster, saving in (("east", 2500.0), ("west", 500.0)):
            tx.put_plan(
                sample_plan(
                    cluster=cluster,
                    made_at=time.time() - 60,
                    saving_money_per_month=Money(amount=saving),
                )
            )
    return path


def test_all_clusters_stand_in_one_table(store, command):
    code, out, _ = command("fleet", "--store", store)
    assert code == 0
    assert "USD 3,000 (2,920 GPU-hours)" in out
    assert [
        one.split()[0] for one in out.splitlines() if one.split()[:1] in (["east"], ["west"])
    ] == [
        "east",
        "west",
    ]


def test_programs_get_every_figure(store, command):
    code, out, _ = command("fleet", "--store", store, "--cluster", "west", "--output", "json")
    told = json.loads(out)
    assert code == 0
    assert [one["cluster"] for one in told["clusters"]] == ["west"]
    assert told["total"]["saving"] == {"amount": 500.0, "currency": "USD"}
    assert told["total"]["gpus"] == 8
    assert told["without_plan"] == []


def test_it_speaks_chinese(store, command):
    code, out, _ = command("fleet", "--store", store, "--language", "zh")
    assert code == 0
    assert "allocated now" not in out
    assert "US$3,000" in out


@pytest.mark.parametrize(
    ("condition", "code"),
    [("saving>2999", 3), ("saving>3000", 0), ("stale>0", 0), ("free<5", 3), ("findings>=4", 3)],
)
def test_a_pipeline_ends_with_three_where_a_condition_holds(store, command, condition, code):
    assert command("fleet", "--store", store, "--fail-on", condition)[0] == code


def test_an_agent_that_plans_no_more_can_be_noticed(store, command):
    with Store.open(store) as opened, opened.transaction() as tx:
        tx.put_plan(sample_plan(cluster="north", made_at=time.time() - 3 * 86_400))
    assert command("fleet", "--store", store, "--fail-on", "stale>0")[0] == 3


def test_a_cluster_that_is_not_there_is_told_with_the_nearest(store, command):
    code, _, err = command("fleet", "--store", store, "--cluster", "eats")
    assert code == 1
    assert "nothing of 'eats'; did you mean east?" in err


def test_a_store_without_clusters_is_told(tmp_path, command):
    Store.open(tmp_path / "new.db").close()
    code, _, err = command("fleet", "--store", tmp_path / "new.db")
    assert code == 1
    assert "holds no cluster yet" in err
