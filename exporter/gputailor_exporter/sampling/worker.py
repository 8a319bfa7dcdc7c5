"""One thread that reads one device on a steady beat.

The thread may hang inside the driver for ever; nothing here waits for it. The sampler's watchdog
looks at ``busy_since`` from outside and speaks for the device while its thread cannot.
"""

import logging
import threading
from collections.abc import Mapping
from math import floor
from typing import Protocol

from gputailor_exporter.attribution.allocations import ContainerRef
from gputailor_exporter.devices.base import (
    Backend,
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    Reason,
)
from gputailor_exporter.sampling.timekeeping import Clock

log = logging.getLogger(__name__)

Owners = Mapping[int, ContainerRef | None]


def next_beat(due: float, now: float, interval: float) -> float:
    """Return the first beat after ``now`` on the grid of ``due``: no drift, no catching up."""
    following = due + interval
    if following > now:
        return following
    return following + (floor((now - following) / interval) + 1) * interval


class CycleSink(Protocol):
    """Takes what a worker measured; the sampler is one."""

    def owners(self, identity: DeviceIdentity, reading: DeviceReading) -> Owners | None:
        """Lead the processes of a reading to containers; may read files."""

    def take_reading(
        self, worker: "DeviceWorker", reading: DeviceReading, owners: Owners | None, took: float
    ) -> None:
        """Take a good cycle that took ``took`` seconds."""

    def take_failure(self, worker: "DeviceWorker", error: DeviceError, took: float) -> None:
        """Take a failed cycle."""


class DeviceWorker:
    """Reads one device every ``interval`` seconds in a daemon thread."""

    def __init__(
        self,
        identity: DeviceIdentity,
        backend: Backend,
        sink: CycleSink,
        clock: Clock,
        *,
        interval: float,
        hang_seconds: float,
    ) -> None:
        """``hang_seconds``: a read that took this long is a failure, whatever it returned."""
        self.identity = identity
        self.settled = False  # the first cycle is over, well or not
        self.hung = False  # the watchdog has spoken for the call in progress
        self.busy_since: float | None = None  # monotonic start of the call in progress
        self._backend = backend
        self._sink = sink
        self._clock = clock
        self._interval = interval
        self._hang_seconds = hang_seconds
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, or start it again after it died."""
        self.busy_since = None
        self._thread = threading.Thread(
            target=self._run, name=f"device-{self.identity.uuid}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after its cycle."""
        self._stop.set()

    def join(self, timeout: float) -> bool:
        """Wait for the thread; False if it is still inside the driver."""
        if self._thread is not None:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return True

    @property
    def stopping(self) -> bool:
        """Whether the device is no longer wanted."""
        return self._stop.is_set()

    @property
    def died(self) -> bool:
        """Whether the thread ended without being asked to."""
        thread = self._thread
        return thread is not None and not thread.is_alive() and not self.stopping

    @property
    def alive(self) -> bool:
        """Whether the thread has not ended yet; one that hangs in the driver may never."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        due = self._clock.monotonic()
        while not self.stopping:
            self._cycle()
            due = next_beat(due, self._clock.monotonic(), self._interval)
            self._stop.wait(max(0.0, due - self._clock.monotonic()))

    def _cycle(self) -> None:
        started = self._clock.monotonic()
        self.busy_since = started
        failure, reading, owners = DeviceError(Reason.DRIVER_ERROR, "unexpected"), None, None
        try:
            reading = self._backend.read(self.identity, started)
            owners = self._sink.owners(self.identity, reading)
        except DeviceError as error:
            failure, reading = error, None
            log.debug("device %s: %s", self.identity.uuid, error)
        except Exception:
            reading = None
            log.exception("device %s: reading it failed", self.identity.uuid)
        took = self._clock.monotonic() - started
        if reading is not None and took >= self._hang_seconds:
            # Its values belong to an unknown moment between start and end of the call.
            failure, reading = DeviceError(Reason.TIMEOUT, f"it took {took:.1f} s"), None
        if reading is None:
            self._sink.take_failure(self, failure, took)
        else:
            self._sink.take_reading(self, reading, owners, took)
        self.settled = True
        self.hung = False
        self.busy_since = None
