"""The report in every format: the same figures, nothing hidden, nothing executed."""

import csv
import io
import json
from importlib import resources

import jsonschema
import msgspec
import pytest

from gputailor_agent.model.judgement import Message, Money, Plan
from gputailor_agent.reports import json_report, overview
from gputailor_agent.reports.explain import explain, find_verdict
from gputailor_agent.reports.formats import (
    Look,
    UnknownFormatError,
    find,
    formats,
    render,
)
from gputailor_agent.reports.wording import say
from tests.agent.reports.plans import FEWER, FINE, IDLE, UNSEEN, WATCHED, sample_plan, verdict

TEXTS = ("table", "markdown")


def test_the_formats_register_themselves():
    assert set(formats()) == {"table", "text", "json", "markdown", "csv", "html", "mail"}


def test_an_unknown_format_names_those_there_are():
    with pytest.raises(UnknownFormatError, match="table"):
        find("xml")


@pytest.mark.parametrize("name", ["table", "json", "markdown", "csv"])
def test_every_workload_is_in_every_format(name):
    text = render(sample_plan(), name).replace("\\", "")
    for identity in (IDLE, FEWER, WATCHED, UNSEEN, FINE):
        assert identity in text


@pytest.mark.parametrize("name", TEXTS)
def test_the_first_screen_tells_totals_money_and_counts(name):
    text = render(sample_plan(), name, Look(width=200))
    head = text[: text.index("All workloads")]
    assert "USD 2,500/month" in head
    assert "5 (62 %)" in head
    assert "USD 2,000/month" in head
    assert "USD 500/month" in head
    assert "5 workloads: 2 to change, 1 watching, 1 unknown, 1 fine." in head
    assert "1.00x to 1.25x" in head


@pytest.mark.parametrize("name", TEXTS)
def test_problems_are_on_the_first_screen(name):
    text = render(sample_plan(), name, Look(width=200))
    assert "node-3: no page since" in text[: text.index("All workloads")]


@pytest.mark.parametrize("name", TEXTS)
def test_a_check_that_does_not_hold_is_shown(name):
    broken = msgspec.structs.replace(sample_plan().checks[0], right=9.0, holds=False)
    text = render(sample_plan(checks=(broken,)), name, Look(width=200))
    assert "GPUs: 8 is not 9" in text


def test_what_saves_most_comes_first_then_watching_unknown_fine():
    order = [line.verdict.workload.id for line in overview.lines(sample_plan())]
    assert order == [IDLE, FEWER, WATCHED, UNSEEN, FINE]


def test_zero_and_unknown_look_different_in_the_table():
    rows = {line.verdict.workload.id: line for line in overview.lines(sample_plan())}
    text = render(sample_plan(), "markdown").replace("\\", "")
    idle = next(row for row in text.splitlines() if row.startswith(f"| {IDLE}"))
    unseen = next(row for row in text.splitlines() if row.startswith(f"| {UNSEEN}"))
    assert rows[IDLE].verdict.mean_kernel == 0.0
    assert "| 0 % |" in idle
    assert "| unknown |" in unseen
    assert "| 0 % |" in unseen  # its coverage is a measurement: nothing was observed


def test_the_mean_over_the_cluster_leaves_out_what_was_not_observed():
    totals = overview.totals(sample_plan())
    assert totals.mean_kernel_of_observed == pytest.approx((0.5 + 0.5 + 0.5 + 0.0) / 4)
    assert totals.observed_share == pytest.approx(0.8)


def test_a_cluster_of_which_nothing_was_observed_has_an_unknown_mean():
    plan = sample_plan(verdicts=(verdict(UNSEEN, "unknown", coverage=0.0, mean_kernel=None),))
    assert overview.totals(plan).mean_kernel_of_observed is None
    assert "unknown (observed 0 % of the allocated GPU time)" in render(plan, "table")


def test_a_workload_that_is_watched_says_when_it_is_ready():
    assert "(ready 2025-12-02 00:00 UTC)" in render(sample_plan(), "table", Look(width=300))


def test_the_reason_shown_is_that_of_the_state():
    line = next(one for one in overview.lines(sample_plan()) if one.verdict.workload.id == UNSEEN)
    assert line.headline == say(Message(key="report.no_workloads"))


def test_without_nodes_capacity_is_unknown_and_allocated_comes_from_the_workloads():
    totals = overview.totals(sample_plan(capacity=(), cost=None))
    assert totals.gpus is None
    assert totals.allocated == 5
    assert totals.window_cost == Money(amount=4000.0)


def test_costs_in_two_currencies_are_not_added():
    plan = sample_plan(
        cost=None,
        verdicts=(
            verdict(IDLE, "ok", cost=Money(amount=1.0)),
            verdict(FINE, "ok", cost=Money(amount=1.0, currency="EUR")),
        ),
    )
    assert overview.totals(plan).window_cost is None


@pytest.mark.parametrize("name", TEXTS)
def test_an_empty_cluster_gets_a_report(name):
    text = render(sample_plan(verdicts=(), capacity=(), cost=None, checks=()), name)
    assert "Not judged yet: no use of a GPU was measured" in text
    assert "No workload is known to have held a GPU" in text


def test_plain_text_carries_no_escape_codes_and_no_trailing_blanks():
    text = render(sample_plan(), "table")
    assert "\x1b" not in text
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_colour_is_there_when_asked_for():
    assert "\x1b[" in render(sample_plan(), "table", Look(color=True))


def test_on_a_narrow_screen_a_table_becomes_cards_and_loses_nothing():
    text = render(sample_plan(), "table", Look(width=70))
    flat = " ".join(text.split())
    assert "memory peak unknown" in flat
    assert "why Fits (ready 2025-12-02 00:00 UTC)." in flat


@pytest.mark.parametrize("width", [60, 100, 200])
def test_lines_keep_to_the_width(width):
    lines = render(sample_plan(), "table", Look(width=width)).splitlines()
    assert max(map(len, lines)) <= width


def test_markdown_cells_cannot_break_the_table():
    hostile = "team|a/Deployment/<b>x`/main"
    text = render(sample_plan(verdicts=(verdict(hostile, "ok"),)), "markdown")
    rows = text[text.index("## All workloads") :].splitlines()
    row = next(line for line in rows if line.startswith("| team"))
    assert row.replace("\\|", "").count("|") == 11  # ten cells
    assert "<b>" not in row.replace("\\<", "")


def test_json_holds_the_plan_unchanged_and_follows_its_schema():
    plan = sample_plan()
    text = render(plan, "json")
    document = json.loads(text)
    jsonschema.validate(document, json.loads(json_report.schema()))
    assert document["schema_version"] == "1.3"
    assert document["kind"] == "report"
    assert msgspec.convert(document["plan"], Plan) == plan
    unseen = next(one for one in document["plan"]["verdicts"] if one["state"] == "unknown")
    assert unseen["mean_kernel"] is None


def test_the_explanation_follows_the_schema_too():
    plan = sample_plan()
    text = find("json").explanation(explain(plan, find_verdict(plan, IDLE)), Look())
    jsonschema.validate(json.loads(text), json.loads(json_report.schema()))


def test_the_schema_file_is_up_to_date():
    written = resources.files("gputailor_agent.reports").joinpath("report.schema.json")
    assert written.read_text(encoding="utf-8") == json_report.schema(), (
        "regenerate: python -m gputailor_agent.reports.json_report > "
        "agent/gputailor_agent/reports/report.schema.json"
    )


def test_csv_has_raw_numbers_and_leaves_unknown_empty():
    rows = {
        row["workload"]: row for row in csv.DictReader(io.StringIO(render(sample_plan(), "csv")))
    }
    assert float(rows[IDLE]["mean_kernel_ratio"]) == 0.0
    assert rows[UNSEEN]["mean_kernel_ratio"] == ""
    assert float(rows[IDLE]["saving_per_month"]) == 2000.0
    assert rows[IDLE]["window_end"] == "2025-12-01T00:00:00Z"


def test_csv_does_not_let_a_name_become_a_formula():
    hostile = "=cmd()/Deployment/x/main"
    rows = csv.DictReader(
        io.StringIO(render(sample_plan(verdicts=(verdict(hostile, "ok"),)), "csv"))
    )
    assert next(rows)["workload"] == f"'{hostile}"
