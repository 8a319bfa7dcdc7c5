"""Standby: a loaded service that waits, and what its pauses allow."""

import msgspec
import pytest

from gputailor_agent.model.containers import EngineUse
from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, Silence, SilenceKind
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import idle
from gputailor_agent.rules.standby import RULE
from tests.agent.factories import DAY, HOUR, NOW, context, histogram, pod, profile, row, workload
from tests.agent.factories import use as signal_use
from tests.agent.rules.advice_parts import check_words, judged, key, number

WEB = workload("web", "Deployment", TaskClass.INFERENCE)


def office(hour):
    """Six hours each day."""
    return 9 <= (hour // HOUR) % 24 < 15


def service(works=office, *, days=14, names=("web-0",), memory_gib=40.0, **options):
    start = NOW - days * DAY
    usage = [
        row(hour, pod=name, gpu=f"G-{name}", kernel=0.4 if works(hour) else 0.0,
            memory_gib=memory_gib, **options)
        for hour in range(start, NOW, HOUR)
        for name in names
    ]  # fmt: skip
    return usage, [pod(name, start=start) for name in names]


def answer_of(*args, work=WEB, engine=None, thresholds=None, **options):
    made, world = profile(*service(*args, **options), work)
    made = msgspec.structs.replace(made, engine=engine)
    own = {"standby": dict(thresholds)} if thresholds else {}
    answer = RULE.evaluate(made, context(world, **own))
    check_words(answer)
    return answer


def engine(requests=1000.0, last_request=float(NOW)):
    values = dict.fromkeys(EngineUse.__struct_fields__)
    told = {"requests": requests, "last_request": last_request}
    return EngineUse(**{**values, "engines": ("vllm",), "observed_seconds": 1.0, **told})


def test_a_service_of_six_hours_a_day_could_be_scaled_to_zero():
    answer = answer_of()
    assert isinstance(answer, Finding)
    assert key(answer) == "standby.to_zero"
    freed = number(answer, "time that scaling to zero would free").value
    assert freed == pytest.approx(17.5 / 24, abs=0.01)
    assert (answer.severity, answer.confidence) == (Severity.MEDIUM, Confidence.MEDIUM)
    assert answer.saving.gpu_hours_per_month == pytest.approx(730 * freed)
    assert "standby.risk_cold" in {risk.key for risk in answer.risks}
    assert "standby.risk_unseen" in {risk.key for risk in answer.risks}
    assert say(answer.message).startswith("the service keeps its model loaded on 1 GPU")


def test_each_kind_is_told_its_own_way_and_how_to_take_it_back():
    deployment = answer_of()
    kserve = answer_of(work=workload("web", "InferenceService", TaskClass.INFERENCE))
    knative = answer_of(work=workload("web", "Service", TaskClass.INFERENCE))
    for answer in (deployment, kserve, knative):
        assert isinstance(answer, Finding)
        assert answer.change.undo
        assert answer.change.links
    assert "HTTPScaledObject" in deployment.change.code
    assert "scaledownPeriod: 1800" in deployment.change.code
    assert "minReplicas: 0" in kserve.change.patch
    assert "autoscaling.knative.dev/min-scale: '0'" in knative.change.patch


def test_with_an_engine_s_requests_it_does_not_rest_on_the_gpu_alone():
    answer = answer_of(engine=engine())
    assert isinstance(answer, Finding)
    assert "standby.risk_unseen" not in {risk.key for risk in answer.risks}
    assert number(answer, "requests in the window").value == 1000.0


@pytest.mark.parametrize(("quiet_hours", "fires"), [(7, True), (6, False)])
def test_the_freed_share_is_exact(quiet_hours, fires):
    """6.5 of 24 hours are more than a quarter, 5.5 are less."""
    answer = answer_of(lambda hour: (hour // HOUR) % 24 >= quiet_hours)
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "standby.busy")


def bursts(share=0.2, **options):
    """Every hour some seconds of work: no hour is quiet."""
    start = NOW - 14 * DAY
    busy = share * HOUR_SECONDS
    told = {
        "kernel": msgspec.structs.replace(
            signal_use(share), histogram=histogram({0.0: HOUR_SECONDS - busy, 1.0: busy})
        )
    }
    usage = [
        row(hour, pod="web-0", memory_gib=40, signals=told) for hour in range(start, NOW, HOUR)
    ]
    return judged(RULE, usage, [pod("web-0", start=start)], options.pop("work", WEB), **options)


def test_short_pauses_are_for_sharing_as_a_trial_without_a_saving():
    answer = bursts()
    assert isinstance(answer, Finding)
    assert key(answer) == "standby.share"
    assert (answer.severity, answer.confidence) == (Severity.LOW, Confidence.LOW)
    assert answer.saving.gpu_hours_per_month is None
    assert answer.slowdown is not None
    assert answer.slowdown.high == 2.0
    assert "timeSlicing" in answer.change.code


@pytest.mark.parametrize(("share", "fires"), [(0.25, True), (0.26, False)])
def test_the_waiting_share_is_exact(share, fires):
    assert isinstance(bursts(share), Finding) is fires


def test_an_engine_that_takes_memory_in_advance_must_be_told_its_share():
    work = workload("web", "Deployment", TaskClass.INFERENCE, preallocates=True,
                    preallocates_evidence="vLLM takes 90 %")  # fmt: skip
    answer = bursts(work=work)
    assert isinstance(answer, Finding)
    (risk,) = [risk for risk in answer.risks if risk.key == "standby.risk_memory"]
    assert "--gpu-memory-utilization" in say(risk)


def test_a_week_without_its_weekend_is_not_enough_case_28():
    answer = answer_of(days=6)
    assert (answer.kind, key(answer)) == (SilenceKind.WATCHING, "gate.service_days")


def test_a_model_that_is_not_loaded_is_not_standby():
    assert isinstance(answer_of(memory_gib=4.1), Finding)
    answer = answer_of(memory_gib=3.9)
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "standby.not_loaded")


def test_what_has_not_worked_for_days_is_left_to_idle_and_idle_speaks():
    def until_monday(hour):
        return office(hour) and hour < NOW - 5 * DAY

    made, world = profile(*service(until_monday), WEB)
    answer = RULE.evaluate(made, context(world))
    check_words(answer)
    assert (answer.kind, key(answer)) == (SilenceKind.FINE, "standby.long_idle")
    assert isinstance(idle.RULE.evaluate(made, context(world)), Finding)


def test_what_stands_by_is_not_idle_so_there_is_one_advice_and_not_two():
    made, world = profile(*service(), WEB)
    assert isinstance(RULE.evaluate(made, context(world)), Finding)
    assert isinstance(idle.RULE.evaluate(made, context(world)), Silence)


def test_requests_that_no_gpu_saw_keep_it_from_being_called_idle():
    never = answer_of(lambda _: False)
    assert key(never) == "standby.never_worked"
    asked = answer_of(lambda _: False, engine=engine())
    assert isinstance(asked, Finding)


def test_one_replica_that_works_keeps_the_service():
    start = NOW - 14 * DAY
    usage = [
        row(hour, pod=f"web-{i}", gpu=f"G{i}", kernel=0.4 if i or office(hour) else 0.0,
            memory_gib=40)
        for hour in range(start, NOW, HOUR)
        for i in range(2)
    ]  # fmt: skip
    answer = judged(RULE, usage, [pod(f"web-{i}", start=start) for i in range(2)], WEB)
    assert key(answer) == "standby.busy"


def test_power_that_says_otherwise_and_video_make_it_unknown():
    assert key(answer_of(lambda _: False, watts=380.0)) == "gate.power"
    answer = answer_of(encoder=0.1)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "standby.video")


def test_gaps_are_not_pauses():
    usage, pods = service()
    answer = judged(RULE, [one for one in usage if office(one.key.hour)], pods, WEB)
    assert answer.kind == SilenceKind.UNKNOWN


@pytest.mark.parametrize("task", [TaskClass.NOTEBOOK, TaskClass.UNKNOWN])
def test_others_are_not_its_business(task):
    answer = answer_of(work=workload("x", "Deployment", task))
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "standby.not_service")
    daemon = answer_of(work=workload("x", "DaemonSet", TaskClass.INFERENCE))
    assert key(daemon) == "standby.every_node"


def test_the_change_names_no_replica_and_the_time_after_which():
    answer = answer_of()
    assert isinstance(answer, Finding)
    assert answer.change.params["replicas"] == 0
    assert answer.change.params["stop_seconds"] == 1800
