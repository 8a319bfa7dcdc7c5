"""AMD's tables of metrics as C lays them out: ctypes does the alignment, apart from the product.

Field names are those of the kernel's drivers/gpu/drm/amd/include/kgd_pp_interface.h (MIT).
"""

import ctypes
from typing import Any

U8, U16, U32, U64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64

_HEADER = (("structure_size", U16), ("format_revision", U8), ("content_revision", U8))

_V1_3 = (
    *_HEADER,
    ("temperature_edge", U16),
    ("temperature_hotspot", U16),
    ("temperature_mem", U16),
    ("temperature_vr", U16 * 3),
    ("average_gfx_activity", U16),
    ("average_umc_activity", U16),
    ("average_mm_activity", U16),
    ("average_socket_power", U16),
    ("energy_accumulator", U64),
    ("system_clock_counter", U64),
    ("average_frequencies", U16 * 7),
    ("current_gfxclk", U16),
    ("current_socclk", U16),
    ("current_uclk", U16),
    ("current_video_clocks", U16 * 4),
    ("throttle_status", U32),
    ("current_fan_speed", U16),
    ("pcie_link_width", U16),
    ("pcie_link_speed", U16),
    ("padding", U16),
    ("gfx_activity_acc", U32),
    ("mem_activity_acc", U32),
    ("temperature_hbm", U16 * 4),
    ("firmware_timestamp", U64),
    ("voltages", U16 * 3),
    ("padding1", U16),
    ("indep_throttle_status", U64),
)

_SOCKET = (
    *_HEADER,
    ("temperature_hotspot", U16),
    ("temperature_mem", U16),
    ("temperature_vrsoc", U16),
    ("curr_socket_power", U16),
    ("average_gfx_activity", U16),
    ("average_umc_activity", U16),
)
_LINK = (
    ("gfxclk_lock_status", U32),
    ("pcie_link_width", U16),
    ("pcie_link_speed", U16),
    ("xgmi_link_width", U16),
    ("xgmi_link_speed", U16),
    ("gfx_activity_acc", U32),
    ("mem_activity_acc", U32),
    ("pcie_bandwidth_acc", U64),
    ("pcie_bandwidth_inst", U64),
    ("pcie_l0_to_recov_count_acc", U64),
    ("pcie_replay_count_acc", U64),
    ("pcie_replay_rover_count_acc", U64),
)
_NAKS = (("pcie_nak_sent_count_acc", U32), ("pcie_nak_rcvd_count_acc", U32))
_XGMI = (("xgmi_read_data_acc", U64 * 8), ("xgmi_write_data_acc", U64 * 8))
_CLOCKS = (
    ("firmware_timestamp", U64),
    ("current_gfxclk", U16 * 8),
    ("current_socclk", U16 * 4),
    ("current_vclk0", U16 * 4),
    ("current_dclk0", U16 * 4),
    ("current_uclk", U16),
)
_ENERGY = (("energy_accumulator", U64), ("system_clock_counter", U64))
_STATUS = (("throttle_status", U32),)
_RESIDENCIES = (
    ("accumulation_counter", U32),
    ("prochot_residency_acc", U32),
    ("ppt_residency_acc", U32),
    ("socket_thm_residency_acc", U32),
    ("vr_thm_residency_acc", U32),
    ("hbm_thm_residency_acc", U32),
)


def _structure(name: str, fields: tuple[tuple[str, Any], ...]) -> Any:
    return type(name, (ctypes.LittleEndianStructure,), {"_fields_": list(fields)})


def _partition(jpeg: int, limits: int) -> Any:
    return _structure(
        "xcp",
        (
            ("gfx_busy_inst", U32 * 8),
            ("jpeg_busy", U16 * jpeg),
            ("vcn_busy", U16 * 4),
            ("gfx_busy_acc", U64 * 8),
            *((f"below_host_limit_{place}", U64 * 8) for place in range(limits)),
        ),
    )


def _parted(jpeg: int, limits: int) -> tuple[tuple[str, Any], ...]:
    return (
        ("num_partition", U16),
        ("xcp_stats", _partition(jpeg, limits) * 8),
        ("pcie_lc_perf_other_end_recovery", U32),
    )


_VIDEO = (("vcn_activity", U16 * 4),)
_JPEG = (("jpeg_activity", U16 * 32),)
_BANDWIDTH = (("mem_max_bandwidth", U64),)
_UP = (("xgmi_link_status", U16 * 8), ("padding", U16))
_PAD = (("padding", U16),)
_COMMON = (*_RESIDENCIES, *_LINK, *_NAKS, *_XGMI)

TABLES: dict[int, Any] = {
    1: _structure("v1_1", _V1_3[:26]),
    2: _structure("v1_2", _V1_3[:27]),
    3: _structure("v1_3", _V1_3),
    4: _structure("v1_4", (*_SOCKET, *_VIDEO, *_ENERGY, *_STATUS, *_LINK, *_XGMI, *_CLOCKS, *_PAD)),
    5: _structure(
        "v1_5",
        (
            *_SOCKET,
            *_VIDEO,
            *_JPEG,
            *_ENERGY,
            *_STATUS,
            *_LINK,
            *_NAKS,
            *_XGMI,
            *_CLOCKS,
            *_PAD,
        ),
    ),
    6: _structure("v1_6", (*_SOCKET, *_ENERGY, *_COMMON, *_CLOCKS, *_parted(32, 0))),
    7: _structure(
        "v1_7", (*_SOCKET, *_BANDWIDTH, *_ENERGY, *_COMMON, *_UP, *_CLOCKS, *_parted(32, 1))
    ),
    8: _structure(
        "v1_8", (*_SOCKET, *_BANDWIDTH, *_ENERGY, *_COMMON, *_UP, *_CLOCKS, *_parted(40, 4))
    ),
}


def table(content: int, partitions: tuple[tuple[int, ...], ...] = (), **values: Any) -> bytes:
    """Return a table of format 1; what is not given is filled with ones, as the driver does.

    ``partitions``: the accumulated percent of the compute dies of each.
    """
    kind = TABLES[content]
    made = kind.from_buffer_copy(b"\xff" * ctypes.sizeof(kind))
    made.structure_size, made.format_revision = ctypes.sizeof(kind), 1
    made.content_revision = content
    for name, value in values.items():
        field = getattr(made, name)
        if isinstance(value, tuple):
            field[: len(value)] = value
        else:
            setattr(made, name, value)
    if partitions:
        made.num_partition = len(partitions)
        for number, busy in enumerate(partitions):
            made.xcp_stats[number].gfx_busy_acc[: len(busy)] = busy
    return bytes(made)
