"""Accounts of one device: integrals of its signals, rises of its counters, its last reading.

A signal reading is the mean over its stated span, or, without one, it is held back over the time
since the previous good cycle (the value is a mean of that interval, so holding it is exact).
Either way no time is counted twice, and time beyond the largest gap is not observed.
"""

from collections.abc import Mapping
from typing import Final

from gputailor_exporter.accounting.counters import EnergyCounter, RawCounter
from gputailor_exporter.accounting.settings import AccountingSettings
from gputailor_exporter.accounting.signals import COUNT, PLACE, SIGNALS
from gputailor_exporter.devices.base import DeviceIdentity, DeviceReading, Reason, SignalReading
from gputailor_exporter.metrics import Signal, ThrottleReason

PCIE: Final = "pcie"
NVLINK: Final = "nvlink"

#: In a list of observed seconds: the signal was not read in this cycle.
UNREAD: Final = -1.0


class DeviceAccount:
    """One device (a GPU or a MIG instance). Lists are indexed by ``signals.PLACE``."""

    __slots__ = (
        "_gap",
        "_interval",
        "_until",
        "active",
        "elapsed",
        "energy",
        "failure",
        "identity",
        "invalid",
        "invalid_values",
        "known",
        "labels",
        "last_at",
        "link_busy",
        "link_known",
        "links",
        "observed",
        "process_known",
        "read_now",
        "reading",
        "seconds",
        "shared",
        "signal_rows",
        "span",
        "throttled",
        "unattributed_active",
        "unattributed_energy",
        "unattributed_known",
        "unattributed_memory",
        "values",
    )

    def __init__(self, node: str, identity: DeviceIdentity, settings: AccountingSettings) -> None:
        self._interval = settings.interval_seconds
        self._gap = settings.gap_seconds
        self._until: list[float | None] = [None] * COUNT  # the time each signal is counted up to
        self.rename(node, identity)
        self.failure: Reason | None = None
        self.reading: DeviceReading | None = None  # the last good one, while the device is up
        self.last_at: float | None = None  # of the last good cycle
        self.elapsed = 0.0  # between the last two good cycles
        self.span = 0.0  # the same, 0 where it is a gap
        self.values = [0.0] * COUNT  # of this cycle, valid for ``read_now``
        self.seconds = [UNREAD] * COUNT  # observed this cycle
        self.read_now: list[int] = []
        self.invalid: list[int] = []  # out of 0..1 this cycle
        self.known = [False] * COUNT  # read at least once
        self.active = [0.0] * COUNT
        self.observed = [0.0] * COUNT
        self.unattributed_active = [0.0] * COUNT
        self.unattributed_known = [False] * COUNT
        self.unattributed_energy: float | None = None
        self.unattributed_memory: float | None = None
        self.energy = EnergyCounter()
        self.links: dict[tuple[str, str], RawCounter] = {}
        self.link_busy: float | None = None  # this cycle's bytes over the busier link, 0..1
        self.link_known = False  # the link's capacity and bytes were both read at least once
        self.throttled: dict[str, float] = {}
        self.invalid_values: dict[str, int] = {}  # cycles, by what was dropped
        self.shared = False
        self.process_known = False  # per-process utilisation was trusted at least once

    def rename(self, node: str, identity: DeviceIdentity) -> None:
        """Take a new identity of the same device (the driver may renumber)."""
        self.identity = identity
        self.labels: tuple[str, ...] = (node, identity.index, identity.uuid)
        self.signal_rows = tuple((*self.labels, str(signal)) for signal in SIGNALS)

    @property
    def up(self) -> bool:
        """Whether the last cycle was good."""
        return self.failure is None and self.reading is not None

    def fail(self, reason: Reason) -> None:
        """Mark the device as lost or hung: its gauges vanish, its counters stand still."""
        self.failure = reason
        self.reading = None
        self._forget_cycle()
        self.unattributed_memory = None

    def _forget_cycle(self) -> None:
        seconds = self.seconds
        for place in self.read_now:
            seconds[place] = UNREAD
        self.read_now.clear()
        self.invalid.clear()

    def advance(self, reading: DeviceReading) -> bool:
        """Take one cycle's reading; False (and nothing counted) if its time did not move on."""
        at = reading.at
        last = self.last_at
        if last is not None and at <= last:
            return False
        self.elapsed = elapsed = 0.0 if last is None else at - last
        self.span = elapsed if elapsed <= self._gap else 0.0
        self.last_at = at
        self.failure = None
        self.reading = reading
        self._forget_cycle()
        if not self.identity.mig_enabled:
            # The parent of MIG instances keeps power, energy and temperature; slices the rest.
            self._take_signals(reading.signals, at)
        self._count_invalid(reading)
        self.energy.advance(reading.energy_joules, reading.power_watts, self.span)
        self._take_links(reading)
        if reading.throttle_reasons is not None:
            if not self.throttled:  # readable from now on: never throttled is 0, not unknown
                self.throttled = dict.fromkeys(map(str, ThrottleReason), 0.0)
            for reason in reading.throttle_reasons:
                self.throttled[reason] = self.throttled.get(reason, 0.0) + self.span
        return True

    def _count_invalid(self, reading: DeviceReading) -> None:
        dropped = {str(SIGNALS[place]) for place in self.invalid}
        for name, reason in reading.unavailable.items():
            if reason is Reason.INVALID_VALUE:
                dropped.add(str(name))
        for name in dropped:
            self.invalid_values[name] = self.invalid_values.get(name, 0) + 1

    def _take_signals(self, signals: Mapping[Signal, SignalReading], at: float) -> None:
        until, values, seconds = self._until, self.values, self.seconds
        for signal, item in signals.items():
            place = PLACE[signal]
            value = item.value
            if not 0.0 <= value <= 1.0:  # a NaN fails both comparisons
                self.invalid.append(place)
                continue
            counted_to = until[place]
            covers = item.covers_seconds
            if covers is None:
                took = self.span
                until[place] = at
            else:
                free = self._interval if counted_to is None else at - counted_to
                took = min(free, covers)
                if covers > 0.0 or counted_to is None:
                    # A span that began late may be made good by the next, an interval at most.
                    until[place] = at - min(free - took, self._interval)
                # else nothing was read: what covers this time is still to come
            self.known[place] = True
            self.read_now.append(place)
            values[place] = value
            seconds[place] = took
            self.active[place] += value * took
            self.observed[place] += took

    def _take_links(self, reading: DeviceReading) -> None:
        busy = [self._take_pcie(reading), self._take_nvlink(reading)]
        known = [part for part in busy if part is not None]
        self.link_busy = max(known, default=None)
        self.link_known = self.link_known or bool(known)

    def _take_pcie(self, reading: DeviceReading) -> float | None:
        """Count the bytes; returns their part of what the link could carry, None where unknown."""
        if not reading.pcie_bytes:
            return None
        link = reading.pcie_link
        capacity = None if link is None else link.bytes_per_second
        most = None if capacity is None else capacity * self.elapsed
        if self.span == 0.0:
            most = 0.0  # a wrapping counter may have gone round unseen
        busiest = 0.0
        for direction, raw in reading.pcie_bytes.items():
            counter = self._link(PCIE, direction)
            counter.advance(raw, reading.pcie_counter_modulus, most)
            busiest = max(busiest, counter.rise)
        return busiest / most if most else None

    def _take_nvlink(self, reading: DeviceReading) -> float | None:
        """As ``_take_pcie``, for all NVLinks that are up; their counters do not wrap."""
        busiest = 0.0
        for direction, raw in reading.nvlink_bytes.items():
            counter = self._link(NVLINK, direction)
            counter.advance(raw, None, None)
            busiest = max(busiest, counter.rise)
        capacity = reading.state.nvlink_bytes_per_second
        if not reading.nvlink_bytes or not capacity or self.span == 0.0:
            return None
        return busiest / (capacity * self.span)

    def _link(self, link: str, direction: str) -> RawCounter:
        key = (link, direction)
        counter = self.links.get(key)
        if counter is None:
            counter = self.links[key] = RawCounter()
        return counter
