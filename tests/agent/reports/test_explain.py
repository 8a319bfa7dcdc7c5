"""Every finding and silence with its numbers; workloads found by what people type."""

import html

import msgspec
import pytest

from gputailor_agent.model.judgement import Message, SilenceKind
from gputailor_agent.reports.explain import UnknownWorkloadError, explain, find_verdict
from gputailor_agent.reports.formats import Look, find
from gputailor_agent.rules import registry
from tests.agent.reports.plans import (
    FEWER,
    IDLE,
    UNSEEN,
    finding,
    sample_plan,
    silence,
    verdict,
)


def test_a_workload_is_found_by_its_id():
    assert find_verdict(sample_plan(), IDLE).workload.id == IDLE


@pytest.mark.parametrize("typed", ["team-a", "TEAM-A/deployment/old", "old", "deployment/old"])
def test_a_workload_is_found_by_a_part_only_it_has(typed):
    assert find_verdict(sample_plan(), typed).workload.id == IDLE


def test_several_fits_are_listed_instead_of_guessed():
    with pytest.raises(UnknownWorkloadError, match="fits several") as caught:
        find_verdict(sample_plan(), "team-b")
    assert FEWER in caught.value.suggestions


def test_a_typing_mistake_gets_suggestions():
    with pytest.raises(UnknownWorkloadError, match="did you mean") as caught:
        find_verdict(sample_plan(), "trian")
    assert caught.value.suggestions == [FEWER]


def test_a_name_like_no_other_gets_none():
    with pytest.raises(UnknownWorkloadError) as caught:
        find_verdict(sample_plan(), "zzzzzzzzzzzz")
    assert caught.value.suggestions == []


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_a_finding_shows_numbers_window_samples_coverage_threshold_and_formula(name):
    plan = sample_plan()
    text = find(name).explanation(explain(plan, find_verdict(plan, IDLE)), Look(width=220))
    text = text.replace("\\", "")
    for shown in (
        "kernel mean",
        "<= 2.0 %",
        "336",
        "99.5 %",
        "active / observed",
        "2025-11-17 00:00 UTC to 2025-12-01 00:00 UTC (14 d)",
        "GPU-hours per month x price",
        "replicas: 0",
    ):
        assert shown in text


@pytest.mark.parametrize("name", ["table", "markdown", "html"])
def test_what_to_write_in_the_program_is_shown_with_its_documentation_and_undo(name):
    advice = finding(IDLE, "mixed_precision", 1.0)
    change = msgspec.structs.replace(
        advice.change,
        code="with torch.autocast('cuda'):",
        links=("https://docs.example/amp",),
        undo="take the line out",
    )
    advice = msgspec.structs.replace(advice, change=change)
    plan = sample_plan(verdicts=(verdict(IDLE, "finding", primary=advice),))
    text = find(name).explanation(explain(plan, find_verdict(plan, IDLE)), Look(width=220))
    text = html.unescape(text).replace("\\", "")
    for shown in ("torch.autocast('cuda')", "https://docs.example/amp", "take the line out"):
        assert shown in text


def test_alternatives_are_shown_and_said_not_to_add_up():
    plan = sample_plan()
    explanation = explain(plan, find_verdict(plan, IDLE))
    standings = [section.standing for section in explanation.sections]
    assert standings == ["recommended", "alternative, not added up"]


def test_a_silence_shows_what_was_missing():
    plan = sample_plan()
    sections = explain(plan, find_verdict(plan, UNSEEN)).sections
    told = {section.rule: section for section in sections}
    assert told["idle"].standing == "unknown"
    assert [fact.text for fact in told["idle"].facts] == ["kernel"]


@pytest.mark.parametrize("rule", [rule.id for rule in registry()])
def test_the_thresholds_of_every_rule_are_explained(rule):
    quiet = verdict(IDLE, "ok", silences=(silence(IDLE, rule, SilenceKind.FINE),))
    plan = sample_plan(verdicts=(quiet,))
    section = explain(plan, quiet).sections[0]
    declared = next(one for one in registry() if one.id == rule)
    assert [fact.label for fact in section.thresholds] == [
        threshold.name for threshold in declared.thresholds
    ]
    assert all(": " in fact.text for fact in section.thresholds)


def test_time_spread_over_gaps_and_rejected_candidates_are_shown():
    quiet = silence(FEWER, "smaller_gpu", SilenceKind.FINE)
    rejected = Message(key="fitting.no_price", params={"model": "L4"})
    quiet = msgspec.structs.replace(quiet, not_chosen=(rejected,))
    gaps = verdict(FEWER, "ok", silences=(quiet,), spread_seconds=7200.0)
    shown = explain(sample_plan(verdicts=(gaps,)), gaps)
    facts = {fact.label: fact.text for fact in shown.facts}
    assert facts["spread over gaps"].startswith("2 h of GPU time")
    (section,) = shown.sections
    assert ("not chosen", "L4: no price is known") in [(f.label, f.text) for f in section.facts]
    none = explain(sample_plan(), verdict(FEWER, "ok"))
    assert {fact.label: fact.text for fact in none.facts}["spread over gaps"] == "nothing"


def test_a_workload_is_found_by_namespace_and_name():
    plan = sample_plan()
    for name in ("team-b/train", "TEAM-B/train/trainer", "train", FEWER):
        assert find_verdict(plan, name).workload.id == FEWER


def test_namespace_and_name_must_be_those_of_one_workload():
    with pytest.raises(UnknownWorkloadError):
        find_verdict(sample_plan(), "team-a/train")


def test_who_measured_what_is_shown():
    told = verdict(
        FEWER, "ok", dialects=("dcgm", "gputailor"), filled={"sm": ("dcgm",), "tensor": ("dcgm",)}
    )
    facts = {fact.label: fact.text for fact in explain(sample_plan(), told).facts}
    assert facts["measured by"] == "dcgm, gputailor; sm, tensor by dcgm"
