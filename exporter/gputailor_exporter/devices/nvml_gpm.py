"""GPM: the driver's own activity counters (SM, tensor, memory bandwidth, …), Hopper and later.

Whether a device has them is asked of the driver, never looked up by model. A value is the mean
between two samples, so it covers the time between two readings. Rates over PCIe and NVLink come in
MiB/s and are summed up to bytes here. A GPU instance that is cut into several compute instances has
one set of counters for all of them: it belongs to none, and is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import Reason, SignalReading
from gputailor_exporter.devices.nvml_calls import Calls, call, is_sentinel
from gputailor_exporter.metrics import Signal

SIGNALS: Final[Mapping[int, Signal]] = {
    1: Signal.GRAPHICS,
    2: Signal.SM,
    3: Signal.OCCUPANCY,
    4: Signal.INTEGER,
    5: Signal.TENSOR,
    10: Signal.DRAM,
    11: Signal.FP64,
    12: Signal.FP32,
    13: Signal.FP16,
}
#: Metric -> (link, direction), in MiB/s.
RATES: Final[Mapping[int, tuple[str, str]]] = {
    20: ("pcie", "tx"),
    21: ("pcie", "rx"),
    60: ("nvlink", "rx"),
    61: ("nvlink", "tx"),
}
MIB: Final = 1024 * 1024
#: Two samples must lie at least this far apart (NVML's documentation: 100 ms).
LEAST_SECONDS: Final = 0.1
#: No link of a GPU moves more than this; a higher rate is a broken counter. MiB/s; NVLink 5 has
#: 0.9 TB/s in each direction (NVIDIA Blackwell data sheet).
MOST_MIB_PER_SECOND: Final = 4e6
#: From this kernel activity on, SM counters at exactly zero cannot be true: a running kernel keeps
#: at least one warp resident. Below, the two intervals may simply not coincide.
KERNEL_CONTRADICTS: Final = 0.3


@dataclass
class GpmReading:
    """Signals since the previous sample, and bytes over links since the first one."""

    signals: dict[Signal, SignalReading] = field(default_factory=dict)
    link_bytes: dict[str, dict[str, int]] = field(default_factory=dict)  # by link, direction


class Gpm:
    """The GPM samples of one device. ``board`` is the GPU's handle, also for a MIG instance."""

    def __init__(self, board: Any, gpu_instance: int | None, *, divided: bool) -> None:
        """``divided``: several compute instances share the GPU instance."""
        self._board = board
        self._gpu_instance = gpu_instance
        self.divided = divided
        self._supported: bool | None = None
        self._round = 0
        self._samples: list[Any] = []  # older, newer
        self._sampled_at: float | None = None
        self._bytes: dict[int, float] = {}

    def read(self, calls: Calls, at: float) -> GpmReading:
        """Sample at monotonic time ``at`` and give the means since the sample before."""
        reason = self._sample(calls, at)
        if isinstance(reason, Reason):
            calls.reasons.update(dict.fromkeys(SIGNALS.values(), reason))
            return GpmReading()
        metrics = pynvml.c_nvmlGpmMetricsGet_t()
        metrics.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        wanted = (*SIGNALS, *RATES)
        metrics.numMetrics = len(wanted)
        metrics.sample1, metrics.sample2 = self._samples
        for i, metric in enumerate(wanted):
            metrics.metrics[i].metricId = metric
        if calls.ask("gpm", "nvmlGpmMetricsGet", metrics) is None:
            calls.reasons.update(dict.fromkeys(SIGNALS.values(), calls.reasons.pop("gpm")))
            return GpmReading()
        return self._interpret(calls, metrics.metrics[: len(wanted)], covers_seconds=reason)

    def close(self) -> None:
        """Give the samples back to the driver."""
        for sample in self._samples:
            call("nvmlGpmSampleFree", sample)
        self._samples = []

    def _sample(self, calls: Calls, at: float) -> float | Reason:
        """Take a sample: seconds since the one before, or why there is nothing to compare."""
        if self.divided:
            return Reason.NOT_ATTRIBUTABLE
        if not self._ready(calls):
            return calls.reasons.pop("gpm", Reason.NOT_SUPPORTED)
        before = self._sampled_at
        if before is not None and at - before < LEAST_SECONDS:
            return Reason.NO_SAMPLES
        self._samples.reverse()  # the oldest is written over
        self._sampled_at = None
        if self._gpu_instance is None:
            taken = calls.ask("gpm", "nvmlGpmSampleGet", self._board, self._samples[1])
        else:
            arguments = (self._board, self._gpu_instance, self._samples[1])
            taken = calls.ask("gpm", "nvmlGpmMigSampleGet", *arguments)
        if taken is None:
            return calls.reasons.pop("gpm")
        self._sampled_at = at
        return Reason.NO_SAMPLES if before is None else at - before

    def _ready(self, calls: Calls) -> bool:
        if not self._supported and self._round != calls.rounds:
            self._supported, self._round = None, calls.rounds
        if self._supported is None:
            support = calls.ask("gpm", "nvmlGpmQueryDeviceSupport", self._board)
            if support is None:
                return False
            self._supported = bool(support.isSupportedDevice)
        if self._supported and not self._samples:
            samples = [calls.ask("gpm", "nvmlGpmSampleAlloc") for _ in range(2)]
            if None in samples:
                return False
            self._samples = samples
        return bool(self._supported)

    def _interpret(self, calls: Calls, metrics: list[Any], covers_seconds: float) -> GpmReading:
        reading = GpmReading()
        for metric in metrics:
            signal = SIGNALS.get(metric.metricId)
            if signal is None:
                self._count(metric, covers_seconds)
            elif metric.nvmlReturn != pynvml.NVML_SUCCESS:
                calls.reasons[signal] = Reason.NOT_SUPPORTED
            else:
                value = calls.ratio(signal, metric.value)
                if value is not None:
                    reading.signals[signal] = SignalReading(value, covers_seconds)
        for metric, total in self._bytes.items():
            link, direction = RATES[metric]
            reading.link_bytes.setdefault(link, {})[direction] = int(total)
        return reading

    def _count(self, metric: Any, covers_seconds: float) -> None:
        """Sum a rate up; a value that cannot be adds nothing."""
        if metric.nvmlReturn != pynvml.NVML_SUCCESS or is_sentinel(metric.value):
            return
        if 0.0 <= metric.value <= MOST_MIB_PER_SECOND:
            grown = self._bytes.get(metric.metricId, 0.0) + metric.value * MIB * covers_seconds
            self._bytes[metric.metricId] = grown


def contradicted(signals: Mapping[Signal, SignalReading]) -> bool:
    """Whether the GPM counters stand still while the driver says that kernels run.

    After some errors (Xid 31) the counters stay at 0 on a busy device: that is unknown, not idle.
    """
    kernel = signals.get(Signal.KERNEL)
    witnesses = [signals[s].value for s in (Signal.GRAPHICS, Signal.SM) if s in signals]
    busy = kernel is not None and kernel.value >= KERNEL_CONTRADICTS
    return busy and bool(witnesses) and not any(witnesses)
