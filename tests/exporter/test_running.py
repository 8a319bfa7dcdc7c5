"""How the process starts and what it says when it can't."""

import pytest

from gputailor_exporter import running
from gputailor_exporter.assembly import Parts, StartError
from gputailor_exporter.cli import main
from tests.exporter.stubs import Gate, StubBackend


class HungBackend(StubBackend):
    """A driver whose first call never returns."""

    def __init__(self, gate):
        super().__init__()
        self.gate = gate

    def open(self):
        self.gate.wait()


def test_a_driver_that_hangs_at_its_first_call_ends_the_start_in_words(monkeypatch, capsys):
    gate = Gate()
    monkeypatch.setattr(running, "assemble", lambda _: Parts(HungBackend(gate), None, None))
    monkeypatch.setattr(running, "OPEN_SECONDS", 0.1)
    assert main(["--listen", "127.0.0.1:0"]) == 1
    said = capsys.readouterr().err
    assert "the driver has not answered for 0.1 s" in said
    assert "What to do" in said
    gate.open()


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
