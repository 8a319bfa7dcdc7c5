"""What people look at and nothing adds up: clocks, temperature, state of the PCIe link, power.

Ten calls a second for values that a scrape sees every 15 s or more, and that move no counter: they
are read every ``GAUGE_SECONDS`` and stand in between. They have their own ``Calls``, so that their
reasons stand as long as their values do.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gputailor_exporter.devices.base import PcieLink, Reason
from gputailor_exporter.devices.nvml_calls import Calls
from gputailor_exporter.devices.nvml_health import read_clocks, read_power, read_temperature
from gputailor_exporter.devices.nvml_links import read_pcie_link

#: Time between two readings; a default of ours, a third of the shortest usual scrape interval.
GAUGE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class GaugeReading:
    """The values; ``reasons`` says why others are missing."""

    temperature_celsius: float | None = None
    clocks_hertz: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, Reason] = field(default_factory=dict)


class Gauges:
    """Reads the gauges of one board and gives what it read last in between."""

    def __init__(self, device: str, collectors: Container[str]) -> None:
        """``device`` names the device in error texts."""
        self._calls = Calls(device)
        self._clocks = "clocks" in collectors
        self._temperature = "temperature" in collectors
        self._read_at: float | None = None
        self._last = GaugeReading()
        self._power_at = 0.0
        self._watts: float | None = None

    def read(self, handle: Any, at: float) -> GaugeReading:
        """Values that are at most ``GAUGE_SECONDS`` old at monotonic time ``at``.

        Raises ``DeviceError`` where the device is lost.
        """
        if self._read_at is None or at - self._read_at >= GAUGE_SECONDS:
            calls = self._calls
            calls.begin(at)
            celsius = read_temperature(calls, handle) if self._temperature else None
            clocks = read_clocks(calls, handle) if self._clocks else {}
            self._last = GaugeReading(celsius, clocks, dict(calls.reasons))
            self._read_at = at
        return self._last

    def power(self, calls: Calls, handle: Any, at: float, *, counted: bool) -> float | None:
        """Watts drawn, at most ``GAUGE_SECONDS`` old where the driver counts the energy itself.

        Where it does not (``counted`` False) power is what energy is made of: read each time.
        """
        recent = self._watts is not None and at - self._power_at < GAUGE_SECONDS
        if not (counted and recent):
            self._watts, self._power_at = read_power(calls, handle), at
        return self._watts


class LinkState:
    """Reads the PCIe link of one board: each second, but seldom while it is at its best.

    A link that sleeps wakes within a second under load, and traffic must not be held against the
    capacity it had asleep; one that is at its best can only become slower, and until that is seen
    it counts as less busy than it is.
    """

    def __init__(self) -> None:
        """Nothing is read yet."""
        self.link: PcieLink | None = None
        self._read_at = 0.0

    def read(self, calls: Calls, handle: Any, at: float) -> PcieLink | None:
        """The link at monotonic time ``at``; None, with a reason, where it is unknown."""
        if not _at_best(self.link) or at - self._read_at >= GAUGE_SECONDS:
            self.link = read_pcie_link(calls, handle, self.link)
            self._read_at = at
        return self.link


def _at_best(link: PcieLink | None) -> bool:
    if link is None or link.generation is None or link.width is None:
        return False
    return link.generation == link.generation_max and link.width == link.width_max
