"""Folds the point values of a log (nvidia-smi, dmon) into hourly rows.

A log has no counters: each sample stands until the next one, at most ``max_gap_seconds``; what lies
beyond is not observed. Samples that share a coarse time stamp share its time. Point values miss
what happened between them, so memory is the highest sample, not a peak (``sampled``), and the
allocation is taken to run from the first sample to the end of the last.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Final

import msgspec

from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    HOUR_SECONDS,
    Device,
    GaugeSample,
    Histogram,
    SignalUse,
    UsageKey,
    UsageRow,
    Warmup,
    quantise,
)
from gputailor_agent.rollup.layout import canonical_bucket
from gputailor_agent.rollup.series import WARMUP_SECONDS

DIALECT: Final = "nvidia_smi"
SIGNALS: Final = ("kernel", "memcopy", "encoder", "decoder")
_WORK: Final = ("kernel", "encoder", "decoder")  # what counts as being active
_LEAST_GAP_SECONDS: Final = 5.0
_PERIODS_OF_GAP: Final = 3.0


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The container a log is of; names a person or the file's name gave."""

    namespace: str
    pod: str
    pod_uid: str = ""
    container: str = ""


@dataclass(slots=True)
class _Hour:
    """What one device did in one hour, in plain floats."""

    allocated: float = 0.0
    observed: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, list[float]] = field(default_factory=dict)
    active: dict[str, float] = field(default_factory=dict)
    warm: dict[str, list[float]] = field(default_factory=dict)  # observed, active
    maximum: dict[str, float] = field(default_factory=dict)
    memory_peak_bytes: int | None = None
    memory_total_bytes: int | None = None
    energy: float | None = None
    last_active: float | None = None
    samples: int = 0


def rows_from_samples(
    samples: Iterable[GaugeSample],
    *,
    cluster: str,
    pod: Holder,
    max_gap_seconds: float | None = None,
) -> tuple[list[UsageRow], list[Device]]:
    """Return hourly rows and devices of one log.

    ``max_gap_seconds``: how long a sample may stand; by default three times the log's median
    period, at least 5 s. A device that the log names by index or bus id gets the pod's name in
    front, so that the devices of two logs never meet.
    """
    by_device: dict[str, list[GaugeSample]] = {}
    for sample in samples:
        by_device.setdefault(sample.gpu, []).append(sample)
    rows: list[UsageRow] = []
    devices: list[Device] = []
    for gpu, own in by_device.items():
        own.sort(key=lambda sample: sample.at)
        uuid = gpu if gpu.startswith(("GPU-", "MIG-")) else f"{pod.pod}:{gpu}"
        key = UsageKey(
            cluster=cluster,
            namespace=pod.namespace,
            pod=pod.pod,
            pod_uid=pod.pod_uid,
            container=pod.container,
            gpu_uuid=uuid,
            hour=0,
        )
        rows.extend(_rows_of_device(own, key, max_gap_seconds))
        devices.append(_device(own, cluster, uuid))
    rows.sort(key=lambda row: row.key)
    return rows, devices


def median_period_seconds(times: Sequence[float]) -> float | None:
    """Median distance of distinct time stamps in order; None where there is only one."""
    steps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    return statistics.median(steps) if steps else None


def _rows_of_device(
    samples: list[GaugeSample], key: UsageKey, max_gap: float | None
) -> list[UsageRow]:
    period = median_period_seconds([sample.at for sample in samples]) or 0.0
    gap = max(_LEAST_GAP_SECONDS, _PERIODS_OF_GAP * period) if max_gap is None else max_gap
    hours: dict[int, _Hour] = {}
    first, end = samples[0].at, samples[-1].at
    held = list(_held(samples, min(period, gap), gap))
    for sample, begin, stop in held:
        _note(hours.setdefault(_hour_of(sample.at), _Hour()), sample)
        for hour, start, until in _split(begin, stop):
            _observe(hours.setdefault(hour, _Hour()), sample, (start, until), first)
        end = max(end, stop)
    _energy(hours, held)
    for hour, start, until in _split(first, end):
        hours.setdefault(hour, _Hour()).allocated += until - start
    return [_row(msgspec.structs.replace(key, hour=hour), hours[hour]) for hour in sorted(hours)]


def _held(
    samples: list[GaugeSample], last_seconds: float, gap: float
) -> Iterator[tuple[GaugeSample, float, float]]:
    """Each sample with the interval it stands for; equal time stamps share theirs evenly."""
    groups = [list(group) for _, group in groupby(samples, key=lambda sample: sample.at)]
    starts = [group[0].at for group in groups]
    ends = [*starts[1:], starts[-1] + last_seconds]
    for group, start, end in zip(groups, starts, ends, strict=True):
        each = min(end - start, gap) / len(group)
        for place, sample in enumerate(group):
            yield sample, start + place * each, start + (place + 1) * each


def _hour_of(at: float) -> int:
    return int(at // HOUR_SECONDS) * HOUR_SECONDS


def _split(start: float, end: float) -> Iterator[tuple[int, float, float]]:
    """Parts of [start, end) by hour: (hour, start, end); an empty interval is one empty part."""
    if start >= end:
        yield _hour_of(start), start, start
    while start < end:
        hour = _hour_of(start)
        until = min(end, hour + HOUR_SECONDS)
        yield hour, start, until
        start = until


def _note(hour: _Hour, sample: GaugeSample) -> None:
    hour.samples += 1
    if sample.memory_used_bytes is not None:
        hour.memory_peak_bytes = max(hour.memory_peak_bytes or 0, sample.memory_used_bytes)
    hour.memory_total_bytes = sample.memory_total_bytes or hour.memory_total_bytes
    if any((getattr(sample, signal) or 0.0) > 0 for signal in _WORK):
        hour.last_active = max(hour.last_active or sample.at, sample.at)


def _observe(hour: _Hour, sample: GaugeSample, span: tuple[float, float], first: float) -> None:
    seconds = span[1] - span[0]
    warm = max(0.0, min(span[1], first + WARMUP_SECONDS) - span[0])
    for signal in SIGNALS:
        value = getattr(sample, signal)
        if value is None:
            continue
        hour.observed[signal] = hour.observed.get(signal, 0.0) + seconds
        hour.active[signal] = hour.active.get(signal, 0.0) + value * seconds
        hour.maximum[signal] = max(hour.maximum.get(signal, 0.0), value)
        buckets = hour.buckets.setdefault(signal, [0.0] * len(HISTOGRAM_EDGES))
        buckets[canonical_bucket(value)] += seconds
        if warm > 0:
            so_far = hour.warm.setdefault(signal, [0.0, 0.0])
            so_far[0] += warm
            so_far[1] += value * warm


def _energy(hours: dict[int, _Hour], held: list[tuple[GaugeSample, float, float]]) -> None:
    """Trapezoid of power from sample to sample; over a gap the earlier sample's power stands."""
    for place, (sample, begin, stop) in enumerate(held):
        watts = sample.power_watts
        if watts is None:
            continue
        after = held[place + 1] if place + 1 < len(held) else None
        adjacent = after is not None and after[1] <= stop + 1e-6
        if adjacent and after is not None and after[0].power_watts is not None:
            watts = (watts + after[0].power_watts) / 2
        for hour, start, until in _split(begin, stop):
            own = hours.setdefault(hour, _Hour())
            own.energy = (own.energy or 0.0) + watts * (until - start)


def _row(key: UsageKey, hour: _Hour) -> UsageRow:
    return UsageRow(
        key=key,
        dialect=DIALECT,
        allocated_seconds=quantise(hour.allocated),
        signals={signal: _use(hour, signal) for signal in hour.observed},
        warmup={
            signal: Warmup(observed_seconds=quantise(warm[0]), active_seconds=quantise(warm[1]))
            for signal, warm in hour.warm.items()
        },
        memory_peak_bytes=hour.memory_peak_bytes,
        memory_peak_kind="sampled",
        memory_total_bytes=hour.memory_total_bytes,
        energy_joules=None if hour.energy is None else quantise(hour.energy),
        last_active=hour.last_active,
        samples=hour.samples,
    )


def _use(hour: _Hour, signal: str) -> SignalUse:
    observed = quantise(hour.observed[signal])
    return SignalUse(
        observed_seconds=observed,
        active_seconds=min(observed, quantise(hour.active[signal])),
        maximum=hour.maximum[signal],
        histogram=Histogram(seconds=tuple(quantise(part) for part in hour.buckets[signal])),
    )


def _device(samples: list[GaugeSample], cluster: str, uuid: str) -> Device:
    def last(name: str) -> object:
        known = (getattr(sample, name) for sample in reversed(samples))
        return next((value for value in known if value not in (None, "")), None)

    total, limit, model = last("memory_total_bytes"), last("power_limit_watts"), last("model")
    return Device(
        cluster=cluster,
        gpu_uuid=uuid,
        index=samples[0].gpu,
        vendor="nvidia",
        model=model if isinstance(model, str) else "",
        memory_total_bytes=total if isinstance(total, int) else None,
        power_limit_watts=limit if isinstance(limit, float) else None,
        last_seen=samples[-1].at,
    )
