"""What was used: mergeable histograms and hourly rows.

Additive figures are kept on a grid of 1/1024 (``quantise``): sums of such floats are exact, so
merging any set of rows in any order and grouping gives the same profile, bit for bit.
"""

from bisect import bisect_left
from itertools import accumulate
from typing import Final

import msgspec

HOUR_SECONDS: Final = 3600

#: Upper edges (inclusive) of the histogram every source is mapped to. Bucket 0 is exactly zero;
#: bucket i holds (edges[i-1], edges[i]]. A superset of the exporter's bounds.
HISTOGRAM_EDGES: Final[tuple[float, ...]] = tuple(i / 20 for i in range(21))

_GRID: Final = 1024.0


def quantise(value: float) -> float:
    """Round to a multiple of 1/1024, where float sums up to 2**43 are exact."""
    return round(value * _GRID) / _GRID


class Quantile(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile from buckets: the true value lies in [low, high]."""

    q: float
    low: float
    high: float


class Histogram(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Seconds spent in each bucket of ``HISTOGRAM_EDGES``.

    ``resolution`` is the widest bucket of the source that filled it: a coarse source's bucket
    (0.25, 0.5] is counted at 0.5 with resolution 0.25, so a quantile's ``high`` never understates.
    """

    seconds: tuple[float, ...]  # 21 values
    resolution: float = 0.05

    @property
    def total_seconds(self) -> float:
        """Seconds in all buckets."""
        return sum(self.seconds)

    @property
    def zero_seconds(self) -> float:
        """Seconds at exactly zero."""
        return self.seconds[0]

    def merge(self, other: "Histogram") -> "Histogram":
        """Sum of both; the resolution is that of the coarser one."""
        return Histogram(
            seconds=tuple(a + b for a, b in zip(self.seconds, other.seconds, strict=True)),
            resolution=max(self.resolution, other.resolution),
        )

    def quantile(self, q: float) -> Quantile | None:
        """Nearest-rank quantile (``q`` in 0..1) as an interval; None for an empty histogram."""
        total = self.total_seconds
        if total <= 0:
            return None
        seen = list(accumulate(self.seconds))
        place = bisect_left(seen, q * total)
        while place < len(seen) and self.seconds[place] <= 0:  # the lowest rank of all
            place += 1
        edge = HISTOGRAM_EDGES[min(place, len(seen) - 1)]
        low = 0.0 if edge == 0.0 else max(0.0, edge - self.resolution)
        return Quantile(q=q, low=low, high=edge)


class SignalUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One signal over some time. Mean = active / observed. None: this source cannot tell.

    ``awaited_seconds``: the part of the observed time whose histogram is read hours later.
    """

    observed_seconds: float
    active_seconds: float
    maximum: float | None = None  # never understated: upper edge of the highest bucket, or exact
    histogram: Histogram | None = None
    awaited_seconds: float = 0.0

    @property
    def told_seconds(self) -> float:
        """Observed seconds of which the histogram, where there is one, should tell."""
        return max(0.0, self.observed_seconds - self.awaited_seconds)

    @property
    def mean(self) -> float | None:
        """Mean of the signal, 0..1; None when nothing was observed."""
        return self.active_seconds / self.observed_seconds if self.observed_seconds > 0 else None

    def merge(self, other: "SignalUse") -> "SignalUse":
        """Both together; compare ``histogram.total_seconds`` with ``observed_seconds`` for gaps."""
        return SignalUse(
            observed_seconds=self.observed_seconds + other.observed_seconds,
            active_seconds=self.active_seconds + other.active_seconds,
            maximum=_merge_maximum(self, other),
            histogram=_merge_histogram(self, other),
            awaited_seconds=self.awaited_seconds + other.awaited_seconds,
        )


NO_USE: Final = SignalUse(observed_seconds=0.0, active_seconds=0.0)


def _merge_maximum(a: SignalUse, b: SignalUse) -> float | None:
    known = [use.maximum for use in (a, b) if use.maximum is not None]
    return max(known) if known else None


def _merge_histogram(a: SignalUse, b: SignalUse) -> Histogram | None:
    if a.histogram is None or b.histogram is None:
        return a.histogram or b.histogram
    return a.histogram.merge(b.histogram)


class Warmup(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a signal's use that fell into the first 10 minutes of the allocation."""

    observed_seconds: float
    active_seconds: float

    def merge(self, other: "Warmup") -> "Warmup":
        """Sum of both."""
        return Warmup(
            observed_seconds=self.observed_seconds + other.observed_seconds,
            active_seconds=self.active_seconds + other.active_seconds,
        )


class UsageKey(msgspec.Struct, frozen=True, kw_only=True, gc=False, order=True):
    """Key of an hourly row. ``pod_uid`` is '' where unknown, never None; ``hour`` its start."""

    cluster: str
    namespace: str
    pod: str
    pod_uid: str
    container: str
    gpu_uuid: str
    hour: int  # Unix seconds, a multiple of 3600


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one container did with one device in one hour. None: this source cannot tell.

    A row without a pod is of a device of which the source names no holder. The rollup puts
    additive figures on the grid of ``quantise``, bytes of links on whole KiB.
    """

    key: UsageKey
    dialect: str  # who measured: "gputailor", "dcgm", "nvidia_smi", …
    allocated_seconds: float  # by the source's clock; coverage uses the inventory's where known
    share: float = 1.0  # of the device, mean over the allocated time
    signals: dict[str, SignalUse] = msgspec.field(default_factory=dict)
    warmup: dict[str, Warmup] = msgspec.field(default_factory=dict)
    # condition -> seconds; of its device meanwhile: "throttled/…" -> seconds, "xid/…" -> count
    conditions: dict[str, float] = msgspec.field(default_factory=dict)
    link_bytes: dict[str, float] = msgspec.field(default_factory=dict)  # "pcie/rx" -> bytes
    # "peak": the highest since the device was handed out, even before this hour (as far as the
    # source watched); "sampled": the highest of this hour's samples; "mean": only averages
    memory_peak_bytes: int | None = None
    memory_peak_kind: str = "peak"
    memory_total_bytes: int | None = None
    energy_joules: float | None = None
    last_active: float | None = None  # Unix seconds
    spread_seconds: float = 0.0  # observed seconds placed here by spreading over a gap
    samples: int = 0  # readings behind this row
    cpu_used_seconds: float | None = None
    cpu_limit_seconds: float | None = None
    cpu_throttled_seconds: float | None = None
    io_pressure_seconds: float | None = None
    restarts: int | None = None
    oom_kills: int | None = None
    # signal or figure -> who measured it, where that is not ``dialect``; several joined by "+"
    filled: dict[str, str] = msgspec.field(default_factory=dict)
    # of the container itself, by the names of ``model.containers``: what adds up, what is highest
    amounts: dict[str, float] = msgspec.field(default_factory=dict)
    peaks: dict[str, float] = msgspec.field(default_factory=dict)


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device a source saw. Empty string or None where it did not say."""

    cluster: str
    gpu_uuid: str
    node: str = ""
    index: str = ""
    vendor: str = ""
    model: str = ""
    memory_total_bytes: int | None = None
    mig_profile: str = ""
    parent_uuid: str = ""
    compute_capability: str = ""
    driver_version: str = ""
    cuda_version: str = ""
    power_limit_watts: float | None = None
    last_seen: float = 0.0  # Unix seconds
    up: bool | None = None


class ContainerCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one container and device on one page; None or a missing key: not published."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    gpu_uuid: str
    allocated: bool  # the allocation gauge is there
    share: float = 1.0
    allocated_seconds: float | None = None
    active: dict[str, float] = msgspec.field(default_factory=dict)
    observed: dict[str, float] = msgspec.field(default_factory=dict)
    histogram: dict[str, tuple[float, ...]] = msgspec.field(default_factory=dict)  # cumulative
    conditions: dict[str, float] = msgspec.field(default_factory=dict)
    link_bytes: dict[str, float] = msgspec.field(default_factory=dict)
    # of its device, whoever holds it: "throttled/hw_slowdown" -> seconds, "xid/79" -> count
    device: dict[str, float] = msgspec.field(default_factory=dict)
    memory_used_bytes: int | None = None
    memory_peak_bytes: int | None = None
    energy_joules: float | None = None
    last_active: float | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One exposition page of one exporter at one time. ``histogram_bounds`` without +Inf.

    ``histograms_later``: containers without histograms have them all the same, and a later page
    tells them for all the time since they were last told.
    """

    at: float  # Unix seconds
    exporter: str  # instance: the URL scraped, or the archive's file
    process_started: float | None
    devices: tuple[Device, ...] = ()
    containers: tuple[ContainerCounters, ...] = ()
    histogram_bounds: tuple[float, ...] = ()
    histograms_later: bool = False


class GaugeSample(msgspec.Struct, frozen=True, kw_only=True):
    """Point values of one device at one time, from a log; None: the log does not say."""

    at: float  # Unix seconds; a log without a zone is read as UTC, which the reader states
    gpu: str  # what tells devices apart in this log: uuid, bus id or index
    kernel: float | None = None
    memcopy: float | None = None
    encoder: float | None = None
    decoder: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    model: str = ""
