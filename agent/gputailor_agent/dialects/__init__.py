"""One file per exporter: its names, labels and units mapped to the canonical signals.

A module of this package registers itself by having ``DIALECT``; adding one touches one file.
"""

import importlib
import pkgutil
from functools import cache

from gputailor_agent.dialects.base import Dialect, Field, Holder, Place, PlaceError

__all__ = ["Dialect", "Field", "Holder", "Place", "PlaceError", "dialect_of", "dialects"]


@cache
def dialects() -> tuple[Dialect, ...]:
    """Every dialect known, by name."""
    found: list[Dialect] = []
    for module in pkgutil.iter_modules(__path__):
        dialect = getattr(importlib.import_module(f"{__name__}.{module.name}"), "DIALECT", None)
        if dialect is not None:
            found.append(dialect)
    return tuple(sorted(found, key=lambda dialect: dialect.name))


def dialect_of(sample: str) -> Dialect | None:
    """The dialect that knows a metric of this name; None for a stranger's metric."""
    for dialect in dialects():
        if sample.startswith(dialect.prefixes):
            return dialect
    return None
