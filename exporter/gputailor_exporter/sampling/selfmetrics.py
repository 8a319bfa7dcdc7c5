"""What the exporter says of itself: version, start, errors, durations, last good reads.

Not thread-safe: the sampler holds its lock. The simulation uses it for version and start alone.
Times of past events are steady Unix times (``timekeeping``); ``shift`` makes them wall times.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gputailor_exporter import __version__
from gputailor_exporter import metrics as m
from gputailor_exporter.accounting import FamilySamples, SampleTable, Snapshot
from gputailor_exporter.devices.base import Reason

#: Families whose values are times of past events, kept on the steady scale.
_TIMES: Final = frozenset({m.CONTAINER_LAST_ACTIVE.name, m.DEVICE_XID_LAST.name})


class SelfMetrics:
    """The ``exporter_`` families that need no device account."""

    def __init__(self, started_wall: float, version: str = __version__) -> None:
        """``started_wall``: Unix time of the process's start; it never moves while it lives."""
        self._started_wall = started_wall
        self._version = version
        self._errors: dict[tuple[str, str], int] = {}
        self._last_success: dict[str, float] = {}
        self._durations: dict[str, float] = {}
        self._device_success: dict[str, float] = {}
        self._failures: dict[str, Reason] = {}

    def count_error(self, source: str, reason: str) -> None:
        """Count one failure of ``source``."""
        key = (source, reason)
        self._errors[key] = self._errors.get(key, 0) + 1

    def set_errors(self, source: str, reason: str, count: int) -> None:
        """Take over a count that ``source`` keeps itself; none is published while it is 0."""
        if count:
            self._errors[source, reason] = count

    def succeed(self, source: str, at: float) -> None:
        """Note that ``source`` was read well at steady Unix time ``at``."""
        self._last_success[source] = at

    def take_cycle(self, gpu_uuid: str, seconds: float) -> None:
        """Note how long the device's last cycle took, or the one in progress has taken so far."""
        self._durations[gpu_uuid] = seconds

    def succeed_device(self, gpu_uuid: str, at: float) -> None:
        """Note that the device was read well at steady Unix time ``at``."""
        self._device_success[gpu_uuid] = at
        self._failures.pop(gpu_uuid, None)

    def fail_device(self, gpu_uuid: str, reason: Reason) -> bool:
        """Note why the device does not answer, until it is read well; whether that is news."""
        news = self._failures.get(gpu_uuid) is not reason
        self._failures[gpu_uuid] = reason
        return news

    def forget_device(self, gpu_uuid: str) -> None:
        """Drop the duration of a device that left."""
        self._durations.pop(gpu_uuid, None)

    def keep_devices(self, gpu_uuids: Iterable[str]) -> None:
        """Drop age and failure of all devices but these: a GPU that is lost keeps them."""
        wanted = set(gpu_uuids)
        for known in (self._device_success, self._failures):
            for gone in known.keys() - wanted:
                known.pop(gone)

    def families(self, down: Iterable[str] = (), shift: float = 0.0) -> tuple[FamilySamples, ...]:
        """Return the samples as they are now; ``down`` are the devices that do not answer."""
        table = SampleTable()
        table.put(m.EXPORTER_BUILD_INFO, (self._version,), 1.0)
        table.put(m.PROCESS_START_TIME, (), self._started_wall)
        for uuid, seconds in self._durations.items():
            table.put(m.EXPORTER_CYCLE_DURATION, (uuid,), seconds)
        for source, at in self._last_success.items():
            table.put(m.EXPORTER_LAST_SUCCESS, (source,), at + shift)
        for uuid, at in self._device_success.items():
            table.put(m.EXPORTER_DEVICE_LAST_SUCCESS, (uuid,), at + shift)
        for uuid in down:
            reason = self._failures.get(uuid, Reason.GPU_IS_LOST)
            table.put(m.EXPORTER_DEVICE_FAILURE, (uuid, str(reason)), 1.0)
        for key, count in self._errors.items():
            table.put(m.EXPORTER_ERRORS, key, count)
        return table.families()


def shifted(snapshot: Snapshot, shift: float) -> Snapshot:
    """Move the times of past events by ``shift`` seconds, as the wall clock was."""
    if not shift:
        return snapshot
    families = (
        replace(one, values=tuple(value + shift for value in one.values))
        if one.family.name in _TIMES
        else one
        for one in snapshot.families
    )
    return replace(snapshot, families=tuple(families))
