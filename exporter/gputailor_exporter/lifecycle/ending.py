"""What ends a run: a signal, or the need for a new process.

A signal may be delivered to any thread, and then nothing wakes a main thread that waits for a lock:
its handler would run at some later time, or never. Here the number of the signal is written to a
pipe by the interpreter's own C handler, whatever thread it runs in, and the main thread reads it.
"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final, Self, TypeAlias

#: Stands for "a new process is needed" among the numbers of signals.
RENEW: Final = 0

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler of the interpreter's must be there for the pipe to be written."""
    del number, frame


class Ending:
    """While entered, by the main thread, signals of ``SIGNALS`` end the run and nothing else."""

    def __init__(self) -> None:
        """Nothing is caught yet."""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._handlers: dict[signal.Signals, _Handler] = {}
        self._wakeup = -1

    def __enter__(self) -> Self:
        """Catch signals from now on."""
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in SIGNALS:
            self._handlers[number] = signal.signal(number, _nothing)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let signals do what they did before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def renew(self, why: str) -> None:
        """End the run because a new process is needed; from any thread."""
        del why
        with suppress(OSError):  # it ends already
            os.write(self._writer, bytes([RENEW]))

    def due(self, seconds: float) -> bool:
        """Whether something ends the run within ``seconds``."""
        return bool(select.select([self._reader], [], [], seconds)[0])

    def wait(self) -> int:
        """Wait for what ends the run: the number of a signal, or ``RENEW``."""
        return os.read(self._reader, 1)[0]
