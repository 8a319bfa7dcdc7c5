"""Adding usage up: exact, so that no order or grouping of the rows can change a sum.

All additive figures of a row lie on a grid of 1/1024 (bytes of links on whole KiB), where sums of
floats are exact up to 2**43 (2**63 bytes); the rollup puts them there, so they are added as they
come. This code runs for every device and hour that is not yet summed to a day, hence its plain sums
without a call per figure.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from gputailor_agent.model.packed import (
    PackedDetail,
    PackedHour,
    PackedUse,
    UsagePart,
    hour_use,
    part_of,
)

#: How a peak was found, worst first: a merged peak is only as good as its worst part.
PEAK_KINDS: Final = ("mean", "sampled", "peak")

_SUMMED: Final = (
    "cpu_used_seconds",
    "cpu_limit_seconds",
    "cpu_throttled_seconds",
    "io_pressure_seconds",
    "restarts",
    "oom_kills",
)


class SignalSums:
    """Sums of one signal."""

    __slots__ = ("_own", "active", "awaited", "buckets", "maximum", "observed", "resolution")

    def __init__(self) -> None:
        self.observed = 0.0
        self.active = 0.0
        self.awaited = 0.0
        self.maximum: float | None = None
        self.buckets: dict[int, float] | None = None  # the first part's until a second comes
        self._own = False
        self.resolution = 0.0

    def add(self, use: PackedUse) -> None:
        """Add what one part tells of the signal."""
        self.observed += use.observed
        self.active += use.active
        self.awaited += use.awaited
        maximum = use.maximum
        if maximum is not None and (self.maximum is None or maximum > self.maximum):
            self.maximum = maximum
        resolution = use.resolution
        if resolution is None:
            return
        self.resolution = max(self.resolution, resolution)
        buckets = self.buckets
        if buckets is None:
            self.buckets = use.buckets
            return
        if not self._own:
            buckets = self.buckets = dict(buckets)
            self._own = True
        for bucket, seconds in use.buckets.items():
            if bucket in buckets:
                buckets[bucket] += seconds
            else:
                buckets[bucket] = seconds

    def packed(self) -> PackedUse:
        """Return the sum in the small form."""
        buckets = self.buckets
        if buckets is None:
            return PackedUse(self.observed, self.active, self.maximum, awaited=self.awaited)
        return PackedUse(
            self.observed,
            self.active,
            self.maximum,
            self.resolution,
            dict(sorted(buckets.items())) if self._own else buckets,
            self.awaited,
        )


class UseSums:
    """Running sums over parts of one container and device."""

    def __init__(self) -> None:
        self.allocated_seconds = 0.0
        self.share_seconds = 0.0
        self.largest_share = 0.0
        self.samples = 0
        self.spread_seconds = 0.0
        self.conditions: dict[str, float] = {}
        self.link_bytes: dict[str, float] = {}
        self.memory_peak_bytes: int | None = None
        self.memory_total_bytes: int | None = None
        self.energy_joules: float | None = None
        self.last_active: float | None = None
        self.dialects: set[str] = set()
        self.filled: dict[str, set[str]] = {}  # signal -> others than the row's own who told it
        #: CPU seconds, pressure, restarts and kills by the name of the field; absent: not told.
        self.counted: dict[str, float] = {}
        #: Of containers themselves (``model.containers``): sums, and the highest.
        self.amounts: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.peak_kind = len(PEAK_KINDS) - 1
        #: The first part's own until a second comes: an hour's plan has one part of each device.
        self.signal_sums: dict[str, SignalSums | PackedUse] = {}
        self.warmup_sums: dict[str, list[float]] = {}

    def add(self, part: UsagePart) -> None:
        """Add an hour or a day."""
        self.allocated_seconds += part.allocated_seconds
        self.share_seconds += part.share_seconds
        self.largest_share = max(self.largest_share, part.largest_share)
        if part.dialect not in self.dialects:
            self.dialects.update(part.dialect.split("+"))
        if part.energy_joules is not None:
            self.energy_joules = (self.energy_joules or 0.0) + part.energy_joules
        active = part.last_active
        if active is not None and (self.last_active is None or active > self.last_active):
            self.last_active = active
        self.samples += part.samples
        self.spread_seconds += part.spread_seconds
        self._add_detail(part.detail)
        self.add_memory(
            part.memory_peak_bytes, part.detail.memory_peak_kind, part.detail.memory_total_bytes
        )

    def _add_detail(self, detail: PackedDetail) -> None:
        sums = self.signal_sums
        for name, use in detail.signals.items():
            known = sums.get(name)
            if known is None:
                sums[name] = use
            elif isinstance(known, SignalSums):
                known.add(use)
            else:
                both = sums[name] = SignalSums()
                both.add(known)
                both.add(use)
        if detail.warmup:
            self._add_warmup(detail.warmup)
        if detail.conditions:
            add_amounts(self.conditions, detail.conditions)
        if detail.link_bytes:
            add_amounts(self.link_bytes, detail.link_bytes)
        if detail.amounts:
            add_amounts(self.amounts, detail.amounts)
        for name, peak in detail.peaks.items():
            self.peaks[name] = max(peak, self.peaks.get(name, peak))
        for name, by in detail.filled.items():
            self.filled.setdefault(name, set()).update(by.split("+"))
        for name in _SUMMED:
            amount = getattr(detail, name)
            if amount is not None:
                self.counted[name] = self.counted.get(name, 0) + amount

    def _add_warmup(self, warmup: Mapping[str, tuple[float, float]]) -> None:
        for name, (observed, active) in warmup.items():
            sums = self.warmup_sums.setdefault(name, [0.0, 0.0])
            sums[0] += observed
            sums[1] += active

    def add_memory(self, peak: int | None, kind: str, total: int | None) -> None:
        """Take in a peak of memory, how it was found, and the device's memory (bytes)."""
        if peak is not None:
            if self.memory_peak_bytes is None or peak > self.memory_peak_bytes:
                self.memory_peak_bytes = peak
            known = PEAK_KINDS.index(kind) if kind in PEAK_KINDS else 0
            self.peak_kind = min(self.peak_kind, known)
        if total is not None and (self.memory_total_bytes or 0) < total:
            self.memory_total_bytes = total

    @property
    def share(self) -> float:
        """Share of the device, mean over the allocated time (the largest where that is 0)."""
        if self.allocated_seconds > 0:
            return self.share_seconds / self.allocated_seconds
        return self.largest_share or 1.0

    @property
    def memory_peak_kind(self) -> str:
        """How the peak was found; the least sure way of all parts."""
        return PEAK_KINDS[self.peak_kind]

    @property
    def oom_kills(self) -> int:
        """Kills for memory that the source saw."""
        return int(self.counted.get("oom_kills", 0))

    def packed_signals(self) -> dict[str, PackedUse]:
        """Every signal's sum in the small form, by name."""
        return {
            name: sums.packed() if isinstance(sums, SignalSums) else sums
            for name, sums in sorted(self.signal_sums.items())
        }

    def detail(self) -> PackedDetail:
        """Return what a row holds beside its columns."""
        return PackedDetail(
            signals=self.packed_signals(),
            warmup={
                name: (observed, active)
                for name, (observed, active) in sorted(self.warmup_sums.items())
            },
            conditions=dict(sorted(self.conditions.items())),
            link_bytes=dict(sorted(self.link_bytes.items())),
            memory_peak_kind=self.memory_peak_kind,
            memory_total_bytes=self.memory_total_bytes,
            filled={name: "+".join(sorted(by)) for name, by in sorted(self.filled.items())},
            amounts=dict(sorted(self.amounts.items())),
            peaks=dict(sorted(self.peaks.items())),
            **self.counted,  # type: ignore[arg-type]  # counts stay whole numbers when added
        )


def add_amounts(sums: dict[str, float], amounts: Mapping[str, float]) -> None:
    """Add amounts by name."""
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0.0) + amount


def sum_of_hours(hours: Iterable[PackedHour]) -> UsagePart:
    """Sum of a container's and device's hours of one day; keeps each hour's own course.

    Raises ``ValueError`` for none. Adding this to sums gives, bit for bit, what adding the hours
    gives.
    """
    ordered = sorted(hours, key=lambda hour: hour.hour)
    if not ordered:
        raise ValueError("a day without an hour")
    sums = UseSums()
    for hour in ordered:
        sums.add(part_of(hour))
    return UsagePart(
        ordered[0].hour,
        "+".join(sorted(sums.dialects)),
        sums.allocated_seconds,
        sums.share_seconds,
        sums.largest_share,
        sums.memory_peak_bytes,
        sums.energy_joules,
        sums.last_active,
        sums.spread_seconds,
        sums.samples,
        sums.detail(),
        [hour_use(one.hour, one.allocated_seconds, one.detail.signals) for one in ordered],
    )
