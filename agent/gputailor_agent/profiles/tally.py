"""Adding rows up: exact, so that no order or grouping of the rows can change a sum.

All additive figures of a row lie on a grid of 1/1024 (bytes on whole KiB), where sums of floats are
exact up to 2**43. Scalars are put on the grid again on the way in; histograms are taken as they
come, since the rollup already put them there.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import Final

import msgspec

from gputailor_agent.model.profile import GpuUse
from gputailor_agent.model.usage import (
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
#: Link bytes stand among a profile's conditions under this prefix, e.g. ``link_bytes/pcie/rx``.
LINK_PREFIX: Final = "link_bytes/"
#: How a peak was found, worst first: a merged peak is only as good as its worst part.
_PEAK_KINDS: Final = ("mean", "sampled", "peak")


def busy_signal(signals: Mapping[str, SignalUse]) -> str:
    """Name of the signal that tells whether the device worked; ``kernel`` where none is known."""
    for name in BUSY_SIGNALS:
        use = signals.get(name)
        if use is not None and use.observed_seconds > 0:
            return name
    return BUSY_SIGNALS[0]


class _Signal:
    __slots__ = ("active", "buckets", "maximum", "observed", "only", "parts", "resolution")

    def __init__(self) -> None:
        self.observed = 0.0
        self.active = 0.0
        self.maximum: float | None = None
        self.buckets: Sequence[float] | None = None
        self.resolution = 0.0
        self.parts = 0
        self.only: SignalUse | None = None  # a single part is handed on as it is

    def add(self, use: SignalUse) -> None:
        self.parts += 1
        self.observed += quantise(use.observed_seconds)
        self.active += quantise(use.active_seconds)
        on_grid = self.observed == use.observed_seconds and self.active == use.active_seconds
        self.only = use if self.parts == 1 and on_grid else None
        self.maximum = _highest(self.maximum, use.maximum)
        histogram = use.histogram
        if histogram is not None:
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
        self._hours: dict[int, dict[str, list[float]]] = {}

    def add_row(self, row: UsageRow) -> None:
        """Add one hourly row."""
        hour = row.key.hour
        self.first_hour = hour if self.first_hour is None else min(self.first_hour, hour)
        self.last_hour = max(self.last_hour, hour)
        self.dialects.update(row.dialect.split("+"))
        self.oom_kills += row.oom_kills or 0
        self._add_time(row.allocated_seconds, row.share)
        self._add_signals(row.signals, row.warmup)
        self._add_conditions(row.conditions)
        self._add_conditions({LINK_PREFIX + link: sent for link, sent in row.link_bytes.items()})
        self._add_memory(row.memory_peak_bytes, row.memory_peak_kind, row.memory_total_bytes)
        self._add_rest(row)
        places = self._hours.setdefault(hour, {})
        for name in BUSY_SIGNALS:
            use = row.signals.get(name)
            if use is not None:
                place = places.setdefault(name, [0.0, 0.0])
                place[0] += quantise(use.observed_seconds)
                place[1] += quantise(use.active_seconds)

    def add_use(self, use: GpuUse) -> None:
        """Add what a device did; its hours are not kept apart."""
        self._add_time(use.allocated_seconds, use.share)
        self._add_signals(use.signals, use.warmup)
        self._add_conditions(use.conditions)
        self._add_memory(use.memory_peak_bytes, use.memory_peak_kind, use.memory_total_bytes)
        self._add_rest(use)

    def _add_time(self, allocated: float, share: float) -> None:
        seconds = quantise(allocated)
        self.allocated_seconds += seconds
        self._share_seconds += quantise(share * seconds)
        self._largest_share = max(self._largest_share, share)

    def _add_signals(self, signals: Mapping[str, SignalUse], warmup: Mapping[str, Warmup]) -> None:
        for name, use in signals.items():
            known = self._signals.get(name)
            if known is None:
                known = self._signals[name] = _Signal()
            known.add(use)
        for name, part in warmup.items():
            sums = self._warmup.setdefault(name, [0.0, 0.0])
            sums[0] += quantise(part.observed_seconds)
            sums[1] += quantise(part.active_seconds)

    def _add_conditions(self, conditions: Mapping[str, float]) -> None:
        for name, seconds in conditions.items():
            self.conditions[name] = self.conditions.get(name, 0.0) + quantise(seconds)

    def _add_memory(self, peak: int | None, kind: str, total: int | None) -> None:
        if peak is not None:
            self.memory_peak_bytes = max(self.memory_peak_bytes or 0, peak)
            known = _PEAK_KINDS.index(kind) if kind in _PEAK_KINDS else 0
            self._peak_kind = min(self._peak_kind, known)
        if total is not None:
            self.memory_total_bytes = max(self.memory_total_bytes or 0, total)

    def _add_rest(self, part: UsageRow | GpuUse) -> None:
        if part.energy_joules is not None:
            self.energy_joules = (self.energy_joules or 0.0) + quantise(part.energy_joules)
        self.last_active = _highest(self.last_active, part.last_active)
        self.samples += part.samples
        self.spread_seconds += quantise(part.spread_seconds)

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
        name = next(
            (name for name in BUSY_SIGNALS if self._signals.get(name, _NONE).observed > 0), "kernel"
        )
        zero = [0.0, 0.0]
        return tuple(
            (hour, *places.get(name, zero))  # type: ignore[misc]  # a list of exactly two
            for hour, places in sorted(self._hours.items())
        )


_NONE: Final = _Signal()


def _highest(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return a if b is None else b
    return max(a, b)


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
        conditions=_without_links(tally.conditions),
        link_bytes=_links(tally.conditions),
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


def _links(conditions: Mapping[str, float]) -> dict[str, float]:
    return {
        name.removeprefix(LINK_PREFIX): value
        for name, value in sorted(conditions.items())
        if name.startswith(LINK_PREFIX)
    }


def _without_links(conditions: Mapping[str, float]) -> dict[str, float]:
    return {
        name: value
        for name, value in sorted(conditions.items())
        if not name.startswith(LINK_PREFIX)
    }


def _sum(values: Iterable[float | None]) -> float | None:
    known = [quantise(value) for value in values if value is not None]
    return sum(known) if known else None


def _count(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
