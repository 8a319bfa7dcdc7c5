"""A daemon thread that repeats one step, survives its exceptions, and can be started again."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from gputailor_exporter.sampling.timekeeping import since_boot

log = logging.getLogger(__name__)

#: A step that is due at once, again and again, is taken so often at most.
MOST_OFTEN_SECONDS: Final = 0.01
#: How long after an unexpected error the next step is taken at the earliest: it is likely to fail
#: again, and each failure writes its traceback to the log.
ERROR_PAUSE_SECONDS: Final = 1.0


class Loop:
    """Runs ``step`` every ``interval`` seconds until ``stop`` is set."""

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        interval: float,
        stop: threading.Event,
        *,
        on_error: Callable[[str], None],
        now: Callable[[], float] = since_boot,
    ) -> None:
        """``on_error`` is told the name whenever a step raised something unexpected."""
        self.name = name
        self.busy_since: float | None = None  # start of the step in progress
        self.hung = False  # the watchdog has spoken for the step in progress
        self._step = step
        self._interval = interval
        self._stop = stop
        self._on_error = on_error
        self._now = now
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        #: Seconds from the time it is given until the next step; where it is set, the loop waits on
        #: ``wake`` alone: whoever sets ``stop`` has to wake it.
        self.pause: Callable[[float], float] | None = None

    def wake(self) -> None:
        """Take the next step now: there is something to do."""
        self._woken.set()

    def start(self) -> None:
        """Start the thread, or start it again after it died."""
        self.busy_since = None
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def died(self) -> bool:
        """Whether the thread ended without being asked to."""
        thread = self._thread
        return thread is not None and not thread.is_alive() and not self._stop.is_set()

    def busy_seconds(self, now: float) -> float:
        """How long the step in progress has taken; 0 between two steps."""
        since = self.busy_since
        return 0.0 if since is None else now - since

    def join(self, timeout: float) -> bool:
        """Wait for the thread; False if it is still inside its step."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.busy_since = self._now()
            failed = False
            try:
                self._step()
            except Exception:
                failed = True
                log.exception("%s: an unexpected error; going on", self.name)
                self._on_error(self.name)
            self.busy_since = None
            self.hung = False
            if failed:
                self._stop.wait(max(self._interval, ERROR_PAUSE_SECONDS))
            elif self.pause is None:
                self._stop.wait(self._interval)
            else:
                self._woken.wait(max(self.pause(self._now()), MOST_OFTEN_SECONDS))
                self._woken.clear()
