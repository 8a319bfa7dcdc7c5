"""What reports say of the cluster: free GPUs, pods that wait, in every format and in explain."""

import csv
import io
import json

import jsonschema
import pytest

from gputailor_agent.model.judgement import (
    Change,
    FreePool,
    Message,
    Serving,
    SilenceKind,
    Waiting,
)
from gputailor_agent.reports import json_report
from gputailor_agent.reports.cluster import demand_text, explain_cluster, waiting_text
from gputailor_agent.reports.formats import Look, find, render
from gputailor_agent.rules import RuleSettings
from tests.agent.reports.plans import END, IDLE, finding, sample_plan, silence

STEADY = finding(
    "",
    "unallocated",
    1460.0,
    message=Message(
        key="unallocated.steady",
        params={"free": 3, "gpus": 8, "model": "A100", "pool": " of pool train", "hours": 24,
                "whole": 2, "nodes": 1},
    ),
    change=Change(kind="shrink_pool", target="Pool A100/train", command="kubectl cordon a"),
)  # fmt: skip
UNKNOWN = silence(
    "",
    "unallocated",
    SilenceKind.UNKNOWN,
    message=Message(
        key="unallocated.now_only", params={"free": 2, "gpus": 2, "model": "L4", "pool": ""}
    ),
)
WAITS = Waiting(
    namespace="team-d",
    owner="Job/<wide>",
    resource="nvidia.com/gpu",
    devices=4,
    pods=2,
    since=END - 3 * 3600,
    reasons=(
        Message(key="waiting.taken", params={"free": 2, "resource": "nvidia.com/gpu", "asked": 4}),
    ),
    served_pods=1,
    served_by=(Serving(workload_id=IDLE, rule="idle", node="node-3", devices=4),),
)
POOL = FreePool(
    model="A100",
    pool="train",
    nodes=2,
    gpus=8,
    free_now=4,
    known_hours=48,
    free_gpu_hours=160.0,
    least_free=3,
    by_hour=(5.0,) * 8 + (3.0,) * 16,
)
PLAN = sample_plan(
    cluster_findings=(STEADY,),
    cluster_silences=(UNKNOWN,),
    waiting=(WAITS,),
    free_pools=(POOL,),
)
SENTENCE = (
    "3 of 8 GPUs A100 of pool train were held by nobody in any of the last 24 hours; 2 of them are "
    "on 1 node that stood empty."
)


@pytest.mark.parametrize("name", ["table", "markdown", "html", "json", "csv"])
def test_every_format_says_it(name):
    text = " ".join(render(PLAN, name, Look(width=400)).replace("\\", "").split())
    assert SENTENCE in text
    assert "2 x nvidia.com/gpu are free in all, 4 are asked for" in text
    assert f"4 of {IDLE} on node-3 (idle)" in text


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_people_see_the_demand_on_the_first_screen_and_the_pools_below(name):
    text = render(PLAN, name, Look(width=400)).replace("\\", "")
    head = text[: text.index("What to do first")]
    assert "2 pods for 8 devices, the longest for 3 h" in head
    assert "USD 1,460/month" in text
    assert "5 at 00:00, 3 at 08:00" in text
    assert "2 of 2 GPUs L4 are held by nobody now; since when is not known" in text


def test_a_plan_without_anything_to_say_of_the_cluster_is_as_it_was():
    text = render(sample_plan(), "table", Look(width=300))
    assert "nobody asks for" not in text
    assert "pods that wait" not in text


def test_the_savings_of_the_cluster_are_not_in_the_sum():
    assert "USD 2,500/month" in render(PLAN, "table", Look(width=300))


def test_what_is_fine_is_left_to_explain():
    fine = silence("", "unallocated", SilenceKind.FINE, message=Message(
        key="unallocated.all_held", params={"gpus": 8, "model": "A100", "pool": ""}))  # fmt: skip
    plan = sample_plan(cluster_silences=(fine,))
    assert "are held now" not in render(plan, "table", Look(width=300))
    sections = explain_cluster(plan).sections
    assert [one.standing for one in sections] == ["looked, nothing to say"]


def test_json_has_sentences_and_values_by_its_schema():
    document = json.loads(render(PLAN, "json"))
    jsonschema.validate(document, json.loads(json_report.schema()))
    assert document["schema_version"] == "1.3"
    assert document["cluster"]["findings"] == {STEADY.id: SENTENCE}
    assert document["cluster"]["waiting"] == [waiting_text(WAITS, END)]
    assert document["plan"]["waiting"][0]["served_by"][0]["devices"] == 4
    assert document["plan"]["free_pools"][0]["least_free"] == 3


def test_csv_has_a_row_for_each_after_those_of_workloads():
    rows = list(csv.DictReader(io.StringIO(render(PLAN, "csv"))))
    assert [row["state"] for row in rows[-2:]] == ["finding", "waiting"]
    free, waits = rows[-2:]
    assert (free["rule"], free["saving_per_month"], free["currency"]) == (
        "unallocated",
        "1460.0",
        "USD",
    )
    assert (waits["namespace"], waits["workload"]) == ("team-d", "team-d/Job/<wide>")
    assert waits["gpu_hours"] == ""


def test_names_from_the_cluster_are_not_run_as_html():
    text = render(PLAN, "html")
    assert "Job/<wide>" not in text
    assert "Job/&lt;wide&gt;" in text


@pytest.mark.parametrize("name", ["table", "markdown", "json", "csv", "html"])
def test_explain_shows_every_number_and_threshold(name):
    explained = explain_cluster(PLAN, RuleSettings({"unallocated": {"least_hours": 48.0}}))
    text = " ".join(find(name).explanation(explained, Look(width=400)).replace("\\", "").split())
    assert explained.subject == "cluster test"
    assert "kernel mean" in text
    if name != "csv":
        assert "48 hours (set; default 24 hours)" in text
        assert "kubectl cordon a" in text


def test_an_explanation_of_the_cluster_follows_the_schema_too():
    text = find("json").explanation(explain_cluster(PLAN), Look())
    jsonschema.validate(json.loads(text), json.loads(json_report.schema()))
    assert json.loads(text)["explanation"]["verdict"] is None


def test_pods_of_which_it_is_not_known_since_when_wait_all_the_same():
    since = Waiting(namespace="n", owner="Pod/p", resource="r", devices=1, pods=1, since=None)
    assert demand_text(sample_plan(waiting=(since,))) == "1 pod for 1 device"
    assert waiting_text(since, END) == "1 pod of n/Pod/p waiting for 1 x r each: unknown."
    assert demand_text(sample_plan()) == ""


def test_many_that_wait_are_not_all_in_the_table():
    many = tuple(
        Waiting(namespace="n", owner=f"Pod/p{place}", resource="r", devices=1, pods=1, since=None)
        for place in range(25)
    )
    text = render(sample_plan(waiting=many), "markdown")
    assert "5 more wait" in text.replace("\\", "")
    assert len(json.loads(render(sample_plan(waiting=many), "json"))["plan"]["waiting"]) == 25
