"""Calls that may hang for ever, asked for by a thread that must not.

Each question has a key. It is asked in a thread of its own and waited for a bounded time; one that
hangs is not asked again until it has come back, so that a hung driver costs one thread per question
and no more.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from gputailor_exporter.devices.base import DeviceError, Reason

Answer = TypeVar("Answer")

#: An answer takes milliseconds; a busy driver's, on a large node, up to some seconds.
PATIENCE_SECONDS: Final = 5.0


class _Question(Generic[Answer]):
    """One question under way."""

    def __init__(self, name: str, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._done = threading.Event()
        self._outcome: Answer | Exception = DeviceError(
            Reason.TIMEOUT, f"{name}: the driver does not answer"
        )
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._outcome = self._ask()
        except Exception as error:  # noqa: BLE001 - handed over, not swallowed
            self._outcome = error
        self._done.set()

    def over(self, seconds: float) -> bool:
        """Whether it is answered, within ``seconds``."""
        return self._done.wait(max(0.0, seconds))

    def outcome(self) -> Answer | Exception:
        """Return the answer, or the error that stands for it."""
        return self._outcome


class Patience(Generic[Answer]):
    """Asks questions of one kind. Used from one thread."""

    def __init__(self, name: str, seconds: float = PATIENCE_SECONDS) -> None:
        """``name`` is that of the call in errors; ``seconds`` is how long all are waited for."""
        self.seconds = seconds
        self._name = name
        self._open: dict[str, _Question[Answer]] = {}

    def ask_all(
        self, questions: Mapping[str, Callable[[], Answer]]
    ) -> dict[str, Answer | Exception]:
        """Ask all at once: answer or error by key.

        A question that has no answer in time has a ``DeviceError`` of reason ``timeout``.
        """
        still_open = {key for key, question in self._open.items() if not question.over(0.0)}
        for key, ask in questions.items():
            if key not in still_open:
                self._open[key] = _Question(f"{self._name} {key}", ask)
        until = time.monotonic() + self.seconds
        found: dict[str, Answer | Exception] = {}
        for key in questions:
            question = self._open[key]
            question.over(0.0 if key in still_open else until - time.monotonic())
            found[key] = question.outcome()
        self._open = {key: one for key, one in self._open.items() if not one.over(0.0)}
        return found

    def ask(self, key: str, question: Callable[[], Answer]) -> Answer:
        """Ask one; raises its error, or ``DeviceError`` of reason ``timeout``."""
        outcome = self.ask_all({key: question})[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
