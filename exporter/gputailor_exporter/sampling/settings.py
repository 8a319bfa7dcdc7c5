"""How the sampler runs."""

from dataclasses import dataclass, field
from typing import Final

from gputailor_exporter.accounting import AccountingSettings
from gputailor_exporter.sampling.discovery import DiscoverySettings

#: How soon events are asked for again after an error: many drivers have none.
EVENTS_RETRY_SECONDS: Final = 30.0


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
