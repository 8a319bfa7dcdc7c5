"""Processes that a test starts, watches and ends."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

LISTENING = re.compile(r"http://127\.0\.0\.1:\d+")


class Process:
    """A process of ours with its first address; its output goes to a file.

    It leads a group of its own, as a command does that somebody typed into a terminal.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.log = log
        with log.open("wb") as sink:
            self.popen = subprocess.Popen(
                list(command),
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(os.environ if env is None else env),
                cwd=folder,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """All it said so far."""
        return self.log.read_text("utf-8", "replace")

    def url(self, seconds: float = 30.0) -> str:
        """The address it printed; fails with its output when it ended or stays silent."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = LISTENING.search(self.output)
            if found:
                return found[0]
            if self.popen.poll() is not None:
                break
            time.sleep(0.05)
        pytest.fail(f"no address; exit {self.popen.poll()}:\n{self.output}")

    def kill(self) -> None:
        """As a crash does it."""
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> int:
        """Ask it to end and wait; its exit status."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        return self._ended()

    def interrupt(self) -> int:
        """Ctrl-C: everything of its group is asked to end; its exit status."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGINT)
        return self._ended()

    def end(self) -> None:
        """Leave nothing of its group behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def _ended(self) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.popen.wait(20)
        self.kill()
        pytest.fail(f"did not stop within 20 s:\n{self.output}")
