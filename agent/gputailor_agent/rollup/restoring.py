"""Turns the rollup's working values into its stored state and back."""

from collections.abc import Iterable, Mapping

from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.rollup.beside import Sample
from gputailor_agent.rollup.layout import Layout, LayoutTable
from gputailor_agent.rollup.series import Series, SeriesKey
from gputailor_agent.rollup.state import (
    STATE_VERSION,
    ExporterState,
    RollupState,
    SampleState,
    SeriesState,
    StateError,
    pack,
    unpack,
)


def dump(
    cluster: str,
    watch_started: float | None,
    exporters: Mapping[str, ExporterState],
    series: Iterable[Series],
    *,
    devices: Iterable[Device],
    closed: Iterable[UsageRow],
    problems: Mapping[str, int],
) -> RollupState:
    """Return a state that shares nothing with the working values."""
    layouts: dict[int, int] = {}
    columns: list[tuple[tuple[str, ...], ...]] = []

    def place(layout: Layout) -> int:
        if id(layout) not in layouts:
            layouts[id(layout)] = len(columns)
            columns.append(layout.columns)
        return layouts[id(layout)]

    stored = tuple(_series_state(one, place(one.layout)) for one in series)
    return RollupState(
        version=STATE_VERSION,
        cluster=cluster,
        watch_started=watch_started,
        layouts=tuple(columns),
        exporters=dict(exporters),
        series=stored,
        devices=tuple(devices),
        closed=tuple(closed),
        problems=dict(problems),
    )


def _series_state(series: Series, layout: int) -> SeriesState:
    return SeriesState(
        key=series.key,
        exporter=series.exporter,
        at=series.at,
        process_started=series.process_started,
        began=series.began,
        layout=layout,
        last=pack(series.last),
        hour=series.hour,
        total=pack(series.total),
        carry=pack(series.carry),
        warm=b"" if series.warm is None else pack(series.warm),
        share_seconds=series.share_seconds,
        share=series.share,
        memory_peak_bytes=series.memory_peak_bytes,
        memory_peak_kind=series.memory_peak_kind,
        memory_total_bytes=series.memory_total_bytes,
        last_active=series.last_active,
        spread_seconds=series.spread_seconds,
        samples=series.samples,
        changed=series.changed,
        seen=series.seen,
        beside={
            name: SampleState(one.at, one.process_started, pack(one.values))
            for name, one in series.beside.items()
        },
        owing=None if series.owing is None else series.owing.copy(),
    )


def load_series(state: RollupState, table: LayoutTable) -> dict[SeriesKey, Series]:
    """Return the working series of a stored state; raises ``StateError`` when it is damaged."""
    try:
        layouts = [table.of_columns(columns) for columns in state.layouts]
        return {one.key: _series(one, layouts[one.layout]) for one in state.series}
    except (KeyError, IndexError, ValueError) as error:
        raise StateError(f"the stored rollup state is damaged: {error}") from error


def _series(stored: SeriesState, layout: Layout) -> Series:
    return Series(
        key=stored.key,
        exporter=stored.exporter,
        at=stored.at,
        seen=stored.at if stored.seen is None else stored.seen,
        process_started=stored.process_started,
        began=stored.began,
        layout=layout,
        last=unpack(stored.last, layout.width),
        hour=stored.hour,
        total=unpack(stored.total, layout.width),
        carry=unpack(stored.carry, layout.width),
        warm=unpack(stored.warm, layout.width) if stored.warm else None,
        share_seconds=stored.share_seconds,
        share=stored.share,
        memory_peak_bytes=stored.memory_peak_bytes,
        memory_peak_kind=stored.memory_peak_kind,
        memory_total_bytes=stored.memory_total_bytes,
        last_active=stored.last_active,
        spread_seconds=stored.spread_seconds,
        samples=stored.samples,
        changed=stored.changed,
        beside={
            name: Sample(one.at, one.process_started, unpack(one.values, layout.width))
            for name, one in stored.beside.items()
        },
        owing=None if stored.owing is None else stored.owing.copy(),
    )
