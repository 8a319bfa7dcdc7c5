"""The same snapshot for prometheus-client's own renderer: the measure of ours."""

from collections.abc import Iterable

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from gputailor_exporter.accounting import HISTOGRAM_WIDTH, FamilySamples, Snapshot
from gputailor_exporter.metrics import HISTOGRAM_BOUNDS, Kind
from gputailor_exporter.serving.exposition import unit_of


class SnapshotCollector:
    """A custom collector over one snapshot; ``timestamp`` in Unix seconds on every sample."""

    def __init__(self, snapshot: Snapshot, timestamp: float | None = None) -> None:
        self._snapshot = snapshot
        self._timestamp = timestamp

    def collect(self) -> Iterable[Metric]:
        for samples in self._snapshot.families:
            yield self._metric(samples)

    def _metric(self, samples: FamilySamples) -> Metric:
        family = samples.family
        declared = (family.name, family.help)
        how = {"labels": family.labels, "unit": unit_of(family)}
        if family.kind is Kind.HISTOGRAM:
            histogram = HistogramMetricFamily(*declared, **how)
            bounds = [*(str(bound) for bound in HISTOGRAM_BOUNDS), "+Inf"]
            for place, row in enumerate(samples.rows):
                start = place * HISTOGRAM_WIDTH
                *counts, total = samples.values[start : start + HISTOGRAM_WIDTH]
                buckets = list(zip(bounds, counts, strict=True))
                histogram.add_metric(list(row), buckets, total, timestamp=self._timestamp)
            return histogram
        kind = CounterMetricFamily if family.kind is Kind.COUNTER else GaugeMetricFamily
        metric = kind(*declared, **how)
        for row, value in zip(samples.rows, samples.values, strict=True):
            metric.add_metric(list(row), value, timestamp=self._timestamp)
        return metric
