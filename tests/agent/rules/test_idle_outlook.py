"""Idle: when it is acted on, and what a finding says of how long such idleness lasts."""

import pytest

from gputailor_agent.model.judgement import Confidence, Finding
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import idle
from gputailor_agent.rules.calibrated import calibrated
from gputailor_agent.rules.idle_outlook import idle_outlook
from tests.agent.factories import HOUR, NOW, context, device, pod, profile, row, rows, workload
from tests.agent.rules.idle_parts import evidence, idle_since_start, judge, worked_until


@pytest.mark.parametrize(("minutes", "confidence"), [(360, Confidence.HIGH), (359, Confidence.LOW)])
def test_the_time_to_act_is_exact(minutes, confidence):
    start = NOW - minutes * 60
    usage = [
        row(hour, seconds=HOUR - max(0, start - hour))
        for hour in range(start // HOUR * HOUR, NOW, HOUR)
    ]
    answer = judge(usage, [pod(start=start)])
    assert isinstance(answer, Finding)
    assert answer.confidence == confidence
    assert evidence(answer, "idle time, to act").passed is (minutes == 360)


def test_what_is_acted_on_is_what_was_measured_to_last():
    """Of 100 GPUs of a trace idle for so long, 97 or more stayed idle for another hour."""
    own = {one.name: one.default for one in idle.RULE.thresholds}
    acts = {"from_start": own["start_act_minutes"], "went_idle": own["act_minutes"]}
    assert acts == {"from_start": 360.0, "went_idle": 960.0}
    for kind, minutes in acts.items():
        told = idle_outlook(minutes * 60, from_start=kind == "from_start")
        assert told.stays_an_hour >= calibrated().idle.goal >= 0.97


def test_the_finding_says_how_long_such_idleness_lasted_elsewhere():
    answer = judge(*idle_since_start(7))
    assert say(answer.message, strict=True) == (
        "1 GPU held for 7 h and never used: release them; of 100 such GPUs in a recorded cluster 98 "
        "stayed idle for another hour, and 18 to 23 of the next 24 hours were idle"
    )
    stays = evidence(answer, "stay idle for another hour")
    assert stays.value == 0.982
    assert "Kaplan-Meier" in stays.formula
    assert "university cluster" in stays.formula
    assert evidence(answer, "idle within the next 24 h, mean").value == pytest.approx(21.274 * HOUR)


def test_a_pause_after_work_is_told_to_end_sooner_than_idleness_from_the_start():
    paused = worked_until(5).message.params
    unused = judge(*idle_since_start(5)).message.params
    assert paused["stay"] < unused["stay"]
    assert paused["high"] < unused["high"]


@pytest.mark.parametrize("hours", [16, 48, 200])
def test_it_is_never_said_of_all_of_them(hours):
    answer = judge(rows(NOW - hours * HOUR, NOW), [pod(start=NOW - hours * HOUR)])
    assert answer.message.params["stay"] == 99
    assert answer.message.params["high"] <= 24


def test_of_a_pause_shorter_than_any_that_was_measured_nothing_is_foretold():
    made, world = profile(
        [row(NOW - HOUR, seconds=600)], [pod(start=NOW - 600)], workload(), devices=[device()]
    )
    answer = idle.RULE.evaluate(made, context(world, idle={"start_warn_minutes": 5.0}))
    assert isinstance(answer, Finding)
    assert say(answer.message, strict=True) == (
        "1 GPU held for 10 min and not used yet: release them if nobody needs them now"
    )
    assert "stay idle for another hour" not in {item.name for item in answer.evidence}
