"""Adding rows up: exact, so that no order or grouping of the rows can change a sum.

All additive figures of a row lie on a grid of 1/1024 (bytes of links on whole KiB), where sums of
floats are exact up to 2**43 (2**63 bytes); the rollup puts them there, so they are added as they
come. This loop runs for every device and hour of a window (672,000 times for 2,000 GPUs and 14
days), hence its plain sums without a call per figure.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import Final

import msgspec

from gputailor_agent.model.profile import GpuUse
from gputailor_agent.model.usage import (
    NO_USE,
    Device,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    Warmup,
    quantise,
)

#: What tells that a device works, best first: NVML's utilisation does not exist on MIG instances.
BUSY_SIGNALS: Final = ("kernel", "sm", "graphics")
#: How a peak was found, worst first: a merged peak is only as good as its worst part.
_PEAK_KINDS: Final = ("mean", "sampled", "peak")
_NOT_READ: Final = (0.0, 0.0)


def busy_signal(signals: Mapping[str, SignalUse]) -> str:
    """Name of the signal that tells whether the device worked; ``kernel`` where none is known."""
    for name in BUSY_SIGNALS:
        use = signals.get(name)
        if use is not None and use.observed_seconds > 0:
            return name
    return BUSY_SIGNALS[0]


class _Signal:
    """Sums of one signal. A single part is handed on as it is."""

    __slots__ = ("active", "buckets", "maximum", "observed", "only", "resolution")

    def __init__(self, use: SignalUse) -> None:
        histogram = use.histogram
        self.only: SignalUse | None = use
        self.observed = use.observed_seconds
        self.active = use.active_seconds
        self.maximum = use.maximum
        self.buckets: Sequence[float] | None = None if histogram is None else histogram.seconds
        self.resolution = 0.0 if histogram is None else histogram.resolution

    def add(self, use: SignalUse) -> None:
        self.only = None
        self.observed += use.observed_seconds
        self.active += use.active_seconds
        maximum, histogram = use.maximum, use.histogram
        if maximum is not None and (self.maximum is None or maximum > self.maximum):
            self.maximum = maximum
        if histogram is None:
            return
        self.resolution = max(self.resolution, histogram.resolution)
        if self.buckets is None:
            self.buckets = histogram.seconds
        else:
            self.buckets = list(map(add, self.buckets, histogram.seconds))

    def use(self) -> SignalUse:
        if self.only is not None:
            return self.only
        histogram = None
        if self.buckets is not None:
            histogram = Histogram(seconds=tuple(self.buckets), resolution=self.resolution)
        return SignalUse(
            observed_seconds=self.observed,
            active_seconds=self.active,
            maximum=self.maximum,
            histogram=histogram,
        )


class Tally:
    """Running sums over rows of one container and device, or over whole devices of a workload."""

    def __init__(self) -> None:
        self.allocated_seconds = 0.0
        self.samples = 0
        self.spread_seconds = 0.0
        self.conditions: dict[str, float] = {}
        self.link_bytes: dict[str, float] = {}
        self.memory_peak_bytes: int | None = None
        self.memory_total_bytes: int | None = None
        self.energy_joules: float | None = None
        self.last_active: float | None = None
        self.oom_kills = 0
        self.dialects: set[str] = set()
        self.first_hour: int | None = None
        self.last_hour = 0
        self._share_seconds = 0.0
        self._largest_share = 0.0
        self._peak_kind = len(_PEAK_KINDS) - 1
        self._signals: dict[str, _Signal] = {}
        self._warmup: dict[str, list[float]] = {}
        # (observed, active) seconds of each hour, of the best busy signal that the hour has
        self._hours: dict[str, dict[int, tuple[float, float]]] = {}

    def add_row(self, row: UsageRow) -> None:
        """Add one hourly row."""
        hour = row.key.hour
        if self.first_hour is None or hour < self.first_hour:
            self.first_hour = hour
        self.last_hour = max(self.last_hour, hour)
        if row.dialect not in self.dialects:
            self.dialects.update(row.dialect.split("+"))
        if row.oom_kills:
            self.oom_kills += row.oom_kills
        self._add_part(row)
        self._add_hour(hour, row.signals)

    def add_use(self, use: GpuUse) -> None:
        """Add what a device did; its hours are not kept apart."""
        self._add_part(use)

    def _add_part(self, part: UsageRow | GpuUse) -> None:
        seconds, share = part.allocated_seconds, part.share
        self.allocated_seconds += seconds
        self._share_seconds += seconds if share == 1.0 else quantise(share * seconds)
        self._largest_share = max(self._largest_share, share)
        signals = self._signals
        for name, use in part.signals.items():
            if name in signals:
                signals[name].add(use)
            else:
                signals[name] = _Signal(use)
        if part.warmup:
            self._add_warmup(part.warmup)
        if part.conditions:
            _add_amounts(self.conditions, part.conditions)
        if part.link_bytes:
            _add_amounts(self.link_bytes, part.link_bytes)
        self._add_memory(part.memory_peak_bytes, part.memory_peak_kind, part.memory_total_bytes)
        if part.energy_joules is not None:
            self.energy_joules = (self.energy_joules or 0.0) + part.energy_joules
        active = part.last_active
        if active is not None and (self.last_active is None or active > self.last_active):
            self.last_active = active
        self.samples += part.samples
        self.spread_seconds += part.spread_seconds

    def _add_hour(self, hour: int, signals: Mapping[str, SignalUse]) -> None:
        name = busy_signal(signals)
        use = signals.get(name, NO_USE)
        place = self._hours.setdefault(name, {})
        known = place.get(hour)
        observed, active = use.observed_seconds, use.active_seconds
        if known is not None:
            observed, active = known[0] + observed, known[1] + active
        place[hour] = (observed, active)

    def _add_warmup(self, warmup: Mapping[str, Warmup]) -> None:
        for name, part in warmup.items():
            sums = self._warmup.setdefault(name, [0.0, 0.0])
            sums[0] += part.observed_seconds
            sums[1] += part.active_seconds

    def _add_memory(self, peak: int | None, kind: str, total: int | None) -> None:
        if peak is not None:
            if self.memory_peak_bytes is None or peak > self.memory_peak_bytes:
                self.memory_peak_bytes = peak
            known = _PEAK_KINDS.index(kind) if kind in _PEAK_KINDS else 0
            self._peak_kind = min(self._peak_kind, known)
        if total is not None and (self.memory_total_bytes or 0) < total:
            self.memory_total_bytes = total

    @property
    def share(self) -> float:
        """Share of the device, mean over the allocated time (the largest where that is 0)."""
        if self.allocated_seconds > 0:
            return self._share_seconds / self.allocated_seconds
        return self._largest_share or 1.0

    @property
    def memory_peak_kind(self) -> str:
        """How the peak was found; the least sure way of all rows."""
        return _PEAK_KINDS[self._peak_kind]

    def signals(self) -> dict[str, SignalUse]:
        """Every signal's use, by name."""
        return {name: self._signals[name].use() for name in sorted(self._signals)}

    def warmup(self) -> dict[str, Warmup]:
        """Every signal's warm-up, by name."""
        return {
            name: Warmup(observed_seconds=sums[0], active_seconds=sums[1])
            for name, sums in sorted(self._warmup.items())
        }

    def hours(self) -> tuple[tuple[int, float, float], ...]:
        """(hour, observed, active seconds) of the signal that tells whether the device worked.

        That is ``kernel``, or where it was never readable (MIG) the next of ``BUSY_SIGNALS``. An
        hour in which it could not be read is there with 0 observed seconds.
        """
        name = next((name for name in BUSY_SIGNALS if self._observed(name)), BUSY_SIGNALS[0])
        told = self._hours.get(name, {})
        hours = sorted({hour for place in self._hours.values() for hour in place})
        return tuple((hour, *told.get(hour, _NOT_READ)) for hour in hours)

    def _observed(self, name: str) -> bool:
        return name in self._signals and self._signals[name].observed > 0


def _add_amounts(sums: dict[str, float], amounts: Mapping[str, float]) -> None:
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0.0) + amount


def gpu_use(
    tally: Tally, key: UsageKey, run_id: str, device: Device | None, allocated_seconds: float
) -> GpuUse:
    """What one container did with one device; ``allocated_seconds`` by the best clock known."""
    return GpuUse(
        namespace=key.namespace,
        pod=key.pod,
        pod_uid=key.pod_uid,
        container=key.container,
        gpu_uuid=key.gpu_uuid,
        run_id=run_id,
        device=device,
        allocated_seconds=quantise(allocated_seconds),
        share=tally.share,
        signals=tally.signals(),
        warmup=tally.warmup(),
        conditions=dict(sorted(tally.conditions.items())),
        link_bytes=dict(sorted(tally.link_bytes.items())),
        memory_peak_bytes=tally.memory_peak_bytes,
        memory_peak_kind=tally.memory_peak_kind,
        memory_total_bytes=_total(tally, device),
        energy_joules=tally.energy_joules,
        last_active=tally.last_active,
        first_hour=tally.first_hour or 0,
        last_hour=tally.last_hour,
        samples=tally.samples,
        spread_seconds=tally.spread_seconds,
        hours=tally.hours(),
    )


def _total(tally: Tally, device: Device | None) -> int | None:
    if tally.memory_total_bytes is not None or device is None:
        return tally.memory_total_bytes
    return device.memory_total_bytes


def merge_uses(uses: Iterable[GpuUse]) -> Tally:
    """Sum of several devices' use, in any order."""
    tally = Tally()
    for use in uses:
        tally.add_use(use)
    return tally


def merge_rows(rows: Iterable[UsageRow]) -> UsageRow:
    """Return one row for all of ``rows``; its hour is the earliest.

    Associative and commutative, bit for bit. Raises ``ValueError`` for no row at all, or rows of
    different containers or devices.
    """
    parts = list(rows)
    holders = {msgspec.structs.replace(row.key, hour=0) for row in parts}
    if len(holders) != 1:
        raise ValueError(f"rows of exactly one container and device can be merged, not {holders}")
    tally = Tally()
    for row in parts:
        tally.add_row(row)
    return UsageRow(
        key=msgspec.structs.replace(parts[0].key, hour=tally.first_hour or 0),
        dialect="+".join(sorted(tally.dialects)),
        allocated_seconds=tally.allocated_seconds,
        share=tally.share,
        signals=tally.signals(),
        warmup=tally.warmup(),
        conditions=dict(sorted(tally.conditions.items())),
        link_bytes=dict(sorted(tally.link_bytes.items())),
        memory_peak_bytes=tally.memory_peak_bytes,
        memory_peak_kind=tally.memory_peak_kind,
        memory_total_bytes=tally.memory_total_bytes,
        energy_joules=tally.energy_joules,
        last_active=tally.last_active,
        spread_seconds=tally.spread_seconds,
        samples=tally.samples,
        cpu_used_seconds=_sum(row.cpu_used_seconds for row in parts),
        cpu_limit_seconds=_sum(row.cpu_limit_seconds for row in parts),
        cpu_throttled_seconds=_sum(row.cpu_throttled_seconds for row in parts),
        io_pressure_seconds=_sum(row.io_pressure_seconds for row in parts),
        restarts=_count(row.restarts for row in parts),
        oom_kills=_count(row.oom_kills for row in parts),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _count(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
