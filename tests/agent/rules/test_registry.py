"""The registry: every rule is found, documented, and says only what its table can say."""

import re
from pathlib import Path

import pytest

from gputailor_agent.model.judgement import Finding, Message
from gputailor_agent.rules import (
    RuleSettings,
    SettingsError,
    check_settings,
    evaluate_all,
    registry,
)
from gputailor_agent.rules.documenting import rules_page
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    context,
    node,
    pod,
    profile,
    row,
    rows,
    workload,
)

DOCS = Path(__file__).resolve().parents[3] / "docs" / "rules.md"


def test_rules_are_found_by_their_module_and_named_after_it():
    for rule in registry():
        assert rule.evaluate.__module__ == f"gputailor_agent.rules.{rule.id}"


def test_the_order_of_rules_breaks_ties():
    ranked = [rule.id for rule in registry()]
    sizing = ("idle", "too_many_gpus", "too_many_replicas", "smaller_gpu", "mig_slice", "spot")
    assert [one for one in ranked if one in sizing] == list(sizing)


def test_the_documentation_is_what_the_registry_says():
    assert DOCS.read_text("utf-8") == rules_page(), (
        "run: python -m gputailor_agent.rules.documenting > docs/rules.md"
    )


@pytest.mark.parametrize("rule", registry(), ids=lambda rule: rule.id)
def test_every_threshold_has_a_unit_and_a_meaning_and_every_key_its_owner(rule):
    names = [threshold.name for threshold in rule.thresholds]
    assert len(names) == len(set(names))
    assert all(threshold.unit and threshold.meaning for threshold in rule.thresholds)
    shared = {rule.id, "gate", "money", "fitting"}
    assert {key.split(".")[0] for key in rule.messages} <= shared


def worlds():
    """Profiles that make the rules say many things."""
    nodes = [node("node-a", model="A100"), node("node-l", model="L4"), node("t", model="T4")]
    start = NOW - 6 * HOUR
    light = {"kernel": 0.2, "sm": 0.1, "dram": 0.05, "tensor": 0.0}
    yield [], [pod(phase="Pending", node=None)], workload()
    yield rows(start, NOW), [pod(start=start)], workload(kind="Deployment")
    yield rows(start, NOW, **light), [pod(start=start)], workload()
    yield rows(start, NOW, **light), [pod(start=start)], workload(preallocates=True)
    yield rows(start, NOW, **light, watts=399.0), [pod(gpus=2, start=start)], workload()
    yield rows(start, NOW - 3 * HOUR, **light), [pod(start=start)], workload()
    yield [row(NOW - HOUR, seconds=60)], [pod(start=NOW - 60)], workload()
    yield rows(NOW - 8 * DAY, NOW, **light), [pod(start=NOW - 8 * DAY)], workload(kind="Deployment")
    eight = [o for i in range(8) for o in rows(start, NOW, gpu=f"G{i}", kernel=0.1 * (i % 2))]
    yield eight, [pod(gpus=8, start=start)], workload()
    yield rows(start, NOW, **light), [pod(start=start, oom=True)], workload()
    opted = workload(annotations={"gputailor.io/ignore": "all"})
    yield rows(start, NOW), [pod(start=start)], opted
    for made in ([pod(start=start)],):
        yield rows(start, NOW, kernel=0.9, sm=0.1, tensor=0.01, dram=0.02), made, workload()
    del nodes


@pytest.mark.parametrize("world", list(worlds()), ids=range(len(list(worlds()))))
def test_every_message_said_has_a_template_and_all_its_parameters(world):
    usage, pods, work = world
    nodes = [node("node-a", model="A100"), node("node-l", model="L4"), node("t", model="T4")]
    made, inventory = profile(usage, pods, work, nodes=nodes)
    tables = {rule.id: rule.messages for rule in registry()}
    for answer in evaluate_all(made, context(inventory)):
        said: list[Message] = [answer.message]
        if isinstance(answer, Finding):
            said += [*answer.risks, *answer.not_chosen]
            said += [answer.saving.why] if answer.saving.why is not None else []
        for message in said:
            template = tables[answer.rule][message.key]
            fields = set(re.findall(r"{(\w+)", template))
            assert fields <= set(message.params), message.key


def test_a_threshold_can_be_set_per_rule():
    start = NOW - 6 * HOUR
    made, inventory = profile(rows(start, NOW), [pod(start=start)])
    by_default = evaluate_all(made, context(inventory))[0]
    strict = context(inventory, idle={"start_warn_minutes": 600.0, "start_act_minutes": 600.0})
    assert isinstance(by_default, Finding)
    assert not isinstance(evaluate_all(made, strict)[0], Finding)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"idel": {"coverage": 1.0}}, "thresholds.idel: no such rule"),
        ({"idle": {"covrage": 1.0}}, "thresholds.idle.covrage: no such threshold"),
    ],
)
def test_a_setting_that_names_nothing_is_an_error_that_says_what_there_is(settings, told):
    with pytest.raises(SettingsError, match=told):
        check_settings(RuleSettings(settings))
    check_settings(RuleSettings({"idle": {"coverage": 0.9}}))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (98.0, "did you mean 0.98?"),
        (100.0, "did you mean 1?"),
        (101.0, "found 101$"),
        (-0.1, "expected a share from 0 to 1"),
    ],
)
def test_a_share_given_in_percent_is_an_error_that_says_what_was_meant(value, told):
    with pytest.raises(SettingsError, match=re.escape(told).replace(re.escape("$"), "$")):
        check_settings(RuleSettings({"idle": {"coverage": value}}))
    check_settings(RuleSettings({"idle": {"coverage": 1.0}}))
    check_settings(RuleSettings({"idle": {"coverage": 0.0}}))


def test_what_is_no_share_may_be_anything_but_negative():
    check_settings(RuleSettings({"idle": {"act_minutes": 6000.0, "power_floor_watts": 0.0}}))
    for value in (-1.0, float("nan")):
        with pytest.raises(SettingsError, match="expected 0 or more"):
            check_settings(RuleSettings({"idle": {"act_minutes": value}}))
