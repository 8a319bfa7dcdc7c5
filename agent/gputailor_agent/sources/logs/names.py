"""What a column of a log is, by its header: nvidia-smi's names and those people give their own.

The unit may stand in the header (``[MiB]``, ``_mb``) or in the cells. "MB" means MiB here: old
drivers print MB for it, and scripts that strip the unit write ``_mb`` behind nvidia-smi's figure.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple


class Role(StrEnum):
    """What a column can mean to us."""

    TIME = "time"
    DATE = "date"
    UUID = "uuid"
    BUS = "bus id"
    INDEX = "index"
    GPU = "gpu"  # an index, a name or the utilisation: its values decide
    NAME = "name"
    KERNEL = "utilization.gpu"
    MEMCOPY = "utilization.memory"
    ENCODER = "utilization.encoder"
    DECODER = "utilization.decoder"
    MEMORY_USED = "memory.used"
    MEMORY_TOTAL = "memory.total"
    MEMORY_FREE = "memory.free"
    POWER = "power.draw"
    POWER_LIMIT = "power.limit"
    TEMPERATURE = "temperature.gpu"
    PID = "pid"
    OTHER = "other"  # a column of nvidia-smi that we do not need


class Header(NamedTuple):
    """One header cell. ``exact``: nvidia-smi's own name, whose meaning is beyond doubt."""

    text: str
    role: Role | None
    unit: str
    exact: bool


_NAMES: Final[dict[Role, str]] = {
    Role.TIME: "timestamp time datetime date_time ts time_stamp unix_time unixtime "
    "epoch epoch_time timestamp_utc utc_time local_time wall_time walltime "
    "created_at elapsed elapsed_time timestamp_ms epoch_ms hh:mm:ss "
    "sample_time",
    Role.DATE: "date day yyyymmdd",
    Role.UUID: "uuid gpu_uuid device_uuid",
    Role.BUS: "pci_bus_id gpu_bus_id bus_id pci_busid pci",
    Role.INDEX: "index gpu_index index_gpu gpu_id gpu_idx gpuid idx id device "
    "device_id device_index gpu_number gpu_num gpu_no minor_number "
    "gpu_device",
    Role.GPU: "gpu",
    Role.NAME: "name gpu_name model gpu_model product_name device_name product card gpu_type",
    Role.KERNEL: "utilization_gpu gpu_utilization gpu_util util_gpu utilization util "
    "gpu_usage gpu_load load usage sm gpu_use utilisation_gpu "
    "gpu_utilisation utilisation gpu_utils gpu_core_util core_util "
    "gpu_busy sm_util",
    Role.MEMCOPY: "utilization_memory memory_utilization gpu_memory_utilization mem_util "
    "util_mem memory_util util_memory gpu_mem_util mem_utilization "
    "gpu_memory_util utilisation_memory memory_utilisation "
    "memory_controller_util",
    Role.ENCODER: "utilization_encoder encoder_utilization encoder_util enc util_encoder "
    "gpu_encoder",
    Role.DECODER: "utilization_decoder decoder_utilization decoder_util dec util_decoder "
    "gpu_decoder",
    Role.MEMORY_USED: "memory_used used_memory mem_used gpu_memory_used vram_used "
    "memory_usage mem_usage gpu_mem_used vram fb fb_used used_vram "
    "vram_usage gpu_memory_usage gpu_memory gpu_mem used_mem memory "
    "mem_use",
    Role.MEMORY_TOTAL: "memory_total total_memory mem_total vram_total gpu_memory_total "
    "gpu_mem_total total_vram fb_total total_mem",
    Role.MEMORY_FREE: "memory_free free_memory mem_free vram_free gpu_memory_free "
    "gpu_mem_free free_vram fb_free free_mem",
    Role.POWER: "power_draw power power_usage pwr gpu_power power_draw_average "
    "power_draw_instant power_consumption gpu_power_draw draw",
    Role.POWER_LIMIT: "power_limit enforced_power_limit power_cap gpu_power_limit",
    Role.TEMPERATURE: "temperature_gpu temperature temp gpu_temp temp_gpu gtemp "
    "gpu_temperature core_temp temperature_core",
    Role.PID: "pid process_id process_name used_gpu_memory",
    Role.OTHER: "driver_version count serial gpu_serial pstate fan_speed fan "
    "compute_mode compute_cap memory_reserved persistence_mode "
    "display_active display_mode vbios_version mig_mode_current "
    "temperature_memory mtemp mclk pclk jpg ofa clocks_sm clocks_gr "
    "clocks_mem clocks_current_sm clocks_current_graphics "
    "clocks_current_memory clocks_max_sm clocks_max_memory hostname host "
    "node user utilization_jpeg utilization_ofa pcie_link_gen_current "
    "pcie_link_width_current pcie_link_gen_max pcie_link_width_max "
    "sm_clock mem_clock gpu_clock memory_clock rxpci txpci bar1 ccpm pviol "
    "tviol sbecc dbecc sm_clk clock throttle_reasons",
}
_ROLES: Final = {name: role for role, names in _NAMES.items() for name in names.split()}
_EXACT: Final = frozenset(
    (
        "timestamp",
        "index",
        "uuid",
        "gpu_uuid",
        "name",
        "gpu_name",
        "pci.bus_id",
        "gpu_bus_id",
        "utilization.gpu",
        "utilization.memory",
        "utilization.encoder",
        "utilization.decoder",
        "memory.used",
        "memory.total",
        "memory.free",
        "power.draw",
        "power.limit",
        "temperature.gpu",
    )
)
_UNIT: Final = re.compile(r"\s*[\[(]\s*([^\])]{1,12}?)\s*[\])]\s*$")
_SUFFIX_UNITS: Final = {
    "percent": "%",
    "percentage": "%",
    "pct": "%",
    "perc": "%",
    "mb": "mib",
    "mib": "mib",
    "gb": "gib",
    "gib": "gib",
    "kb": "kib",
    "kib": "kib",
    "bytes": "bytes",
    "w": "w",
    "watt": "w",
    "watts": "w",
    "mw": "mw",
    "c": "c",
    "celsius": "c",
    "degc": "c",
    "ratio": "ratio",
    "fraction": "ratio",
    "s": "s",
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "ms": "ms",
}


def _lookup(text: str) -> tuple[Role | None, str]:
    """Role and unit of a name such as ``gpu_mem_used_mb``."""
    name = re.sub(r"[^a-z0-9:%]+", "_", text).strip("_")
    if name.endswith("%"):
        return _ROLES.get(name.rstrip("%_")), "%"
    if (role := _ROLES.get(name)) is not None:
        return role, ""
    stem, _, suffix = name.rpartition("_")
    unit = _SUFFIX_UNITS.get(suffix, "")
    return (_ROLES.get(stem), unit) if unit else (None, "")


def header_of(text: str) -> Header:
    """Read one header cell."""
    plain = text.strip().strip('"').strip().lstrip("#").strip().lower()
    unit, match = "", _UNIT.search(plain)
    if match is not None:
        unit, plain = match[1].lower(), plain[: match.start()]
    role, suffix_unit = _lookup(plain)
    unit = _SUFFIX_UNITS.get(unit, unit) or suffix_unit
    if unit == "%" and role in {Role.MEMORY_USED, Role.GPU}:
        # a share of the memory is no size; "gpu [%]" is how busy it was
        role = Role.KERNEL if role is Role.GPU else Role.OTHER
    return Header(text.strip(), role, unit, plain in _EXACT)


def header_row(cells: list[str]) -> tuple[Header, ...] | None:
    """The row as a header, when it reads like one: names that we know and no values."""
    headers = tuple(header_of(cell) for cell in cells)
    known = sum(header.role is not None for header in headers)
    if known < min(2, len(cells)) or any(_looks_like_value(cell) for cell in cells):
        return None
    return headers


def _looks_like_value(text: str) -> bool:
    stripped = text.strip().strip('"')
    return stripped[:1].isdigit() or stripped.startswith(("[N/A", "-", "00000000:"))


_GPU_WORD: Final = re.compile(r"gpu|vram|cuda|nvidia|(^|[^a-z])(sm|fb)([^a-z]|$)")
_HOST_WORD: Final = re.compile(r"(^|[^a-z])(cpu|host|disk|swap|rss)([^a-z]|$)")
_VALUES: Final = frozenset(
    (Role.MEMCOPY, Role.MEMORY_USED, Role.MEMORY_TOTAL, Role.POWER, Role.TEMPERATURE)
)


def about_gpus(headers: tuple[Header, ...]) -> bool:
    """Whether these can only be the headers of a GPU's log.

    Times, temperatures and memory are logged of many things. It takes a name of nvidia-smi's own,
    a word that says GPU, or a utilisation beside another value where nothing speaks of the host.
    """
    texts = [header.text.lower() for header in headers]
    if any(_GPU_WORD.search(text) for text in texts):
        return True
    roles = {header.role for header in headers}
    if any(header.exact and "." in header.text for header in headers):
        return True
    host = any(_HOST_WORD.search(text) for text in texts)
    return Role.KERNEL in roles and bool(roles & _VALUES) and not host
