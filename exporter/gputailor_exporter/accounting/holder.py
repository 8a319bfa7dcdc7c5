"""Accounts of one container on one device.

All counters start at 0 the moment the device is handed out and never count more than the time
since then. Histograms count whole one-second values: seconds are collected and rounded with the
remainder carried on, so that counts are integers and follow observed time to half a second. A mean
over more than the largest gap (the driver went on measuring while we could not ask) is observed
time, but no one-second value: histograms and joint conditions leave it out.
"""

from bisect import bisect_left
from collections.abc import Iterable
from math import ceil
from typing import Final

from gputailor_exporter.accounting.device import DeviceAccount
from gputailor_exporter.accounting.signals import (
    COUNT,
    DECODER,
    ENCODER,
    FP32,
    FP64,
    GRAPHICS,
    KERNEL,
    PLACE,
    PROCESS_PLACES,
    SIGNALS,
    SM,
    TENSOR,
)
from gputailor_exporter.attribution.allocations import Allocation
from gputailor_exporter.metrics import (
    HISTOGRAM_BOUNDS,
    HISTOGRAM_SIGNALS,
    WIDTH,
    Condition,
    Sharing,
)

#: Thresholds of the joint conditions; source: the rules for mixed precision and links.
AMP_SM_LEAST: Final = 0.40
AMP_TENSOR_BELOW: Final = 0.05
AMP_FP32_LEAST: Final = 0.20
AMP_FP64_BELOW: Final = 0.05
LINK_SATURATED_LEAST: Final = 0.6
MINUTE_SECONDS: Final = 60.0

_BUCKETS: Final = len(HISTOGRAM_BOUNDS) + 1
_HISTOGRAM_PLACES: Final = tuple(
    (PLACE[name], str(name)) for name in HISTOGRAM_SIGNALS if name != WIDTH
)
_AMP_PLACES: Final = (SM, TENSOR, FP32, FP64)


class ActivityHistogram:
    """Seconds of one-second values by bucket (not cumulative), and the sum of the values."""

    __slots__ = ("_carry", "buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0.0] * _BUCKETS
        self.total = 0.0
        self._carry = 0.0

    def observe(self, value: float, seconds: float) -> None:
        """Count ``value`` for the whole seconds in ``seconds`` plus what was carried over."""
        carried = self._carry + seconds
        whole = float(int(carried + 0.5))
        self._carry = carried - whole
        if whole:
            self.buckets[bisect_left(HISTOGRAM_BOUNDS, value)] += whole
            self.total += value * whole


class HolderAccount:
    """One container that holds, or lately held, one device."""

    __slots__ = (
        "_gap",
        "_minute",
        "_minute_active",
        "_minute_zeros",
        "active",
        "allocated_seconds",
        "allocation",
        "conditions",
        "device",
        "ended_at",
        "energy",
        "energy_known",
        "histogram_rows",
        "histograms",
        "known",
        "labels",
        "last_active",
        "links",
        "memory_peak",
        "memory_used",
        "observed",
        "signal_rows",
        "since",
        "ticked_at",
    )

    def __init__(
        self,
        labels: tuple[str, ...],
        allocation: Allocation,
        at: float,
        *,
        gap_seconds: float,
        histogram: bool,
    ) -> None:
        self._gap = gap_seconds
        self.labels = labels
        self.signal_rows = tuple((*labels, str(signal)) for signal in SIGNALS)  # by place
        self.histogram_rows = {str(name): (*labels, str(name)) for name in HISTOGRAM_SIGNALS}
        self.allocation = allocation
        self.since = at
        self.ticked_at = at
        self.ended_at: float | None = None
        self.allocated_seconds = 0.0
        self.active = [0.0] * COUNT
        self.observed = [0.0] * COUNT
        self.known = [False] * COUNT
        self.histograms: dict[str, ActivityHistogram] = (
            {str(name): ActivityHistogram() for name in HISTOGRAM_SIGNALS} if histogram else {}
        )
        self.conditions: dict[Condition, float] = {}
        self.links: dict[tuple[str, str], float] = {}
        self.energy = 0.0
        self.energy_known = False
        self.memory_used: float | None = None
        self.memory_peak: float | None = None
        self.last_active: float | None = None
        self._minute = 0
        self._minute_zeros = 0.0
        self._minute_active = False

    @property
    def live(self) -> bool:
        """Whether the container still holds the device."""
        return self.ended_at is None

    @property
    def shares(self) -> bool:
        """Whether the allocation itself says that the device is shared."""
        return self.allocation.sharing not in {Sharing.EXCLUSIVE, Sharing.MIG}

    def held_until(self, at: float) -> float:
        """Return seconds held up to ``at``; 0 for a cycle that began before the allocation did."""
        return max(0.0, at - self.since)

    def inherit(self, device: DeviceAccount) -> None:
        """Start at 0 every counter that is known to be readable on ``device``."""
        if device.shared:
            if device.process_known:
                self._know(PROCESS_PLACES, device.known)
                self.energy_known = device.energy.source is not None
        else:
            self._know(range(COUNT), device.known)
            self.energy_known = device.energy.source is not None
            self.links = {key: self.links.get(key, 0.0) for key in device.links}
            if device.link_known:
                self.conditions.setdefault(Condition.LINK_SATURATED, 0.0)
        known = self.known
        if known[KERNEL] or known[GRAPHICS] or known[SM]:
            self.conditions.setdefault(Condition.ZERO_INSIDE_ACTIVE_MINUTE, 0.0)
        if all(known[place] for place in _AMP_PLACES):
            self.conditions.setdefault(Condition.AMP_CANDIDATE, 0.0)

    def _know(self, places: Iterable[int], known: list[bool]) -> None:
        for place in places:
            if known[place]:
                self.known[place] = True

    def knows_histogram(self, name: str) -> bool:
        """Whether the signals of a histogram are readable here."""
        if name == WIDTH:
            return self.known[KERNEL] and self.known[SM]
        return self.known[PLACE[name]]

    def tick(self, at: float) -> None:
        """Count the time the device is held up to ``at``."""
        if self.ended_at is None and at > self.ticked_at:
            self.allocated_seconds += at - self.ticked_at
            self.ticked_at = at

    def end(self, at: float) -> None:
        """Close the account: gauges vanish, counters stay as they are."""
        self.tick(at)
        self._settle_minute()
        self.ended_at = at
        self.memory_used = None

    def revive(self, at: float) -> None:
        """Go on after the same container was gone for a while; the pause is not counted."""
        self.ended_at = None
        self.since = self.ticked_at = at

    def credit(
        self,
        places: Iterable[int],
        values: list[float],
        seconds: list[float],
        at: float,
        wall: float,
    ) -> None:
        """Add one cycle's values of ``places``; ``seconds`` is ``UNREAD`` where there is none."""
        limit = self.held_until(at)
        active, observed, known = self.active, self.observed, self.known
        for place in places:
            took = min(seconds[place], limit)
            known[place] = True
            active[place] += values[place] * took
            observed[place] += took
        if self.histograms:
            self._fill_histograms(values, seconds, limit)
        for place in (KERNEL, GRAPHICS, SM):  # where a MIG slice has no kernel value
            if seconds[place] >= 0.0:
                self._watch_minute(at, values[place], min(seconds[place], limit))
                if values[place] > 0.0 and at >= self.since:
                    self.last_active = wall
                break
        coded = any(seconds[one] >= 0.0 and values[one] > 0.0 for one in (ENCODER, DECODER))
        if coded and at >= self.since:
            self.last_active = wall

    def _fill_histograms(self, values: list[float], seconds: list[float], limit: float) -> None:
        histograms = self.histograms
        for place, name in _HISTOGRAM_PLACES:
            took = seconds[place]
            if 0.0 < took <= self._gap:
                histograms[name].observe(values[place], min(took, limit))
        both = min(seconds[KERNEL], seconds[SM], limit)
        kernel = values[KERNEL]
        longest = max(seconds[KERNEL], seconds[SM])
        if both > 0.0 and longest <= self._gap and kernel > 0.0:
            histograms[WIDTH].observe(min(1.0, values[SM] / kernel), both)

    def take_device(self, device: DeviceAccount, wall: float) -> None:
        """Credit the device's own values: the container has it, or a MIG instance, for itself."""
        at = device.last_at
        assert at is not None
        values, seconds = device.values, device.seconds
        self.credit(device.read_now, values, seconds, at, wall)
        limit = self.held_until(at)
        if all(0.0 <= seconds[place] <= self._gap for place in _AMP_PLACES):
            both = min(limit, *(seconds[place] for place in _AMP_PLACES))
            held = (
                values[SM] >= AMP_SM_LEAST
                and values[TENSOR] < AMP_TENSOR_BELOW
                and values[FP32] >= AMP_FP32_LEAST
                and values[FP64] < AMP_FP64_BELOW
            )
            self._count(Condition.AMP_CANDIDATE, both if held else 0.0)
        part = self.part_of(device)
        if device.energy.source is not None:
            self.energy_known = True
            self.energy += device.energy.rise * part
        for key, counter in device.links.items():
            self.links[key] = self.links.get(key, 0.0) + counter.rise * part
        if device.link_busy is not None:
            held = device.link_busy >= LINK_SATURATED_LEAST
            self._count(Condition.LINK_SATURATED, min(device.span, limit) if held else 0.0)
        memory = device.reading.memory if device.reading else None
        self.take_memory(None if memory is None else float(memory.used_bytes))

    def part_of(self, device: DeviceAccount) -> float:
        """Return the part of the device's last cycle that this container held it, 0..1."""
        at, elapsed = device.last_at, device.elapsed
        if at is None or elapsed <= 0.0:
            return 0.0
        return min(1.0, self.held_until(at) / elapsed)

    def take_memory(self, used_bytes: float | None) -> None:
        """Take the memory in use now; None while it is unknown (the peak stays)."""
        self.memory_used = used_bytes
        if used_bytes is not None and (self.memory_peak is None or used_bytes > self.memory_peak):
            self.memory_peak = used_bytes

    def _count(self, condition: Condition, seconds: float) -> None:
        self.conditions[condition] = self.conditions.get(condition, 0.0) + seconds

    def _watch_minute(self, at: float, value: float, seconds: float) -> None:
        minute = ceil(at / MINUTE_SECONDS)  # a cycle belongs to the minute it ends in
        if minute != self._minute:
            self._settle_minute()
            self._minute = minute
            self.conditions.setdefault(Condition.ZERO_INSIDE_ACTIVE_MINUTE, 0.0)
        if value > 0.0:
            self._minute_active = True
        else:
            self._minute_zeros += seconds

    def _settle_minute(self) -> None:
        """Zeros count only once their minute is known to have had activity."""
        if self._minute:
            zeros = self._minute_zeros if self._minute_active else 0.0
            self._count(Condition.ZERO_INSIDE_ACTIVE_MINUTE, zeros)
        self._minute_zeros = 0.0
        self._minute_active = False
