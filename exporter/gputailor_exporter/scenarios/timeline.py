"""What one simulated device does over time, as pure functions of an interval of Unix time.

Everything is an exact mean over the interval, so a reading of an hour equals the weighted mean of
its minutes. Memory is the value at the interval's end, as a driver would answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gputailor_exporter.devices.base import (
    DeviceError,
    DeviceReading,
    Memory,
    PcieLink,
    ProcessReading,
    Reason,
    SignalReading,
)
from gputailor_exporter.metrics import Sharing, Signal
from gputailor_exporter.scenarios.values import Device, Hold, Missing

_IDLE_CELSIUS = 32.0
_LOAD_CELSIUS = 44.0  # added at full power
_IDLE_CLOCK_HERTZ = 210e6
_LANES = 16


@dataclass(frozen=True, slots=True)
class Sample:
    """Means over one interval; byte counts are those of the interval."""

    signals: dict[Signal, SignalReading]
    unavailable: dict[str, Reason]
    memory: Memory | None
    power_watts: float | None
    processes: tuple[ProcessReading, ...]
    processes_known: bool
    busy: bool
    pcie_bytes: tuple[float, float] | None  # rx, tx
    nvlink_bytes: tuple[float, float] | None


class DeviceTimeline:
    """One device with its holders and its missing windows."""

    def __init__(
        self, device: Device, holds: Iterable[Hold], missing: Iterable[Missing],
        spoken: frozenset[Signal],
    ) -> None:  # fmt: skip
        """Cut time at every change of holders; a MIG parent gets the holders of its instances."""
        self.device = device
        self.holds = tuple(holds)
        self.missing = tuple(missing)
        self.signals = tuple(signal for signal in Signal if signal in device.signals & spoken)
        self._unavailable = {
            signal.value: Reason.NOT_SUPPORTED for signal in Signal if signal not in self.signals
        }
        times = {hold.start for hold in self.holds} | {hold.end for hold in self.holds}
        self.edges = sorted(times)
        self._active = [self._between(index) for index in range(len(self.edges) + 1)]
        rates = [hold.activity.nvlink_bytes_per_second for hold in self.holds]
        self._has_nvlink = any(max(pair) > 0 for pair in rates)
        self._instance = device.sharing is Sharing.MIG
        self._zeros: dict[float, dict[Signal, SignalReading]] = {}

    def _between(self, index: int) -> tuple[Hold, ...]:
        if index == 0:
            return ()
        at = self.edges[index - 1]
        return tuple(hold for hold in self.holds if hold.start <= at < hold.end)

    def active(self, at: float) -> tuple[Hold, ...]:
        """Holders at this instant; one that ends now is gone, one that begins now is there."""
        return self._active[bisect_right(self.edges, at)]

    def _parts(self, start: float, end: float) -> Iterator[tuple[float, float, tuple[Hold, ...]]]:
        first, last = bisect_right(self.edges, start), bisect_left(self.edges, end)
        for index in range(first, last + 1):
            low = start if index == first else self.edges[index - 1]
            high = end if index == last else self.edges[index]
            if high > low:
                yield low, high, self._active[index]

    def work(self, start: float, end: float) -> list[tuple[Hold, float]]:
        """Seconds of full intensity of each holder within the interval."""
        return [
            (hold, hold.activity.shape.integral(low, high, hold.start))
            for low, high, holds in self._parts(start, end)
            for hold in holds
        ]

    def sample(self, start: float, end: float) -> Sample:
        """Return the means over [start, end]; raises ``DeviceError`` while the device is lost."""
        windows = [one for one in self.missing if one.start < end and one.end > start]
        for window in windows:
            if window.device and window.start < end <= window.end:
                raise DeviceError(window.reason, "the scenario says the device is lost here")
        work = self.work(start, end)
        unavailable = self._unavailable
        signals = self._means(work, end - start)
        if windows:
            signals, unavailable = self._holed(signals, windows, start, end)
        holders = self._active[bisect_left(self.edges, end)]
        known = self.device.replicas > 1 and Signal.KERNEL in signals
        return Sample(
            signals=signals,
            unavailable=unavailable,
            memory=self._memory(holders, end),
            power_watts=None if self._instance else self._power(start, end, work),
            processes=self._processes(holders, work, start, end, known=known),
            processes_known=known,
            busy=any(seconds > 0 for _, seconds in work),
            pcie_bytes=None if self._instance else self._bytes(work, nvlink=False),
            nvlink_bytes=self._bytes(work, nvlink=True) if self._has_nvlink else None,
        )

    def _means(self, work: list[tuple[Hold, float]], span: float) -> dict[Signal, SignalReading]:
        busy = [(hold.activity.levels, seconds / span) for hold, seconds in work if seconds > 0]
        if not busy:
            zeros = self._zeros.get(span)
            if zeros is None:
                self._zeros.clear()
                zeros = self._zeros[span] = {
                    signal: SignalReading(0.0, span) for signal in self.signals
                }
            return zeros
        if len(busy) == 1:
            levels, share = busy[0]
            return {
                signal: SignalReading(min(levels.get(signal, 0.0) * share, 1.0), span)
                for signal in self.signals
            }
        return {
            signal: SignalReading(
                min(sum(levels.get(signal, 0.0) * share for levels, share in busy), 1.0), span
            )
            for signal in self.signals
        }

    def _holed(
        self, whole: dict[Signal, SignalReading], windows: list[Missing], start: float, end: float
    ) -> tuple[dict[Signal, SignalReading], dict[str, Reason]]:
        """Take the missing windows out of the interval, signal by signal."""
        signals, unavailable = dict(whole), dict(self._unavailable)
        for signal in self.signals:
            mine = [one for one in windows if one.device or one.exporter or signal in one.signals]
            if not mine:
                continue
            parts = _without(start, end, mine)
            seconds = sum(high - low for low, high in parts)
            if seconds <= 0:
                del signals[signal]
                unavailable[signal.value] = mine[0].reason
                continue
            active = sum(
                self._means(self.work(low, high), high - low)[signal].value * (high - low)
                for low, high in parts
            )
            signals[signal] = SignalReading(min(active / seconds, 1.0), seconds)
        return signals, unavailable

    def _memory(self, holders: tuple[Hold, ...], at: float) -> Memory | None:
        if self.device.identity.mig_enabled:
            return None
        used = sum(hold.activity.memory.at(at - hold.start) for hold in holders)
        most = self.device.memory_bytes - self.device.reserved_bytes
        return Memory(self.device.memory_bytes, min(used, most), self.device.reserved_bytes)

    def _power(self, start: float, end: float, work: list[tuple[Hold, float]]) -> float:
        model, span = self.device.model, end - start
        loaded = sum(
            high - low
            for low, high, holds in self._parts(start, end)
            if any(hold.activity.memory.plateau for hold in holds)
        )
        drive = sum(hold.activity.power * hold.device.weight * seconds for hold, seconds in work)
        resting = model.idle_watts + (model.context_watts - model.idle_watts) * loaded / span
        return resting + (model.max_watts - model.context_watts) * min(drive / span, 1.0)

    def _processes(
        self, holders: tuple[Hold, ...], work: list[tuple[Hold, float]], start: float, end: float,
        *, known: bool,
    ) -> tuple[ProcessReading, ...]:  # fmt: skip
        span, readings = end - start, []
        for hold in holders:
            if hold.activity.memory.plateau == 0 or self.device.identity.mig_enabled:
                continue
            memory = hold.activity.memory.at(end - hold.start)
            if not known:
                readings.append(ProcessReading(hold.pid, memory))
                continue
            share = sum(seconds for one, seconds in work if one is hold) / span
            levels = hold.activity.levels
            readings.append(
                ProcessReading(
                    hold.pid,
                    memory,
                    kernel=levels.get(Signal.KERNEL, 0.0) * share,
                    encoder=levels.get(Signal.ENCODER, 0.0) * share,
                    decoder=levels.get(Signal.DECODER, 0.0) * share,
                )
            )
        return tuple(readings)

    @staticmethod
    def _bytes(work: list[tuple[Hold, float]], *, nvlink: bool) -> tuple[float, float]:
        received = sent = 0.0
        for hold, seconds in work:
            one = hold.activity
            rates = one.nvlink_bytes_per_second if nvlink else one.pcie_bytes_per_second
            received += rates[0] * seconds
            sent += rates[1] * seconds
        return received, sent


def _without(start: float, end: float, windows: list[Missing]) -> list[tuple[float, float]]:
    """Return the parts of [start, end] outside all windows."""
    parts, at = [], start
    for window in sorted(windows, key=lambda one: one.start):
        if window.start > at:
            parts.append((at, min(window.start, end)))
        at = max(at, window.end)
    if at < end:
        parts.append((at, end))
    return parts


def to_reading(
    device: Device, sample: Sample, at: float, *, energy_joules: float | None = None,
    pcie_bytes: dict[str, int] | None = None, nvlink_bytes: dict[str, int] | None = None,
) -> DeviceReading:  # fmt: skip
    """Return the sample as a back end's reading; running counters are the caller's to keep."""
    model, power = device.model, sample.power_watts
    if power is None:  # a MIG instance: the parent keeps these
        return DeviceReading(
            at=at,
            signals=sample.signals,
            unavailable=sample.unavailable,
            memory=sample.memory,
            processes=sample.processes,
            nvlink_bytes=nvlink_bytes or {},
        )
    range_watts = model.max_watts - model.idle_watts
    heat = (power - model.idle_watts) / range_watts if range_watts > 0 else 0.0
    clock = model.clock_max_hertz if sample.busy else min(_IDLE_CLOCK_HERTZ, model.clock_max_hertz)
    generation = model.pcie_generation
    return DeviceReading(
        at=at,
        signals=sample.signals,
        unavailable=sample.unavailable,
        memory=sample.memory,
        power_watts=power,
        power_limit_watts=model.max_watts,
        energy_joules=energy_joules,
        temperatures_celsius={"gpu": _IDLE_CELSIUS + _LOAD_CELSIUS * heat},
        clocks_hertz={"sm": clock, "memory": model.memory_clock_hertz},
        clocks_max_hertz={"sm": model.clock_max_hertz, "memory": model.memory_clock_hertz},
        pcie_bytes=pcie_bytes or {},
        pcie_link=PcieLink(generation if sample.busy else 1, generation, _LANES, _LANES),
        nvlink_bytes=nvlink_bytes or {},
        throttle_reasons=frozenset(),
        processes=sample.processes,
        process_utilization_known=sample.processes_known,
    )
