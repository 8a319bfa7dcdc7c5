"""A whole machine in processes: fake driver, kubelet, exporter."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.fixtures import driver_library, fake_driver, fake_nvml_library

__all__ = ["driver_library", "fake_driver", "fake_nvml_library", "start"]

LISTENING = re.compile(r"http://127\.0\.0\.1:\d+")


class Process:
    """A process of ours with its first address; its output goes to a file."""

    def __init__(self, arguments, log: Path, env=None):
        self.log = log
        with log.open("wb") as sink:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(os.environ if env is None else env),
            )

    @property
    def output(self) -> str:
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
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.popen.wait(20)
        self.kill()
        pytest.fail(f"did not stop within 20 s:\n{self.output}")


@pytest.fixture
def start(tmp_path) -> Iterator:
    """A function that starts ``python -m ARGUMENTS``; what is left is stopped after the test."""
    started: list[Process] = []

    def begin(*arguments: str, env=None) -> Process:
        log = tmp_path / f"process-{len(started)}.log"
        process = Process(arguments, log, env)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.popen.poll() is None:
            process.kill()
