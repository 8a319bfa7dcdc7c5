"""What a dialect of gauges owes the sources: exporters that publish values, not counters.

Of such an exporter the server is asked for means (of memory: maxima) of five minutes. A module of
this package registers itself by having ``GAUGES``; adding one touches one file.
"""

import importlib
import math
import pkgutil
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple, Protocol

import gputailor_agent.dialects as package
from gputailor_agent.dialects.base import Holder
from gputailor_agent.model.usage import Device

#: A mean a little above 1 is rounding of the exporter's own measuring; more is garbage.
_ROUNDED: Final = 1.05
#: No card has more; a "blank" of DCGM (2**31 - 16 and up, as MiB or watts) lies far above.
_MOST_BYTES: Final = 2.0**50
_MOST_WATTS: Final = 1e5


class Measure(StrEnum):
    """What a gauge measures."""

    ACTIVITY = "activity"  # of a canonical signal, 0..1
    MEMORY_USED = "memory_used"  # bytes, as are the next two
    MEMORY_FREE = "memory_free"
    MEMORY_RESERVED = "memory_reserved"
    POWER = "power"  # watts


class Gauge(NamedTuple):
    """One metric. ``names``: its present name first, then former ones; one of them is read.

    ``group``: gauges that come and go together. ``of_instance``: the value on a MIG instance's
    series is the instance's own, not a copy of its parent's.
    """

    names: tuple[str, ...]
    measure: Measure
    signal: str = ""
    scale: float = 1.0
    group: str = "device"
    of_instance: bool = False

    def canonical(self, raw: float) -> float | None:
        """The value in base units; None for what cannot be true (sentinels, NaN, negatives)."""
        value = raw * self.scale
        if not math.isfinite(value) or value < 0:
            return None
        if self.measure is Measure.ACTIVITY:
            return min(1.0, value) if value <= _ROUNDED else None
        most = _MOST_WATTS if self.measure is Measure.POWER else _MOST_BYTES
        return value if value <= most else None


class Subject(NamedTuple):
    """Whom a series is about: a device, and the container that holds it where one does."""

    holder: Holder | None
    device: Device


class GaugeDialect(Protocol):
    """One exporter's gauges, their labels and units."""

    @property
    def name(self) -> str:
        """Name that usage rows carry."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Beginnings of this exporter's metric names."""

    @property
    def gauges(self) -> tuple[Gauge, ...]:
        """Every metric that is read."""

    def identify(self, labels: Mapping[str, str], cluster: str) -> Subject | None:
        """Whom a series is about; None where it names no device."""


@cache
def gauge_dialects() -> tuple[GaugeDialect, ...]:
    """Every dialect of gauges known, by name."""
    found: list[GaugeDialect] = []
    for module in pkgutil.iter_modules(package.__path__):
        dialect = getattr(
            importlib.import_module(f"{package.__name__}.{module.name}"), "GAUGES", None
        )
        if dialect is not None:
            found.append(dialect)
    return tuple(sorted(found, key=lambda dialect: dialect.name))
