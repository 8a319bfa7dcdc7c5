"""Answers of Prometheus' HTTP API, decoded into small structs; label sets stay bytes.

The label set of a series is the same text in every answer of a server, so whoever needs its
meaning keeps it by those bytes and takes each one apart once.
"""

import re
from typing import Any, Final

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
    """What every answer is wrapped in.

    ``warnings`` of Thanos and Mimir say that a store did not answer, ``isPartial`` of
    VictoriaMetrics' cluster that a storage node did not. Prometheus 3 puts remarks on the query
    itself there, too.
    """

    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error_type: str = ""
    error: str = ""
    warnings: list[str] = []
    is_partial: bool = False

    @property
    def incomplete(self) -> list[str]:
        """Why the answer lacks something; [] where it is whole."""
        told = [one for one in self.warnings if not one.startswith(_REMARKS)]
        return told or (["a part of the storage did not answer"] if self.is_partial else [])


_NULL_LISTS: Final = re.compile(rb'("(?:data|result|values|warnings)"\s*:\s*)null\b')
_REMARKS: Final = ("PromQL warning", "PromQL info")


ENVELOPE = msgspec.json.Decoder(Envelope)
VECTOR = msgspec.json.Decoder(Vector)
MATRIX = msgspec.json.Decoder(Matrix)
LABELS = msgspec.json.Decoder(dict[str, str])
LABEL_SETS = msgspec.json.Decoder(list[dict[str, str]])
NAMES = msgspec.json.Decoder(list[str])


def readable(body: bytes) -> bytes:
    """The answer in UTF-8; what is none (some servers store any bytes) becomes U+FFFD."""
    if body.isascii():
        return body
    try:
        body.decode()
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace").encode()
    return body


def without_nulls(body: bytes) -> bytes:
    """The answer with empty lists where some servers say null for them.

    Inside a text quotes are escaped, so nothing but the API's own names is met.
    """
    return _NULL_LISTS.sub(rb"\1[]", body)


def is_refusal(body: bytes) -> bool:
    """Whether the server says itself why it refuses for good, whatever the status.

    A query that timed out in the engine is answered with 503, too: the next one does no better.
    """
    try:
        envelope = ENVELOPE.decode(body)
    except msgspec.MsgspecError:
        return False
    return envelope.status == "error" and envelope.error_type in {"timeout", "bad_data"}


def joined(before: Matrix, after: Matrix) -> Matrix:
    """Two answers as one; of two samples for one time that of the first counts."""
    found: dict[bytes, Series] = {bytes(one.metric): one for one in before.result}
    for one in after.result:
        key = bytes(one.metric)
        known = dict(found[key].values) if key in found else {}
        values = sorted({**dict(one.values), **known}.items())
        found[key] = Series(metric=one.metric, values=values)
    return Matrix(result=list(found.values()))


def newest(one: Vector, other: Vector) -> Vector:
    """Two answers for one time as one; of two values the larger, for counters and times rise."""
    found: dict[bytes, Sample] = {}
    for sample in (*one.result, *other.result):
        known = found.get(bytes(sample.metric))
        if known is None or not float(sample.value[1]) <= float(known.value[1]):
            found[bytes(sample.metric)] = sample
    return Vector(result=list(found.values()))


def either(one: list[dict[str, str]], other: list[dict[str, str]]) -> list[dict[str, str]]:
    """Label sets of two answers, each once."""
    return [dict(told) for told in sorted_sets([*one, *other])]


def sorted_sets(sets: list[dict[str, str]]) -> list[tuple[tuple[str, str], ...]]:
    """Label sets in an order of their own, each once."""
    return sorted({tuple(sorted(one.items())) for one in sets})


def labels_of(metric: msgspec.Raw) -> dict[str, str]:
    """The labels of a series."""
    return LABELS.decode(metric)


def touched(data: Any) -> int | None:
    """Samples that the answer's query touched; None where the server does not say."""
    stats = getattr(data, "stats", None)
    samples = None if stats is None else stats.samples
    return None if samples is None else samples.total_queryable_samples


def returned(data: Any) -> int:
    """Values in an answer: the least its query can have touched."""
    result = getattr(data, "result", None)
    if not result:
        return 0
    return sum(len(one.values) for one in result) if isinstance(data, Matrix) else len(result)
