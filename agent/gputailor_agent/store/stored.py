"""Records of the usage tables as values, and back."""

import zlib
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from gputailor_agent.model.packed import (
    HourUse,
    PackedDetail,
    PackedHour,
    PackedUse,
    Place,
    UsagePart,
    pack_detail,
    share_seconds,
)
from gputailor_agent.model.sums import sum_of_hours
from gputailor_agent.model.usage import HOUR_SECONDS, UsageRow

#: Version of ``HISTOGRAM_EDGES``; a row with another one would have to be mapped when read.
EDGES_VERSION: Final = 1

#: Columns of both usage tables that say whose use it is, and those that hold it beside the time.
PLACE: Final = ("namespace", "pod", "pod_uid", "container", "gpu_uuid")
FIGURES: Final = (
    "dialect",
    "allocated_seconds",
    "share",
    "memory_peak_bytes",
    "energy_joules",
    "last_active",
    "spread_seconds",
    "samples",
)


class _DayDetail(msgspec.Struct, array_like=True):
    """What a day's row holds beside its columns.

    Whole numbers of hours are written as such: three bytes instead of nine.
    """

    detail: PackedDetail
    share_seconds: float
    largest_share: float
    hours: list[HourUse]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DETAIL: Final = msgspec.msgpack.Decoder(PackedDetail)
_DAY_DETAIL: Final = msgspec.msgpack.Decoder(_DayDetail)
_HOURS: Final = msgspec.msgpack.Decoder(list[PackedHour])


def usage_columns(row: UsageRow) -> dict[str, Any]:
    """Column values of a row of ``usage_hourly``."""
    detail = pack_detail(row)
    kernel = detail.signals.get("kernel")
    return {  # name by name: it is done for every device and hour
        **msgspec.structs.asdict(row.key),
        "dialect": row.dialect,
        "allocated_seconds": row.allocated_seconds,
        "share": row.share,
        "memory_peak_bytes": row.memory_peak_bytes,
        "energy_joules": row.energy_joules,
        "last_active": row.last_active,
        "spread_seconds": row.spread_seconds,
        "samples": row.samples,
        "kernel_observed_seconds": None if kernel is None else kernel.observed,
        "kernel_active_seconds": None if kernel is None else kernel.active,
        "histogram_edges": EDGES_VERSION,
        "detail": _ENCODER.encode(detail),
    }


def _kernel(kernel: PackedUse | None) -> dict[str, float | None]:
    return {
        "kernel_observed_seconds": None if kernel is None else kernel.observed,
        "kernel_active_seconds": None if kernel is None else kernel.active,
    }


def day_columns(cluster: str, day: int, place: Place, hours: list[PackedHour]) -> dict[str, Any]:
    """Column values of a row of ``usage_daily``: the sums of the day's hours."""
    whole = sum_of_hours(hours)
    share = whole.largest_share or 1.0
    if whole.allocated_seconds > 0:
        share = whole.share_seconds / whole.allocated_seconds
    courses = [
        HourUse(
            one.place,
            _short(one.allocated_seconds),
            one.signal,
            _short(one.observed),
            _short(one.active),
        )
        for one in whole.hours or ()
    ]
    detail = _DayDetail(whole.detail, whole.share_seconds, whole.largest_share, courses)
    return {
        "cluster": cluster,
        **dict(zip(PLACE, place, strict=True)),
        "day": day,
        **{name: getattr(whole, name) for name in FIGURES if name != "share"},
        "share": share,
        **_kernel(whole.detail.signals.get("kernel")),
        "histogram_edges": EDGES_VERSION,
        "detail": _ENCODER.encode(detail),
    }


def hours_columns(cluster: str, day: int, place: Place, hours: list[PackedHour]) -> dict[str, Any]:
    """Column values of a row of ``usage_day_hours``."""
    return {
        "cluster": cluster,
        **dict(zip(PLACE, place, strict=True)),
        "day": day,
        "hours": zlib.compress(_ENCODER.encode(hours)),
    }


def _short(value: float) -> float:
    whole = int(value)
    return whole if whole == value else value


def stored_hour(record: Any) -> PackedHour:
    """Return the hour of (hour, FIGURES, detail)."""
    hour, dialect, allocated, share, peak, energy, active, spread, samples, detail = record
    return PackedHour(
        hour,
        dialect,
        allocated,
        share,
        peak,
        energy,
        active,
        spread,
        samples,
        _DETAIL.decode(detail),
    )


def stored_hours(blob: bytes) -> list[PackedHour]:
    """Return the hours that a day's row was made of."""
    return _HOURS.decode(zlib.decompress(blob))


def hour_part(record: Any) -> UsagePart:
    """Return an hour of (hour, FIGURES, detail) as what is added up."""
    hour, dialect, allocated, share, peak, energy, active, spread, samples, detail = record
    return UsagePart(
        hour,
        dialect,
        allocated,
        share_seconds(allocated, share),
        share,
        peak,
        energy,
        active,
        spread,
        samples,
        _DETAIL.decode(detail),
    )


def day_part(record: Any) -> UsagePart:
    """Return a day of (day, FIGURES, detail) as what is added up."""
    start, dialect, allocated, _, peak, energy, active, spread, samples, detail = record
    day = _DAY_DETAIL.decode(detail)
    return UsagePart(
        start + day.hours[0].place * HOUR_SECONDS,
        dialect,
        allocated,
        day.share_seconds,
        day.largest_share,
        peak,
        energy,
        active,
        spread,
        samples,
        day.detail,
        day.hours,
    )


def time_of(at: int) -> str:
    """Return a stored time for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def as_place(record: Any) -> Place:
    """Return the first five columns of a record, which are those of ``PLACE``."""
    namespace, pod, pod_uid, container, gpu_uuid = record[:5]
    return namespace, pod, pod_uid, container, gpu_uuid
