"""What one hour of a server's memory says, before it is rolled up."""

from typing import Final

import msgspec

from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import Gauge
from gputailor_agent.model.usage import HOUR_SECONDS, Device, Page
from gputailor_agent.sources.prometheus.container_readings import ContainerHour

#: Histograms of our exporter are read at the ends of blocks of so many seconds, from UTC midnight.
BLOCK_SECONDS: Final = 6 * HOUR_SECONDS

#: Gauges are read as means (memory as maxima) of so many seconds.
STEP_SECONDS = 300


class GaugeSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one device, under one set of labels: a value per step, None where none was.

    ``rank``: of names that a metric had over the years, the lowest is believed. ``part``: which
    part of the device it is of, where the gauge has several. ``labels``: the whole label set, which
    tells copies apart.
    """

    holder: Holder | None
    device: Device
    gauge: Gauge
    values: tuple[float | None, ...]  # as the exporter gave them: means, or maxima of memory
    rank: int = 0
    part: str = ""
    labels: bytes = b""


class GaugeCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many samples of a group of gauges there were in each step, and how far apart."""

    holder: Holder | None
    device: Device
    group: str
    samples: tuple[int, ...]
    interval_seconds: float
    rank: int = 0


class HealthSeries(msgspec.Struct, frozen=True, kw_only=True):
    """What one metric of a device's health was in each step, and in the step before the hour.

    ``way``: how a step is made one value: "avg", "max" or "min". ``part``: the code of an error,
    where a series is of one.
    """

    holder: Holder | None
    device: Device
    gauge: Gauge
    way: str
    values: tuple[float | None, ...]  # as the exporter gave them, one more than there are steps
    part: str = ""


class GaugeHour(msgspec.Struct, frozen=True, kw_only=True):
    """One exporter kind's gauges over (begin, end].

    ``memory_totals`` in bytes by device, ``memory_limits`` by container where it may have but a
    part. ``described``: devices by what only a series of descriptions says of them. ``health``: of
    devices, not of their use.
    """

    dialect: str
    begin: int
    end: int
    series: tuple[GaugeSeries, ...] = ()
    counts: tuple[GaugeCount, ...] = ()
    memory_totals: dict[str, int] = {}
    memory_limits: dict[Holder, int] = {}
    described: tuple[Device, ...] = ()
    health: tuple[HealthSeries, ...] = ()

    @property
    def steps(self) -> int:
        """Number of steps."""
        return (self.end - self.begin) // STEP_SECONDS


class HourReading(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of one hour. ``end`` is earlier than the hour's end while it still runs.

    The first reading of a run of hours has pages as of the hour's begin, too, unless the reader
    said that it knows them.
    """

    hour: int  # its start, Unix seconds
    end: int
    pages: tuple[Page, ...] = ()
    gauges: tuple[GaugeHour, ...] = ()
    problems: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()  # why answers were incomplete, in the server's words
    samples: int = 0  # that the server touched
    beside: ContainerHour = ContainerHour()  # of the containers themselves and their nodes

    @property
    def whole(self) -> bool:
        """Whether the hour had ended."""
        return self.end - self.hour >= HOUR_SECONDS
