"""Usage rows in the small form in which they are kept, read and added up.

Arrays instead of named fields and only the filled buckets of a histogram: about 400 bytes a row
instead of 3 kB, and quick to add up, for an hour as for a whole day. New fields go to the end of an
array and have defaults, so that what an older version wrote stays readable.
"""

from typing import Final

import msgspec

from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    HOUR_SECONDS,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    Warmup,
    quantise,
)

DAY_SECONDS: Final = 86_400
#: What tells that a device works, best first: NVML's utilisation does not exist on MIG instances.
BUSY_SIGNALS: Final = ("kernel", "sm", "graphics")

#: Namespace, pod, pod UID, container and device: whose use a row is.
Place = tuple[str, str, str, str, str]


class PackedUse(msgspec.Struct, array_like=True, gc=False):
    """``SignalUse``; ``buckets`` are seconds by index into ``HISTOGRAM_EDGES``."""

    observed: float
    active: float
    maximum: float | None = None
    resolution: float | None = None  # None: no histogram
    buckets: dict[int, float] = {}
    awaited: float = 0.0


class PackedDetail(msgspec.Struct, array_like=True, gc=False):
    """What a row holds beside the columns that are asked for by value."""

    signals: dict[str, PackedUse]
    warmup: dict[str, tuple[float, float]]
    conditions: dict[str, float]
    link_bytes: dict[str, float]
    memory_peak_kind: str = "peak"
    memory_total_bytes: int | None = None
    cpu_used_seconds: float | None = None
    cpu_limit_seconds: float | None = None
    cpu_throttled_seconds: float | None = None
    io_pressure_seconds: float | None = None
    restarts: int | None = None
    oom_kills: int | None = None
    filled: dict[str, str] = {}
    amounts: dict[str, float] = {}
    peaks: dict[str, float] = {}


#: Fields of a row that ``PackedDetail`` holds as they are.
PLAIN: Final = (
    "memory_peak_kind",
    "memory_total_bytes",
    "cpu_used_seconds",
    "cpu_limit_seconds",
    "cpu_throttled_seconds",
    "io_pressure_seconds",
    "restarts",
    "oom_kills",
    "filled",
    "amounts",
    "peaks",
)


class PackedHour(msgspec.Struct, array_like=True, gc=False):
    """One hourly row without the names of whose it is."""

    hour: int  # its start, Unix seconds
    dialect: str
    allocated_seconds: float
    share: float
    memory_peak_bytes: int | None
    energy_joules: float | None
    last_active: float | None
    spread_seconds: float
    samples: int
    detail: PackedDetail


class HourUse(msgspec.Struct, array_like=True, gc=False):
    """One hour of a day, as it is kept: allocated seconds, and the signal that told of work."""

    place: int  # 0 is the day's first hour
    allocated_seconds: float
    signal: int  # place in BUSY_SIGNALS of the best that the hour has
    observed: float
    active: float


class UsagePart(msgspec.Struct, gc=False):
    """Use of one container and device over one hour, or over the hours of one day.

    ``hours`` of a part of one hour is None: what it would hold follows from ``detail``.
    """

    hour: int  # the first one's start, Unix seconds
    dialect: str  # several are joined by "+"
    allocated_seconds: float
    share_seconds: float
    largest_share: float
    memory_peak_bytes: int | None
    energy_joules: float | None
    last_active: float | None
    spread_seconds: float
    samples: int
    detail: PackedDetail
    hours: list[HourUse] | None = None

    @property
    def first_hour_allocated(self) -> float:
        """Seconds allocated in the first hour."""
        return self.hours[0].allocated_seconds if self.hours else self.allocated_seconds

    @property
    def day(self) -> int:
        """Start of its UTC day, Unix seconds."""
        return self.hour // DAY_SECONDS * DAY_SECONDS

    @property
    def last_hour(self) -> int:
        """Start of the last hour, Unix seconds."""
        return self.day + self.hours[-1].place * HOUR_SECONDS if self.hours else self.hour


#: A part and whose it is.
PlacedPart = tuple[Place, UsagePart]


def share_seconds(allocated_seconds: float, share: float) -> float:
    """Allocated seconds weighted by the share of the device, on the grid of sums."""
    return allocated_seconds if share == 1.0 else quantise(share * allocated_seconds)


def pack_detail(row: UsageRow) -> PackedDetail:
    """What of a row goes into the detail."""
    return PackedDetail(  # name by name: it is done for every device and hour
        {signal: pack_use(use) for signal, use in row.signals.items()},
        {
            signal: (warm.observed_seconds, warm.active_seconds)
            for signal, warm in row.warmup.items()
        },
        row.conditions,
        row.link_bytes,
        row.memory_peak_kind,
        row.memory_total_bytes,
        row.cpu_used_seconds,
        row.cpu_limit_seconds,
        row.cpu_throttled_seconds,
        row.io_pressure_seconds,
        row.restarts,
        row.oom_kills,
        row.filled,
        row.amounts,
        row.peaks,
    )


def pack_use(use: SignalUse) -> PackedUse:
    """One signal's use in the small form."""
    histogram = use.histogram
    if histogram is None:
        return PackedUse(
            use.observed_seconds, use.active_seconds, use.maximum, awaited=use.awaited_seconds
        )
    return PackedUse(
        use.observed_seconds,
        use.active_seconds,
        use.maximum,
        histogram.resolution,
        {bucket: seconds for bucket, seconds in enumerate(histogram.seconds) if seconds},
        use.awaited_seconds,
    )


def unpack_use(packed: PackedUse) -> SignalUse:
    """Return the inverse of ``pack_use``."""
    histogram = None
    if packed.resolution is not None:
        seconds = [0.0] * len(HISTOGRAM_EDGES)
        for bucket, value in packed.buckets.items():
            seconds[bucket] = value
        histogram = Histogram(seconds=tuple(seconds), resolution=packed.resolution)
    return SignalUse(
        observed_seconds=packed.observed,
        active_seconds=packed.active,
        maximum=packed.maximum,
        histogram=histogram,
        awaited_seconds=packed.awaited,
    )


def hour_of(row: UsageRow) -> PackedHour:
    """An hourly row in the small form."""
    return PackedHour(
        row.key.hour,
        row.dialect,
        row.allocated_seconds,
        row.share,
        row.memory_peak_bytes,
        row.energy_joules,
        row.last_active,
        row.spread_seconds,
        row.samples,
        pack_detail(row),
    )


def row_of(cluster: str, place: Place, hour: PackedHour) -> UsageRow:
    """Return the row whose small form ``hour`` is."""
    namespace, pod, pod_uid, container, gpu_uuid = place
    detail = hour.detail
    return UsageRow(
        key=UsageKey(
            cluster=cluster,
            namespace=namespace,
            pod=pod,
            pod_uid=pod_uid,
            container=container,
            gpu_uuid=gpu_uuid,
            hour=hour.hour,
        ),
        dialect=hour.dialect,
        allocated_seconds=hour.allocated_seconds,
        share=hour.share,
        signals={signal: unpack_use(packed) for signal, packed in detail.signals.items()},
        warmup={
            signal: Warmup(observed_seconds=observed, active_seconds=active)
            for signal, (observed, active) in detail.warmup.items()
        },
        conditions=detail.conditions,
        link_bytes=detail.link_bytes,
        memory_peak_bytes=hour.memory_peak_bytes,
        energy_joules=hour.energy_joules,
        last_active=hour.last_active,
        spread_seconds=hour.spread_seconds,
        samples=hour.samples,
        **{name: getattr(detail, name) for name in PLAIN},
    )


def place_of(key: UsageKey) -> Place:
    """Whose use a row is."""
    return (key.namespace, key.pod, key.pod_uid, key.container, key.gpu_uuid)


def part_of(hour: PackedHour) -> UsagePart:
    """An hour as what is added up."""
    return UsagePart(
        hour.hour,
        hour.dialect,
        hour.allocated_seconds,
        share_seconds(hour.allocated_seconds, hour.share),
        hour.share,
        hour.memory_peak_bytes,
        hour.energy_joules,
        hour.last_active,
        hour.spread_seconds,
        hour.samples,
        hour.detail,
    )


def hour_use(hour: int, allocated_seconds: float, signals: dict[str, PackedUse]) -> HourUse:
    """What of the hour that starts at ``hour`` is kept in its day's course."""
    place = hour % DAY_SECONDS // HOUR_SECONDS
    for signal, name in enumerate(BUSY_SIGNALS):
        use = signals.get(name)
        if use is not None and use.observed > 0:
            return HourUse(place, allocated_seconds, signal, use.observed, use.active)
    use = signals.get(BUSY_SIGNALS[0])
    return HourUse(place, allocated_seconds, 0, 0.0, 0.0 if use is None else use.active)
