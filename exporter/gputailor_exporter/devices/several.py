"""Several back ends as one, for ``--backend auto``: what is on this node decides.

NVIDIA, AMD and what other packages bring are tried, and all that have a device are read side by
side; DRM's common interface only where none of them has one, so that a server's built-in display or
a laptop's second GPU does not count as capacity. A back end that has no device yet is tried again
at each discovery: a driver may be loaded later.
"""

import threading
from collections.abc import Iterable

from gputailor_exporter.devices.base import (
    Backend,
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    Reason,
    XidEvent,
    want_processes,
)
from gputailor_exporter.devices.registry import BackendSettings, create, registered


def make_auto(settings: BackendSettings) -> Backend:
    """Return the back ends of this node as one."""
    first = [*(create(name, settings) for name in ("nvml", "amd", *registered()))]
    return Several(first, [create("drm", settings)])


class Several:
    """Back ends side by side; those of ``instead`` only where no other has a device."""

    def __init__(self, first: Iterable[Backend], instead: Iterable[Backend] = ()) -> None:
        """None is open yet."""
        self.name = "auto"
        self._groups = (tuple(first), tuple(instead))
        self._lock = threading.Lock()
        self._open: list[Backend] = []
        self._found: dict[str, tuple[DeviceIdentity, Backend]] = {}
        self._refusals: dict[str, str] = {}
        self._wanted: frozenset[str] | None = None
        self._closed = threading.Event()

    def open(self) -> None:
        """Open what can be opened; raises ``DeviceError`` that says why where nothing can."""
        self._closed.clear()
        if not self.devices():
            said = "; ".join(f"{name}: {text}" for name, text in self._refusals.items())
            raise DeviceError(Reason.DRIVER_ERROR, f"no back end finds a device. {said}")

    def expected(self) -> int | None:
        """Return the sum of what is expected; None where nothing is known."""
        counts = [count for one in self._opened() if (count := one.expected()) is not None]
        return sum(counts) if counts else None

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """Return the devices of all back ends that have any.

        A back end that was open and fails keeps its devices: they are down, not gone. Raises
        ``DeviceError`` where no other has a device, and where only a new process can help.
        """
        found: dict[str, tuple[DeviceIdentity, Backend]] = {}
        failure: DeviceError | None = None
        answered = False
        for group in self._groups:
            for backend in group:
                try:
                    mine = self._devices_of(backend)
                except DeviceError as error:
                    if error.driver_replaced:
                        raise
                    self._refusals[backend.name] = str(error)
                    if backend not in self._opened():
                        continue
                    failure, mine = error, self._kept(backend)
                else:
                    answered = answered or bool(mine)
                for one in mine:
                    found.setdefault(one.uuid, (one, backend))
            if found:
                break
        if failure is not None and not answered:
            raise failure
        with self._lock:
            self._found = found
        return tuple(one for one, _ in found.values())

    def _kept(self, backend: Backend) -> tuple[DeviceIdentity, ...]:
        with self._lock:
            return tuple(one for one, owner in self._found.values() if owner is backend)

    def _devices_of(self, backend: Backend) -> tuple[DeviceIdentity, ...]:
        if backend not in self._opened():
            backend.open()
            with self._lock:
                self._open.append(backend)
            if self._wanted is not None:
                want_processes(backend, self._wanted)
        return backend.devices()

    def _opened(self) -> tuple[Backend, ...]:
        with self._lock:
            return tuple(self._open)

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """Read the device by the back end that found it."""
        with self._lock:
            found = self._found.get(device.uuid)
        if found is None:
            raise DeviceError(Reason.GPU_IS_LOST, f"{device.uuid}: no back end finds it any more")
        return found[1].read(device, at)

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Return the events of all back ends, each waited for in its turn."""
        backends = self._opened()
        if not backends:
            self._closed.wait(timeout_seconds)
        found: list[XidEvent] = []
        for backend in backends:
            found.extend(backend.wait_events(timeout_seconds / len(backends)))
        return tuple(found)

    def want_processes(self, gpu_uuids: frozenset[str]) -> None:
        """See ``SparesProcesses``."""
        self._wanted = gpu_uuids
        for backend in self._opened():
            want_processes(backend, gpu_uuids)

    def close(self) -> None:
        """Close all that are open."""
        self._closed.set()
        with self._lock:
            backends, self._open = self._open, []
        for backend in backends:
            backend.close()
