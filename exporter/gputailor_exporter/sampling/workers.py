"""The device threads of a node: one for each device that is listed, and those on their way out.

Not thread-safe: the sampler holds its lock.
"""

from collections.abc import Callable, Iterator, Sequence

from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.sampling.worker import DeviceWorker


class Workers:
    """Starts and stops device threads as devices come and go."""

    def __init__(self, make: Callable[[DeviceIdentity], DeviceWorker]) -> None:
        """``make`` builds the worker of a device; it is started here."""
        self._make = make
        self._working: dict[str, DeviceWorker] = {}
        self._leaving: dict[str, DeviceWorker] = {}  # asked to end, and still in the driver

    def __iter__(self) -> Iterator[DeviceWorker]:
        """Workers of the devices that are listed."""
        return iter(tuple(self._working.values()))

    @property
    def settled(self) -> bool:
        """Whether each has had its first cycle, well or not."""
        return all(worker.settled for worker in self._working.values())

    def match(self, devices: Sequence[DeviceIdentity]) -> tuple[str, ...]:
        """Have a thread for each of ``devices`` and for no other; returns the UUIDs that left.

        A device whose old thread still hangs in the driver gets no second one: a GPU that falls
        off the bus again and again must not pile up threads.
        """
        wanted = {identity.uuid: identity for identity in devices}
        left = tuple(uuid for uuid in self._working if uuid not in wanted)
        for uuid in left:
            self._leaving[uuid] = self._working.pop(uuid)
            self._leaving[uuid].stop()
        self._leaving = {uuid: one for uuid, one in self._leaving.items() if one.alive}
        for uuid, identity in wanted.items():
            worker = self._working.get(uuid)
            if worker is not None:
                worker.identity = identity
            elif uuid not in self._leaving:
                self._working[uuid] = worker = self._make(identity)
                worker.start()
        return left

    def missing(self, devices: Sequence[DeviceIdentity]) -> bool:
        """Whether one of ``devices`` has no thread yet, because its old one has not ended."""
        return any(identity.uuid not in self._working for identity in devices)

    def stop(self) -> tuple[DeviceWorker, ...]:
        """Ask all threads to end after their cycle; returns them."""
        for worker in self._working.values():
            worker.stop()
        return (*self._working.values(), *self._leaving.values())
