"""Calls that must be waited for only so long.

They run one after another in a thread of their own, which may block for ever: whoever waits is let
go in time, and gets its answer as an exception instead.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

Answer = TypeVar("Answer")

#: Calls that may wait for their turn; more at once and the caller is refused without waiting.
MOST_WAITING: Final = 512


class _Call(Generic[Answer]):
    def __init__(self, function: Callable[[], Answer]) -> None:
        self.function = function
        self.over = threading.Event()
        self.given_up = False
        self.answer: Answer | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        if self.given_up:
            return
        try:
            self.answer = self.function()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self.error = error
        self.over.set()


class BoundedCalls:
    """Runs functions in turn; ``ask`` waits for one as long as its caller may."""

    def __init__(self, name: str) -> None:
        """``name`` is the thread's; it starts with the first call."""
        self._name = name
        self._calls: queue.Queue[_Call[Any]] = queue.Queue(MOST_WAITING)
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def ask(self, function: Callable[[], Answer], seconds: float) -> Answer:
        """Return what ``function`` returns; raises ``TimeoutError`` after ``seconds``."""
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        call = _Call(function)
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            raise TimeoutError(f"{self._name}: too many calls wait already") from None
        if not call.over.wait(seconds):
            call.given_up = True
            raise TimeoutError(f"{self._name}: no answer within {seconds:g} s")
        if call.error is not None:
            raise call.error
        return cast("Answer", call.answer)

    def _run(self) -> None:
        while True:
            self._calls.get().run()
