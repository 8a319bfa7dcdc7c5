"""Colour and progress only where somebody sees them."""

import io
import sys
import time

import pytest

from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.terminal import PIPED_WIDTH, answer, look, working


class Terminal:
    """Standard output or error that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


def test_a_pipe_gets_plain_text_of_a_fixed_width(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert look().color is False
    assert look().width == PIPED_WIDTH


def test_a_terminal_gets_colour_unless_no_color_is_set(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert look().color is True
    monkeypatch.setenv("NO_COLOR", "1")
    assert look().color is False


def test_progress_is_silent_where_nobody_watches(capsys):
    with working("Counting") as tick:
        tick(1, 2)
    assert capsys.readouterr() == ("", "")


def test_progress_shows_only_after_a_while(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with working("Quick") as tick:
        tick(1, 2)
    assert "Quick" not in screen.text
    monkeypatch.setattr("gputailor_agent.cli.terminal._SLOW_SECONDS", 0.01)
    with working("Slow") as tick:
        for _ in range(200):
            tick(1, 2)
            if "Slow" in screen.text:
                break
            screen.flush()
            time.sleep(0.01)
    assert "Slow" in screen.text


def test_where_letters_are_few_signs_are_replaced(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    answer("── 5 °C … ok")
    assert raw.getvalue() == b"-- 5 ?C ... ok\n"


def test_a_result_that_cannot_be_written_is_told(monkeypatch):
    class Full(Terminal):
        def write(self, _text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(CommandError, match="cannot be written: No space left"):
        answer("text")


def test_a_reader_that_went_away_is_no_fault_of_the_results(monkeypatch):
    class Gone(Terminal):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        answer("text")
