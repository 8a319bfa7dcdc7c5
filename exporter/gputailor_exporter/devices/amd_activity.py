"""Activity of an AMD device between two tables of metrics.

The firmware adds the busy percentage up each millisecond (``gfx_activity_acc``,
``mem_activity_acc``; described by ROCm SMI's ``rsmi_utilization_count_get``), so that the mean over
any interval is exact and nothing is lost between readings. From table 1.6 on the number of
additions is told too; before, the firmware's clock stands in for it. Where a device has no
accumulator its filtered average stands for the time since the previous cycle.
"""

from typing import Final

from gputailor_exporter.devices.amd_metrics import FIRMWARE_TICK, RESIDENCIES, GpuMetrics
from gputailor_exporter.devices.base import SignalReading
from gputailor_exporter.metrics import Signal, ThrottleReason

_WRAP: Final = 2**32
#: Additions a second where their number is not told.
_ADDITIONS_PER_SECOND: Final = 1000.0
#: Firmware and driver read their clocks at different times; beyond this a ratio is nonsense.
_TOLERANCE: Final = 0.02
#: Longer than this between two tables is no interval but a new start.
_LONGEST_SECONDS: Final = 3600.0

#: From this content revision on the memory figure is the share of bandwidth in use (SMU 13.0.6:
#: DramBandwidthUtilization), before it is the time the controller was busy.
BANDWIDTH_CONTENT: Final = 4

#: What throttles, by bit of the device-independent status (kernel: ``amdgpu_smu.h``): power limits
#: 0-7, currents 16-23, temperatures 32-43, then what hardware alone decides.
_BITS: Final[tuple[tuple[range, ThrottleReason], ...]] = (
    (range(8), ThrottleReason.SW_POWER_CAP),
    (range(16, 24), ThrottleReason.SW_POWER_CAP),
    (range(32, 44), ThrottleReason.SW_THERMAL_SLOWDOWN),
    (range(44, 46), ThrottleReason.HW_THERMAL_SLOWDOWN),
    (range(46, 48), ThrottleReason.HW_THERMAL_SLOWDOWN),
    (range(56, 58), ThrottleReason.HW_SLOWDOWN),
)
_RESIDENCY_REASONS: Final = {
    "prochot": ThrottleReason.HW_THERMAL_SLOWDOWN,
    "ppt": ThrottleReason.SW_POWER_CAP,
    "socket_thermal": ThrottleReason.SW_THERMAL_SLOWDOWN,
    "vr_thermal": ThrottleReason.SW_THERMAL_SLOWDOWN,
    "hbm_thermal": ThrottleReason.SW_THERMAL_SLOWDOWN,
}


def memory_signal(metrics: GpuMetrics) -> Signal:
    """Return which signal the memory figure is: bandwidth, or time the controller was busy."""
    return Signal.DRAM if metrics.content >= BANDWIDTH_CONTENT else Signal.MEMCOPY


class Activity:
    """Means between two tables of one device, or of one of its partitions."""

    def __init__(self, partition: int | None = None) -> None:
        """``partition``: its number; None for the whole device."""
        self._partition = partition
        self._before: GpuMetrics | None = None
        self._owed = dict.fromkeys(map(str, ThrottleReason), 0.0)

    def advance(self, now: GpuMetrics) -> tuple[dict[Signal, SignalReading], frozenset[str] | None]:
        """Take a table; return the signals since the one before, and what throttled."""
        before, self._before = self._before, now
        if before is None or before.content != now.content:
            return self._averages(now, {}), None if self._partition is not None else _by_bits(now)
        signals = self._accumulated(before, now)
        return self._averages(now, signals), self._throttle(before, now)

    def _accumulated(self, before: GpuMetrics, now: GpuMetrics) -> dict[Signal, SignalReading]:
        seconds = _seconds(before, now)
        additions = _additions(before, now)
        if seconds is None or not additions:
            return {}
        found: dict[Signal, SignalReading] = {}
        if self._partition is not None:
            value = _partition_mean(before, now, self._partition, additions)
            if value is not None:
                found[Signal.KERNEL] = SignalReading(value, seconds)
            return found
        for signal, first, last, average in (
            (Signal.KERNEL, before.gfx_acc, now.gfx_acc, now.gfx_percent),
            (memory_signal(now), before.mem_acc, now.mem_acc, now.umc_percent),
        ):
            value = _mean(first, last, additions)
            if value == 0.0 and first == last and average:
                continue  # an accumulator that stands still on a busy device is none
            if value is not None:
                found[signal] = SignalReading(value, seconds)
        return found

    def _averages(
        self, now: GpuMetrics, found: dict[Signal, SignalReading]
    ) -> dict[Signal, SignalReading]:
        """Add the filtered averages of what has no accumulated value."""
        percents: dict[Signal, float | None]
        if self._partition is None:
            percents = {
                Signal.KERNEL: now.gfx_percent,
                memory_signal(now): now.umc_percent,
                Signal.DECODER: now.video_percent,
            }
        else:
            parts = now.partitions[self._partition : self._partition + 1]
            codecs = parts[0].vcn_percent if parts else ()
            percents = {Signal.DECODER: sum(codecs) / len(codecs) if codecs else None}
        for signal, percent in percents.items():
            if signal not in found and percent is not None:
                found[signal] = SignalReading(percent / 100.0)
        return found

    def _throttle(self, before: GpuMetrics, now: GpuMetrics) -> frozenset[str] | None:
        """Return the reasons to count for this cycle.

        Residencies are shares of the cycle; a cycle is counted whole, or not. What is owed is
        carried over, so that the seconds counted stay within half a cycle of those throttled.
        """
        if self._partition is not None:
            return None  # the board's, not the partition's
        ticks = _rise(before.ticks, now.ticks)
        if not ticks or not now.residencies:
            return _by_bits(now)
        shares: dict[str, float] = {}
        for name in RESIDENCIES:
            rise = _rise(before.residencies.get(name), now.residencies.get(name))
            if rise is not None and rise <= ticks * (1 + _TOLERANCE):
                reason = str(_RESIDENCY_REASONS[name])
                shares[reason] = max(shares.get(reason, 0.0), rise / ticks)
        counted = set()
        for reason, share in shares.items():
            self._owed[reason] += share
            if self._owed[reason] >= 0.5:  # noqa: PLR2004 - half a cycle: rounded
                self._owed[reason] -= 1.0
                counted.add(reason)
        return frozenset(counted)


def _by_bits(now: GpuMetrics) -> frozenset[str] | None:
    if now.throttlers is None:
        return frozenset() if now.residencies else None
    return frozenset(
        str(reason) for bits, reason in _BITS if any(now.throttlers >> bit & 1 for bit in bits)
    )


def _rise(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else (last - first) % _WRAP


def _seconds(before: GpuMetrics, now: GpuMetrics) -> float | None:
    """Return the time between two tables by the driver's clock, else the firmware's."""
    for first, last, unit in (
        (before.system_time, now.system_time, 1e-9),
        (before.firmware_time, now.firmware_time, FIRMWARE_TICK),
    ):
        if first is not None and last is not None and 0 < (last - first) * unit < _LONGEST_SECONDS:
            return (last - first) * unit
    return None


def _additions(before: GpuMetrics, now: GpuMetrics) -> float | None:
    ticks = _rise(before.ticks, now.ticks)
    if ticks is not None:
        return float(ticks)
    for first, last, unit in (
        (before.firmware_time, now.firmware_time, FIRMWARE_TICK),
        (before.system_time, now.system_time, 1e-9),
    ):
        if first is not None and last is not None and last > first:
            return (last - first) * unit * _ADDITIONS_PER_SECOND
    return None


def _mean(first: int | None, last: int | None, additions: float) -> float | None:
    """Return the mean share, 0..1; None where a counter is missing or began anew."""
    rise = _rise(first, last)
    value = None if rise is None else rise / additions / 100.0
    return None if value is None or value > 1.0 + _TOLERANCE else min(value, 1.0)


def _partition_mean(
    before: GpuMetrics, now: GpuMetrics, partition: int, additions: float
) -> float | None:
    """Return the mean over the partition's compute dies."""
    if partition >= min(len(before.partitions), len(now.partitions)):
        return None
    first, last = before.partitions[partition].busy_acc, now.partitions[partition].busy_acc
    if not last or len(first) != len(last):
        return None
    means = [_mean(a % _WRAP, b % _WRAP, additions) for a, b in zip(first, last, strict=True)]
    known = [mean for mean in means if mean is not None]
    return sum(known) / len(known) if len(known) == len(means) else None
