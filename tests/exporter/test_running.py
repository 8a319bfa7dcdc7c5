"""How the process starts and what it says when it can't."""

import sys

import pytest

from gputailor_exporter.cli import main
from gputailor_exporter.devices.base import DeviceError, Reason
from gputailor_exporter.lifecycle import running
from gputailor_exporter.lifecycle.assembly import Parts, StartError
from gputailor_exporter.sampler import Sampler
from gputailor_exporter.sampling.discovery import DiscoverySettings
from tests.exporter.stubs import Gate, StubBackend


class HungBackend(StubBackend):
    """A driver whose first call never returns."""

    def __init__(self, gate):
        super().__init__()
        self.gate = gate

    def open(self):
        self.gate.wait()


def test_a_required_driver_that_hangs_at_its_first_call_ends_the_start_in_words(
    monkeypatch, capsys
):
    gate = Gate()
    monkeypatch.setattr(running, "assemble", lambda _: Parts(HungBackend(gate), None, None))
    monkeypatch.setattr(running, "OPEN_SECONDS", 0.1)
    monkeypatch.setattr(Sampler, "close", lambda _: gate.open())
    assert main(["--listen", "127.0.0.1:0", "--require-devices"]) == 1
    said = capsys.readouterr().err
    assert "the driver has not answered for 0.1 s" in said
    assert "What to do" in said


def test_a_required_device_that_the_driver_does_not_list_ends_the_start_in_words(
    monkeypatch, capsys
):
    monkeypatch.setattr(running, "assemble", lambda _: Parts(StubBackend(()), None, None))
    assert main(["--listen", "127.0.0.1:0", "--require-devices"]) == 1
    assert (
        "no device is on this node, and --require-devices asks for one" in capsys.readouterr().err
    )


def test_a_new_process_takes_the_place_with_the_same_arguments(monkeypatch, capsys):
    taken = []

    def gone():
        raise DeviceError(Reason.DRIVER_ERROR, "other versions", driver_replaced=True)

    backend = StubBackend(starting=gone)
    monkeypatch.setattr(running, "assemble", lambda _: Parts(backend, None, None))
    monkeypatch.setattr(
        running, "DiscoverySettings", lambda **_: DiscoverySettings(renew_every=0.1)
    )
    monkeypatch.setattr(running.os, "execv", lambda *given: taken.append(given))
    monkeypatch.setattr(running.sys, "orig_argv", ["python3", "-m", "gputailor_exporter", "--x"])
    assert main(["--listen", "127.0.0.1:0"]) == 0
    python = sys.executable
    assert taken == [(python, [python, "-m", "gputailor_exporter", "--x"])]
    assert "listening on" in capsys.readouterr().out


def test_a_new_process_that_cannot_start_ends_this_one_in_words(monkeypatch):
    monkeypatch.setattr(running.sys, "executable", "/nowhere/python")
    with pytest.raises(StartError, match="cannot start anew: /nowhere/python"):
        running._renew()


def test_an_unexpected_error_of_the_start_is_not_swallowed(monkeypatch):
    def broken(_):
        raise ZeroDivisionError

    monkeypatch.setattr(running, "assemble", broken)
    with pytest.raises(ZeroDivisionError):
        main(["--listen", "127.0.0.1:0"])


def test_an_interrupt_while_it_starts_is_no_traceback(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "_web_config", interrupted)
    assert main(["--listen", "127.0.0.1:0"]) == 0


def test_an_error_with_advice_is_handed_on(monkeypatch, capsys):
    def refused(_):
        raise StartError("no. What to do: nothing")

    monkeypatch.setattr(running, "assemble", refused)
    assert main(["--listen", "127.0.0.1:0"]) == 1
    assert capsys.readouterr().err == "gputailor-exporter: no. What to do: nothing\n"
