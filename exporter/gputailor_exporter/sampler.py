"""The running exporter: threads that read, one lock around the accounts, snapshots on demand.

Threads: one per device, one each for discovery, allocations and Xid events, and a watchdog that
touches neither driver nor socket. No thread holds the lock while it waits for a driver, a file or
a socket, so a hung call stalls what it was asked for and nothing else.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gputailor_exporter.accounting import AccountingSettings, NodeAccounts, Snapshot
from gputailor_exporter.allocations import (
    Allocation,
    AllocationError,
    AllocationSource,
    ContainerRef,
    ProcessAttribution,
)
from gputailor_exporter.devices.base import (
    Backend,
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    Reason,
)
from gputailor_exporter.loops import Loop
from gputailor_exporter.selfmetrics import SelfMetrics
from gputailor_exporter.worker import Clock, DeviceWorker, Owners

log = logging.getLogger(__name__)

#: Label values of ``exporter_errors_total{reason}`` that are not a device's or a source's own.
THREAD_DIED: Final = "thread_died"
INTERNAL_ERROR: Final = "internal_error"
STALE_DROPPED: Final = "stale_dropped"
UNMATCHED_DEVICE_ID: Final = "unmatched_device_id"

#: Label values of ``source`` for what is no back end or allocation source.
DISCOVERY: Final = "discovery"
EVENTS: Final = "events"
ATTRIBUTION: Final = "attribution"

#: How soon a failed discovery is tried again; events less often, for many drivers have none.
RETRY_SECONDS: Final = 1.0
EVENTS_RETRY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """How the sampler runs; times in seconds.

    ``hang_seconds``: a device call this long means the device hangs. ``keep_allocations_seconds``:
    how long the last good allocations stand in for an unreachable kubelet. ``unhealthy_seconds``:
    how long the watchdog may stand still; ``no_discovery_seconds``: how long the driver as a whole
    may answer with errors (a replaced driver does for ever), before a restart is asked for.
    """

    node: str
    accounting: AccountingSettings = field(default_factory=AccountingSettings)
    started_wall: float = 0.0
    discovery_seconds: float = 10.0
    allocations_seconds: float = 1.0
    keep_allocations_seconds: float = 120.0
    hang_seconds: float = 5.0
    watchdog_seconds: float = 0.5
    events_seconds: float = 1.0
    unhealthy_seconds: float = 30.0
    no_discovery_seconds: float = 120.0


class Sampler:
    """Reads devices and allocations in the background; ``snapshot`` never waits for them."""

    def __init__(
        self,
        backend: Backend,
        allocation_source: AllocationSource | None,
        attribution: ProcessAttribution | None,
        settings: SamplerSettings,
        clock: Clock | None = None,
    ) -> None:
        """``backend`` is open already; the sampler closes it. None: no such source."""
        self._backend = backend
        self._source = allocation_source
        self._attribution = attribution
        self._settings = settings
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._discovered = threading.Event()
        self._accounts = NodeAccounts(settings.node, settings.accounting)
        self._self = SelfMetrics(settings.started_wall or self._clock.wall())
        self._workers: dict[str, DeviceWorker] = {}
        self._last_good: tuple[float, tuple[Allocation, ...]] | None = None
        self._ready = False
        self._discover_due = self._clock.monotonic()
        self._discovery_failing: float | None = None  # since this monotonic time
        self._heartbeat = self._clock.monotonic()
        self._snapshot: Snapshot | None = None  # None: something changed since
        self._loops = self._make_loops()
        self._watchdog = self._loop("watchdog", self._watch, settings.watchdog_seconds)

    def _loop(self, name: str, step: Callable[[], None], interval: float) -> Loop:
        return Loop(
            name,
            step,
            interval,
            self._stop,
            on_error=lambda source: self._count_error(source, INTERNAL_ERROR),
        )

    def _make_loops(self) -> tuple[Loop, ...]:
        settings = self._settings
        loops = [
            self._loop(DISCOVERY, self._discover, min(settings.discovery_seconds, RETRY_SECONDS)),
            self._loop(EVENTS, self._wait_events, 0.0),
        ]
        if self._source is not None:
            interval = settings.allocations_seconds
            loops.append(self._loop(self._source.name, self._read_allocations, interval))
        return tuple(loops)

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads; returns at once."""
        for loop in (*self._loops, self._watchdog):
            loop.start()

    def close(self, timeout: float = 3.0) -> None:
        """Stop all threads within ``timeout`` seconds; a hung one is left to end with the process.

        The driver is only released when no thread is inside it any more.
        """
        self._stop.set()
        with self._lock:
            workers = tuple(self._workers.values())
            for worker in workers:
                worker.stop()
        deadline = self._clock.monotonic() + timeout
        free = True
        threads: tuple[Loop | DeviceWorker, ...] = (self._watchdog, *self._loops, *workers)
        for thread in threads:
            ended = thread.join(max(0.0, deadline - self._clock.monotonic()))
            free = free and ended
        if free:
            self._backend.close()
        else:
            log.warning("a call into a driver or socket still hangs; leaving it to the exit")
        if free and self._source is not None:
            self._source.close()

    @property
    def ready(self) -> bool:
        """Whether every device that answers has had its first full cycle."""
        with self._lock:
            if not self._ready and self._discovered.is_set():
                self._ready = all(worker.settled for worker in self._workers.values())
            return self._ready

    @property
    def healthy(self) -> bool:
        """Whether a restart would change nothing: hung or lost devices are no reason for one."""
        now, settings = self._clock.monotonic(), self._settings
        failing = self._discovery_failing
        listed = failing is None or now - failing < settings.no_discovery_seconds
        return listed and now - self._heartbeat < settings.unhealthy_seconds

    def down(self) -> tuple[str, ...]:
        """Return the UUIDs of devices that do not answer."""
        with self._lock:
            return self._accounts.down()

    def snapshot(self) -> Snapshot:
        """Return all samples; the same object until something changed. Never blocks on I/O."""
        with self._lock:
            if self._snapshot is None:
                snapshot = self._accounts.snapshot(self._clock.wall())
                self._snapshot = snapshot.with_families(self._self.families())
            return self._snapshot

    def _count_error(self, source: str, reason: str) -> None:
        with self._lock:
            self._self.count_error(source, reason)
            self._snapshot = None

    # -- devices -----------------------------------------------------------------------------

    def _discover(self) -> None:
        now = self._clock.monotonic()
        if now < self._discover_due:
            return
        try:
            devices = self._backend.devices()
            expected = self._backend.expected()
        except DeviceError as error:
            if self._discovery_failing is None:  # said once, not each second
                log.warning("finding devices failed: %s", error)
                self._discovery_failing = now
            self._count_error(DISCOVERY, error.reason)
            return
        if not devices and not self._discovered.is_set():
            log.warning("the %s back end lists no device on this node", self._backend.name)
        self._discovery_failing = None
        self._discover_due = now + self._settings.discovery_seconds
        with self._lock:
            self._accounts.set_devices(devices, expected)
            self._self.succeed(DISCOVERY, self._clock.wall())
            self._match_workers(devices)
            self._snapshot = None
        self._discovered.set()

    def _match_workers(self, devices: tuple[DeviceIdentity, ...]) -> None:
        wanted = {identity.uuid: identity for identity in devices}
        for uuid in [uuid for uuid in self._workers if uuid not in wanted]:
            self._workers.pop(uuid).stop()
            self._self.forget_device(uuid)
        for uuid, identity in wanted.items():
            worker = self._workers.get(uuid)
            if worker is not None:
                worker.identity = identity
            elif not self._stop.is_set():
                self._workers[uuid] = worker = DeviceWorker(
                    identity,
                    self._backend,
                    self,
                    self._clock,
                    interval=self._settings.accounting.interval_seconds,
                    hang_seconds=self._settings.hang_seconds,
                )
                worker.start()

    def owners(self, identity: DeviceIdentity, reading: DeviceReading) -> Owners | None:
        """Lead the processes of a shared device to containers; None: not attributed."""
        if self._attribution is None:
            return None
        with self._lock:
            if not self._accounts.is_shared(identity.uuid):
                return None
        found: dict[int, ContainerRef | None] = {}
        for process in reading.processes or ():
            try:
                found[process.pid] = self._attribution.owner(process.pid)
            except Exception:
                log.exception("finding the container of process %d failed", process.pid)
                self._count_error(ATTRIBUTION, INTERNAL_ERROR)
        return found

    def take_reading(
        self, worker: DeviceWorker, reading: DeviceReading, owners: Owners | None, took: float
    ) -> None:
        """Take a good cycle of a device that is still wanted."""
        with self._lock:
            if worker.stopping:
                return
            wall = self._clock.wall()
            owner_of = None if owners is None else owners.get
            self._accounts.advance(worker.identity, reading, owner_of, wall)
            self._self.take_cycle(worker.identity.uuid, took)
            self._self.succeed(self._backend.name, wall)
            self._snapshot = None

    def take_failure(self, worker: DeviceWorker, reason: Reason, took: float) -> None:
        """Take a failed cycle; a hang the watchdog has counted is not counted again."""
        with self._lock:
            if worker.stopping:
                return
            self._self.take_cycle(worker.identity.uuid, took)
            if not worker.hung:
                self._fail(worker.identity.uuid, reason)

    def _fail(self, uuid: str, reason: Reason) -> None:
        self._accounts.fail(uuid, reason, self._clock.monotonic())
        self._self.count_error(self._backend.name, reason)
        self._snapshot = None

    # -- allocations and events --------------------------------------------------------------

    def _read_allocations(self) -> None:
        assert self._source is not None
        if not self._discovered.is_set():
            return  # device ids cannot be told yet
        name, now = self._source.name, self._clock.monotonic()
        with self._lock:
            devices = self._accounts.identities()
        try:
            found = self._source.allocations(devices, now)
        except AllocationError as error:
            log.debug("%s: %s", name, error)
            self._count_error(name, error.reason)
            return
        with self._lock:
            now = self._clock.monotonic()
            self._last_good = (now, found)
            self._accounts.set_allocations(found, now)
            self._self.succeed(name, self._clock.wall())
            unmatched = sum(self._source.unmatched.values())
            self._self.set_errors(name, UNMATCHED_DEVICE_ID, unmatched)
            self._snapshot = None

    def _keep_or_drop_allocations(self, now: float) -> None:
        """While the source is slow or gone: the last good map for a bounded time, then none."""
        if self._last_good is None or self._source is None:
            return
        read_at, found = self._last_good
        if now - read_at > self._settings.keep_allocations_seconds:
            log.warning(
                "%s has not answered for %.0f s: its allocations are dropped",
                self._source.name,
                now - read_at,
            )
            found = ()
            self._last_good = None
            self._self.count_error(self._source.name, STALE_DROPPED)
        elif now - read_at <= 2 * self._settings.allocations_seconds:
            return
        self._accounts.set_allocations(found, now)
        self._snapshot = None

    def _wait_events(self) -> None:
        started = self._clock.monotonic()
        try:
            events = self._backend.wait_events(self._settings.events_seconds)
        except DeviceError as error:
            self._count_error(EVENTS, error.reason)
            self._stop.wait(EVENTS_RETRY_SECONDS)
            return
        with self._lock:
            for event in events:
                self._accounts.add_xid(event)
            if events:
                self._snapshot = None
        if not events:  # a back end without events answers at once
            spent = self._clock.monotonic() - started
            self._stop.wait(max(0.0, self._settings.events_seconds - spent))

    # -- watchdog ----------------------------------------------------------------------------

    def _watch(self) -> None:
        now = self._clock.monotonic()
        with self._lock:
            for worker in self._workers.values():
                self._watch_worker(worker, now)
            self._keep_or_drop_allocations(now)
        for loop in self._loops:
            if loop.died:
                self._count_error(loop.name, THREAD_DIED)
                loop.start()
        self._heartbeat = now

    def _watch_worker(self, worker: DeviceWorker, now: float) -> None:
        uuid, since = worker.identity.uuid, worker.busy_since
        if worker.died:
            log.error("the thread of device %s died; starting it again", uuid)
            self._self.count_error(self._backend.name, THREAD_DIED)
            self._snapshot = None
            worker.start()
        elif since is not None and now - since >= self._settings.hang_seconds:
            self._self.take_cycle(uuid, now - since)  # the age of the hung call
            self._snapshot = None
            if not worker.hung:
                log.warning("device %s has not answered for %.1f s", uuid, now - since)
                worker.hung = True
                worker.settled = True
                self._fail(uuid, Reason.TIMEOUT)
