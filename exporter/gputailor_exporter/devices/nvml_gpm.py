"""GPM: the driver's own activity counters (SM, tensor, memory bandwidth, …), Hopper and later.

Whether a device has them is asked of the driver, never looked up by model. A value is the mean
between two samples, so it covers the time between two readings. Rates over PCIe and NVLink come in
MiB/s and are summed up to bytes here. A GPU instance that is cut into several compute instances has
one set of counters for all of them: it belongs to none, and is left out.
"""

import ctypes
import struct
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import Reason, SignalReading
from gputailor_exporter.devices.nvml_calls import Calls, call
from gputailor_exporter.devices.nvml_counts import is_sentinel
from gputailor_exporter.devices.nvml_dcgm import Holder
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
#: Samples further apart than the longest interval and its gaps have a suspension between them: no
#: mean of them is a measurement.
MOST_SECONDS: Final = 30.0
#: No link of a GPU moves more than this; a higher rate is a broken counter. MiB/s; NVLink 5 has
#: 0.9 TB/s in each direction (NVIDIA Blackwell data sheet).
MOST_MIB_PER_SECOND: Final = 4e6
#: From this kernel activity on, SM counters at exactly zero cannot be true: a running kernel keeps
#: at least one warp resident. Below, the two intervals may simply not coincide.
KERNEL_CONTRADICTS: Final = 0.3
#: A metric of the driver's struct: number, result, value, and pointers that nobody wants.
_METRIC: Final = struct.Struct(f"=IId{ctypes.sizeof(pynvml.c_nvmlGpmMetric_t) - 16}x")


@dataclass
class GpmReading:
    """Signals since the previous sample, and bytes over links since the first one."""

    signals: dict[Signal, SignalReading] = field(default_factory=dict)
    link_bytes: dict[str, dict[str, int]] = field(default_factory=dict)  # by link, direction


class MetricsRequest:
    """The driver's struct for the metrics between two samples, made once and used again.

    It has 19 KB, and the binding's attributes cost as much as the call: what is asked is put back
    by one copy. A metric that the driver leaves out keeps an error, never the number before.
    """

    def __init__(self, wanted: Sequence[int]) -> None:
        """``wanted``: numbers of the metrics."""
        self._struct = pynvml.c_nvmlGpmMetricsGet_t()
        self._struct.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._struct.numMetrics = len(wanted)
        for row, metric in zip(self._struct.metrics, wanted, strict=False):
            row.metricId, row.nvmlReturn = metric, pynvml.NVML_ERROR_UNKNOWN
        self._first = ctypes.addressof(self._struct) + type(self._struct).metrics.offset
        self._size = len(wanted) * _METRIC.size
        used = type(self._struct).metrics.offset + self._size
        self._blank = ctypes.string_at(ctypes.addressof(self._struct), used)

    def ask(self, calls: Calls, older: Any, newer: Any) -> list[tuple[int, float | None]] | None:
        """Metrics and their values (None: not supported); None, with the reason under "gpm"."""
        ctypes.memmove(ctypes.addressof(self._struct), self._blank, len(self._blank))
        self._struct.sample1, self._struct.sample2 = older, newer
        if calls.ask("gpm", "nvmlGpmMetricsGet", self._struct) is None:
            return None
        good = pynvml.NVML_SUCCESS
        return [
            (metric, value if result == good else None)
            for metric, result, value in _METRIC.iter_unpack(
                ctypes.string_at(self._first, self._size)
            )
        ]


class Gpm:
    """The GPM samples of one device. ``board`` is the GPU's handle, also for a MIG instance."""

    def __init__(
        self,
        board: Any,
        gpu_instance: int | None,
        *,
        divided: bool,
        collectors: Container[str],
        holder: Holder,
    ) -> None:
        """``divided``: several compute instances share the GPU instance."""
        rates = (metric for metric, (link, _) in RATES.items() if link in collectors)
        self._request = MetricsRequest((*SIGNALS, *rates)) if "gpm" in collectors else None
        self._holder = holder
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
        if self._request is None:
            return GpmReading()
        reason = self._holder.holding(at) or self._sample(calls, at)
        if reason is Reason.IN_USE:
            reason = self._holder.holding(at) or self._holder.refused(at)
        if isinstance(reason, Reason):
            calls.reasons.update(dict.fromkeys(SIGNALS.values(), reason))
            return GpmReading()
        values = self._request.ask(calls, *self._samples)
        if values is None:
            calls.reasons.update(dict.fromkeys(SIGNALS.values(), calls.reasons.pop("gpm")))
            return GpmReading()
        return self._interpret(calls, values, covers_seconds=reason)

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
        if before is None or at - before > MOST_SECONDS:
            return Reason.NO_SAMPLES
        return at - before

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

    def _interpret(
        self, calls: Calls, values: Sequence[tuple[int, float | None]], covers_seconds: float
    ) -> GpmReading:
        reading = GpmReading()
        for metric, number in values:
            signal = SIGNALS.get(metric)
            if signal is None:
                self._count(metric, number, covers_seconds)
            elif number is None:
                calls.reasons[signal] = Reason.NOT_SUPPORTED
            else:
                value = calls.ratio(signal, number)
                if value is not None:
                    reading.signals[signal] = SignalReading(value, covers_seconds)
        for metric, total in self._bytes.items():
            link, direction = RATES[metric]
            reading.link_bytes.setdefault(link, {})[direction] = int(total)
        return reading

    def _count(self, metric: int, rate: float | None, covers_seconds: float) -> None:
        """Sum a rate up; a value that cannot be adds nothing."""
        if rate is None or is_sentinel(rate):
            return
        if 0.0 <= rate <= MOST_MIB_PER_SECOND:
            grown = self._bytes.get(metric, 0.0) + rate * MIB * covers_seconds
            self._bytes[metric] = grown


def contradicted(signals: Mapping[Signal, SignalReading]) -> bool:
    """Whether the GPM counters stand still while the driver says that kernels run.

    After some errors (Xid 31) the counters stay at 0 on a busy device: that is unknown, not idle.
    """
    kernel = signals.get(Signal.KERNEL)
    witnesses = [signals[s].value for s in (Signal.GRAPHICS, Signal.SM) if s in signals]
    busy = kernel is not None and kernel.value >= KERNEL_CONTRADICTS
    return busy and bool(witnesses) and not any(witnesses)
