"""Who held a device lately, and when it last worked: one instant query per metric, no history.

Hourly rows tell of an hour two minutes after its end; somebody whose job stalled wants to hear of
it sooner. Our exporter says when each container last worked. Exporters of gauges do not: of them
the highest utilisation of the last minutes tells whether anything ran at all, which is enough to
know who is worth a closer look. What nobody told of is unknown, never idle.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gputailor_agent.dialects import Field, Holder, gputailor
from gputailor_agent.dialects.gauges import GaugeDialect, Measure, gauge_dialects
from gputailor_agent.sources.prometheus.answers import Sample, labels_of
from gputailor_agent.sources.prometheus.gauges import Present
from gputailor_agent.sources.prometheus.placing import Placer
from gputailor_agent.sources.prometheus.promql import equal, selector
from gputailor_agent.sources.prometheus.source import PrometheusSource
from gputailor_exporter import metrics

_LAST_ACTIVE: Final = metrics.CONTAINER_LAST_ACTIVE.name
_ALLOCATED: Final = metrics.CONTAINER_ALLOCATED.name


class Lately(NamedTuple):
    """A container that held a device at the time, and when it last worked (Unix seconds).

    ``last_active`` is the time itself while something runs; where only utilisation is told, and
    nothing ran, it is when the look back began: it was then or earlier.
    """

    namespace: str
    pod: str
    pod_uid: str
    container: str
    last_active: float | None


class _Lookout:
    """Devices' holders with their latest sign of work."""

    def __init__(self) -> None:
        self.found: dict[Holder, float | None] = {}

    def note(self, holder: Holder, at: float | None) -> None:
        known = self.found.get(holder)
        self.found[holder] = at if known is None else max(known, known if at is None else at)


def held_lately(source: PrometheusSource, now: float, look_back_seconds: float) -> list[Lately]:
    """Return every container and device of which the server tells at ``now``.

    One of which several exporters tell worked when any of them says so. Raises
    ``PrometheusError``.
    """
    present = source.present(now - look_back_seconds, now)
    seen = _Lookout()
    if gputailor.NAME in present:
        _ours(source, now, seen)
    for dialect in gauge_dialects():
        gauges = present.get(dialect.name, ())
        if gauges:
            _gauges(source, dialect, gauges, (now, look_back_seconds), seen)
    return [
        Lately(one.namespace, one.pod, one.pod_uid, one.container, at)
        for one, at in sorted(seen.found.items())
    ]


def _ours(source: PrometheusSource, now: float, seen: _Lookout) -> None:
    """What our exporter says: who holds a device, and when it last worked."""
    placer, matchers = Placer(source.cluster), equal(source.labels)
    holding: set[Holder] = set()
    for name in (_ALLOCATED, _LAST_ACTIVE):
        for sample in source.client.query(selector((name,), *matchers), now).result:
            placed = placer.find(sample.metric)
            holder = None if placed is None else placed.place.holder
            if placed is None or holder is None:
                continue
            if placed.place.field is Field.LAST_ACTIVE:
                if holder in holding:  # counters of an ended container stay for a while
                    seen.note(holder, _number(sample))
            else:
                holding.add(holder)
                seen.note(holder, None)


def _gauges(
    source: PrometheusSource,
    dialect: GaugeDialect,
    gauges: Iterable[Present],
    span: tuple[float, float],
    seen: _Lookout,
) -> None:
    """What gauges say: whether anything ran in the last minutes."""
    now, back = span
    for present in gauges:
        gauge = present.gauge
        if gauge.measure not in {Measure.ACTIVITY, Measure.IDLE}:
            continue
        chosen = selector((present.name,), *equal(source.labels), *equal(dict(gauge.labels)))
        way = "min" if gauge.measure is Measure.IDLE else "max"
        asked = f"{way}_over_time({chosen}[{back:.0f}s])"
        for holder, value in _held(dialect, source, source.client.query(asked, now).result):
            level = gauge.canonical(value)
            if level is None:
                continue
            if gauge.measure is Measure.IDLE:
                seen.note(holder, now - level)
            else:
                seen.note(holder, now if level > 0 else now - back)


def _held(
    dialect: GaugeDialect, source: PrometheusSource, samples: Iterable[Sample]
) -> Iterator[tuple[Holder, float]]:
    """Values of the containers that the exporter names; those of whole cards are nobody's."""
    for sample in samples:
        subject = dialect.identify(labels_of(sample.metric), source.cluster)
        value = _number(sample)
        if subject is not None and subject.holder is not None and value is not None:
            yield subject.holder, value


def _number(sample: Sample) -> float | None:
    value = float(sample.value[1])
    return value if value == value else None  # noqa: PLR0124 - NaN is unequal to itself
