"""Too many replicas: pods of a service that never worked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, Silence, SilenceKind
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import idle, too_many_gpus
from gputailor_agent.rules.too_many_replicas import RULE
from tests.agent.factories import DAY, HOUR, NOW, context, pod, profile, rows, use, workload
from tests.agent.rules.advice_parts import judged, key, number

WEB = workload("web", "Deployment", TaskClass.INFERENCE)


def service(levels, days=8, *, gpus=1, **options):
    start = NOW - days * DAY
    pods = [pod(f"web-{i}", gpus=gpus, start=start) for i in range(len(levels))]
    usage = [
        one
        for i, level in enumerate(levels)
        for place in range(gpus)
        for one in rows(
            start, NOW, pod=f"web-{i}", gpu=f"G{i}-{place}", kernel=level, sm=level, **options
        )
    ]
    return usage, pods


def test_one_replica_of_ten_that_never_worked_is_one_too_many_case_18():
    made, world = profile(*service([0.3] * 9 + [0.0]), WEB)
    answer = judged(RULE, *service([0.3] * 9 + [0.0]), WEB)
    assert isinstance(answer, Finding)
    assert key(answer) == "too_many_replicas.unused"
    assert answer.message.params == {"unused": 1, "replicas": 10, "needed": 9}
    assert answer.change.command.endswith("scale deployment/web --replicas=9")
    assert answer.change.undo.endswith("scale deployment/web --replicas=10")
    assert answer.saving.gpu_hours_per_month == pytest.approx(730)
    assert (answer.severity, answer.confidence) == (Severity.MEDIUM, Confidence.HIGH)
    assert say(answer.message) == ("1 of 10 replicas never worked in the window: 9 would do")
    for other in (idle, too_many_gpus):
        assert isinstance(other.RULE.evaluate(made, context(world)), Silence)


def test_half_of_them_is_a_grave_matter_and_none_takes_anything_with_it():
    answer = judged(RULE, *service([0.3, 0.0]), WEB)
    assert isinstance(answer, Finding)
    assert answer.severity == Severity.HIGH
    assert answer.slowdown is not None
    assert (answer.slowdown.low, answer.slowdown.high) == (1.0, 1.0)


def test_a_replica_that_worked_at_any_time_is_needed():
    answer = judged(RULE, *service([0.3, 0.3, 0.001]), WEB)
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "too_many_replicas.all_active")


def test_a_replica_that_only_decodes_is_needed():
    usage, pods = service([0.3, 0.3])
    usage += rows(NOW - 8 * DAY, NOW, pod="web-9", gpu="G9", kernel=0.0, decoder=0.2)
    answer = judged(RULE, usage, [*pods, pod("web-9", start=NOW - 8 * DAY)], WEB)
    assert key(answer) == "too_many_replicas.all_active"


def test_replicas_whose_encoder_cannot_be_read_make_it_less_sure():
    start = NOW - 8 * DAY
    usage = [
        one
        for place, level in enumerate([0.3, 0.0])
        for one in rows(
            start, NOW, pod=f"web-{place}", gpu=f"G{place}", signals={"kernel": use(level)}
        )
    ]
    answer = judged(RULE, usage, [pod(f"web-{place}", start=start) for place in range(2)], WEB)
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.MEDIUM


@pytest.mark.parametrize(("hours", "fires"), [(24, True), (23, False)])
def test_a_replica_that_is_new_is_not_called_unused(hours, fires):
    usage, pods = service([0.3, 0.3])
    fresh = pod("web-9", start=NOW - hours * HOUR)
    usage += rows(NOW - hours * HOUR, NOW, pod="web-9", gpu="G9", kernel=0.0)
    answer = judged(RULE, usage, [*pods, fresh], WEB)
    assert isinstance(answer, Finding) is fires


@pytest.mark.parametrize(("seen", "fires"), [(0.9, True), (0.89, False)])
def test_a_replica_that_was_not_watched_for_long_enough_is_needed(seen, fires):
    usage, pods = service([0.3, 0.3, 0.3])
    unseen = pod("web-9", start=NOW - 8 * DAY)
    usage += rows(NOW - 8 * DAY, NOW, pod="web-9", gpu="G9", observed=seen * HOUR, kernel=0.0)
    answer = judged(RULE, usage, [*pods, unseen], WEB)
    assert isinstance(answer, Finding) is fires


def test_a_service_is_watched_for_a_whole_week_before_it_is_judged_case_28():
    answer = judged(RULE, *service([0.3] * 9 + [0.0], days=5), WEB)
    assert (answer.kind, key(answer)) == (SilenceKind.WATCHING, "gate.service_days")
    assert answer.ready_at == NOW + 2 * DAY


def test_below_the_coverage_nothing_is_said():
    answer = judged(RULE, *service([0.3, 0.0], observed=0.8 * HOUR), WEB)
    assert answer.kind == SilenceKind.UNKNOWN
    assert answer.missing_signals == ("kernel",)


def test_where_none_worked_idle_or_standby_speak():
    answer = judged(RULE, *service([0.0, 0.0]), WEB)
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "too_many_replicas.none_active")


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (workload(), "batch"),
        (workload("lab", "Notebook", TaskClass.NOTEBOOK), "notebook"),
        (workload("agent", "DaemonSet", TaskClass.INFERENCE), "every_node"),
    ],
)
def test_who_is_not_asked(work, said):
    answer = judged(RULE, *service([0.3, 0.0]), work)
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, f"too_many_replicas.{said}")


def test_one_replica_cannot_be_fewer():
    assert key(judged(RULE, *service([0.3]), WEB)) == "too_many_replicas.one"


def test_what_an_autoscaler_would_undo_is_said():
    answer = judged(RULE, *service([0.3, 0.0]), WEB)
    assert isinstance(answer, Finding)
    assert "too_many_replicas.risk_autoscaler" in {risk.key for risk in answer.risks}
    assert answer.not_chosen


@given(levels=st.lists(st.sampled_from([0.0, 0.2]), min_size=2, max_size=5), at=st.data())
@settings(max_examples=20, deadline=None)
def test_more_use_never_makes_fewer_replicas_do(levels, at):
    def needed(values):
        found = judged(RULE, *service(values), WEB)
        return found.message.params["needed"] if isinstance(found, Finding) else len(values)

    place = at.draw(st.integers(0, len(levels) - 1))
    busier = [0.4 if i == place else level for i, level in enumerate(levels)]
    if any(levels):
        assert needed(busier) >= needed(levels)


def test_the_number_that_worked_stands_among_the_evidence():
    answer = judged(RULE, *service([0.3, 0.3, 0.0]), WEB)
    assert number(answer, "replicas that worked").value == 2
    assert number(answer, "replicas now").value == 3
