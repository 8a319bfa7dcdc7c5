"""Idle notebooks: what a culler would have freed, by whole hours without work."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Finding, Severity, SilenceKind
from gputailor_agent.profiles.courses import hour_of_week
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.idle_notebook import RULE
from gputailor_agent.rules.stretches import quiet_time
from tests.agent.factories import DAY, HOUR, NOW, pod, profile, row, workload
from tests.agent.rules.advice_parts import judged, key, number

LAB = workload("lab", "Notebook", TaskClass.NOTEBOOK)
WEEKEND = 120  # Saturday 0:00 UTC, as an hour of the week


def at_work(hour):
    """Monday to Friday, eight to sixteen o'clock."""
    return hour_of_week(hour) < WEEKEND and 8 <= hour_of_week(hour) % 24 < 16


def notebook(works=at_work, *, days=14, gpus=1, missing=lambda _: False, **options):
    start = NOW - days * DAY
    usage = [
        row(hour, pod="lab-0", gpu=f"G{place}", kernel=0.5 if works(hour) else 0.0, **options)
        for hour in range(start, NOW, HOUR)
        for place in range(gpus)
        if not missing(hour)
    ]
    return usage, [pod("lab-0", gpus=gpus, start=start)]


def answer_of(*args, work=LAB, thresholds=None, **options):
    return judged(RULE, *notebook(*args, **options), work, thresholds=thresholds)


def test_nights_and_weekends_are_what_a_culler_frees():
    answer = answer_of()
    assert isinstance(answer, Finding)
    assert key(answer) == "idle_notebook.cull"
    quiet = 1 - 40 / 168
    assert number(answer, "time without work").value == pytest.approx(quiet)
    # each week: 4 nights of 16 h and a weekend of 64 h, one hour less of each
    freed = (2 * (4 * 15 + 63) - 1 + 1) / (14 * 24)
    assert number(answer, "time that a culler would free").value == pytest.approx(freed, abs=0.01)
    assert number(answer, "of that at weekends").value == pytest.approx(48 / 123, abs=0.02)
    assert number(answer, "longest stretch").value == 64 * HOUR
    assert (answer.severity, answer.confidence) == (Severity.LOW, Confidence.HIGH)
    share = number(answer, "time that a culler would free").value
    assert answer.saving.gpu_hours_per_month == pytest.approx(730 * share)
    assert answer.saving.money_per_month is not None
    assert answer.saving.money_per_month.amount == pytest.approx(730 * 4.0 * share)


def test_kubeflow_and_jupyterhub_are_told_how():
    kubeflow = answer_of()
    hub = answer_of(work=workload("hub", "Pod", TaskClass.NOTEBOOK))
    assert isinstance(kubeflow, Finding)
    assert isinstance(hub, Finding)
    assert 'CULL_IDLE_TIME: "60"' in kubeflow.change.code
    assert "timeout: 3600" in hub.change.code
    assert kubeflow.change.links
    assert hub.change.undo


def test_a_soft_word_and_what_is_lost():
    answer = answer_of()
    assert isinstance(answer, Finding)
    assert say(answer.message).startswith("the notebook did nothing for 76")
    assert "idle_notebook.risk_state" in {risk.key for risk in answer.risks}
    assert "release" not in say(answer.message)


@pytest.mark.parametrize(("quiet_hours", "fires"), [(9, True), (8, False)])
def test_the_freed_share_is_exact(quiet_hours, fires):
    """8 of 24 hours freed is a third, 7 is less than 0.3."""
    answer = answer_of(lambda hour: (hour // HOUR) % 24 >= quiet_hours)
    assert isinstance(answer, Finding) is fires
    if not fires:
        assert (answer.kind, key(answer)) == (SilenceKind.FINE, "idle_notebook.fine")


def test_pauses_of_an_hour_free_nothing():
    answer = answer_of(lambda hour: (hour // HOUR) % 2 == 0)
    assert key(answer) == "idle_notebook.fine"
    assert number(answer, "time without work").value == pytest.approx(0.5)
    assert number(answer, "time that a culler would free").value == 0.0


def test_a_longer_time_to_stop_frees_less():
    short, long = answer_of(), answer_of(thresholds={"cull_minutes": 600.0, "freed_share": 0.0})
    name = "time that a culler would free"
    assert number(long, name).value < number(short, name).value


def test_a_week_without_its_weekend_is_not_enough():
    answer = answer_of(days=6)
    assert (answer.kind, key(answer)) == (SilenceKind.WATCHING, "gate.service_days")
    assert answer.ready_at is not None


def test_a_week_is_enough_but_two_are_surer():
    answer = answer_of(days=8)
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.MEDIUM


def test_without_power_it_is_less_sure_and_says_so():
    answer = answer_of(watts=None)
    assert isinstance(answer, Finding)
    assert answer.confidence == Confidence.MEDIUM
    assert "idle_notebook.risk_no_power" in {risk.key for risk in answer.risks}


def test_power_that_says_otherwise_makes_it_unknown():
    answer = answer_of(lambda _: False, watts=380.0)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "gate.power")


def test_gaps_are_not_idle_hours():
    answer = answer_of(missing=lambda hour: not at_work(hour))
    assert answer.kind == SilenceKind.UNKNOWN


def test_a_gpu_that_works_keeps_the_other_of_the_pod():
    start = NOW - 14 * DAY
    usage = [
        row(hour, pod="lab-0", gpu=f"G{place}", kernel=0.5 if (at_work(hour) or place) else 0.0)
        for hour in range(start, NOW, HOUR)
        for place in range(2)
    ]
    answer = judged(RULE, usage, [pod("lab-0", gpus=2, start=start)], LAB)
    assert key(answer) == "idle_notebook.fine"


def test_video_that_worked_at_an_unknown_hour_makes_it_unknown():
    answer = answer_of(decoder=0.1)
    assert (answer.kind, key(answer)) == (SilenceKind.UNKNOWN, "idle_notebook.video")
    assert answer.missing_signals == ("encoder", "decoder")


@pytest.mark.parametrize("task", [TaskClass.INFERENCE, TaskClass.TRAINING, TaskClass.UNKNOWN])
def test_others_are_not_its_business(task):
    answer = answer_of(work=workload("web", "Deployment", task))
    assert (answer.kind, key(answer)) == (SilenceKind.NOT_APPLICABLE, "idle_notebook.not_one")


@given(working=st.sets(st.integers(0, 47)), after=st.floats(0.0, 12 * HOUR))
@settings(max_examples=40, deadline=None)
def test_what_is_freed_is_never_more_than_what_is_quiet_nor_that_than_what_is_held(working, after):
    usage, pods = notebook(lambda hour: ((hour - NOW) // HOUR) % 48 in working, days=2)
    made, _ = profile(usage, pods, LAB)
    quiet = quiet_time([made.gpus], after)
    assert 0 <= quiet.freed_at_weekends <= quiet.freed <= quiet.quiet <= quiet.held
    assert quiet.quiet == pytest.approx((48 - len(working)) * HOUR)
    longer = quiet_time([made.gpus], after + HOUR)
    assert longer.freed <= quiet.freed
