"""What the rollup must remember over a restart, as one value that goes into the store.

Last counters and the open hour of every container: with them the first page after a restart tells
what living pods used while nobody looked. Vectors are little-endian 64-bit floats.
"""

import zlib
from typing import Final

import msgspec
import numpy as np

from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.rollup.layout import Vector
from gputailor_agent.rollup.owing import Owing

STATE_VERSION: Final = 1


class StateError(ValueError):
    """A stored state cannot be used; the text says why."""


class ExporterState(msgspec.Struct, frozen=True, array_like=True):
    """The last page of one exporter: its time and the start of its process (Unix seconds)."""

    at: float
    process_started: float | None


class SampleState(msgspec.Struct, frozen=True, array_like=True):
    """Counters of a second exporter process."""

    at: float
    process_started: float | None
    values: bytes


class SeriesState(msgspec.Struct, frozen=True, array_like=True):
    """One container and device: last counters, and what the open hour holds so far."""

    key: tuple[str, str, str, str, str]  # namespace, pod, pod_uid, container, gpu_uuid
    exporter: str
    at: float
    process_started: float | None
    began: float | None
    layout: int  # index into RollupState.layouts
    last: bytes
    hour: int
    total: bytes
    carry: bytes
    warm: bytes  # empty: the open hour has no warm-up
    share_seconds: float
    share: float
    memory_peak_bytes: int | None
    memory_peak_kind: str
    memory_total_bytes: int | None
    last_active: float | None
    spread_seconds: float
    samples: int
    changed: bool
    seen: float | None = None  # None: of a state before two exporters were told apart
    beside: dict[str, SampleState] = {}
    owing: Owing | None = None


class RollupState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything ``CounterRollup`` needs to go on."""

    version: int
    cluster: str
    watch_started: float | None
    layouts: tuple[tuple[tuple[str, ...], ...], ...]
    exporters: dict[str, ExporterState]
    series: tuple[SeriesState, ...]
    devices: tuple[Device, ...]
    closed: tuple[UsageRow, ...]
    problems: dict[str, int]


def pack(vector: Vector) -> bytes:
    """Vector as bytes."""
    return vector.astype("<f8", copy=False).tobytes()


def unpack(body: bytes, width: int) -> Vector:
    """Bytes as a vector of ``width``; raises ``StateError`` when the length is another."""
    if len(body) != width * 8:
        raise StateError(f"a vector of {width} columns has {len(body)} bytes")
    return np.frombuffer(body, dtype="<f8").astype(np.float64)


def encode_state(state: RollupState) -> bytes:
    """State as compressed msgpack."""
    return zlib.compress(msgspec.msgpack.encode(state), level=1)


def decode_state(body: bytes) -> RollupState:
    """Read ``encode_state``'s bytes; raises ``StateError`` for anything else."""
    try:
        state = msgspec.msgpack.decode(zlib.decompress(body), type=RollupState)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise StateError(f"the stored rollup state cannot be read: {error}") from error
    if state.version != STATE_VERSION:
        raise StateError(
            f"the stored rollup state has version {state.version}, this program reads "
            f"{STATE_VERSION}; usage goes on from the first page it sees"
        )
    return state
