"""What a dialect of gauges owes the sources: exporters that publish values, not counters.

Of such an exporter the server is asked for means (of memory: maxima) of five minutes. A module of
this package registers itself by having ``GAUGES``; adding one touches one file. Each names every
metric of its exporter: read, or ignored with the reason, so that nothing is passed over in silence.
"""

import importlib
import math
import pkgutil
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple, Protocol

import gputailor_agent.dialects as package
from gputailor_agent.dialects import conditions
from gputailor_agent.dialects.base import Holder
from gputailor_agent.model.usage import Device

#: A mean a little above 1 is rounding of the exporter's own measuring; more is garbage.
_ROUNDED: Final = 1.05
#: No card has more; a "blank" of DCGM (2**31 - 16 and up, as MiB or watts) lies far above.
_MOST_BYTES: Final = 2.0**50
_MOST_WATTS: Final = 1e5
_MOST_IDLE_SECONDS: Final = 1e9
#: A counter of throttled time or of errors that stands higher is a "blank", too.
_MOST_COUNTED: Final = 1e9
#: Xid codes and masks of reasons are small whole numbers.
_MOST_CODE: Final = 2.0**20


class Measure(StrEnum):
    """What a gauge measures."""

    ACTIVITY = "activity"  # of a canonical signal, 0..1
    MEMORY_USED = "memory_used"  # bytes, as are the next two
    MEMORY_FREE = "memory_free"
    MEMORY_RESERVED = "memory_reserved"
    MEMORY_TOTAL = "memory_total"  # bytes of the device, or what the container may have of it
    POWER = "power"  # watts
    IDLE = "idle"  # seconds since the last kernel
    INFO = "info"  # labels that describe the device; its value says nothing
    # of the device's health; ``Gauge.signal`` names the condition of a row that it becomes
    THROTTLED = "throttled"  # share of the time, or 1 while it is so
    THROTTLED_SECONDS = "throttled_seconds"  # counter
    REASONS = "reasons"  # NVML's bits of what holds the clocks down now
    ERRORS = "errors"  # counter; by code where the gauge has a ``part``
    LAST_ERROR = "last_error"  # the code of the latest error
    FAULT = "fault"  # 1 while the device has it


#: What is read once, as of the end of the hour.
AT_THE_END: Final = frozenset(
    {Measure.MEMORY_FREE, Measure.MEMORY_RESERVED, Measure.MEMORY_TOTAL, Measure.INFO}
)

#: What tells of the device's health and not of its use.
HEALTH: Final = frozenset(
    {
        Measure.THROTTLED,
        Measure.THROTTLED_SECONDS,
        Measure.REASONS,
        Measure.ERRORS,
        Measure.LAST_ERROR,
        Measure.FAULT,
    }
)
#: Shares, of which a mean a little above 1 is rounding.
_SHARES: Final = frozenset({Measure.ACTIVITY, Measure.THROTTLED, Measure.FAULT})

_MOST: Final = {
    Measure.POWER: _MOST_WATTS,
    Measure.IDLE: _MOST_IDLE_SECONDS,
    Measure.THROTTLED_SECONDS: _MOST_COUNTED,
    Measure.ERRORS: _MOST_COUNTED,
    Measure.REASONS: _MOST_CODE,
    Measure.LAST_ERROR: _MOST_CODE,
}


class Gauge(NamedTuple):
    """One metric. ``names``: its present name first, then former ones; the first is believed.

    ``group``: gauges that come and go together. ``of_instance``: the value on a MIG instance's
    series is the instance's own, not a copy of its parent's. ``of_holder``: the value is the
    container's own even where several share the device. ``labels``: only series with these.
    ``part``: the label that tells apart parts of a device with a value each, of which the busiest
    counts, or codes of errors; series that differ otherwise are copies of one.
    """

    names: tuple[str, ...]
    measure: Measure
    signal: str = ""
    scale: float = 1.0
    group: str = "device"
    of_instance: bool = False
    of_holder: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    part: str = ""

    def canonical(self, raw: float) -> float | None:
        """The value in base units; None for what cannot be true (sentinels, NaN, negatives)."""
        value = raw * self.scale
        if not math.isfinite(value) or value < 0:
            return None
        if self.measure in _SHARES:
            return min(1.0, value) if value <= _ROUNDED else None
        return value if value <= _MOST.get(self.measure, _MOST_BYTES) else None


class Subject(NamedTuple):
    """Whom a series is about: a device, and the container that holds it where one does."""

    holder: Holder | None
    device: Device


class Ignored(NamedTuple):
    """Metrics that are not read, by a pattern of the whole name, and the reason."""

    pattern: str
    reason: str


class Coverage(NamedTuple):
    """What a dialect does with one metric: ``gauges`` that read it, or the reason to ignore it."""

    gauges: tuple[Gauge, ...]
    ignored: str


class GaugeDialect(Protocol):
    """One exporter's gauges, their labels and units."""

    @property
    def name(self) -> str:
        """Name that usage rows carry."""

    @property
    def exporter(self) -> str:
        """The exporter by the name that people know it by."""

    @property
    def rank(self) -> int:
        """Where it stands among sources of the same signal: the lowest is believed."""

    @property
    def holders(self) -> str:
        """How its series tell which container holds a device; '' where they do not."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Beginnings of this exporter's metric names."""

    @property
    def ignored(self) -> tuple[Ignored, ...]:
        """Every metric of the exporter that is not read."""

    @property
    def gauges(self) -> tuple[Gauge, ...]:
        """Every metric that is read."""

    def identify(self, labels: Mapping[str, str], cluster: str) -> Subject | None:
        """Whom a series is about; None where it names no device."""


def coverage(dialect: GaugeDialect, metric: str) -> Coverage | None:
    """Return what the dialect does with a metric; None where it does not know it."""
    gauges = tuple(gauge for gauge in dialect.gauges if metric in gauge.names)
    reason = next((i.reason for i in dialect.ignored if re.fullmatch(i.pattern, metric)), "")
    return Coverage(gauges, "" if gauges else reason) if gauges or reason else None


#: What is to be known of a device's health, in words, by the beginnings of conditions.
OF_HEALTH: Final[Mapping[str, tuple[str, ...]]] = {
    "throttling": (conditions.THROTTLED,),
    "errors of the hardware": (conditions.XID, conditions.ECC_UNCORRECTED),
}


def telling(gauges: Iterable[Gauge], words: str) -> tuple[Gauge, ...]:
    """Those gauges that tell of what ``OF_HEALTH`` calls so; a mask tells of throttling."""
    told = OF_HEALTH[words]
    masks = conditions.THROTTLED in told
    return tuple(
        gauge
        for gauge in gauges
        if gauge.signal.startswith(told) or (masks and gauge.measure is Measure.REASONS)
    )


#: What client libraries add to any exporter's page; a dialect lists it with its own.
OF_THE_PROCESS: Final = Ignored(
    r"(go|process|python|promhttp|scrape)_.+|up", "of the exporter's own process"
)


@cache
def gauge_dialects() -> tuple[GaugeDialect, ...]:
    """Every dialect of gauges known, the most believed first."""
    found: list[GaugeDialect] = []
    for module in pkgutil.iter_modules(package.__path__):
        dialect = getattr(
            importlib.import_module(f"{package.__name__}.{module.name}"), "GAUGES", None
        )
        if dialect is not None:
            found.append(dialect)
    return tuple(sorted(found, key=lambda dialect: (dialect.rank, dialect.name)))
