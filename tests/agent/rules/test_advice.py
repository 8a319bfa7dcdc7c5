"""What holds for every rule that advises: code for each framework, cases of the field, the plan."""

import msgspec
import pytest

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Finding, SilenceKind
from gputailor_agent.model.profile import Window
from gputailor_agent.planner import make_plan
from gputailor_agent.reports.explain import explain
from gputailor_agent.rules import evaluate_all, registry
from gputailor_agent.rules.advising import containers_of
from gputailor_agent.rules.mixed_precision import RULE as MIXED_PRECISION
from gputailor_agent.rules.snippets import snippet, snippet_table
from tests.agent.factories import DAY, HOUR, NOW, context, pod, profile, rows, workload
from tests.agent.rules.advice_parts import (
    check_words,
    host,
    job,
    judged,
    number,
    seconds_told,
)

ADVISING = [
    "memory_bound", "input_bound", "link_bound", "mixed_precision", "bandwidth_bound", "share",
    "spot",
]  # fmt: skip
FP32 = {"kernel": 1.0, "sm": 1.0, "tensor": 0.0, "fp32": 0.9, "fp64": 0.0, "dram": 0.6}
TOLD = {"amp_candidate": 1.0, "zero_inside_active_minute": 0.0, "link_saturated": 0.3}
FRAMEWORKS = {"PyTorch", "TensorFlow", "JAX", "MindSpore"}


def test_the_rules_are_registered():
    assert set(ADVISING) <= {rule.id for rule in registry()}


@pytest.mark.parametrize("topic", sorted(snippet_table()))
def test_every_topic_has_lines_and_a_page_for_each_framework(topic):
    known = snippet_table()[topic]
    assert set(known) == FRAMEWORKS
    for framework, lines in known.items():
        assert lines.link.startswith("https://")
        made = snippet(topic, workload(framework=framework.lower()), workers=4)
        assert made.framework == framework
        assert made.code
        assert "{{" not in made.code


@pytest.mark.parametrize("topic", sorted(snippet_table()))
def test_the_lines_of_python_are_python(topic):
    for lines in snippet_table()[topic].values():
        compile(lines.code.replace("{{workers}}", "4"), topic, "exec")


def test_case_19_eight_gpus_at_full_use_are_full_not_an_eighth_nor_eightfold():
    start = NOW - 6 * HOUR
    usage = [o for i in range(8) for o in rows(start, NOW, gpu=f"G{i}", **FP32)]
    answer = judged(MIXED_PRECISION, seconds_told(usage, TOLD), [pod(gpus=8, start=start)])
    assert isinstance(answer, Finding)
    assert number(answer, "share of the time held").value == pytest.approx(1.0)
    assert number(answer, "mean sm").value == pytest.approx(1.0)


def test_case_23_without_data_every_rule_is_silent():
    start = NOW - 6 * HOUR
    made, world = profile([], [pod(start=start)], workload(framework="pytorch"))
    for answer in evaluate_all(made, context(world)):
        assert not isinstance(answer, Finding)
        check_words(answer)


def test_case_28_a_week_without_its_weekend_is_not_enough_for_a_service():
    usage, pods = job(5 * 24, TOLD, **FP32)
    work = workload("web", "Deployment", TaskClass.INFERENCE, framework="pytorch")
    made, world = profile(usage, pods, work)
    answers = {answer.rule: answer for answer in evaluate_all(made, context(world))}
    for rule in set(ADVISING) - {"spot"}:
        assert answers[rule].kind == SilenceKind.WATCHING, rule
        assert answers[rule].ready_at == NOW + 2 * DAY


def test_case_29_what_lies_before_the_window_changes_no_answer():
    usage, pods = job(6, TOLD, **FP32)
    before = seconds_told(
        rows(NOW - 40 * DAY, NOW - 38 * DAY, kernel=0.1, sm=0.1, memory_gib=79, dram=0.9), TOLD
    )
    window = Window(start=NOW - 2 * DAY, end=NOW)
    made, world = profile(usage, pods, window=window)
    older, same = profile([*before, *usage], pods, window=window)
    assert evaluate_all(made, context(world)) == evaluate_all(older, context(same))


def crowded():
    """One job of which four rules have something to say."""
    levels = {**FP32, "sm": 0.45, "kernel": 1.0}
    usage, pods = job(6, TOLD, **levels, memory_gib=76)
    made, world = profile(usage, pods, workload(framework="mindspore"))
    return msgspec.structs.replace(made, host=host(cpu_of_limit=0.97)), world


def test_case_32_of_several_findings_one_is_primary_and_none_are_added_up():
    made, world = crowded()
    around = context(world)
    found = [a for a in evaluate_all(made, around) if isinstance(a, Finding)]
    said = {finding.rule for finding in found}
    assert {"input_bound", "link_bound", "bandwidth_bound", "memory_bound"} <= said
    assert "mixed_precision" not in said  # it waits for its input
    plan = make_plan([made], around, window=made.window, made_at=float(NOW))
    (verdict,) = plan.verdicts
    assert verdict.primary is not None
    assert len(verdict.alternatives) == len(found) - 1
    assert all(check.holds for check in plan.checks)
    assert plan.saving_gpu_hours_per_month <= 730


def test_the_whole_derivation_is_explained():
    made, world = crowded()
    around = context(world)
    plan = make_plan([made], around, window=made.window, made_at=float(NOW))
    sections = {one.rule: one for one in explain(plan, plan.verdicts[0]).sections}
    assert set(sections) == {rule.id for rule in registry()}
    for rule in ADVISING:
        assert sections[rule].text
        assert all(line.formula for line in sections[rule].numbers)


def test_permuting_pods_and_gpus_changes_no_answer():
    start = NOW - 6 * HOUR
    names = ["train-0", "train-1", "train-2"]

    def told(order):
        usage = [
            one
            for name in order
            for one in seconds_told(
                rows(start, NOW, pod=name, gpu=f"G-{name}", **{**FP32, "sm": 0.3}), TOLD
            )
        ]
        made, world = profile(usage, [pod(name, start=start) for name in order])
        return evaluate_all(made, context(world))

    assert told(names) == told(names[::-1])


def test_containers_are_those_that_the_inventory_knows_each_pod_once():
    """Usage names a container that its pod has not, and a pod that nobody knows."""
    start = NOW - 6 * HOUR
    usage = [
        *rows(start, NOW, gpu="G0", kernel=0.5),
        *rows(start, NOW, gpu="G1", kernel=0.5),
        *rows(start, NOW, gpu="G2", kernel=0.5, container="sidecar"),
    ]
    made, world = profile(usage, [pod(gpus=3, start=start)])
    around = context(world)
    assert [(one.name, spec.name) for one, spec in containers_of(made, around)] == [
        ("train-0", "main")
    ]
    strange = msgspec.structs.replace(
        made, gpus=tuple(msgspec.structs.replace(use, container="sidecar") for use in made.gpus)
    )
    assert containers_of(strange, context(world)) == []
