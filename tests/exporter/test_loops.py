"""Loops that are woken: nothing is done until there is something to do, and the end is not missed."""

import threading

import pytest

from gputailor_exporter.sampling.loops import Loop
from tests.exporter.stubs import eventually


@pytest.fixture
def stop():
    made = threading.Event()
    yield made
    made.set()


def paused(stop, step, pause=60.0):
    made = Loop("test", step, 0.01, stop, on_error=lambda _: None)
    made.pause = lambda _: pause
    made.start()
    return made


def test_a_paused_loop_takes_its_next_step_when_it_is_woken(stop):
    steps = []
    loop = paused(stop, lambda: steps.append(1))
    eventually(lambda: len(steps) == 1 and loop.busy_since is None)
    assert not loop.join(0.05)
    assert len(steps) == 1
    loop.wake()
    eventually(lambda: len(steps) == 2)
    stop.set()
    loop.wake()
    assert loop.join(1.0)


def test_a_step_that_is_always_due_does_not_spin(stop):
    steps = []
    loop = paused(stop, lambda: steps.append(1), pause=0.0)
    assert not loop.join(0.2)
    stop.set()
    assert loop.join(1.0)
    assert 2 <= len(steps) <= 21


@pytest.mark.parametrize("woken", [False, True])
def test_a_step_that_always_fails_does_not_spin(stop, woken, caplog):
    failed = []

    def step():
        raise OSError("always")

    loop = Loop("test", step, 0.0, stop, on_error=failed.append)
    loop.pause = (lambda _: 0.0) if woken else None
    loop.start()
    eventually(lambda: failed == ["test"])
    assert not loop.join(0.3)
    assert failed == ["test"]
    assert caplog.messages == ["test: an unexpected error; going on"]
    stop.set()
    assert loop.join(1.0)


def test_a_wake_before_the_pause_begins_is_not_lost(stop):
    steps = []

    def step():
        steps.append(1)
        if len(steps) == 1:
            loop.wake()

    loop = Loop("test", step, 0.01, stop, on_error=lambda _: None)
    loop.pause = lambda _: 60.0
    loop.start()
    eventually(lambda: len(steps) == 2)
    stop.set()
    loop.wake()
    assert loop.join(1.0)
