"""What a server says of itself and of the exporters it scrapes now: for whoever looks for faults.

A few hundred samples: one series of each device and container, and ``up`` over a quarter of an
hour. How far data reach back comes from lists of names, day by day.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import median
from typing import Final

import msgspec

from gputailor_agent.dialects import Field, gputailor
from gputailor_agent.dialects.gauges import OF_HEALTH, Measure, gauge_dialects, telling
from gputailor_agent.dialects.gputailor_series import ALLOCATED_SECONDS, DEVICE_INFO
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.sources.prometheus.answers import Sample, labels_of
from gputailor_agent.sources.prometheus.gauges import Present
from gputailor_agent.sources.prometheus.placing import node_of
from gputailor_agent.sources.prometheus.promql import equal, one_of, selector
from gputailor_agent.sources.prometheus.source import PrometheusSource
from gputailor_exporter import metrics

_LATELY_SECONDS: Final = 900
_DAY_SECONDS: Final = 86_400.0
_MOST_DAYS: Final = 15
_RENAMED: Final = "exported_"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is seen of one kind of exporter now."""

    dialect: str
    devices: dict[str, str]  # node by UUID; '' where nothing tells it
    holders: frozenset[tuple[str, str]]  # namespace and pod
    signals: frozenset[str]
    renamed: bool  # its labels came as exported_…
    jobs: frozenset[str]
    health: frozenset[str] = frozenset(OF_HEALTH)  # what it tells of the devices' health


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A scrape that failed the last time."""

    job: str
    instance: str
    node: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was seen. Times are Unix seconds; None is unknown."""

    address: str
    seen: tuple[Seen, ...]
    down: tuple[Target, ...]
    intervals: dict[str, float]  # seconds between scrapes, by job
    retention: str | None
    skew_seconds: float | None  # our clock less the server's
    ahead: dict[str, float]  # exporters whose clock is ahead of the server's, by instance
    unavailable: dict[tuple[str, str], int]  # devices by signal and reason, of our exporter
    first_data: float | None  # to a day
    partial: tuple[str, ...]
    differ: tuple[str, ...] = ()  # that several servers answer, and differ


class _Flags(msgspec.Struct):
    retention: str = msgspec.field(default="", name="storage.tsdb.retention.time")


class _Runtime(msgspec.Struct, rename="camel"):
    storage_retention: str = ""


def inspect(source: PrometheusSource, now: float) -> Inspection:
    """Look at the server behind ``source`` as of ``now``; raises ``PrometheusError``."""
    present = source.present(now - _DAY_SECONDS, now)
    seen = [_ours(source, now)] if gputailor.NAME in present else []
    seen += [_gauges(source, name, present[name], now) for name in present if present[name]]
    jobs = frozenset(job for one in seen for job in one.jobs)
    differ = source.look_closer(int(now - HOUR_SECONDS), int(now), present)
    return Inspection(
        address=source.address,
        seen=tuple(seen),
        down=_down(source, jobs, now),
        intervals=_intervals(source, jobs, now),
        retention=_retention(source),
        skew_seconds=source.client.skew_seconds,
        ahead=_ahead(source, now),
        unavailable=_unavailable(source, now),
        first_data=min(data_days(source, now), default=None),
        partial=source.client.take_partial(),
        differ=differ,
    )


def _query(source: PrometheusSource, names: Iterable[str], now: float) -> list[Sample]:
    chosen = selector(tuple(names), *equal(source.labels))
    return source.client.query(chosen, now).result


def _ours(source: PrometheusSource, now: float) -> Seen:
    devices: dict[str, str] = {}
    holders: set[tuple[str, str]] = set()
    jobs, renamed = set(), False
    for sample in _query(source, (DEVICE_INFO, ALLOCATED_SECONDS), now):
        labels = labels_of(sample.metric)
        place = gputailor.DIALECT.place(labels["__name__"], labels, source.cluster)
        jobs.add(labels.get("job", ""))
        renamed = renamed or f"{_RENAMED}pod" in labels
        if place is not None and place.device is not None:
            devices[place.device.gpu_uuid] = node_of(labels)
        elif place is not None and place.field is Field.ALLOCATED_SECONDS and place.holder:
            holders.add((place.holder.namespace, place.holder.pod))
    active = selector((metrics.DEVICE_ACTIVE_SECONDS.name,), *equal(source.labels))
    told = source.client.query(f"count by (signal) ({active})", now).result
    return Seen(
        dialect=gputailor.NAME,
        devices=devices,
        holders=frozenset(holders),
        signals=frozenset(labels_of(one.metric).get("signal", "") for one in told),
        renamed=renamed,
        jobs=frozenset(jobs),
    )


def _gauges(source: PrometheusSource, name: str, present: tuple[Present, ...], now: float) -> Seen:
    dialect = next(one for one in gauge_dialects() if one.name == name)
    groups = {one.gauge.group: one.name for one in reversed(present)}
    devices: dict[str, str] = {}
    holders: set[tuple[str, str]] = set()
    jobs, renamed = set(), False
    for sample in _query(source, sorted(set(groups.values())), now):
        labels = labels_of(sample.metric)
        subject = dialect.identify(labels, source.cluster)
        if subject is None:
            continue
        jobs.add(labels.get("job", ""))
        renamed = renamed or f"{_RENAMED}pod" in labels
        devices[subject.device.gpu_uuid] = subject.device.node
        if subject.holder is not None:
            holders.add((subject.holder.namespace, subject.holder.pod))
    activities = (one.gauge for one in present if one.gauge.measure is Measure.ACTIVITY)
    return Seen(
        dialect=name,
        devices=devices,
        holders=frozenset(holders),
        signals=frozenset(gauge.signal for gauge in activities),
        renamed=renamed,
        jobs=frozenset(jobs),
        health=frozenset(
            words for words in OF_HEALTH if telling((one.gauge for one in present), words)
        ),
    )


def _up(source: PrometheusSource, jobs: Iterable[str]) -> str:
    return selector(("up",), *equal(source.labels), one_of("job", jobs))


def _down(source: PrometheusSource, jobs: frozenset[str], now: float) -> tuple[Target, ...]:
    """Failing targets of the exporters' jobs. Of a job of which nothing is seen, none are known."""
    if not jobs:
        return ()
    failed = source.client.query(f"{_up(source, jobs)} == 0", now).result
    return tuple(
        Target(
            job=labels.get("job", ""),
            instance=labels.get("instance", ""),
            node=labels.get("node", labels.get("kubernetes_node", "")),
        )
        for labels in (labels_of(sample.metric) for sample in failed)
    )


def _intervals(source: PrometheusSource, jobs: frozenset[str], now: float) -> dict[str, float]:
    """How far apart scrapes are, by those of the last quarter of an hour of the fullest target."""
    if not jobs:
        return {}
    found: dict[str, float] = {}
    for series in source.client.samples(_up(source, jobs), _LATELY_SECONDS, now).result:
        times = [at for at, _ in series.values]
        apart = [later - earlier for earlier, later in pairwise(times)]
        if apart:
            job = labels_of(series.metric).get("job", "")
            found[job] = min(found.get(job, median(apart)), median(apart))
    return found


def _retention(source: PrometheusSource) -> str | None:
    runtime = source.client.status("runtimeinfo", _Runtime)
    if runtime is not None and runtime.storage_retention:
        return runtime.storage_retention
    flags = source.client.status("flags", _Flags)
    return flags.retention or None if flags is not None else None


def _ahead(source: PrometheusSource, now: float) -> dict[str, float]:
    """Exporters that say they last worked at a time that the server has not reached."""
    worked = selector((metrics.EXPORTER_LAST_SUCCESS.name,), *equal(source.labels))
    late = source.client.query(
        f"max by (instance) ({worked} - timestamp({worked})) > 5", now
    ).result
    return {labels_of(one.metric).get("instance", ""): float(one.value[1]) for one in late}


def _unavailable(source: PrometheusSource, now: float) -> dict[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    for sample in _query(source, (metrics.EXPORTER_SIGNAL_UNAVAILABLE.name,), now):
        labels: Mapping[str, str] = labels_of(sample.metric)
        found[labels.get("signal", ""), labels.get("reason", "")] += 1
    return dict(found)


def data_days(source: PrometheusSource, now: float) -> list[float]:
    """Begins of the days, counted back from now, of which there is something, the newest first."""
    days = (now - count * _DAY_SECONDS for count in range(1, _MOST_DAYS + 1))
    return [day for day in days if source.present(day, day + _DAY_SECONDS)]
