"""Real servers as processes of a test: free ports, readiness, output in a file, stopped by id.

Linux only: where ``setpriv`` (util-linux) is here, a server is told to end when the test process
does, so that even a killed test run leaves nothing behind.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from tests.testbed import build

T = TypeVar("T")
HOST = "127.0.0.1"
ATTEMPTS = 4


class ServerError(Exception):
    """A server ended or did not become ready; carries its last lines."""


class CommandFailed(Exception):  # noqa: N818 - says what happened, as subprocess's own name does
    """A command ended with an error; ``status`` and ``said`` tell what."""

    def __init__(self, command: Sequence[str], status: int, said: str) -> None:
        super().__init__(f"{' '.join(command)} ended with {status}:\n{said}")
        self.status = status
        self.said = said


def need(*programs: str) -> dict[str, Path]:
    """Return the binaries; skips by name what was not built (fails under CI)."""
    found = {program: build.find(program) for program in programs}
    missing = [program for program, binary in found.items() if binary is None]
    if missing:
        go = "" if shutil.which("go") else " (go is not on PATH)"
        message = f"not built: {', '.join(missing)}; run `make testbed`{go}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return {program: binary for program, binary in found.items() if binary is not None}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, each another one."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def eventually(
    check: Callable[[], T], what: str, seconds: float = 30.0, pause_seconds: float = 0.1
) -> T:
    """The first true value of ``check``; an AssertionError says what never came, and the last one.

    Errors of ``check`` count as not yet.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            last: object = check()
        except Exception as error:  # noqa: BLE001 - a server that is not up yet fails in many ways
            last = error
        else:
            if last:
                return last  # type: ignore[return-value]
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; last: {last!r}")
        time.sleep(pause_seconds)


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
    seconds: float = 90.0,
) -> str:
    """Run a command to its end; its standard output. CommandFailed carries what it said."""
    finished = subprocess.run(
        [str(part) for part in command],
        env=None if env is None else {**os.environ, **env},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    if finished.returncode:
        words = [Path(command[0]).name, *(str(part) for part in command[1:])]
        said = finished.stdout + finished.stderr  # helm lint explains itself on either
        raise CommandFailed(words, finished.returncode, said)
    return finished.stdout


class Server:
    """One running process; its output goes to a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        guard = shutil.which("setpriv")
        prefix = [guard, "--pdeathsig", "KILL"] if guard else []
        with log.open("ab") as sink:
            self.popen = subprocess.Popen(
                [*prefix, *(str(part) for part in command)],
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=log.parent,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    @property
    def output(self) -> str:
        """All it said."""
        return self.log.read_text("utf-8", "replace")

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    @property
    def resident_bytes(self) -> int:
        """Its memory now."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def wait_ready(self, check: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait until ``check`` is true; a ServerError carries its last lines."""

        def ready_or_ended() -> bool:
            return not self.alive or bool(check())

        try:
            eventually(ready_or_ended, f"{self.name} is ready", seconds, pause_seconds=0.05)
        except AssertionError as error:
            raise ServerError(f"{error}\n{self._tail()}") from None
        if not self.alive:
            raise ServerError(f"{self.name} ended with {self.popen.poll()}:\n{self._tail()}")

    def _tail(self) -> str:
        return "\n".join(self.output.splitlines()[-20:])

    def kill(self) -> None:
        """End it as a crash does."""
        if self.alive:
            self.popen.kill()
        self.popen.wait()

    def stop(self, seconds: float = 10.0) -> None:
        """Ask it to end, and end it when it does not."""
        if self.alive:
            self.popen.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()


def start_on_free_ports(count: int, start: Callable[[list[int]], T]) -> T:
    """Call ``start`` with free ports, and again with others when one was taken in between."""
    for attempt in range(ATTEMPTS):
        try:
            return start(free_ports(count))
        except ServerError as error:
            if "address already in use" not in str(error) or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("not reached")
