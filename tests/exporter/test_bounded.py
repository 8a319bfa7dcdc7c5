"""Calls that are waited for only so long."""

import pytest

from gputailor_exporter.sampling import bounded
from gputailor_exporter.sampling.bounded import BoundedCalls
from tests.exporter.stubs import Gate, eventually


def test_an_answer_and_an_error_reach_who_asked():
    calls = BoundedCalls("test")
    assert calls.ask(lambda: 3, 5.0) == 3
    with pytest.raises(ZeroDivisionError):
        calls.ask(lambda: 1 // 0, 5.0)
    assert calls.ask(lambda: None, 5.0) is None


def test_who_waited_in_vain_is_let_go_and_later_calls_are_answered():
    calls, gate, late = BoundedCalls("test"), Gate(), []
    with pytest.raises(TimeoutError, match=r"test: no answer within 0\.05 s"):
        calls.ask(gate.wait, 0.05)
    with pytest.raises(TimeoutError):
        calls.ask(lambda: late.append("nobody waits for this any more"), 0.05)
    gate.open()
    assert calls.ask(lambda: "well", 5.0) == "well"
    assert late == []


def test_too_many_that_wait_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(bounded, "MOST_WAITING", 1)
    calls, gate = BoundedCalls("test"), Gate()
    with pytest.raises(TimeoutError):
        calls.ask(gate.wait, 0.05)
    eventually(gate.entered.is_set)
    with pytest.raises(TimeoutError, match="no answer"):
        calls.ask(lambda: 1, 0.01)
    with pytest.raises(TimeoutError, match="too many calls wait"):
        calls.ask(lambda: 2, 5.0)
    gate.open()
