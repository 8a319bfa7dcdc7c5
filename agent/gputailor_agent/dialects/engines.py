"""What a dialect of an inference engine owes the sources: which metrics tell what of its requests.

A module of this package registers itself by having ``ENGINE``; adding an engine touches one file.
Names and meanings are those of the engine's own documentation, which each module names. Engines
publish far more; only what is listed is read.
"""

import importlib
import math
import pkgutil
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

import gputailor_agent.dialects as package

#: A share a little above 1 is rounding of the engine's own; more is of another unit.
_ROUNDED: Final = 1.05
#: No count of requests or tokens and no memory in bytes is larger.
_MOST: Final = 2.0**50


class Told(StrEnum):
    """What a metric of an engine tells."""

    REQUESTS = "requests finished"  # counters, as are those up to the latency
    PROMPT_TOKENS = "tokens read"
    OUTPUT_TOKENS = "tokens written"
    LATENCY = "latency of requests, summed"  # seconds
    LATENCY_REQUESTS = "requests behind the latency"
    RUNNING = "requests running"  # levels
    WAITING = "requests waiting"
    CACHE = "share of the KV cache in use"  # 0..1
    MEMORY = "device memory in use"  # bytes; the highest counts


#: What only rises. Everything else is a level at one moment.
COUNTERS: Final = (
    Told.REQUESTS,
    Told.PROMPT_TOKENS,
    Told.OUTPUT_TOKENS,
    Told.LATENCY,
    Told.LATENCY_REQUESTS,
)
LEVELS: Final = (Told.RUNNING, Told.WAITING, Told.CACHE)


class EngineMetric(NamedTuple):
    """One metric; ``names``: what it is called by releases of today and before."""

    names: tuple[str, ...]
    told: Told
    scale: float = 1.0

    def canonical(self, raw: float) -> float | None:
        """The value in base units; None for what cannot be true (NaN, negative, another unit)."""
        value = raw * self.scale
        if not math.isfinite(value) or value < 0:
            return None
        if self.told is Told.CACHE:
            return min(1.0, value) if value <= _ROUNDED else None
        return value if value <= _MOST else None


class Engine(NamedTuple):
    """An inference engine's metrics.

    ``apart``: labels that tell apart what is to be added up (models, data-parallel ranks); series
    of a process that differ in others only (tensor-parallel ranks, scrape jobs) are copies.
    ``signature``: where names are not the engine's alone, a metric that is.
    """

    name: str
    title: str
    metrics: tuple[EngineMetric, ...]
    apart: tuple[str, ...]
    signature: str = ""

    def of(self, *told: Told) -> tuple[EngineMetric, ...]:
        """Metrics that tell any of these."""
        return tuple(metric for metric in self.metrics if metric.told in told)


@cache
def engines() -> tuple[Engine, ...]:
    """Every engine known, by name."""
    found: list[Engine] = []
    for module in pkgutil.iter_modules(package.__path__):
        engine = getattr(
            importlib.import_module(f"{package.__name__}.{module.name}"), "ENGINE", None
        )
        if engine is not None:
            found.append(engine)
    return tuple(sorted(found, key=lambda engine: engine.name))
