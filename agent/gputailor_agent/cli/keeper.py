"""Cleans up after a demo that was killed; a process of its own, for nothing else can.

``python -m gputailor_agent.cli.keeper FOLDER`` reads process ids from its standard input, one a
line. ``done`` means that all is cleaned up already. When the input ends without it, its parent was
killed: those processes are ended and the folder is removed. Only the standard library is loaded.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

DONE: Final = "done"
_PATIENCE_SECONDS: Final = 10.0


@contextmanager
def kept(folder: Path) -> Iterator[Callable[[int], None]]:
    """Within: the folder and the processes told of go when this process is killed.

    Yields a function to call with the id of each child. Leaving it cleans nothing up: that is done.
    """
    keeper = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", __name__, str(folder)],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the demo only
    )
    told = keeper.stdin
    assert told is not None

    def say(line: str) -> None:
        with contextlib.suppress(OSError):  # somebody killed the keeper: the demo goes on
            told.write(f"{line}\n")
            told.flush()

    try:
        yield lambda pid: say(str(pid))
    finally:
        say(DONE)
        with contextlib.suppress(OSError):
            told.close()
        keeper.wait()


def clean_up(lines: TextIO, folder: Path) -> None:
    """Wait for the parent's end; end its children and remove the folder if it was killed."""
    pids = []
    for line in lines:
        if line.strip() == DONE:
            return
        pids.append(int(line))
    for number in (signal.SIGTERM, signal.SIGKILL):
        _send(pids, number)
        until = time.monotonic() + _PATIENCE_SECONDS
        while _send(pids, 0) and time.monotonic() < until:
            time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def _send(pids: list[int], number: int) -> bool:
    """Send a signal to all; whether any of them is still there."""
    there = False
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
            there = True
    return there


if __name__ == "__main__":
    clean_up(sys.stdin, Path(sys.argv[1]))
