"""What is found and what is not told reaches people whole: the report, and ``gputailor explain``.

Every world of every rule (``worlds``) goes the way to the page. So a message without its
parameters, a number without a formula and a silence without a reason fail here, whoever wrote them.
"""

import re
from functools import cache
from typing import Any

import pytest

from gputailor_agent.model.judgement import Finding, Plan, Silence, SilenceKind
from gputailor_agent.planner import make_plan
from gputailor_agent.reports import explain_page, markdown, plan_page
from gputailor_agent.reports.explain import explain, kind_word
from gputailor_agent.reports.units import quantity, utc
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import RuleSettings, cluster_registry, registry
from tests.agent.factories import NOW
from tests.agent.rules.worlds import FIRST, RULES, WORLDS, built

EVERY = [(rule, name) for rule, named in FIRST.items() for name in named]


@cache
def planned(rule: str, name: str = "fires") -> Plan:
    """A plan of one world with every rule in force."""
    world = built(rule, name)
    around = world.context(rule, {})
    return make_plan(
        [world.profile], around, window=world.profile.window, made_at=float(NOW), sources=("test",)
    )


def plain(page: str) -> str:
    """Markdown as it is read: without the marks that keep words from being marks."""
    return page.replace("\\", "")


def derivation(plan: Plan, rules: RuleSettings) -> str:
    (verdict,) = plan.verdicts
    return plain(markdown.draw(explain_page.compose(explain(plan, verdict, rules))))


def answers(plan: Plan) -> list[Finding | Silence]:
    (verdict,) = plan.verdicts
    found = [verdict.primary, *verdict.alternatives]
    return [*(one for one in found if one is not None), *verdict.silences]


def owed(answer: Finding | Silence) -> list[str]:
    """Every text that an explanation of the answer has to hold."""
    texts = [say(answer.message, strict=True).rstrip("."), f"({answer.rule})"]
    texts += [say(one, strict=True) for one in answer.not_chosen]
    for one in answer.evidence:
        texts += [one.name, one.formula, quantity(one.value, one.unit)]
        if one.comparison:
            texts.append(f"{one.comparison} {quantity(one.threshold, one.unit)}")
    if isinstance(answer, Silence):
        texts.append(kind_word(answer.kind))
        texts += answer.missing_signals
        texts += [] if answer.ready_at is None else [utc(answer.ready_at)]
        return texts
    change, saving = answer.change, answer.saving
    texts += [say(risk, strict=True) for risk in answer.risks]
    texts += [change.undo, change.command, *change.links, *change.patch.splitlines()]
    texts += [change.code, saving.formula, say(saving.why), answer.confidence.value]
    return texts


def squeezed(text: str) -> str:
    """Without line ends and repeated blanks, and with the first letter small."""
    text = re.sub(r"\s+", " ", text.replace("\\", "")).strip()
    return text[:1].lower() + text[1:]


@pytest.mark.parametrize(("rule", "name"), EVERY)
def test_the_explanation_holds_the_whole_derivation_of_every_finding_and_silence(rule, name):
    plan = planned(rule, name)
    page = re.sub(r"\s+", " ", derivation(plan, built(rule, name).context(rule, {}).settings))
    said = answers(plan)
    assert {answer.rule for answer in said} == set(RULES)
    for answer in said:
        missing = [text for text in owed(answer) if squeezed(text).lower() not in page.lower()]
        assert not missing, (answer.rule, missing)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_explanation_holds_every_threshold_of_the_rule_with_its_meaning(rule):
    page = derivation(planned(rule), built(rule).context(rule, {}).settings)
    for threshold in RULES[rule].thresholds:
        assert threshold.name in page
        assert threshold.meaning in page


@pytest.mark.parametrize(("rule", "name"), EVERY)
def test_the_report_says_what_is_recommended_in_the_rule_s_own_words(rule, name):
    plan = planned(rule, name)
    page = plain(markdown.draw(plan_page.compose(plan))).lower()
    (verdict,) = plan.verdicts
    if verdict.primary is not None:
        assert squeezed(say(verdict.primary.message, strict=True)).lower() in page
    assert verdict.workload.name in page


def fields(template: str) -> set[str]:
    return set(re.findall(r"{(\w+)", template))


@pytest.mark.parametrize("rule", [*registry(), *cluster_registry()], ids=lambda rule: rule.id)
def test_every_message_is_a_sentence_without_a_full_stop_and_knows_its_units(rule: Any):
    """The reports put sentences together; ``{need:bytes}`` is written as people write bytes."""
    for key, template in rule.messages.items():
        assert template == template.strip(), key
        assert not template.endswith("."), key
        units = re.findall(r"{\w+(?::(\w*))?}", template)
        assert set(units) <= {"", "bytes", "ratio", "seconds", "count", "factor", "time", "watts",
                              "money", "usd_per_hour", "hours", "rate", "minutes"}, key  # fmt: skip


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_finding_says_how_sure_it_is_and_why(rule):
    for name in WORLDS[rule]:
        answer = built(rule, name).answer(rule)
        if isinstance(answer, Finding):
            sure = answer.evidence[-1]
            assert (sure.name, sure.value) == ("confidence", answer.confidence.value)
            assert sure.formula


def test_a_silence_of_the_unknown_tells_what_would_have_to_be_known():
    for rule, name in EVERY:
        for answer in answers(planned(rule, name)):
            if isinstance(answer, Silence) and answer.kind == SilenceKind.UNKNOWN:
                assert answer.missing_signals or say(answer.message).startswith("unknown"), (
                    rule, name, answer.message)  # fmt: skip
