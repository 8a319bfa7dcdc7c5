"""Renders a snapshot in the Prometheus text format 0.0.4 or OpenMetrics 1.0.

The bytes equal those of prometheus-client for the same samples. Own code because a page of 1,300
series takes that renderer 20 ms and more: here everything but the numbers is kept from snapshot
to snapshot, and compared with the new label rows before it is used again. Nothing of that library
is imported either: it loads HTTP server and client, TLS and mail parsing, 10 MB of a node's memory.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://prometheus.io/docs/specs/om/open_metrics_spec/ (1.0).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from gputailor_exporter.accounting import HISTOGRAM_WIDTH, FamilySamples, Snapshot
from gputailor_exporter.metrics import HISTOGRAM_BOUNDS, Family, Kind

#: From here on Go writes exponents where Python does not.
_GO_EXPONENT_FROM: Final = 1e6


def go_text(value: float) -> str:
    """Return a number as Go's ``strconv`` writes it, the form of the exposition formats.

    Python and Go write the same shortest digits; Go turns to an exponent from 1e6 up.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    whole, dot, rest = text.partition(".")
    if value < _GO_EXPONENT_FROM or not dot or "e" in rest:
        return text
    digits = f"{whole[0]}.{whole[1:]}{rest}".rstrip("0").rstrip(".")
    return f"{digits}e+{len(whole) - 1:02d}"


_BOUND_TEXTS: Final = (*(go_text(bound) for bound in HISTOGRAM_BOUNDS), "+Inf")

#: Large numbers (bytes, clocks, times) often stay the same from one snapshot to the next.
_large = lru_cache(maxsize=8192)(go_text)


def encodable(text: str) -> str:
    r"""Return a text that UTF-8 can carry, and other texts of its own kind apart from it.

    Names of files, users and the command line may hold bytes that are no UTF-8. Python keeps them
    as lone surrogates; here they become ``\udcNN``.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def base_name(family: Family) -> str:
    """Return the OpenMetrics name of a family: a counter's without ``_total``."""
    return family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name


def unit_of(family: Family) -> str:
    """Return the unit where the name ends with it, as OpenMetrics demands; else nothing."""
    return family.unit if base_name(family).endswith(f"_{family.unit}") else ""


class Renderer:
    """Renders snapshots; one object per consumer, not thread-safe."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._cache: dict[tuple[str, bool], tuple[tuple[tuple[str, ...], ...], list[str]]] = {}

    def render(
        self, snapshot: Snapshot, *, openmetrics: bool = False, timestamp_ms: int | None = None
    ) -> bytes:
        """Return the page as UTF-8; with ``timestamp_ms`` (Unix milliseconds) on each sample."""
        lines: list[str] = []
        for samples in snapshot.families:
            prefixes = self._prefixes(samples, openmetrics=openmetrics)
            values: Sequence[float] = samples.values
            if samples.family.kind is Kind.HISTOGRAM:
                values = _with_counts(values)
            lines += [
                prefix + (repr(value) if 0.0 <= value < _GO_EXPONENT_FROM else _large(value))
                for prefix, value in zip(prefixes, values, strict=True)
            ]
        end = _line_end(timestamp_ms, openmetrics=openmetrics)
        page = end.join(lines) + end if lines else ""
        if openmetrics:
            page += "# EOF\n"
        return page.encode()

    def _prefixes(self, samples: FamilySamples, *, openmetrics: bool) -> list[str]:
        """Return all of each line but its number; the family's header leads its first line."""
        key = (samples.family.name, openmetrics)
        cached = self._cache.get(key)
        if cached is not None and cached[0] == samples.rows:
            return cached[1]
        prefixes = list(chain.from_iterable(_row(samples.family, row) for row in samples.rows))
        prefixes[0] = _header(samples.family, openmetrics=openmetrics) + prefixes[0]
        self._cache[key] = (samples.rows, prefixes)
        return prefixes


def render(
    snapshot: Snapshot, *, openmetrics: bool = False, timestamp_ms: int | None = None
) -> bytes:
    """Render one snapshot without keeping anything; see ``Renderer.render``."""
    return Renderer().render(snapshot, openmetrics=openmetrics, timestamp_ms=timestamp_ms)


def _with_counts(values: Sequence[float]) -> list[float]:
    """Insert each histogram's count (its last bucket) before its sum."""
    out: list[float] = []
    for start in range(0, len(values), HISTOGRAM_WIDTH):
        buckets = values[start : start + HISTOGRAM_WIDTH - 1]
        out += buckets
        out.append(buckets[-1])
        out.append(values[start + HISTOGRAM_WIDTH - 1])
    return out


def _line_end(timestamp_ms: int | None, *, openmetrics: bool) -> str:
    if timestamp_ms is None:
        return "\n"
    return f" {timestamp_ms / 1000}\n" if openmetrics else f" {timestamp_ms}\n"


def _header(family: Family, *, openmetrics: bool) -> str:
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    if not openmetrics:
        return f"# HELP {family.name} {text}\n# TYPE {family.name} {family.kind}\n"
    name, unit = base_name(family), unit_of(family)
    text = text.replace('"', r"\"")
    lines = f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"
    return f"{lines}# UNIT {name} {unit}\n" if unit else lines


def _row(family: Family, row: tuple[str, ...]) -> list[str]:
    """Return the line beginnings of one row: one, or those of a histogram."""
    labels = dict(zip(family.labels, row, strict=True))
    if family.kind is not Kind.HISTOGRAM:
        return [_beginning(family.name, labels)]
    buckets = [_beginning(f"{family.name}_bucket", {**labels, "le": le}) for le in _BOUND_TEXTS]
    count, total = (_beginning(f"{family.name}_{part}", labels) for part in ("count", "sum"))
    return [*buckets, count, total]


def _beginning(name: str, labels: dict[str, str]) -> str:
    if not labels:
        return f"{name} "
    pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels.items()))
    return f"{name}{{{pairs}}} "


def _escaped(value: str) -> str:
    return encodable(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
