"""Sums of rows while profiles are built: hours kept apart by signal, devices merged to workloads.

The sums themselves are ``model.sums``, which the store uses too, to make days of hours.
"""

from collections.abc import Iterable, Mapping

import msgspec

from gputailor_agent.model.packed import (
    BUSY_SIGNALS,
    HourUse,
    PackedHour,
    UsagePart,
    hour_of,
    hour_use,
    part_of,
    place_of,
    row_of,
    share_seconds,
    unpack_use,
)
from gputailor_agent.model.profile import GpuUse
from gputailor_agent.model.sums import UseSums, add_amounts
from gputailor_agent.model.usage import (
    HOUR_SECONDS,
    Device,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    Warmup,
    quantise,
)


def busy_signal(signals: Mapping[str, SignalUse]) -> str:
    """Name of the signal that tells whether the device worked; ``kernel`` where none is known."""
    for name in BUSY_SIGNALS:
        use = signals.get(name)
        if use is not None and use.observed_seconds > 0:
            return name
    return BUSY_SIGNALS[0]


class DeviceTally(UseSums):
    """Running sums over rows of one container and device."""

    def __init__(self) -> None:
        super().__init__()
        self.first_hour: int | None = None
        self.last_hour = 0
        #: Each part's day and the hours in it that it told of.
        self._courses: list[tuple[int, list[HourUse]]] = []

    def add_row(self, row: UsageRow) -> None:
        """Add one hourly row."""
        self.add_part(part_of(hour_of(row)))

    def add_part(self, part: UsagePart) -> None:
        """Add one hour, or a day with its hours."""
        self.add(part)
        first, last = part.hour, part.last_hour
        self._courses.append((part.day, part.hours or [_only_hour(part)]))
        if self.first_hour is None or first < self.first_hour:
            self.first_hour = first
        self.last_hour = max(self.last_hour, last)

    def signals(self) -> dict[str, SignalUse]:
        """Every signal's use, by name."""
        return {name: unpack_use(use) for name, use in self.packed_signals().items()}

    def warmup(self) -> dict[str, Warmup]:
        """Every signal's warm-up, by name."""
        return _warmup(self)

    def hours(self) -> tuple[tuple[int, float, float], ...]:
        """(hour, observed, active seconds) of the signal that tells whether the device worked.

        That is ``kernel``, or where it was never readable (MIG) the next of ``BUSY_SIGNALS``. An
        hour in which it could not be read is there with 0 observed seconds.
        """
        best = next((at for at, name in enumerate(BUSY_SIGNALS) if self._observed(name)), 0)
        told = [
            (day + one.place * HOUR_SECONDS, one.observed, one.active)
            if one.signal == best
            else (day + one.place * HOUR_SECONDS, 0.0, 0.0)
            for day, hours in self._courses
            for one in hours
        ]
        if len(self._courses) > len({day for day, _ in self._courses}):  # no days of one part each
            told = _once_each(told)
        told.sort()
        return tuple(told)

    def _observed(self, name: str) -> bool:
        return name in self.signal_sums and self.signal_sums[name].observed > 0


def _only_hour(part: UsagePart) -> HourUse:
    return hour_use(part.hour, part.allocated_seconds, part.detail.signals)


def _once_each(hours: list[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """The hours, what several parts told of one of them added up."""
    known: dict[int, tuple[float, float]] = {}
    for hour, observed, active in hours:
        before = known.get(hour, (0.0, 0.0))
        known[hour] = (before[0] + observed, before[1] + active)
    return [(hour, *seconds) for hour, seconds in known.items()]


def _warmup(sums: UseSums) -> dict[str, Warmup]:
    return {
        name: Warmup(observed_seconds=observed, active_seconds=active)
        for name, (observed, active) in sorted(sums.warmup_sums.items())
    }


def gpu_use(
    tally: DeviceTally,
    key: UsageKey,
    run_id: str,
    device: Device | None,
    allocated_seconds: float,
    *,
    gpu_uuid: str = "",
) -> GpuUse:
    """What the container of ``key`` did with one device; no ``gpu_uuid``: none was measured.

    ``allocated_seconds`` by the best clock known.
    """
    return GpuUse(
        namespace=key.namespace,
        pod=key.pod,
        pod_uid=key.pod_uid,
        container=key.container,
        gpu_uuid=gpu_uuid,
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


def _total(tally: DeviceTally, device: Device | None) -> int | None:
    if tally.memory_total_bytes is not None or device is None:
        return tally.memory_total_bytes
    return device.memory_total_bytes


def _added(parts: list[SignalUse]) -> SignalUse:
    """Sum of one signal over devices. A single part is handed on as it is."""
    if len(parts) == 1:
        return parts[0]
    observed = active = awaited = 0.0
    highest: float | None = None
    histograms = []
    for part in parts:
        observed += part.observed_seconds
        active += part.active_seconds
        awaited += part.awaited_seconds
        maximum = part.maximum
        if maximum is not None and (highest is None or maximum > highest):
            highest = maximum
        if part.histogram is not None:
            histograms.append(part.histogram)
    return SignalUse(
        observed_seconds=observed,
        active_seconds=active,
        maximum=highest,
        histogram=_merged(histograms) if histograms else None,
        awaited_seconds=awaited,
    )


def _merged(histograms: list[Histogram]) -> Histogram:
    columns = zip(*(one.seconds for one in histograms), strict=True)
    return Histogram(
        seconds=tuple(map(sum, columns)), resolution=max(one.resolution for one in histograms)
    )


class Tally(UseSums):
    """Sums over whole devices of a workload or a run; their hours are not kept apart."""

    def __init__(self) -> None:
        super().__init__()
        self._signals: dict[str, list[SignalUse]] = {}

    def add_use(self, use: GpuUse) -> None:
        """Add what one device did."""
        self.allocated_seconds += use.allocated_seconds
        self.share_seconds += share_seconds(use.allocated_seconds, use.share)
        self.largest_share = max(self.largest_share, use.share)
        for name, part in use.signals.items():
            if name in self._signals:
                self._signals[name].append(part)
            else:
                self._signals[name] = [part]
        for name, warm in use.warmup.items():
            sums = self.warmup_sums.setdefault(name, [0.0, 0.0])
            sums[0] += warm.observed_seconds
            sums[1] += warm.active_seconds
        add_amounts(self.conditions, use.conditions)
        add_amounts(self.link_bytes, use.link_bytes)
        self.add_memory(use.memory_peak_bytes, use.memory_peak_kind, use.memory_total_bytes)
        if use.energy_joules is not None:
            self.energy_joules = (self.energy_joules or 0.0) + use.energy_joules
        active = use.last_active
        if active is not None and (self.last_active is None or active > self.last_active):
            self.last_active = active
        self.samples += use.samples
        self.spread_seconds += use.spread_seconds

    def signals(self) -> dict[str, SignalUse]:
        """Every signal's use, by name."""
        return {name: _added(self._signals[name]) for name in sorted(self._signals)}

    def signal(self, name: str) -> SignalUse | None:
        """One signal's use; None where no device told of it."""
        parts = self._signals.get(name)
        return None if parts is None else _added(parts)

    def warmup(self) -> dict[str, Warmup]:
        """Every signal's warm-up, by name."""
        return _warmup(self)


def merge_uses(uses: Iterable[GpuUse]) -> Tally:
    """Sum of several devices' use, in any order."""
    merged = Tally()
    for use in uses:
        merged.add_use(use)
    return merged


def merge_rows(rows: Iterable[UsageRow]) -> UsageRow:
    """Return one row for all of ``rows``; its hour is the earliest.

    Associative and commutative, bit for bit. Raises ``ValueError`` for no row at all, or rows of
    different containers or devices.
    """
    parts = list(rows)
    holders = {msgspec.structs.replace(row.key, hour=0) for row in parts}
    if len(holders) != 1:
        raise ValueError(f"rows of exactly one container and device can be merged, not {holders}")
    tally = DeviceTally()
    for row in parts:
        tally.add_row(row)
    key = msgspec.structs.replace(parts[0].key, hour=tally.first_hour or 0)
    merged = PackedHour(
        key.hour,
        "+".join(sorted(tally.dialects)),
        tally.allocated_seconds,
        tally.share,
        tally.memory_peak_bytes,
        tally.energy_joules,
        tally.last_active,
        tally.spread_seconds,
        tally.samples,
        tally.detail(),
    )
    return row_of(key.cluster, place_of(key), merged)
