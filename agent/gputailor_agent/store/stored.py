"""Usage rows as they lie in the store: small, and readable by later versions.

Arrays instead of named fields and only the filled buckets of a histogram: about 400 bytes a row
instead of 3 kB. New fields go to the end of an array and have defaults.
"""

from typing import Any, Final

import msgspec

from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    Warmup,
)

#: Version of ``HISTOGRAM_EDGES``; a row with another one would have to be mapped when read.
EDGES_VERSION: Final = 1


class _Use(msgspec.Struct, array_like=True):
    observed: float
    active: float
    maximum: float | None = None
    resolution: float | None = None  # None: no histogram
    buckets: dict[int, float] = {}


class _Detail(msgspec.Struct, array_like=True):
    signals: dict[str, _Use]
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


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Detail)

_PLAIN: Final = (
    "memory_peak_kind",
    "memory_total_bytes",
    "cpu_used_seconds",
    "cpu_limit_seconds",
    "cpu_throttled_seconds",
    "io_pressure_seconds",
    "restarts",
    "oom_kills",
    "filled",
)


def usage_columns(row: UsageRow) -> dict[str, Any]:
    """Column values of a row of ``usage_hourly``."""
    kernel = row.signals.get("kernel")
    return {
        **msgspec.structs.asdict(row.key),
        "dialect": row.dialect,
        "allocated_seconds": row.allocated_seconds,
        "share": row.share,
        "kernel_observed_seconds": None if kernel is None else kernel.observed_seconds,
        "kernel_active_seconds": None if kernel is None else kernel.active_seconds,
        "memory_peak_bytes": row.memory_peak_bytes,
        "energy_joules": row.energy_joules,
        "last_active": row.last_active,
        "spread_seconds": row.spread_seconds,
        "samples": row.samples,
        "histogram_edges": EDGES_VERSION,
        "detail": _ENCODER.encode(_detail(row)),
    }


def _detail(row: UsageRow) -> _Detail:
    return _Detail(
        signals={signal: _packed(use) for signal, use in row.signals.items()},
        warmup={
            signal: (warm.observed_seconds, warm.active_seconds)
            for signal, warm in row.warmup.items()
        },
        conditions=row.conditions,
        link_bytes=row.link_bytes,
        **{name: getattr(row, name) for name in _PLAIN},
    )


def _packed(use: SignalUse) -> _Use:
    histogram = use.histogram
    if histogram is None:
        return _Use(use.observed_seconds, use.active_seconds, use.maximum)
    return _Use(
        use.observed_seconds,
        use.active_seconds,
        use.maximum,
        histogram.resolution,
        {bucket: seconds for bucket, seconds in enumerate(histogram.seconds) if seconds},
    )


def usage_row(record: Any) -> UsageRow:
    """Return the row of a database record; the inverse of ``usage_columns``."""
    detail = _DECODER.decode(record.detail)
    return UsageRow(
        key=UsageKey(
            cluster=record.cluster,
            namespace=record.namespace,
            pod=record.pod,
            pod_uid=record.pod_uid,
            container=record.container,
            gpu_uuid=record.gpu_uuid,
            hour=record.hour,
        ),
        dialect=record.dialect,
        allocated_seconds=record.allocated_seconds,
        share=record.share,
        signals={signal: _use(packed) for signal, packed in detail.signals.items()},
        warmup={
            signal: Warmup(observed_seconds=observed, active_seconds=active)
            for signal, (observed, active) in detail.warmup.items()
        },
        conditions=detail.conditions,
        link_bytes=detail.link_bytes,
        memory_peak_bytes=record.memory_peak_bytes,
        energy_joules=record.energy_joules,
        last_active=record.last_active,
        spread_seconds=record.spread_seconds,
        samples=record.samples,
        **{name: getattr(detail, name) for name in _PLAIN},
    )


def _use(packed: _Use) -> SignalUse:
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
    )
