"""Questions to a driver that may never answer."""

import threading
import time

import pytest

from gputailor_exporter.devices.base import DeviceError, Reason
from gputailor_exporter.devices.patience import Patience
from tests.exporter.stubs import eventually


@pytest.fixture
def gate():
    made = threading.Event()
    yield made
    made.set()


def test_answers_come_by_key_and_errors_stand_for_them():
    def refuse():
        raise ZeroDivisionError

    found = Patience("board").ask_all({"0": lambda: "a", "1": refuse})
    assert found["0"] == "a"
    assert isinstance(found["1"], ZeroDivisionError)


def test_all_that_hang_are_waited_for_together(gate):
    patience = Patience("board", 0.2)
    began = time.monotonic()
    found = patience.ask_all({str(n): gate.wait for n in range(8)} | {"well": lambda: True})
    assert time.monotonic() - began < 1.0
    assert found.pop("well") is True
    assert {(type(one), one.reason) for one in found.values()} == {(DeviceError, Reason.TIMEOUT)}


def test_one_that_hangs_is_not_asked_again_until_it_came_back(gate):
    asked = []

    def hang():
        asked.append(time.monotonic())
        gate.wait(30)
        return len(asked)

    patience = Patience("board", 0.05)
    for _ in range(5):
        began = time.monotonic()
        with pytest.raises(DeviceError, match="board 0: the driver does not answer"):
            patience.ask("0", hang)
    assert time.monotonic() - began < 0.05  # nobody waits for it a second time
    assert len(asked) == 1
    gate.set()
    eventually(lambda: patience._open["0"].over(0.0))
    assert patience.ask("0", hang) == 2
