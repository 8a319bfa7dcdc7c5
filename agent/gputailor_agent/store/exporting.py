"""Usage and what it belongs to as Parquet files, for DuckDB, Spark, Trino and pandas.

Usage lies in ``usage/cluster=NAME/day=YYYY-MM-DD.parquet``, as those programs partition files: one
row per container, device and hour, the same columns in each file. Beside it stand ``devices``,
``workloads``, ``runs`` and ``assignments``, a file each. Unknown is null; times are UTC.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from gputailor_agent.model.packed import DAY_SECONDS, PLAIN
from gputailor_agent.model.usage import UsageRow
from gputailor_agent.store.database import StoreError
from gputailor_agent.store.periods import day_name, day_of
from gputailor_agent.store.store import Store
from gputailor_exporter.metrics import WIDTH, Signal

if TYPE_CHECKING:
    import pyarrow as pa

SIGNALS: Final = (*(str(signal) for signal in Signal), WIDTH)
_ROWS_AT_ONCE: Final = 20_000
_MAPS: Final = ("conditions", "link_bytes", "filled", "amounts", "peaks")
_WHOLE: Final = frozenset(
    {"memory_peak_bytes", "memory_total_bytes", "samples", "restarts", "oom_kills"}
)
_FIGURES: Final = (
    "allocated_seconds",
    "share",
    "memory_peak_bytes",
    "energy_joules",
    "last_active",
    "spread_seconds",
    "samples",
    *(name for name in PLAIN if name not in {*_MAPS, "memory_peak_kind"}),
)


def export(store: Store, clusters: Iterable[str], folder: Path, span: tuple[float, float]) -> int:
    """Write what the store has of ``clusters`` in ``span`` (Unix seconds); returns rows of usage.

    Files of an earlier export are replaced, each at once. Raises ``StoreError`` where pyarrow is
    missing or the folder cannot be written.
    """
    _needed()
    written = 0
    try:
        for cluster in clusters:
            here = f"cluster={quote(cluster, safe='')}"
            for day in range(day_of(span[0]), int(span[1]), DAY_SECONDS):
                begin, end = max(span[0], day), min(span[1], day + DAY_SECONDS)
                rows = store.usage(cluster, begin, end)
                target = folder / "usage" / here / f"day={day_name(day)}.parquet"
                written += _write(target, (_flat(row) for row in rows), _usage_schema())
            for name, things in _beside(store, cluster):
                _write(folder / name / here / "all.parquet", things, None)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from error
    return written


def _needed() -> None:
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise StoreError("Parquet files need pyarrow: pip install 'gputailor[parquet]'") from error


def _beside(store: Store, cluster: str) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the other files: what they are called, and rows of the fields that columns can hold."""
    known = store.resolution(cluster)
    things: dict[str, Iterable[msgspec.Struct]] = {
        "devices": store.devices(cluster),
        "workloads": known.workloads,
        "runs": known.runs,
        "assignments": known.assignments,
    }
    for name, found in things.items():
        yield name, (_plain(one) for one in found)


def _plain(thing: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.to_builtins(thing)
    return {
        name: value
        for name, value in fields.items()
        if not isinstance(value, list | dict) and name != "cluster"
    }


def _usage_schema() -> "pa.Schema":
    import pyarrow as pa  # noqa: PLC0415 - an extra

    texts = ("namespace", "pod", "pod_uid", "container", "gpu_uuid")
    fields = [pa.field(name, pa.string(), nullable=False) for name in texts]
    fields.append(pa.field("hour", pa.timestamp("s", tz="UTC"), nullable=False))
    fields += [pa.field("dialect", pa.string()), pa.field("memory_peak_kind", pa.string())]
    fields += [pa.field(name, pa.int64() if name in _WHOLE else pa.float64()) for name in _FIGURES]
    for signal in SIGNALS:
        for name in ("observed_seconds", "active_seconds", "maximum", "histogram_resolution"):
            fields.append(pa.field(f"{signal}_{name}", pa.float64()))
        fields.append(pa.field(f"{signal}_histogram_seconds", pa.list_(pa.float64())))
        fields += [
            pa.field(f"{signal}_warmup_{name}", pa.float64())
            for name in ("observed_seconds", "active_seconds")
        ]
    fields += [
        pa.field(name, pa.map_(pa.string(), pa.string() if name == "filled" else pa.float64()))
        for name in _MAPS
    ]
    return pa.schema(fields)


def _flat(row: UsageRow) -> dict[str, Any]:
    """One row by the names of the columns; what is not there is null."""
    key = row.key
    flat: dict[str, Any] = {
        "namespace": key.namespace,
        "pod": key.pod,
        "pod_uid": key.pod_uid,
        "container": key.container,
        "gpu_uuid": key.gpu_uuid,
        "hour": key.hour,
        "dialect": row.dialect,
        "memory_peak_kind": row.memory_peak_kind,
    }
    flat |= {name: getattr(row, name) for name in _FIGURES}
    flat |= {name: list(getattr(row, name).items()) for name in _MAPS}
    for name, use in row.signals.items():
        flat[f"{name}_observed_seconds"] = use.observed_seconds
        flat[f"{name}_active_seconds"] = use.active_seconds
        flat[f"{name}_maximum"] = use.maximum
        if use.histogram is not None:
            flat[f"{name}_histogram_resolution"] = use.histogram.resolution
            flat[f"{name}_histogram_seconds"] = use.histogram.seconds
    for name, warm in row.warmup.items():
        flat[f"{name}_warmup_observed_seconds"] = warm.observed_seconds
        flat[f"{name}_warmup_active_seconds"] = warm.active_seconds
    return flat


def _write(target: Path, rows: Iterator[dict[str, Any]], schema: "pa.Schema | None") -> int:
    """Write rows to one file; none where there is no row. Returns how many there were."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    first = _some(rows)
    if not first:
        target.unlink(missing_ok=True)  # of an earlier export
        return 0
    schema = schema or pa.Table.from_pylist(first).schema
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    written = 0
    with parquet.ParquetWriter(part, schema, compression="zstd") as file:
        while first:
            file.write_table(pa.Table.from_pylist(first, schema=schema))
            written += len(first)
            first = _some(rows)
    part.replace(target)
    return written


def _some(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for _, row in zip(range(_ROWS_AT_ONCE), rows, strict=False)]


def told_span(span: tuple[float, float]) -> str:
    """A span of time for people."""
    begin, end = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M") for at in span)
    return f"{begin} to {end} UTC"
