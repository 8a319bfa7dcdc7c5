"""AMD's table of metrics: the binary file ``gpu_metrics`` in an amdgpu device's folder.

Layouts, units and names are those of the kernel's ``drivers/gpu/drm/amd/include/
kgd_pp_interface.h`` (``struct gpu_metrics_v1_1`` to ``v1_8``; C's natural alignment, little
endian): a header (size, format and content revision) says which one it is. Fields that a device
lacks are filled with ones. The tables of APUs (formats 2 and 3) and the self-describing one (1.9)
are not read; such devices have their single files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from struct import Struct, calcsize, unpack_from
from typing import Final

_HEADER: Final = Struct("<HBB")
_SENTINELS: Final = {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFFFFFF, "Q": 0xFFFFFFFFFFFFFFFF}

#: Joules per unit of the energy accumulator: 2**-16 (15.259 uJ).
ENERGY_UNIT: Final = 2.0**-16
#: Seconds per unit of the firmware's time stamp.
FIRMWARE_TICK: Final = 1e-8
#: Bytes per unit of the XGMI counters ("KiloBytes").
XGMI_UNIT: Final = 1024

# One field a word: name:type, or name:type*count; types as in the struct module.
_OLD = (
    "edge:H hotspot:H memory:H vrgfx:H vrsoc:H vrmem:H gfx:H umc:H mm:H power:H energy:Q clock:Q"
    " avg_gfxclk:H avg_socclk:H avg_uclk:H avg_clocks:H*4 gfxclk:H socclk:H uclk:H clocks:H*4"
    " throttle:I fan:H pcie_width:H pcie_speed:H padding:H gfx_acc:I mem_acc:I hbm:H*4"
)
_NEW = "hotspot:H memory:H vrsoc:H power:H gfx:H umc:H"
_LINKS = (
    " pcie_width:H pcie_speed:H xgmi_width:H xgmi_speed:H gfx_acc:I mem_acc:I pcie_acc:Q"
    " pcie_inst:Q recoveries:Q replays:Q rollovers:Q"
)
_NAKS = " naks_sent:I naks_received:I"
_XGMI = " xgmi_read:Q*8 xgmi_write:Q*8"
_CLOCKS = " firmware:Q gfxclk:H*8 socclk:H*4 vclk:H*4 dclk:H*4 uclk:H"
_RESIDENCY = " ticks:I prochot:I ppt:I socket_thermal:I vr_thermal:I hbm_thermal:I clock_lock:I"
_STATUS = " padding1:H*9"  # status of the XGMI links

_LAYOUTS: Final[Mapping[int, str]] = {
    1: _OLD,
    2: _OLD + " firmware:Q",
    3: _OLD + " firmware:Q voltages:H*3 padding1:H throttlers:Q",
    4: _NEW + " vcn:H*4 energy:Q clock:Q throttle:I clock_lock:I" + _LINKS + _XGMI + _CLOCKS,
    5: _NEW
    + " vcn:H*4 jpeg:H*32 energy:Q clock:Q throttle:I clock_lock:I"
    + _LINKS
    + _NAKS
    + _XGMI
    + _CLOCKS,
    6: _NEW + " energy:Q clock:Q" + _RESIDENCY + _LINKS + _NAKS + _XGMI + _CLOCKS,
    7: _NEW
    + " bandwidth:Q energy:Q clock:Q"
    + _RESIDENCY
    + _LINKS
    + _NAKS
    + _XGMI
    + _STATUS
    + _CLOCKS,
}
#: After the clocks of 1.6 and later: the number of partitions, then the part of each of eight.
_PARTITIONS: Final = 8
_PARTITION: Final[Mapping[int, str]] = {
    6: "busy:I*8 jpeg:H*32 vcn:H*4 busy_acc:Q*8",
    7: "busy:I*8 jpeg:H*32 vcn:H*4 busy_acc:Q*8 below_limit:Q*8",
    8: "busy:I*8 jpeg:H*40 vcn:H*4 busy_acc:Q*8 below_limit:Q*32",
}
#: Accumulated share of time that each throttler was at work, from 1.6 on.
RESIDENCIES: Final = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")


@dataclass(frozen=True, slots=True)
class Partition:
    """One compute partition: accumulated percent of each of its compute dies, and its codecs."""

    busy_acc: tuple[int, ...]
    vcn_percent: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """One table. None or absent: the device does not fill the field."""

    content: int  # content revision of format 1
    gfx_percent: int | None = None
    umc_percent: int | None = None  # memory controller
    video_percent: float | None = None  # mean of the video engines
    gfx_acc: int | None = None  # percent, added up each millisecond or tick; 32 bits
    mem_acc: int | None = None
    ticks: int | None = None  # additions made so far; 32 bits
    firmware_time: int | None = None  # in 10 ns
    system_time: int | None = None  # in ns, when the driver asked the firmware
    energy: int | None = None  # raw
    power_watts: int | None = None
    temperatures_celsius: Mapping[str, float] = field(default_factory=dict)
    clocks_hertz: Mapping[str, float] = field(default_factory=dict)
    throttlers: int | None = None  # bits, the same for all devices
    residencies: Mapping[str, int] = field(default_factory=dict)
    xgmi_bytes: Mapping[str, int] = field(default_factory=dict)  # rx, tx
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    code: str
    count: int


@cache
def _places(fields: str, start: int) -> tuple[dict[str, _Place], int, int]:
    """Return the places of fields from ``start``, where they end, and their alignment."""
    places: dict[str, _Place] = {}
    offset, widest = start, 1
    for one in fields.split():
        name, _, kind = one.partition(":")
        code, _, count = kind.partition("*")
        size = calcsize(f"<{code}")
        widest = max(widest, size)
        offset = -(-offset // size) * size
        places[name] = _Place(offset, code, int(count or 1))
        offset += size * int(count or 1)
    return places, offset, widest


def _values(table: bytes, fields: str, start: int) -> dict[str, tuple[int, ...]]:
    """Return the filled values of each field."""
    places, _, _ = _places(fields, start)
    return {
        name: tuple(
            value
            for value in unpack_from(f"<{place.count}{place.code}", table, place.offset)
            if value != _SENTINELS[place.code]
        )
        for name, place in places.items()
    }


def parse_metrics(table: bytes) -> GpuMetrics | None:
    """Return the table's values; None for a format that is not known, or a table cut short."""
    if len(table) < _HEADER.size:
        return None
    size, form, content = _HEADER.unpack_from(table)
    fields = _LAYOUTS.get(min(content, 7) if content <= max(_PARTITION) else 0)
    if form != 1 or fields is None:
        return None
    _, end, _ = _places(fields, _HEADER.size)
    if len(table) < min(size, end) or size < end:
        return None
    found = _values(table, fields, _HEADER.size)
    partitions = _partitions(table, content, end) if content in _PARTITION else ()
    return _metrics(content, found, partitions)


def _partitions(table: bytes, content: int, start: int) -> tuple[Partition, ...]:
    """Return the partitions in use; none where the table (of an early 1.6) has no such part."""
    fields = _PARTITION[content]
    _, length, align = _places(fields, 0)
    length = -(-length // align) * align
    count_at = start
    first = -(-(count_at + 2) // align) * align
    if len(table) < first + _PARTITIONS * length:
        return ()
    (count,) = unpack_from("<H", table, count_at)
    if not 0 < count <= _PARTITIONS:
        return ()
    parts = []
    for number in range(count):
        piece = table[first + number * length : first + (number + 1) * length]
        found = _values(piece, fields, 0)
        parts.append(Partition(found["busy_acc"], found["vcn"]))
    return tuple(parts)


def _metrics(
    content: int, found: Mapping[str, tuple[int, ...]], partitions: tuple[Partition, ...]
) -> GpuMetrics:
    def one(name: str) -> int | None:
        values = found.get(name, ())
        return values[0] if values else None

    video = found.get("vcn", ()) or found.get("mm", ())
    if not video:
        video = tuple(percent for part in partitions for percent in part.vcn_percent)
    sensors = {"edge": "edge", "junction": "hotspot", "memory": "memory"}
    clocks = {"graphics": "gfxclk", "memory": "uclk"}
    links = {"rx": "xgmi_read", "tx": "xgmi_write"}
    return GpuMetrics(
        content=content,
        gfx_percent=one("gfx"),
        umc_percent=one("umc"),
        video_percent=sum(video) / len(video) if video else None,
        gfx_acc=one("gfx_acc"),
        mem_acc=one("mem_acc"),
        ticks=one("ticks"),
        firmware_time=one("firmware"),
        system_time=one("clock"),
        energy=one("energy"),
        power_watts=one("power"),
        temperatures_celsius={
            name: float(value)
            for name, key in sensors.items()
            if (value := one(key))  # 0: the device has no such sensor
        },
        clocks_hertz={name: max(found[key]) * 1e6 for name, key in clocks.items() if found[key]},
        throttlers=one("throttlers"),
        residencies={name: found[name][0] for name in RESIDENCIES if found.get(name)},
        xgmi_bytes={
            name: sum(found[key]) * XGMI_UNIT for name, key in links.items() if found.get(key)
        },
        partitions=partitions,
    )
