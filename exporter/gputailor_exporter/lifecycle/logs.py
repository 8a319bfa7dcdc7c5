"""Log lines that never hold anybody up: queued in memory, written by a thread of their own.

Whoever reads the log may stop reading (a runtime on a full disk), and then a write blocks for ever,
with all threads behind it. Here a line that finds the queue full, or cannot be written, is dropped
and counted.
"""

import logging
import os
import queue
import threading
import time
from typing import Final

#: Lines that may wait: some minutes of trouble said once each, under a megabyte.
MOST_LINES: Final = 1000
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class QueuedLog(logging.Handler):
    """Writes to a file descriptor; ``dropped`` counts lines that were lost."""

    def __init__(self, descriptor: int = 2, most_lines: int = MOST_LINES) -> None:
        """``descriptor``: standard error unless a test says otherwise."""
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self.dropped = 0
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes] = queue.Queue(most_lines)
        threading.Thread(target=self._write_all, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line; never waits."""
        try:
            text = self.format(record)
        except (TypeError, ValueError):  # a message that does not fit its arguments
            text = str(record.msg)
        try:
            self._lines.put_nowait((text + "\n").encode("utf-8", "backslashreplace"))
        except queue.Full:
            self.dropped += 1

    def settle(self, seconds: float) -> None:
        """Wait until all is written, at most ``seconds``."""
        until = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.005)

    def _write_all(self) -> None:
        while True:
            line = self._lines.get()
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:  # a full disk, a reader that left
                self.dropped += 1
            self._lines.task_done()
