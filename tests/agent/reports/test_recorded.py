"""A plan made of recorded logs speaks of logs: there is no exporter, and no run to wait for."""

from string import Formatter

import pytest

from gputailor_agent.model.judgement import Message, SilenceKind
from gputailor_agent.reports import recorded
from gputailor_agent.reports.explain import explain, find_verdict
from gputailor_agent.reports.formats import Look, formats, render
from gputailor_agent.reports.wording import messages
from tests.agent.reports.plans import END, sample_plan, silence, verdict

JOB = "team/Job/train/main"
GATES = {
    "gate.coverage": {"signal": "kernel", "coverage": 0.5, "threshold": 0.9},
    "gate.batch_runs": {"runs": 0, "longest": 2880.0, "needed": 3, "long_enough": 3600.0},
    "idle.unknown_never_measured": {"unknown": 1, "gpus": 1},
}


def plan(key, *sources):
    said = silence(
        JOB,
        "idle",
        SilenceKind.WATCHING,
        message=Message(key=key, params=GATES[key]),
        ready_at=END,
    )
    return sample_plan(verdicts=(verdict(JOB, "watching", silences=(said,)),), sources=sources)


@pytest.mark.parametrize("name", formats())
@pytest.mark.parametrize("key", GATES)
def test_no_format_tells_a_log_about_exporters_or_when_it_will_be_ready(key, name):
    made = plan(key, "log run.csv", "log other.csv")
    told = render(made, name, Look(width=400))
    why = explain(made, find_verdict(made, JOB))
    for text in (told, formats()[name].explanation(why, Look(width=400))):
        assert "the exporter running" not in text
        assert "completed runs" not in text
        assert "(ready" not in text


def test_a_record_of_48_minutes_is_called_too_short():
    text = render(plan("gate.batch_runs", "log run.csv"), "table", Look(width=400))
    assert "Too short a record: it is of one run, of 48 min; 1 h of a run are needed" in text


def test_where_an_exporter_measured_as_well_its_words_stay():
    text = render(plan("gate.coverage", "log run.csv", "exporter"), "table", Look(width=400))
    assert "Is the exporter running on the node" in text


@pytest.mark.parametrize("key", recorded.MESSAGES)
def test_each_stands_for_a_message_that_there_is_and_takes_no_other_parameters(key):
    def fields(template):
        return {name for _, name, _, _ in Formatter().parse(template) if name}

    original = messages()[key.removeprefix("recorded.")]
    assert fields(recorded.MESSAGES[key]) <= fields(original)


def test_no_rule_that_sizes_memory_speaks_of_watching_pods_where_there_is_only_a_log():
    """A peak that may be missing is the record's, whichever rule warns of it."""
    told = {key for key in messages() if key.endswith(".risk_start") and "recorded." not in key}
    assert told == {"mig_slice.risk_start", "share.risk_start", "smaller_gpu.risk_start"}
    for key in told:
        assert "watched" in messages()[key]
        assert recorded.MESSAGES[f"recorded.{key}"].startswith("the record may begin after")
