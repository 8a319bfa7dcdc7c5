"""The source ``prometheus``: history that a Prometheus-compatible server keeps.

``PrometheusSource.hours`` reads it hour by hour; ``rollup.history`` makes rows of it.
"""

from gputailor_agent.sources.prometheus.client import Access, Budget, Cost, PrometheusError
from gputailor_agent.sources.prometheus.readings import (
    BLOCK_SECONDS,
    STEP_SECONDS,
    GaugeCount,
    GaugeHour,
    GaugeSeries,
    HealthSeries,
    HourReading,
)
from gputailor_agent.sources.prometheus.source import PrometheusSource

__all__ = [
    "BLOCK_SECONDS",
    "STEP_SECONDS",
    "Access",
    "Budget",
    "Cost",
    "GaugeCount",
    "GaugeHour",
    "GaugeSeries",
    "HealthSeries",
    "HourReading",
    "PrometheusError",
    "PrometheusSource",
]
