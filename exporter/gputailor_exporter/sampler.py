"""The running exporter: threads that read, one lock around the accounts, snapshots on demand.

Threads: one per device, one each for discovery, allocations and Xid events, and a watchdog that
touches neither driver nor socket. No thread holds the lock while it waits for a driver, a file or
a socket, so a hung call stalls what it was asked for and nothing else.

Spans go by the clock since boot, times of events by a steady wall clock (``timekeeping``). A
process that stood still itself (stopped, starved, its machine suspended) judges nobody by the time
it has missed.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from gputailor_exporter.accounting import NodeAccounts, Snapshot
from gputailor_exporter.attribution.allocations import (
    Allocation,
    AllocationError,
    AllocationSource,
    ProcessAttribution,
)
from gputailor_exporter.attribution.keeping import LastAllocations
from gputailor_exporter.attribution.owners import owners_of
from gputailor_exporter.devices.base import (
    Backend,
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    Reason,
    want_processes,
)
from gputailor_exporter.sampling import labels
from gputailor_exporter.sampling.discovery import DISCOVERY, Discovery
from gputailor_exporter.sampling.loops import Loop
from gputailor_exporter.sampling.selfmetrics import SelfMetrics, shifted
from gputailor_exporter.sampling.settings import EVENTS_RETRY_SECONDS, SamplerSettings
from gputailor_exporter.sampling.timekeeping import Clock, SteadyWall
from gputailor_exporter.sampling.worker import DeviceWorker, Owners
from gputailor_exporter.sampling.workers import Workers

log = logging.getLogger(__name__)


class Sampler:
    """Reads devices and allocations in the background; ``snapshot`` never waits for them."""

    def __init__(
        self,
        backend: Backend,
        allocation_source: AllocationSource | None,
        attribution: ProcessAttribution | None,
        settings: SamplerSettings,
        clock: Clock | None = None,
        *,
        renew: Callable[[str], None] | None = None,
        counters: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        """The sampler opens and closes ``backend``. None for a source: there is no such source.

        ``renew`` is told, once, why only a new process can read the devices. ``counters`` gives
        errors counted elsewhere, by source and reason.
        """
        self._backend = backend
        self._source = allocation_source
        self._attribution = attribution
        self._settings = settings
        self._clock = clock or Clock()
        self._wall = SteadyWall(self._clock)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._accounts = NodeAccounts(settings.node, settings.accounting)
        self._self = SelfMetrics(settings.started_wall or self._clock.wall())
        self._workers = Workers(self._make_worker)
        self.discovery = Discovery(backend, settings.discovery, self.count_error)
        self._held = LastAllocations(
            settings.allocations_seconds, settings.keep_allocations_seconds
        )
        self._shared: frozenset[str] | None = None  # None: not told yet
        self._ready = False
        self._events_due = self._heartbeat = self._clock.monotonic()
        self._pardoned_until = self._heartbeat
        self._renew = renew
        self._counters = counters
        self._renewal_asked: float | None = None
        self._snapshot: tuple[float, Snapshot] | None = None  # None: something changed
        self._loops = self._make_loops()
        self._watchdog = self._loop(labels.WATCHDOG, self._watch, settings.watchdog_seconds)

    def _loop(self, name: str, step: Callable[[], None], interval: float) -> Loop:
        return Loop(
            name,
            step,
            interval,
            self._stop,
            on_error=lambda source: self.count_error(source, labels.INTERNAL_ERROR),
            now=self._clock.monotonic,
        )

    def _make_loops(self) -> tuple[Loop, ...]:
        discovery = self._settings.discovery
        often = min(discovery.interval, discovery.open_retry)
        self._discovering = self._loop(DISCOVERY, self._discover, often)
        self._discovering.pause = self.discovery.pause
        self.discovery.on_soon = self._discovering.wake
        loops = [self._discovering, self._loop(labels.EVENTS, self._wait_events, 0.0)]
        if self._source is not None:
            interval = self._settings.allocations_seconds
            loops.append(self._loop(self._source.name, self._read_allocations, interval))
        return tuple(loops)

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads; returns at once."""
        if self._source is None:
            self._divide((), self._clock.monotonic())
        for loop in (*self._loops, self._watchdog):
            loop.start()

    def close(self, timeout: float = 3.0) -> None:
        """Stop all threads within ``timeout`` seconds; a hung one is left to end with the process.

        The driver is only released when no thread is inside it any more, and not waited for.
        """
        self._stop.set()
        self._discovering.wake()
        with self._lock:
            workers = self._workers.stop()
        deadline = self._clock.monotonic() + timeout
        free = True
        threads: tuple[Loop | DeviceWorker, ...] = (self._watchdog, *self._loops, *workers)
        for thread in threads:
            ended = thread.join(max(0.0, deadline - self._clock.monotonic()))
            free = free and ended
        if free and self.discovery.opened:
            closing = threading.Thread(target=self._backend.close, name="close", daemon=True)
            closing.start()
            closing.join(timeout)
            free = not closing.is_alive()
        if not free:
            log.warning("a call into a driver or socket still hangs; leaving it to the exit")
        elif self._source is not None:
            self._source.close()

    @property
    def ready(self) -> bool:
        """Whether every device that answers has had its first full cycle."""
        with self._lock:
            if not self._ready and self.discovery.listed:
                self._ready = self._workers.settled
            return self._ready

    @property
    def devices_listed(self) -> int | None:
        """Devices there are; None as long as the driver has not listed them."""
        with self._lock:
            return len(self._accounts.identities()) if self.discovery.listed else None

    @property
    def trouble(self) -> str:
        """What stands between this process and its devices; empty where nothing does."""
        busy = self._discovering.busy_seconds(self._clock.monotonic())
        if busy >= self._settings.hang_seconds and not self.discovery.listed:
            return f"the driver has not answered for {busy:.0f} s"
        return self.discovery.trouble

    @property
    def healthy(self) -> bool:
        """Whether a restart would change nothing: hung or lost devices are no reason for one."""
        now, most = self._clock.monotonic(), self._settings.unhealthy_seconds
        asked = self._renewal_asked
        return now - self._heartbeat < most and (asked is None or now - asked < most)

    def down(self) -> tuple[str, ...]:
        """Return the UUIDs of devices that do not answer."""
        with self._lock:
            return self._accounts.down()

    def snapshot(self) -> Snapshot:
        """Return all samples; the same object until something changed. Never blocks on I/O."""
        with self._lock:
            shift = self._wall.shift()
            if self._snapshot is None or self._snapshot[0] != shift:
                own = self._self.families(self._accounts.down(), shift)
                taken = self._accounts.snapshot(self._wall.now() + shift)
                self._snapshot = (shift, shifted(taken, shift).with_families(own))
            return self._snapshot[1]

    def count_error(self, source: str, reason: str) -> None:
        """Count one failure of ``source``, from any thread."""
        with self._lock:
            self._self.count_error(source, reason)
            self._snapshot = None

    # -- devices -----------------------------------------------------------------------------

    def _discover(self) -> None:
        found = self.discovery.step(self._clock.monotonic())
        if found is None:
            return
        with self._lock:
            self._accounts.set_devices(found.devices, found.expected)
            self._snapshot = None
            if not found.listed or self._stop.is_set():
                return
            self._self.succeed(DISCOVERY, self._wall.now())
            for uuid in self._workers.match(found.devices):
                self._self.forget_device(uuid)
                self._self.fail_device(uuid, Reason.GPU_IS_LOST)
            self._self.keep_devices(one.uuid for one in self._accounts.identities())
            if self._workers.missing(found.devices):
                self.discovery.soon()

    def _make_worker(self, identity: DeviceIdentity) -> DeviceWorker:
        return DeviceWorker(
            identity,
            self._backend,
            self,
            self._clock,
            interval=self._settings.accounting.interval_seconds,
            hang_seconds=self._settings.hang_seconds,
        )

    def owners(self, identity: DeviceIdentity, reading: DeviceReading) -> Owners | None:
        """Lead the processes of a shared device to containers; None: not attributed."""
        if self._attribution is None:
            return None
        with self._lock:
            if not self._accounts.is_shared(identity.uuid):
                return None
        failed = partial(self.count_error, labels.ATTRIBUTION, labels.INTERNAL_ERROR)
        return owners_of(self._attribution, reading.processes or (), failed)

    def take_reading(
        self, worker: DeviceWorker, reading: DeviceReading, owners: Owners | None, took: float
    ) -> None:
        """Take a good cycle of a device that is still wanted."""
        with self._lock:
            if worker.stopping:
                return
            uuid, now = worker.identity.uuid, self._wall.now()
            owner_of = None if owners is None else owners.get
            self._accounts.advance(worker.identity, reading, owner_of, now)
            self._self.take_cycle(uuid, took)
            self._self.succeed(self._backend.name, now)
            self._self.succeed_device(uuid, now)
            self.discovery.answered()
            self._snapshot = None

    def take_failure(self, worker: DeviceWorker, error: DeviceError, took: float) -> None:
        """Take a failed cycle; a hang the watchdog has counted is not counted again."""
        with self._lock:
            if worker.stopping:
                return
            self._self.take_cycle(worker.identity.uuid, took)
            self.discovery.failed(error, self._clock.monotonic())
            if not worker.hung:
                self._fail(worker.identity.uuid, error.reason)

    def _fail(self, uuid: str, reason: Reason) -> None:
        self._accounts.fail(uuid, reason, self._clock.monotonic())
        if self._self.fail_device(uuid, reason) and reason is Reason.GPU_IS_LOST:
            self.discovery.soon()  # a MIG instance that was taken apart leaves at once
        self._self.count_error(self._backend.name, reason)
        self._snapshot = None

    # -- allocations and events --------------------------------------------------------------

    def _read_allocations(self) -> None:
        assert self._source is not None
        if not self.discovery.listed:
            return  # device ids cannot be told yet
        name, now = self._source.name, self._clock.monotonic()
        with self._lock:
            devices = self._accounts.identities()
        try:
            found = self._source.allocations(devices, now)
        except AllocationError as error:
            log.debug("%s: %s", name, error)
            self.count_error(name, error.reason)
            return
        with self._lock:
            now = self._clock.monotonic()
            self._held.take(found, now)
            self._divide(found, now)
            self._self.succeed(name, self._wall.now())
            unmatched = {labels.UNMATCHED_DEVICE_ID: sum(self._source.unmatched.values())}
            for reason, count in (*unmatched.items(), *self._source.problems.items()):
                self._self.set_errors(name, reason, count)
            self._snapshot = None

    def _keep_or_drop_allocations(self, now: float) -> None:
        """While the source is slow or gone: the last good map for a bounded time, then none."""
        if self._source is None or not self._held.late(now):
            return
        if self._held.expire(now):
            log.warning("%s is silent for long: its allocations are dropped", self._source.name)
            self._self.count_error(self._source.name, labels.STALE_DROPPED)
        self._divide(self._held.allocations, now)
        self._snapshot = None

    def _divide(self, allocations: Iterable[Allocation], now: float) -> None:
        """Take who holds what; processes are wanted of the devices that are shared alone."""
        self._accounts.set_allocations(allocations, now)
        shared = self._accounts.shared()
        if shared != self._shared:
            self._shared = shared
            want_processes(self._backend, shared)

    def _wait_events(self) -> None:
        started, seconds = self._clock.monotonic(), self._settings.events_seconds
        if not self.discovery.opened or started < self._events_due:
            self._stop.wait(seconds)
            return
        try:
            events = self._backend.wait_events(seconds)
        except DeviceError as error:
            self.count_error(labels.EVENTS, error.reason)
            self._events_due = started + EVENTS_RETRY_SECONDS
            return
        with self._lock:
            for event in events:
                self._accounts.add_xid(replace(event, at=self._wall.steady(event.at)))
            if events:
                self._snapshot = None
        if not events:  # a back end without events answers at once
            self._stop.wait(max(0.0, started + seconds - self._clock.monotonic()))

    # -- watchdog ----------------------------------------------------------------------------

    def _watch(self) -> None:
        now = self._clock.monotonic()
        stood_still = now - self._heartbeat
        self._heartbeat = now
        if stood_still >= self._settings.hang_seconds + self._settings.watchdog_seconds:
            self._pardon(stood_still, now)
        with self._lock:
            for worker in self._workers:
                self._watch_worker(worker, now)
            self._keep_or_drop_allocations(now)
            for (source, reason), count in self._counters().items():
                self._self.set_errors(source, reason, count)
        for loop in self._loops:
            self._watch_loop(loop, now)
        why = self.discovery.renewal(now)
        if why and self._renewal_asked is None:
            log.error("%s: a new process is needed", why)
            self._renewal_asked = now
            if self._renew is not None:
                self._renew(why)
        elif not why:
            self._renewal_asked = None

    def _pardon(self, seconds: float, now: float) -> None:
        """This process stood still: what seems late by that time is not, until it had its turn."""
        log.warning("this process stood still for %.1f s: that time is not observed", seconds)
        self._pardoned_until = now + self._settings.hang_seconds
        with self._lock:
            self._self.count_error(labels.WATCHDOG, labels.STOOD_STILL)
            self._held.pardon(seconds)

    def _watch_loop(self, loop: Loop, now: float) -> None:
        if loop.died:
            self.count_error(loop.name, labels.THREAD_DIED)
            loop.start()
        elif loop.busy_seconds(now) < self._settings.loop_hang_seconds or loop.hung:
            return
        elif now >= self._pardoned_until:
            loop.hung = True
            log.warning("%s has not answered for %.1f s", loop.name, loop.busy_seconds(now))
            self.count_error(loop.name, Reason.TIMEOUT)

    def _watch_worker(self, worker: DeviceWorker, now: float) -> None:
        uuid, since = worker.identity.uuid, worker.busy_since
        if worker.died:
            log.error("the thread of device %s died; starting it again", uuid)
            self._self.count_error(self._backend.name, labels.THREAD_DIED)
            self._snapshot = None
            worker.start()
        elif since is not None and now - since >= self._settings.hang_seconds:
            if now < self._pardoned_until:
                return
            self._self.take_cycle(uuid, now - since)  # the age of the hung call
            self._snapshot = None
            if not worker.hung:
                log.warning("device %s has not answered for %.1f s", uuid, now - since)
                worker.hung = True
                worker.settled = True
                self._fail(uuid, Reason.TIMEOUT)
