"""Utilisation from the NVIDIA driver's sample buffers, and each process's part of it.

The driver samples utilisation every 1/6 to 1 s into buffers of its own. Reading a buffer since the
last sample seen loses no burst, whatever our own rhythm; the rates call alone would be a point
sample. A buffer may run dry (idle GPUs, some drivers): then the rates call stands in, so that an
idle device is measured and does not look dead.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import fsum
from statistics import fmean, median
from typing import Any, Final, TypeAlias

import pynvml

from gputailor_exporter.devices.base import ProcessReading, Reason, SignalReading
from gputailor_exporter.devices.nvml_calls import Calls, ratio
from gputailor_exporter.devices.nvml_lists import Lists
from gputailor_exporter.metrics import Signal

BUFFERS: Final[dict[Signal, int]] = {
    Signal.KERNEL: pynvml.NVML_GPU_UTILIZATION_SAMPLES,
    Signal.MEMCOPY: pynvml.NVML_MEMORY_UTILIZATION_SAMPLES,
    Signal.ENCODER: pynvml.NVML_ENC_UTILIZATION_SAMPLES,
    Signal.DECODER: pynvml.NVML_DEC_UTILIZATION_SAMPLES,
}
#: What tells a signal without a buffer.
RATES: Final[dict[Signal, str]] = {
    Signal.KERNEL: "nvmlDeviceGetUtilizationRates",
    Signal.MEMCOPY: "nvmlDeviceGetUtilizationRates",
    Signal.ENCODER: "nvmlDeviceGetEncoderUtilization",
    Signal.DECODER: "nvmlDeviceGetDecoderUtilization",
}
#: A sample stands for the time since the one before, at most this long: drivers sample at least
#: once a second (NVML's documentation), so more is a gap and not observed.
MOST_SAMPLE_SECONDS: Final = 1.1
#: Means are told to so many decimals; the driver's samples are whole percents.
_DIGITS: Final = 9
#: A buffer without a new sample for this long is dry; earlier, the next sample is merely not due.
DRY_AFTER_SECONDS: Final = 2.0
#: How often the buffer of a signal that rests is read; drivers keep 16 s and more. Kernel activity
#: is always read at the full rhythm, for its one-second values count; memory copies never are, for
#: no container's second is told of them.
REST_SECONDS: Final = 4.0
#: How often the processes of a device are listed that nobody wants to know of: what cannot be read
#: of them is known all the same, and a check of the node shows them.
UNWANTED_SECONDS: Final = 10.0
#: How often a list of graphics or MPS processes that was empty is asked for again; a process that
#: works is told at once by its utilisation.
EMPTY_SECONDS: Final = 4.0
#: Device activity from which on empty process samples prove nothing about the processes.
BUSY: Final = 0.02

#: Kernel, encoder and decoder use of one process, 0..1.
Used: TypeAlias = tuple[float, float, float]

_FIELDS: Final[dict[int, str]] = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


def value_of(kind: int, value: Any) -> float:
    """Member of NVML's value union that the type number names; NaN for an unknown type."""
    number: float = getattr(value, _FIELDS[kind]) if kind in _FIELDS else float("nan")
    return number  # an integer stays one: counters do not fit a float


class SampleBuffer:
    """Reads one sample buffer of one device without gaps and without counting twice."""

    def __init__(self, signal: Signal, lists: Lists) -> None:
        """Nothing is read yet. ``lists`` are the device's."""
        self._signal = signal
        self._lists = lists
        self._newest: int | None = None  # microseconds of the driver's clock
        self._newest_at = 0.0  # our monotonic time when it was read
        self._asked_at = 0.0  # our monotonic time of the last reading
        self._continuous = False
        self._value = 0.0
        self._rests = False  # it was 0 in all samples of the last reading, or may wait

    def read(self, calls: Calls, handle: Any, at: float) -> SignalReading | None:
        """Mean since the last sample seen; None where the buffer has nothing to say.

        ``covers_seconds`` comes from the samples' own times; 0 while the next one is not due.
        """
        since_asked = at - self._asked_at
        if self._rests and since_asked < REST_SECONDS:
            return SignalReading(self._value, 0.0)
        self._asked_at = at
        rows = self._rows(calls, handle, self._newest or 0)
        if self._newest is None:  # what lies in the buffer is from before our time
            if rows:
                self._restart(rows[-1][0], at)
            return None
        fresh = [row for row in rows if row[0] > (self._newest or 0)]
        if fresh and not self._continuous:  # the time before was told by the rates call
            fresh = [row for row in fresh if row[0] > fresh[-1][0] - since_asked * 1e6]
        if fresh:
            return self._mean(fresh, at)
        if self._continuous and at - self._newest_at < DRY_AFTER_SECONDS:
            return SignalReading(self._value, 0.0)
        self._continuous = self._rests = False
        self._follow_clock(calls, handle, at)
        return None

    def _rows(self, calls: Calls, handle: Any, since: int) -> list[tuple[int, float]]:
        """Samples (microseconds, 0..1) that can be true, oldest first."""
        kind = BUFFERS[self._signal]
        arguments = ("nvmlDeviceGetSamples", handle, kind, since)
        answer = calls.ask(self._signal, *arguments, variant=kind, by=self._lists.samples)
        if answer is None:
            return []
        told = [(when, ratio(percent)) for when, percent in answer if when > 0]
        rows = [(when, value) for when, value in told if value is not None]
        if answer and not rows:
            calls.reasons[self._signal] = Reason.INVALID_VALUE
        return sorted(rows)

    def _restart(self, newest: int, at: float) -> None:
        self._newest, self._newest_at, self._continuous = newest, at, True

    def _mean(self, rows: list[tuple[int, float]], at: float) -> SignalReading:
        times = [self._newest or 0, *(when for when, _ in rows)]
        spans = [
            min((later - earlier) / 1e6, MOST_SAMPLE_SECONDS) for earlier, later in pairwise(times)
        ]
        if not self._continuous:
            spans[0] = min(spans[0], median(spans[1:] or [1 / 6]))
        covered = fsum(spans)
        weighted = fsum(span * value for span, (_, value) in zip(spans, rows, strict=True))
        # A level that stays at a histogram's bound is to stay in its bucket, whatever the spans.
        self._value = round(weighted / covered, _DIGITS)
        idle = weighted == 0.0 and self._signal is not Signal.KERNEL
        self._rests = idle or self._signal is Signal.MEMCOPY
        self._restart(rows[-1][0], at)
        return SignalReading(self._value, covered)

    def _follow_clock(self, calls: Calls, handle: Any, at: float) -> None:
        """A clock that was set back would hide all samples until it has caught up: start anew."""
        rows = self._rows(calls, handle, 0)
        if rows and rows[-1][0] < (self._newest or 0):
            self._restart(rows[-1][0], at)


def codec_or_rates(calls: Calls, handle: Any, signal: Signal) -> SignalReading | None:
    """Utilisation without a buffer: a mean over the driver's last period, of unstated span."""
    answer, percent = calls.ask(signal, RATES[signal], handle), None
    if answer is not None:
        if signal is Signal.KERNEL:
            percent = answer.gpu
        else:
            percent = answer.memory if signal is Signal.MEMCOPY else answer[0]
    value = calls.ratio(signal, percent)
    return None if value is None else SignalReading(value)


class Processes:
    """The processes of one device and, where the driver tells, what each used."""

    def __init__(self, lists: Lists) -> None:
        """Nothing is read yet. ``lists`` are the device's."""
        self._lists = lists
        self._newest = 0  # microseconds of the driver's clock
        self._empty_until: dict[str, float] = {}  # kind of list -> when it is asked for again
        self._used: dict[int, Used] = {}
        self._used_at: float | None = None
        self._followed_at = 0.0
        self._read_at: float | None = None
        self._reasons: dict[str, Reason] = {}  # of the last reading
        self._skipped = False  # since the last reading

    def read(
        self,
        calls: Calls,
        handle: Any,
        at: float,
        kernel: SignalReading | None,
        *,
        wanted: bool = True,
    ) -> tuple[tuple[ProcessReading, ...] | None, bool]:
        """Processes (None: unreadable) and whether their utilisation can be trusted.

        Where they are not ``wanted`` they are listed every ``UNWANTED_SECONDS``, and None between.
        """
        before = self._read_at
        if not wanted and before is not None and at - before < UNWANTED_SECONDS:
            calls.reasons.update(self._reasons)
            self._skipped = True
            return None, False
        if self._skipped:  # what was used meanwhile is no part of this cycle
            self._newest, self._used_at, self._skipped = 0, None, False
        self._read_at = at
        others = set(calls.reasons)
        found = self._read(calls, handle, at, kernel)
        self._reasons = {n: reason for n, reason in calls.reasons.items() if n not in others}
        return found

    def _read(
        self, calls: Calls, handle: Any, at: float, kernel: SignalReading | None
    ) -> tuple[tuple[ProcessReading, ...] | None, bool]:
        memory = self._memory(calls, handle, at)
        used = self._utilization(calls, handle, at, kernel)
        if memory is None:
            return None, False
        if used is None:
            return tuple(ProcessReading(pid, memory[pid]) for pid in sorted(memory)), False
        none = (0.0, 0.0, 0.0)
        return tuple(
            ProcessReading(pid, memory.get(pid), *used.get(pid, none))
            for pid in sorted(memory.keys() | used.keys())
        ), True

    def _memory(self, calls: Calls, handle: Any, at: float) -> dict[int, int | None] | None:
        """Process id -> bytes (None: not told). A process may be in several lists: the largest."""
        found: dict[int, int | None] = {}
        known = False
        for kind in ("Compute", "MPSCompute", "Graphics"):
            if at < self._empty_until.get(kind, at):
                continue
            value = "processes" if kind == "Compute" else f"processes_{kind.lower()}"
            by = partial(self._lists.processes, kind)
            rows = calls.ask(value, f"nvmlDeviceGet{kind}RunningProcesses_v3", handle, by=by)
            if kind != "Compute":
                calls.reasons.pop(value, None)  # a driver without MPS or graphics lacks nothing
            if rows is None:
                continue
            if not rows and kind != "Compute":
                self._empty_until[kind] = at + EMPTY_SECONDS
            known = known or kind == "Compute"
            for row in rows:
                sizes = (found.get(row.pid), _bytes(row.usedGpuMemory))
                found[row.pid] = max((s for s in sizes if s is not None), default=None)
        if None in found.values():
            calls.reasons["process_memory"] = Reason.NOT_SUPPORTED
        return found if known else None

    def _utilization(
        self, calls: Calls, handle: Any, at: float, kernel: SignalReading | None
    ) -> dict[int, Used] | None:
        """Process id -> use; None where it cannot be known.

        No activity at all is an idle device, or a driver that tells nothing (seen on Blackwell):
        only the device's own activity can tell the two apart.
        """
        value = "process_utilization"
        rows = self._rows(calls, handle)
        if calls.reasons.get(value) not in {None, Reason.NO_SAMPLES}:
            return None
        by_process: dict[int, list[Any]] = defaultdict(list)
        for row in rows:
            by_process[row.pid].append(row)
        used: dict[int, Used] = {}
        for pid, its_rows in by_process.items():
            means = _means(its_rows)
            if means is None:
                calls.reasons[value] = Reason.INVALID_VALUE
                return None
            used[pid] = means
        believed = self._believed(calls, used, at, kernel)
        if believed is None and not used:
            self._follow_clock(calls, handle, at)
        return believed

    def _follow_clock(self, calls: Calls, handle: Any, at: float) -> None:
        """A clock that was set back would hide all rows until it has caught up: start anew."""
        if self._newest == 0 or at - self._followed_at < DRY_AFTER_SECONDS:
            return
        self._followed_at = at
        newest, self._newest = self._newest, 0
        reasons = dict(calls.reasons)
        self._rows(calls, handle)
        calls.reasons = reasons
        if self._newest == 0 or self._newest >= newest:
            self._newest = newest

    def _believed(
        self, calls: Calls, used: dict[int, Used], at: float, kernel: SignalReading | None
    ) -> dict[int, Used] | None:
        value = "process_utilization"
        calls.reasons.pop(value, None)
        if any(use[0] > 0.0 for use in used.values()):
            self._used, self._used_at = used, at
            return used
        if kernel is not None and kernel.value <= BUSY:
            return used
        if not used and self._used_at is not None and at - self._used_at < DRY_AFTER_SECONDS:
            return self._used  # the next sample is merely not due
        calls.reasons[value] = Reason.CONTRADICTED if used else Reason.NO_SAMPLES
        return None

    def _rows(self, calls: Calls, handle: Any) -> list[Any]:
        """New rows of real processes, asked for once."""
        value = "process_utilization"
        functions = {
            "nvmlDeviceGetProcessUtilization": self._lists.utilization,
            "nvmlDeviceGetProcessesUtilizationInfo": self._lists.utilization_info,
        }
        answer = None
        for function, by in functions.items():
            answer = calls.ask(value, function, handle, self._newest, by=by)
            if calls.reasons.get(value) not in {Reason.NOT_SUPPORTED, Reason.FUNCTION_NOT_FOUND}:
                break
        # buffers may end in rows of pid 0, and hold rows older than asked for
        rows = [row for row in answer or () if row.pid > 0 and row.timeStamp > self._newest]
        if rows and self._newest == 0:  # the first time, rows of long ended processes lie there
            latest = max(row.timeStamp for row in rows)
            rows = [row for row in rows if latest - row.timeStamp <= MOST_SAMPLE_SECONDS * 1e6]
        self._newest = max((row.timeStamp for row in rows), default=self._newest)
        return rows


def _bytes(memory: int | None) -> int | None:
    return memory if memory is not None and memory < 1 << 62 else None


def _means(rows: Sequence[Any]) -> Used | None:
    """Mean kernel, encoder and decoder use of a process's rows; None where one is nonsense."""
    means = []
    for name in ("smUtil", "encUtil", "decUtil"):
        values = [ratio(getattr(row, name)) for row in rows]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        means.append(fmean(known))
    return means[0], means[1], means[2]
