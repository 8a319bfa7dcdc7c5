"""Colour and progress only where somebody sees them."""

import sys
import time

from gputailor_agent.cli.terminal import PIPED_WIDTH, look, working


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
