"""What the terminal can show, and progress that stays out of the way.

Results go to standard output, everything else to standard error. Colour only on a terminal and
without ``NO_COLOR``; progress only on a terminal, and only for work that takes over two seconds.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gputailor_agent.cli.errors import CommandError
from gputailor_agent.model.addresses import without_secrets
from gputailor_agent.reports.formats import Look

PIPED_WIDTH: Final = 160
_SLOW_SECONDS: Final = 2.0
_NARROWEST: Final = 40

#: What stands for signs of ours where the terminal has none.
_PLAIN: Final = str.maketrans({"─": "-", "…": "...", "⚠": "!"})

Tick = Callable[[int, int | None], None]


def look() -> Look:
    """Width and colour of standard output."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    if not terminal and "COLUMNS" not in os.environ:
        width = PIPED_WIDTH
    return Look(width=max(width, _NARROWEST), color=terminal and not os.environ.get("NO_COLOR"))


def tell(text: str) -> None:
    """A line for people on standard error; passwords and tokens of addresses in it are masked."""
    sys.stderr.write(f"{_writable(without_secrets(text), sys.stderr)}\n")
    sys.stderr.flush()


def answer(text: str) -> None:
    """The command's result on standard output; raises ``CommandError`` when it cannot be written.

    A reader that went away (``| head``) is left to whoever runs the command.
    """
    try:
        sys.stdout.write(_writable(text if text.endswith("\n") else f"{text}\n", sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"the result cannot be written: {error.strerror or error}") from error


def _writable(text: str, stream: TextIO) -> str:
    """The text in letters that the stream's encoding has: ``LANG=C`` knows ASCII only."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return text


@contextmanager
def working(label: str) -> Iterator[Tick]:
    """Show ``label`` with a bar once two seconds have passed; silent where nobody watches.

    Yields a function to call with (done, total or None).
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done, _total: None
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = progress.add_task(label, total=None)
    timer = Timer(_SLOW_SECONDS, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, total: progress.update(task, completed=done, total=total)
    finally:
        timer.cancel()
        timer.join()
        progress.stop()
