"""How the sampler runs, and the words it counts its own troubles by."""

from dataclasses import dataclass, field
from typing import Final

from gputailor_exporter.accounting import AccountingSettings
from gputailor_exporter.sampling.discovery import DiscoverySettings

#: Label values of ``exporter_errors_total{reason}`` that are not a device's or a source's own.
THREAD_DIED: Final = "thread_died"
INTERNAL_ERROR: Final = "internal_error"
STALE_DROPPED: Final = "stale_dropped"
STOOD_STILL: Final = "stood_still"
UNMATCHED_DEVICE_ID: Final = "unmatched_device_id"

#: Label values of ``source`` for what is no back end or allocation source.
EVENTS: Final = "events"
ATTRIBUTION: Final = "attribution"
WATCHDOG: Final = "watchdog"


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """How the sampler runs; times in seconds.

    ``hang_seconds``: a device call this long means the device hangs; ``loop_hang_seconds``: the
    same for discovery, allocations and events. ``keep_allocations_seconds``: how long the last
    good allocations stand in for an unreachable kubelet. ``unhealthy_seconds``: how long the
    watchdog may stand still, and how long a new process may be asked for in vain.
    """

    node: str
    accounting: AccountingSettings = field(default_factory=AccountingSettings)
    started_wall: float = 0.0
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    allocations_seconds: float = 1.0
    keep_allocations_seconds: float = 120.0
    hang_seconds: float = 5.0
    loop_hang_seconds: float = 15.0
    watchdog_seconds: float = 0.5
    events_seconds: float = 1.0
    unhealthy_seconds: float = 30.0
