"""What the exporter says of itself: version, start, errors, durations, last good reads.

Not thread-safe: the sampler holds its lock. The simulation uses it for version and start alone.
"""

from gputailor_exporter import __version__
from gputailor_exporter import metrics as m
from gputailor_exporter.accounting import FamilySamples, SampleTable


class SelfMetrics:
    """The ``exporter_`` families that need no device account."""

    def __init__(self, started_wall: float, version: str = __version__) -> None:
        """``started_wall``: Unix time of the process's start."""
        self._started_wall = started_wall
        self._version = version
        self._errors: dict[tuple[str, str], int] = {}
        self._last_success: dict[str, float] = {}
        self._durations: dict[str, float] = {}

    def count_error(self, source: str, reason: str) -> None:
        """Count one failure of ``source``."""
        key = (source, reason)
        self._errors[key] = self._errors.get(key, 0) + 1

    def set_errors(self, source: str, reason: str, count: int) -> None:
        """Take over a count that ``source`` keeps itself; none is published while it is 0."""
        if count:
            self._errors[source, reason] = count

    def succeed(self, source: str, wall: float) -> None:
        """Note that ``source`` was read well at Unix time ``wall``."""
        self._last_success[source] = wall

    def take_cycle(self, gpu_uuid: str, seconds: float) -> None:
        """Note how long the device's last cycle took, or the one in progress has taken so far."""
        self._durations[gpu_uuid] = seconds

    def forget_device(self, gpu_uuid: str) -> None:
        """Drop the duration of a device that left."""
        self._durations.pop(gpu_uuid, None)

    def families(self) -> tuple[FamilySamples, ...]:
        """Return the samples as they are now."""
        table = SampleTable()
        table.put(m.EXPORTER_BUILD_INFO, (self._version,), 1.0)
        table.put(m.PROCESS_START_TIME, (), self._started_wall)
        for uuid, seconds in self._durations.items():
            table.put(m.EXPORTER_CYCLE_DURATION, (uuid,), seconds)
        for source, wall in self._last_success.items():
            table.put(m.EXPORTER_LAST_SUCCESS, (source,), wall)
        for key, count in self._errors.items():
            table.put(m.EXPORTER_ERRORS, key, count)
        return table.families()
