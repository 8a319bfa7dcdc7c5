"""Answers of Prometheus' HTTP API, decoded into small structs; label sets stay bytes.

The label set of a series is the same text in every answer of a server, so whoever needs its
meaning keeps it by those bytes and takes each one apart once.
"""

from typing import Any

import msgspec


class SampleStats(msgspec.Struct, frozen=True, rename="camel"):
    """Samples that the engine touched."""

    total_queryable_samples: int = 0


class Stats(msgspec.Struct, frozen=True):
    """What a query cost the server; a server of another make may not say."""

    samples: SampleStats | None = None


class Sample(msgspec.Struct, frozen=True):
    """One element of an instant vector."""

    metric: msgspec.Raw
    value: tuple[float, str]


class Series(msgspec.Struct, frozen=True):
    """One element of a matrix."""

    metric: msgspec.Raw
    values: list[tuple[float, str]]


class Vector(msgspec.Struct, frozen=True):
    """Data of an instant query."""

    result: list[Sample]
    stats: Stats | None = None


class Matrix(msgspec.Struct, frozen=True):
    """Data of a range query, or of an instant query for a range."""

    result: list[Series]
    stats: Stats | None = None


class Envelope(msgspec.Struct, frozen=True, rename="camel"):
    """What every answer is wrapped in."""

    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error_type: str = ""
    error: str = ""
    warnings: list[str] = []


ENVELOPE = msgspec.json.Decoder(Envelope)
VECTOR = msgspec.json.Decoder(Vector)
MATRIX = msgspec.json.Decoder(Matrix)
LABELS = msgspec.json.Decoder(dict[str, str])
LABEL_SETS = msgspec.json.Decoder(list[dict[str, str]])
NAMES = msgspec.json.Decoder(list[str])


def labels_of(metric: msgspec.Raw) -> dict[str, str]:
    """The labels of a series."""
    return LABELS.decode(metric)


def touched(data: Any) -> int | None:
    """Samples that the answer's query touched; None where the server does not say."""
    stats = getattr(data, "stats", None)
    samples = None if stats is None else stats.samples
    return None if samples is None else samples.total_queryable_samples
